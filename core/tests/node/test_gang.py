"""Jobs on several nodes: all start or none, one rank's end is everyone's, nobody is waited for in vain."""

from __future__ import annotations

import contextlib
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from gang_harness import Gang, ends, reason
from node_harness import Node, check_clean, kill, make_node, until

LIMIT_SECONDS = 15
WAIT = "echo $RANK; while :; do sleep 0.1; done"
STUBBORN = "trap '' TERM; " + WAIT

MakeNodes = Callable[..., list[Node]]

TOOLS = ("perl", "python3", "nc")


@pytest.fixture
def make_nodes(paths: Mapping[str, str], tmp_path: Path) -> Iterator[MakeNodes]:
    """`make_nodes(kind="dash", tool=None)`: three of them, that connect their ranks by nothing but `tool`."""
    made: list[Node] = []

    def make(kind: str = "dash", tool: str | None = None, count: int = 3) -> list[Node]:
        new = [make_node(kind, paths, tmp_path / f"{len(made)}-{k}") for k in range(count)]
        made.extend(new)
        if tool is not None:
            for number, node in enumerate(new):
                node.path = _only(tool, kind, node.path, tmp_path / f"path-{len(made)}-{number}")
        return new

    yield make
    for node in made:
        check_clean(node)


def _only(tool: str, kind: str, path: str, directory: Path) -> str:
    """A PATH with all that is in `path`, but of the programs that connect ranks nothing but `tool`."""
    directory.mkdir()
    for place in reversed(path.split(":")):
        for program in Path(place).iterdir():
            if program.name.startswith(TOOLS) or program.name in ("ncat", "bash", "rbash", "busybox"):
                continue
            link = directory / program.name
            link.unlink(missing_ok=True)
            link.symlink_to(program)
    if not tool:
        return str(directory)
    found = sys.executable if tool == "python3" else shutil.which("busybox" if tool == "nc" else tool)
    if found is None:
        pytest.skip(f"no {tool} here")
    (directory / tool).symlink_to(found)
    return str(directory)


@pytest.mark.parametrize("tool", TOOLS)
def test_all_run_whatever_connects_them(make_nodes: MakeNodes, tool: str) -> None:
    gang = Gang(make_nodes("dash", tool), "echo run $RANK", {"setup": "echo setup $RANK"}).give()
    answers = gang.answers()
    assert [a.out for a in answers] == [b"setup %d\nrun %d\n" % (k, k) for k in range(3)]
    assert ends(answers) == [["SUCCEEDED", "0"]] * 3
    (status,) = gang.nodes[0].jobs()
    assert (status.num_nodes, status.reason, status.exit_code) == (3, "", 0)
    assert gang.nodes[1].jobs() == [], "only rank 0's node numbers it"


def test_busybox_runs_with_nothing_else(make_nodes: MakeNodes) -> None:
    nodes = make_nodes("busybox", "nc")
    assert ends(Gang(nodes, "echo $RANK", {"setup": "true"}).give().answers()) == [["SUCCEEDED", "0"]] * 3


def test_bash_is_enough_to_join(make_nodes: MakeNodes) -> None:
    nodes = [*make_nodes("dash", count=1), *make_nodes("dash", "bash", count=2)]
    assert ends(Gang(nodes, "echo $RANK").give().answers()) == [["SUCCEEDED", "0"]] * 3


def test_a_node_that_cannot_connect_is_refused(make_nodes: MakeNodes, tmp_path: Path) -> None:
    (node,) = make_nodes("dash", "", count=1)
    answer = node.finish(node.open(Gang([node, node], "true").submission(0)))
    assert "perl, python3 or nc" in " ".join(answer.of("error")[0])
    assert node.jobs() == [] and not list((node.work / "j").iterdir())


def test_none_starts_before_all_are_there(make_nodes: MakeNodes, tmp_path: Path) -> None:
    record = tmp_path / "record"
    gang = Gang(make_nodes(), f"echo $RANK >>{record}")
    gang.begin()
    gang.join(1)
    joined = gang.directory(0) / "g" / "1.heard"
    until(lambda: joined.exists() and joined.read_text().startswith("2"))  # as ready as it can be
    assert gang.nodes[0].state(1) == "PENDING" and not record.exists()
    gang.join(2)
    assert ends(gang.answers()) == [["SUCCEEDED", "0"]] * 3
    assert sorted(record.read_text().split()) == ["0", "1", "2"]


