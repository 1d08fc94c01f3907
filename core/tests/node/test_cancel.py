"""Ending jobs: whatever the members of a job do to get away, but for what the last test names."""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from node_harness import Node, alive, kill, processes, until

ESCAPES = {
    "child": "sleep 1000 & echo $! >pid; wait",
    "own_session": "setsid sh -c 'echo $$ >pid; exec sleep 1000' & wait; sleep 1000",
    "orphan": "(setsid sh -c 'echo $$ >pid; exec sleep 1000' &); sleep 1000",
    "ignores_term": "trap '' TERM; echo $$ >pid; while :; do sleep 1000; done",
    "empty_environment_with_log": "(env -i PATH=\"$PATH\" setsid sh -c 'echo $$ >pid; exec sleep 1000' &); sleep 1000",
    "empty_environment_child": "env -i PATH=\"$PATH\" setsid sh -c 'echo $$ >pid; exec sleep 1000' >/dev/null 2>&1; :",
    "cookie_without_log": "(setsid sh -c 'echo $$ >pid; exec sleep 1000' >/dev/null 2>&1 &); sleep 1000",
    "stopped": "echo $$ >pid; kill -STOP $$; sleep 1000",
    "forks_on": "f() { sleep 0.01; (f &); }; (f &); echo $$ >pid; sleep 1000",
}


@pytest.mark.parametrize("kind", ESCAPES)
def test_everything_is_gone(node: Node, kind: str) -> None:
    node.submit(ESCAPES[kind], follow=False)
    pid = pid_of(node)
    answer = node.call("cancel", "1", "1")
    assert answer.lines == [["cancelled", "1", "CANCELLED"], ["end"]]
    assert not alive(pid) and not node.living()
    (status,) = node.jobs()
    assert (status.state, status.exit_code) == ("CANCELLED", None)
    assert not (node.directory(1) / "env").exists()


def test_those_who_ignore_term_after_others_ended(node: Node) -> None:
    """A group that TERM emptied can't be signalled any more; what is left of the others is killed all the same."""
    node.submit(
        "setsid sh -c 'trap \"\" TERM; echo $$ >own; exec sleep 1000' &\n"
        "setsid sh -c 'echo $$ >complies; exec sleep 1000' &\n"
        "(trap '' TERM; exec sleep 1000) & echo $! >pid; sleep 1000",
        follow=False,
    )
    pids = [pid_of(node, name) for name in ("own", "complies", "pid")]
    assert node.call("cancel", "1", "1").of("cancelled") == [["1", "CANCELLED"]]
    assert not any(alive(pid) for pid in pids)


def test_title_that_covers_the_environment(node: Node) -> None:
    """What sets its own title writes over its environment: the cookie is lost, the open log isn't."""
    script = (
        "import ctypes, os, sys, time; os.setsid() if os.getpid() != os.getsid(0) else 0\n"
        "start, end = [int(x) for x in open('/proc/self/stat').read().rpartition(') ')[2].split()[47:49]]\n"
        "ctypes.memset(start, 0x41, end - start)\n"
        "open('/proc/self/comm', 'w').write('a) Z\\n1 b')\n"
        "open('pid', 'w').write(f'{os.getpid()}\\n'); time.sleep(1000)\n"
    )
    (node.home / "t.py").write_text(script)
    node.submit(f"(setsid {sys.executable} ../t.py &); sleep 1000", follow=False)
    pid = pid_of(node)
    assert b"SKY_JOB_COOKIE" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert node.call("cancel", "1", "1").of("cancelled") == [["1", "CANCELLED"]]
    assert not alive(pid)


def test_stragglers_of_a_dead_parent_are_known_by_their_group(node: Node) -> None:
    """No cookie, no log, no parent, but still in the job's own session."""
    node.submit(
        "(env -i PATH=\"$PATH\" sh -c 'echo $$ >pid; exec sleep 1000' >/dev/null 2>&1 &); sleep 1000",
        follow=False,
    )
    pid = pid_of(node)
    node.call("cancel", "1", "1")
    assert not alive(pid)


def test_what_still_escapes(node: Node) -> None:
    """As docs/protocol.md says: without cookie, log, session and living parent nothing tells it from others."""
    node.submit(
        "(env -i PATH=\"$PATH\" setsid sh -c 'echo $$ >pid; exec sleep 1000' >/dev/null 2>&1 &); sleep 1000",
        follow=False,
    )
    pid = pid_of(node)
    try:
        until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n")
        assert node.call("cancel", "1", "1").of("cancelled") == [["1", "CANCELLED"]]
        assert alive(pid)
    finally:
        kill([pid])


def test_others_stay(node: Node) -> None:
    node.submit("echo $$ >../other; sleep 1000", follow=False)
    node.submit("echo $$ >pid; sleep 1000", follow=False)
    pid_of(node)
    other = int(until(lambda: (node.home / "other").exists() and (node.home / "other").read_text()))
    node.call("cancel", "2", "1")
    assert alive(other) and [s.state for s in node.jobs()] == ["RUNNING", "CANCELLED"]
    node.call("cancel", "1", "1")


