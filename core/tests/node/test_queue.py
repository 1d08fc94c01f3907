"""First in, first out by devices; the numbers of jobs; what is kept when drivers die."""

from __future__ import annotations

import itertools
from typing import Any

from node_harness import Node, alive, job, kill, until
from test_cancel import driver_of

from sky.node import protocol


def of_8(need: float) -> dict[str, Any]:
    return {"accelerators_per_node": need, "place_accelerators_per_node": 8}


def test_variables(node: Node) -> None:
    """What was granted is seen, not what the node has; a job without devices sees none."""
    show = 'echo "[${CUDA_VISIBLE_DEVICES-unset}]"'
    assert node.submit(show, **of_8(1)).out == b"[0]\n"
    assert node.submit(show, **of_8(0.5)).out == b"[0]\n"
    assert node.submit(show, **of_8(8), env={"CUDA_VISIBLE_DEVICES": "9"}).out == b"[0,1,2,3,4,5,6,7]\n"
    assert node.submit(show, **of_8(0)).out == b"[]\n"
    assert node.submit(show).out == b"[unset]\n"
    assert [s.accelerators for s in node.jobs()] == ["0", "0", "0,1,2,3,4,5,6,7", "", ""]


def test_more_than_there_are_is_refused(node: Node) -> None:
    answer = node.submit("true", **of_8(9))
    assert answer.of("error") and "9" in " ".join(answer.of("error")[0])
    assert node.jobs() == []


def test_order_and_grants(node: Node) -> None:
    """Each job waits until told; a small job behind a big one that doesn't fit stays behind it."""
    record = (
        'echo "start $N $CUDA_VISIBLE_DEVICES" >>../record; until [ -e ../go$N ]; do sleep 0.01; done; '
        'echo "end $N $CUDA_VISIBLE_DEVICES" >>../record'
    )
    needs = (4, 4, 4, 8, 1)
    for number, need in enumerate(needs, 1):
        node.submit(record, follow=False, env={"N": str(number)}, **of_8(need))

    def started() -> list[str]:
        file = node.home / "record"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line.split()[1] for line in lines if line.startswith("start")]

    until(lambda: len(started()) == 2)
    for number, then in ((2, "123"), (1, "123"), (3, "1234"), (4, "12345"), (5, "12345")):
        (node.home / f"go{number}").touch()
        until(lambda then=then: sorted(started()) == list(then))  # type: ignore[misc]
        assert node.wait(number) == "SUCCEEDED"
    held: set[str] = set()
    for line in (node.home / "record").read_text().splitlines():
        what, name, devices = line.split()
        granted = set(devices.split(","))
        assert len(granted) == needs[int(name) - 1]
        if what == "start":
            assert not granted & held
            held |= granted
        else:
            held -= granted
    statuses = node.jobs()
    starts = [s.started_at for s in statuses if s.started_at is not None]
    assert len(starts) == len(statuses)
    # the node's clock is right to a second, for each driver in its own way
    assert all(later >= earlier - 1 for earlier, later in itertools.pairwise(starts[2:]))


def test_killed_driver_holds_its_devices_while_a_process_lives(node: Node) -> None:
    node.submit("echo $$ >../pid; exec sleep 1000", follow=False, **of_8(8))
    pid = int(until(lambda: (node.home / "pid").exists() and (node.home / "pid").read_text().strip()))
    kill([driver_of(node, 1)])
    follow = node.open(node.submission("echo $CUDA_VISIBLE_DEVICES", **of_8(1)))
    # The stream says that it waits only after some thirty looks of its own.
    assert follow.stderr is not None
    while b"PENDING" not in follow.stderr.readline():
        pass
    assert alive(pid) and node.state(2) == "PENDING"
    kill([pid])
    answer = node.finish(follow)
    assert answer.out == b"0\n" and node.state(1) == "UNKNOWN"


def test_a_job_whose_submitter_died_is_started_by_who_comes_next(node: Node) -> None:
    """Published, but without a driver: `list` starts it, and so does whoever waits behind it."""
    node.submit("echo late", follow=False)
    node.wait(1)
    directory = node.directory(1)
    for name in ("driver", "result", "running"):
        (directory / name).unlink()
    (directory / "run").write_text("echo again >../again\n")
    (directory / "env").write_text("")
    assert node.state(1) in ("PENDING", "RUNNING", "SUCCEEDED")
    assert node.wait(1) == "SUCCEEDED"
    assert (node.home / "again").exists()


def test_same_token_is_the_same_job(node: Node) -> None:
    made = job("echo x >>../ran; echo out")
    calls = [node.open(protocol.submit("", made, {}, True)) for _ in range(4)]
    answers = [node.finish(call) for call in calls]
    assert {(a.job, a.out, tuple(a.end)) for a in answers} == {("1", b"out\n", ("SUCCEEDED", "0", "4"))}
    assert (node.home / "ran").read_text() == "x\n" and len(node.jobs()) == 1
    again = node.finish(node.open(protocol.submit("", made, {}, True)))
    assert again.out == b"out\n" and again.end[0] == "SUCCEEDED"


def test_many_at_once(node: Node) -> None:
    calls = [
        node.open(node.submission(f"echo {n} >>../ran", follow=False, name=f"n {n}\n")) for n in range(8)
    ]
    answers = [node.finish(call) for call in calls]
    assert sorted(a.job for a in answers) == list("12345678")
    until(lambda: all(s.state == "SUCCEEDED" for s in node.jobs()))
    assert sorted((node.home / "ran").read_text().split()) == list("01234567")
    assert {s.name for s in node.jobs()} == {f"n {n}\n" for n in range(8)}
