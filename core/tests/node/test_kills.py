"""Killed at every transition: before and after each program that the script starts, on either side.

The script gets a function for each program; it counts, and at the chosen call kills its process group,
which is the submitter's or the driver's. Then the same token is submitted again, unharmed.
"""

from __future__ import annotations

import io
import itertools
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from node_harness import SHELLS, Node, alive, check_clean, job, make_node, until
from test_cancel import driver_of, pid_of

from sky.node import protocol
from sky.types import Command

COUNTED = ["dd", "ln", "mkdir", "mv", "rm", "cat", "sleep", "setsid", "wc", "grep", "ls", "date"]
SHIM = """# PROGRAM ARGS...: counted by role; `role when number` in `kill` says where to die.
role=submitter
[ -z "$SKY_JOB_COOKIE" ] || role=driver
n=1
set -C # two of a pipeline are counted at the same time
until command : 2>/dev/null >{at}/$role.$n; do n=$((n + 1)); done
set +C
read -r who when number <{at}/kill
if [ "$who $number" = "$role $n" ]; then
  echo "$*" >{at}/killed
  [ $when = before ] || {real}"$@"
  kill -9 0
fi
exec {real}"$@"
"""
FUNCTION = 'NAME() { SKY_JOB_COOKIE=${SKY_JOB_COOKIE:-} DASH AT/shim NAME "$@"; }\n'


class Shims:
    """Calls of one node that die where told. `killed` says at which program one did."""

    def __init__(self, node: Node, at: Path) -> None:
        self.node, self._at = node, at
        at.mkdir()
        real = "" if node.shell == "dash" else f"{shutil.which('busybox')} "
        (at / "shim").write_text(SHIM.format(at=at, real=real))
        # Given to a shell rather than made executable: another thread's fork may hold it open for writing.
        one = FUNCTION.replace("DASH", str(shutil.which("dash"))).replace("AT", str(at))
        self._functions = "".join(one.replace("NAME", name) for name in COUNTED)

    def dying(self, role: str, when: str, number: int, made: tuple[Any, io.BytesIO]) -> str:
        (self._at / "kill").write_text(f"{role} {when} {number}\n")
        answer = self.node.finish(self.node.open(self._with_functions(made)))
        assert self.killed or not answer.of("error"), answer
        if role == "driver":
            until(lambda: self.killed or self._ended())
        return self.killed

    def _ended(self) -> bool:
        """Whether the only job's driver is through, its last `rm` included."""
        return any(self.node.work.glob("j/*/result")) and not alive(driver_of(self.node, 1))

    @property
    def killed(self) -> str:
        file = self._at / "killed"
        return file.read_text().strip() if file.exists() else ""

    def _with_functions(self, made: tuple[Any, io.BytesIO]) -> tuple[Any, io.BytesIO]:
        command, stdin = made
        sh, c, boot, sky, work_dir, digest, size, *rest = command.argv
        payload = stdin.getvalue()[int(size) :]
        node = self._functions.encode() + stdin.getvalue()[: int(size)]
        argv = (sh, c, self._functions + boot, sky, work_dir, "dying" + digest, str(len(node)), *rest)
        return Command(argv=argv, stdin_mode="open"), io.BytesIO(node + payload)


@pytest.fixture
def nodes(request: pytest.FixtureRequest, paths: Mapping[str, str], tmp_path: Path) -> Iterator[Any]:
    """Makes as many nodes as one likes, of the shell that the test is for."""
    made: list[Node] = []
    numbers = itertools.count()

    def make() -> Shims:
        at = tmp_path / str(next(numbers))
        made.append(node := make_node(request.param, paths, at))
        return Shims(node, at / "shims")

    yield make
    for node in made:
        check_clean(node)


def every_kill(one: Any) -> list[str]:
    """`one(number)` for 1, 2, … until none is killed any more, two at a time; where each was killed."""
    found: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        while True:
            killed = list(pool.map(one, (len(found) + 1, len(found) + 2)))
            found += [k for k in killed if k]
            assert len(found) < 100
            if not all(killed):
                return found


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("role", ["submitter", "driver"])
@pytest.mark.parametrize("nodes", SHELLS, indirect=True)
def test_submit(nodes: Any, role: str, when: str) -> None:
    """One job for the token, numbers without gaps, the block once at most, later jobs not held up."""
    one: dict[str, Any] = {"accelerators_per_node": 1, "place_accelerators_per_node": 1}

    def check(number: int) -> str:
        shims: Shims = nodes()
        node = shims.node
        made = job("echo ran >>../ran", setup="echo set >>../ran", **one)
        killed = shims.dying(role, when, number, protocol.submit("", made, {"A": "b"}, False))
        again = node.finish(node.open(protocol.submit("", made, {"A": "b"}, True)))
        later = node.submit("echo later", **one)
        assert later.out == b"later\n" and later.end[0] == "SUCCEEDED", killed
        file = node.home / "ran"
        ran = file.read_text().split() if file.exists() else []
        statuses = node.jobs()
        assert [s.id for s in statuses] == ["1", "2"] and again.job == "1", killed
        assert again.end[0] == statuses[0].state, killed
        if statuses[0].state == "SUCCEEDED":
            assert ran == ["set", "ran"], killed
        else:
            assert (statuses[0].state, role) == ("UNKNOWN", "driver"), killed
            assert killed and ran in ([], ["set"], ["set", "ran"]), killed
        return killed

    found = every_kill(check)
    programs = {words.split()[0] for words in found}
    of_submitter = {"dd", "ln", "mkdir", "mv", "rm", "wc", "date"}
    assert programs >= (of_submitter if role == "submitter" else {"setsid", "ln", "rm"})


@pytest.mark.parametrize(("nodes", "when"), [("dash", "before"), ("busybox", "after")], indirect=["nodes"])
def test_cancel(nodes: Any, when: str) -> None:
    """Cancelled again, the job is cancelled and nothing of it lives."""

    def check(number: int) -> str:
        shims: Shims = nodes()
        node = shims.node
        node.submit("echo $$ >pid; sleep 1000 & wait", follow=False)
        pid_of(node)
        killed = shims.dying("submitter", when, number, protocol.call("", "cancel", "1", "5"))
        assert node.state(1) in (["RUNNING", "UNKNOWN", "CANCELLED"] if killed else ["CANCELLED"])
        again = node.call("cancel", "1", "5")
        assert again.of("cancelled") == [["1", "CANCELLED"]], killed
        until(lambda: not node.living())  # the process that ended it, too
        assert node.submit("true").end[0] == "SUCCEEDED", killed
        return killed

    assert {words.split()[0] for words in every_kill(check)} >= {
        "dd",
        "ln",
        "grep",
        "ls",
        "setsid",
    }


def test_stopped_driver_is_cancelled(node: Node) -> None:
    node.submit("echo $$ >pid; sleep 1000", follow=False)
    pid_of(node)
    os.kill(driver_of(node, 1), signal.SIGSTOP)
    assert node.call("cancel", "1", "5").of("cancelled") == [["1", "CANCELLED"]]