def test_every_state(node: Node) -> None:
    node.submit("exit 3")
    one: dict[str, Any] = {"accelerators_per_node": 1, "place_accelerators_per_node": 1}
    node.submit("echo never", setup="sleep 1000", follow=False, **one)
    node.wait(2, "SETTING_UP")
    node.submit("echo ran >ran", follow=False, **one)
    assert node.state(3) == "PENDING"
    assert node.call("cancel", "9", "1").lines == [["unknown", "9"], ["end"]]
    assert node.call("cancel", "1", "1").of("cancelled") == [["1", "FAILED"]]
    follow = node.open(node.submission("true", **one))
    until(lambda: len(node.jobs()) == 4)
    answer = node.call("cancel", "all", "1")
    assert answer.of("cancelled") == [[i, "CANCELLED"] for i in "432"]
    assert node.finish(follow).end == ["CANCELLED", "-", "0"]
    assert not (node.home / "sky_workdir/ran").exists()
    assert node.submit("true", **one).end[0] == "SUCCEEDED"


def test_grace(node: Node) -> None:
    """TERM comes first, to a stopped process too, with time to comply."""
    node.submit("trap 'echo bye; exit' TERM; echo $$ >pid; while :; do sleep 0.01; done", follow=False)
    os.kill(pid_of(node), signal.SIGSTOP)
    node.call("cancel", "1", "5")
    assert b"bye\n" in node.log(1)


def test_killed_driver(node: Node) -> None:
    """Nobody is left who could record a result: UNKNOWN, until its remains are cancelled."""
    node.submit("echo $$ >pid; sleep 1000", follow=False)
    pid = pid_of(node)
    kill([driver_of(node, 1)])
    assert node.wait(1) == "UNKNOWN" and alive(pid)
    assert node.call("logs", "1", "0", "-1", "1").end == ["UNKNOWN", "-", "0"]
    assert node.call("cancel", "1", "1").of("cancelled") == [["1", "CANCELLED"]]
    assert not alive(pid)


ASK = {"list": (), "logs": ("2", "0", "-1", "0"), "follow": ("2", "0", "-1", "1")}


@pytest.mark.parametrize("how", ASK)
def test_no_secret_stays_for_a_block_that_never_starts(node: Node, how: str) -> None:
    """The driver was lost while the job waited: nobody will ever read what was given to it."""
    one: dict[str, Any] = {"accelerators_per_node": 1, "place_accelerators_per_node": 1}
    node.submit("sleep 1000", follow=False, **one)
    node.wait(1, "RUNNING")
    node.submit("true", setup="true", follow=False, env={"SECRET": "x"}, **one)
    given = [node.directory(2) / name for name in ("env", "setup", "run")]
    until((node.directory(2) / "driver").exists)
    node.call("logs", "2", "0", "-1", "0")
    assert all(file.exists() for file in given)  # while it waits
    kill([driver_of(node, 2)])

    def gone() -> bool:
        node.call("list" if how == "list" else "logs", *ASK[how])
        return not any(file.exists() for file in given)

    until(gone)  # the driver's own `sleep` outlives it for a moment
    assert node.state(2) == "UNKNOWN"
    node.call("cancel", "all", "1")


def test_what_a_block_may_yet_read_stays(node: Node) -> None:
    """A block outlives its driver, and sources its files; they go when it has gone."""
    node.submit("echo $$ >pid; sleep 1000", follow=False, env={"SECRET": "x"})
    pid = pid_of(node)
    kill([driver_of(node, 1)])
    env = node.directory(1) / "env"
    assert node.wait(1) == "UNKNOWN" and env.exists()
    os.killpg(os.getsid(pid), signal.SIGKILL)
    until(lambda: node.jobs() and not env.exists())


def test_attempt_that_was_killed_leaves_nothing(node: Node) -> None:
    """Before the token is linked there is no job; the next list collects what had come, and nothing else."""
    node.submit("true")
    command, stdin = node.submission("true", env={"SECRET": "x"})
    attempt = node.open((command, io.BytesIO(stdin.getvalue()[:-5])))
    (made,) = until(lambda: [e.parent for e in node.work.glob("j/*/env") if e.stat().st_size])
    assert len(node.jobs()) == 1 and made.is_dir()  # it may yet come
    kill([attempt.pid])
    node.finish(attempt)
    assert len(node.jobs()) == 1 and not made.exists()
    assert node.directory(1).is_dir()


def driver_of(node: Node, job_id: int) -> int:
    return int((node.directory(job_id) / "driver").read_text().partition(":")[0])


def pid_of(node: Node, name: str = "pid") -> int:
    """What the job wrote to this file."""
    file = node.home / "sky_workdir" / name
    return int(until(lambda: file.exists() and file.read_text().strip()))


def test_nothing_is_left() -> None:
    """The marks that these tests look for are seen at all."""
    assert os.getpid() in processes(lambda pid: pid == os.getpid())