def test_no_run_before_every_setup(make_nodes: MakeNodes, tmp_path: Path) -> None:
    record = tmp_path / "record"
    slow = f"[ $RANK != 1 ] || until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo setup >>{record}"
    gang = Gang(make_nodes(), f"echo run >>{record}", {"setup": slow}).give()
    until(lambda: record.exists() and record.read_text() == "setup\n" * 2)
    (tmp_path / "go").touch()
    assert ends(gang.answers()) == [["SUCCEEDED", "0"]] * 3
    assert record.read_text() == "setup\n" * 3 + "run\n" * 3


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("kind", ["dash", "busybox"])
def test_one_failure_ends_all(make_nodes: MakeNodes, kind: str, rank: int) -> None:
    """Also those who ignore TERM; its code is the job's, and the log says whose it was."""
    nodes = make_nodes(kind, "nc" if kind == "busybox" else None)
    gang = Gang(nodes, f"[ $RANK != {rank} ] || {{ sleep 0.3; exit 3; }}; {STUBBORN}").give()
    answers = gang.answers(LIMIT_SECONDS)
    assert ends(answers) == [["FAILED", "3"]] * 3
    assert {reason(a) for a in answers} == {f"rank {rank} (h{rank}) ended with 3"}
    assert answers[0].out.endswith(b"sky: rank %d (h%d) ended with 3\n" % (rank, rank))
    assert [gang.blocks(k) for k in range(3)] == [[], [], []]
    assert gang.nodes[0].jobs()[0].reason == f"rank {rank} (h{rank}) ended with 3"


def test_a_failed_setup_keeps_all_from_running(make_nodes: MakeNodes) -> None:
    gang = Gang(make_nodes(), "echo did run", {"setup": "[ $RANK != 2 ] || exit 5; sleep 100"}).give()
    answers = gang.answers(LIMIT_SECONDS)
    assert ends(answers) == [["FAILED_SETUP", "5"]] * 3
    assert not any(b"did run" in a.out for a in answers)


@pytest.mark.parametrize("delay", ["0", "0.3", "1.5"])
def test_who_fails_after_rank_0_has_ended_decides_all_the_same(make_nodes: MakeNodes, delay: str) -> None:
    nodes = make_nodes()
    for _ in range(5):
        gang = Gang(nodes, f"[ $RANK = 0 ] || sleep {delay}; [ $RANK != 1 ] || exit 9").give()
        answers = gang.answers(LIMIT_SECONDS)
        assert answers[0].end[:2] == ["FAILED", "9"]
        assert reason(answers[0]) == "rank 1 (h1) ended with 9"


def test_a_setup_that_fails_last_keeps_all_from_running(make_nodes: MakeNodes) -> None:
    nodes = make_nodes()
    for _ in range(5):
        gang = Gang(nodes, "echo did run", {"setup": "[ $RANK != 1 ] || { sleep 0.3; exit 5; }"}).give()
        answers = gang.answers(LIMIT_SECONDS)
        assert answers[0].end[:2] == ["FAILED_SETUP", "5"]
        assert not any(b"did run" in a.out for a in answers)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("what", ["block", "driver", "all"])
def test_a_killed_rank_ends_all(make_nodes: MakeNodes, what: str, rank: int) -> None:
    gang = Gang(make_nodes(), STUBBORN).give()
    gang.wait_running()
    victims = {"block": gang.blocks(rank), "driver": [gang.driver(rank)], "all": gang.engine(rank)}[what]
    assert victims
    kill(victims)
    left = [k for k in range(3) if k != rank] if what == "all" else [0, 1, 2]
    until(lambda: not any(gang.blocks(k) for k in left), LIMIT_SECONDS)
    if what == "all":
        kill(gang.blocks(rank))  # nobody is left there who could
    answers = gang.answers(LIMIT_SECONDS)
    codes = {"block": "137", "driver": "125", "all": "125"}
    if what == "all" and rank == 0:
        assert answers[0].end[0] == "UNKNOWN"
        answers = answers[1:]
    for answer in answers if what != "all" else answers[:1]:
        assert answer.end[:2] == ["FAILED", codes[what]], answer
        assert f"rank {rank} (h{rank})" in reason(answer)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_silent_rank_is_lost(make_nodes: MakeNodes, rank: int) -> None:
    """Its connections stay open, and nothing comes."""
    gang = Gang(make_nodes(), WAIT).give()
    gang.wait_running()
    started = time.monotonic()
    thaw = gang.freeze(rank)
    try:
        others = [k for k in range(3) if k != rank]
        until(lambda: not any(gang.blocks(k) for k in others), LIMIT_SECONDS)
        first = gang.nodes[others[0]].finish(gang.calls[others[0]], LIMIT_SECONDS)
        assert first.end[:2] == ["FAILED", "125"]
        assert f"rank {rank} (h{rank}) was lost: no sign of life" in reason(first)
        assert b"was lost" in first.out
        assert time.monotonic() - started < LIMIT_SECONDS
    finally:
        thaw()
    until(lambda: not gang.blocks(rank), LIMIT_SECONDS)  # it notices, too
    for call in gang.calls:
        call.wait(LIMIT_SECONDS)


def test_with_no_client_at_all(make_nodes: MakeNodes) -> None:
    gang = Gang(make_nodes(), STUBBORN).give()
    gang.wait_running()
    kill([call.pid for call in gang.calls])
    for call in gang.calls:
        call.communicate()
    kill(gang.blocks(1))
    until(lambda: not any(gang.blocks(k) for k in range(3)), LIMIT_SECONDS)
    assert gang.nodes[0].wait(1) == "FAILED"
    assert gang.nodes[0].jobs()[0].exit_code == 137


