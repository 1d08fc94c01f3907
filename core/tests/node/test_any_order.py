"""Whatever happens to jobs, in whatever order: what is known of them stays true."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from node_harness import SHELLS, check_clean, environ, job, kill, make_node, make_paths, processes, until
from test_kills import Shims

from sky.node import protocol
from sky.types import Job, JobState, JobStatus

DEVICES = 2
BLOCKS = {"quick": "echo out", "failing": "echo out; exit 3", "long": "echo out; exec sleep 1000"}
CODES = {"quick": 0, "failing": 3}


class Jobs(RuleBasedStateMachine):
    kind = ""
    known = Bundle("known")

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="sky-node-test"))
        self.node = make_node(self.kind, make_paths(self.directory), self.directory)
        self.jobs: dict[str, Job] = {}
        self.blocks: dict[str, str] = {}
        self.ids: dict[str, str] = {}
        """Of those whose submission was acknowledged."""
        self.harmed: set[str] = set()
        """Whose driver or members were killed, or who were cancelled."""
        self.final: dict[str, JobStatus] = {}
        self.attempts = 0

    def teardown(self) -> None:
        try:
            assert not self.node.call("cancel", "all", "1").of("stuck")
            assert (
                self.node.submit("echo x", accelerators_per_node=2, place_accelerators_per_node=2).out
                == b"x\n"
            )
        finally:
            kill(self.node.living())
            check_clean(self.node)
            shutil.rmtree(self.directory)

    def made(self, token: str) -> tuple[Any, Any]:
        return protocol.submit("", self.jobs[token], {"RAN": str(self.node.home / f"ran-{token}")}, False)

    def new(self, block: str, need: int) -> str:
        fields = {"accelerators_per_node": need, "place_accelerators_per_node": DEVICES}
        made = job('echo x >>"$RAN"; ' + BLOCKS[block], **fields)
        self.jobs[made.token], self.blocks[made.token] = made, block
        return made.token

    def send(self, token: str) -> None:
        answer = self.node.finish(self.node.open(self.made(token)))
        assert self.ids.setdefault(token, answer.job) == answer.job

    @rule(target=known, block=st.sampled_from(sorted(BLOCKS)), need=st.integers(0, DEVICES))
    def submit(self, block: str, need: int) -> str:
        token = self.new(block, need)
        self.send(token)
        return token

    @rule(token=known)
    def submit_again(self, token: str) -> None:
        self.send(token)

    @rule(
        target=known,
        block=st.sampled_from(sorted(BLOCKS)),
        need=st.integers(0, DEVICES),
        number=st.integers(1, 14),
        when=st.sampled_from(["before", "after"]),
    )
    def submit_killed(self, block: str, need: int, number: int, when: str) -> str:
        self.attempts += 1
        token = self.new(block, need)
        shims = Shims(self.node, self.directory / f"shims{self.attempts}")
        shims.dying("submitter", when, number, self.made(token))
        return token

    @rule(token=known)
    def kill_driver(self, token: str) -> None:
        self.harmed.add(token)
        for file in self.node.work.glob(f"j/{token}.*/driver"):
            pid = int(file.read_text().partition(":")[0])
            kill([pid] if f"SKY_JOB_COOKIE={token}".encode() in environ(pid) else [])

    @rule(token=known)
    def kill_all(self, token: str) -> None:
        self.harmed.add(token)
        kill(self.members(token))

    @rule(token=known)
    def cancel(self, token: str) -> None:
        if token in self.ids:
            self.harmed.add(token)
            ((number, state),) = self.node.call("cancel", self.ids[token], "1").of("cancelled")
            assert number == self.ids[token] and JobState(state).final and state != "UNKNOWN"
            assert not self.members(token) or state != "CANCELLED"

    @rule(token=known, offset=st.integers(0, 5), tail=st.sampled_from([-1, 0, 1]))
    def read(self, token: str, offset: int, tail: int) -> None:
        if token in self.ids:
            size = len(self.node.log(self.ids[token]))
            answer = self.node.call("logs", self.ids[token], str(min(offset, size)), str(tail), "0")
            log = self.node.log(self.ids[token])
            start, end = int(answer.of("from")[0][0]), int(answer.end[2])
            assert answer.out == log[start:end] and end >= size

    def members(self, token: str) -> list[int]:
        return processes(
            lambda pid: pid != os.getpid() and f"SKY_JOB_COOKIE={token}".encode() in environ(pid)
        )

    @invariant()
    def all_is_true(self) -> None:
        found = protocol.parse_list(self.node.call("list").out)
        by_token = {Path(at).name.partition(".")[0]: status for status, at in found}
        assert [s.id for s, _ in found] == [str(n + 1) for n in range(len(found))]
        assert len(by_token) == len(found)
        for token, number in self.ids.items():
            assert by_token[token].id == number
        held: list[str] = []
        for token, status in by_token.items():
            file = self.node.home / f"ran-{token}"
            ran = len(file.read_text().split()) if file.exists() else 0
            assert ran <= 1
            if status.state in ("SUCCEEDED", "FAILED") and token not in self.harmed:
                assert (ran, status.exit_code) == (1, CODES[self.blocks[token]])
            assert status.state not in ("UNKNOWN", "CANCELLED") or token in self.harmed
            if token in self.final:
                assert status == self.final[token]
            elif status.state.final and status.state != "UNKNOWN":
                self.final[token] = status
            if status.state == "RUNNING":
                held += status.accelerators.split(",") if status.accelerators else []
        assert len(held) == len(set(held)) <= DEVICES

    @rule()
    def those_in_front_end_by_themselves(self) -> None:
        """Nothing waits for ever but for devices that a long job holds."""

        def settled() -> bool:
            states = {
                Path(at).name.partition(".")[0]: s
                for s, at in protocol.parse_list(self.node.call("list").out)
            }
            long = any(not s.state.final and self.blocks[t] == "long" for t, s in states.items())
            return all(
                s.state.final or self.blocks[t] == "long" or (long and self.jobs[t].accelerators_per_node)
                for t, s in states.items()
            ) or any(t in self.harmed for t in states)

        until(settled)


def explore(kind: str, examples: int, steps: int) -> None:
    machine = type(f"Jobs_{kind}", (Jobs,), {"kind": kind})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=False,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("kind", SHELLS)
def test_any_order(kind: str) -> None:
    if shutil.which(kind) is None:
        pytest.skip(f"no {kind} here")
    explore(kind, 8, 12)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", SHELLS)
def test_any_order_for_long(kind: str) -> None:
    explore(kind, 150, 30)