def test_cancel_at_rank_0_ends_all(make_nodes: MakeNodes) -> None:
    gang = Gang(make_nodes(), STUBBORN).give()
    gang.wait_running()
    answer = gang.nodes[0].call("cancel", "1", "1")
    assert answer.of("cancelled") == [["1", "CANCELLED"]]
    until(lambda: not any(gang.blocks(k) for k in range(3)), LIMIT_SECONDS)
    assert [a.end[0] for a in gang.answers(LIMIT_SECONDS)] == ["CANCELLED"] * 3


def test_cancel_by_token_elsewhere(make_nodes: MakeNodes) -> None:
    """What the client asks of the other nodes: when it returns, nothing lives there."""
    gang = Gang(make_nodes(), STUBBORN).give()
    gang.wait_running()
    answer = gang.nodes[2].call("cancel", f"@{gang.job.token}", "1")
    assert answer.of("cancelled") == [[f"@{gang.job.token}", "CANCELLED"]]
    assert gang.blocks(2) == []
    answers = gang.answers(LIMIT_SECONDS)
    assert [a.end[0] for a in answers] == ["CANCELLED"] * 3
    assert gang.nodes[1].call("cancel", "all", "1").of("cancelled") == []


def test_cancel_all_finds_a_rank_without_number(make_nodes: MakeNodes) -> None:
    gang = Gang(make_nodes(), STUBBORN).give()
    gang.wait_running()
    answer = gang.nodes[1].call("cancel", "all", "1")
    assert answer.of("cancelled") == [[f"@{gang.job.token}", "CANCELLED"]]
    assert gang.blocks(1) == []
    gang.answers(LIMIT_SECONDS)


def test_giving_it_twice_is_one_job(make_nodes: MakeNodes, tmp_path: Path) -> None:
    record = tmp_path / "record"
    gang = Gang(make_nodes(), f"echo $RANK >>{record}; sleep 0.5")
    gang.begin()
    again = gang.nodes[0].open(gang.submission(0))
    for rank in (1, 1, 2):
        gang.join(rank)
    gang.nodes = [gang.nodes[k] for k in (0, 1, 1, 2)]
    assert ends(gang.answers()) == [["SUCCEEDED", "0"]] * 4
    second = gang.nodes[0].finish(again)
    assert second.of("gang") == [gang.ports] and second.job == "1"
    assert sorted(record.read_text().split()) == ["0", "1", "2"]


def test_strangers_are_nobody(make_nodes: MakeNodes) -> None:
    """Who doesn't know the secret can neither join nor keep others from joining."""
    gang = Gang(make_nodes(), "echo $RANK")
    gang.begin()
    for port in gang.ports:
        with _connected(port) as rude:
            rude.settimeout(10)
            # Reset: it was hung up on while it had more to say.
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                rude.sendall(b"hello 00000000000000000000000000000000 1\n4 FAILED 9\n")
                assert rude.recv(100) == b""
    silent = _let_in(gang.ports[1])
    gang.join(1)
    gang.join(2)
    assert ends(gang.answers()) == [["SUCCEEDED", "0"]] * 3
    silent.close()


def _let_in(port: str) -> socket.socket:
    """One that is kept waiting for, which one behind another stranger isn't."""
    while True:
        silent = _connected(port)
        silent.settimeout(0.3)
        try:
            silent.recv(1)
        except TimeoutError:
            return silent
        except ConnectionResetError:
            pass
        silent.close()


def _connected(port: str) -> socket.socket:
    """Between two strangers there is a moment in which nobody waits there, or no longer for us."""
    found: list[socket.socket] = []

    def connect() -> bool:
        with contextlib.suppress(ConnectionRefusedError, ConnectionResetError):
            found.append(socket.create_connection(("127.0.0.1", int(port))))
        return bool(found)

    until(connect)
    return found[0]


def test_two_gangs_on_the_same_devices(make_nodes: MakeNodes, tmp_path: Path) -> None:
    """One after the other, in the order of rank 0's queue."""
    record = tmp_path / "record"
    nodes = make_nodes()
    run = f"echo + >>{record}; sleep 0.2; echo - >>{record}; echo $CUDA_VISIBLE_DEVICES"
    all_ = {"accelerators_per_node": 2, "place_accelerators_per_node": 2}
    one, two = Gang(nodes, run, dict(all_)), Gang(nodes, run, dict(all_))
    one.begin()
    two.begin()
    for rank in (1, 2):  # the others' order is another one
        two.join(rank)
    for rank in (1, 2):
        one.join(rank)
    for gang in (one, two):
        answers = gang.answers()
        assert ends(answers) == [["SUCCEEDED", "0"]] * 3
        assert {a.out for a in answers} == {b"0,1\n"}
    text = record.read_text().replace("\n", "")
    assert text == "+++---" * 2, text
    assert [s.state for s in nodes[0].jobs()] == ["SUCCEEDED"] * 2
