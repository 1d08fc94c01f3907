"""The stream of a job: every byte once, to the last, from wherever it is asked for."""

from __future__ import annotations

import hashlib
import resource
import subprocess
import time
from pathlib import Path

import pytest
from node_harness import Node

from sky.node import protocol

TEXT = b"one\ntwo\n\nthree\nfour without end"


def test_last_line_before_exit(node: Node) -> None:
    """What is written just before the end is in the stream, whichever way the two race."""
    rounds = 50  # under each of two shells
    run = "printf 'a\\n'; printf 'last line\\n'"
    open_calls: list[subprocess.Popen[bytes]] = []
    for _ in range(rounds):
        open_calls.append(node.open(node.submission(run)))
        if len(open_calls) == 4:
            check_last(node, open_calls)
    check_last(node, open_calls)


def check_last(node: Node, calls: list[subprocess.Popen[bytes]]) -> None:
    while calls:
        answer = node.finish(calls.pop())
        assert (answer.out, answer.end) == (b"a\nlast line\n", ["SUCCEEDED", "0", "12"])


BIG = 100_000_000


def test_big_output_then_an_error(bash_node: Node) -> None:
    """100 MB, then one line: all of it arrives, and no process of ours grows with it."""
    run = f"yes 0123456789abcdefghijklmnopqrstuvwxyz | head -c {BIG}; echo; echo broken >&2; exit 2"
    call = bash_node.open(bash_node.submission(run), stderr=subprocess.DEVNULL)
    assert call.stdout is not None and call.stdin is not None
    seen, digest, peak, tail = 0, hashlib.sha256(), 0, b""
    while chunk := call.stdout.read1(1 << 20):  # type: ignore[attr-defined]
        seen += len(chunk)
        digest.update(chunk)
        tail = (tail + chunk)[-100:]
        if seen % 7 == 0:
            peak = max(peak, resident_kib(call.pid))
    call.stdin.close()
    call.wait(10)
    log = bash_node.directory(1) / "log"
    assert seen == log.stat().st_size == BIG + 8 and tail.endswith(b"\nbroken\n")
    with log.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").digest() == digest.digest()
    assert resident_kib(call.pid) == 0 and peak < 20_000
    answer = bash_node.call("logs", "1", str(BIG), "-1", "0")
    assert (answer.out, answer.end) == (log.read_bytes()[BIG:], ["FAILED", "2", str(BIG + 8)])
    answer = bash_node.call("logs", "1", "0", "1", "0")
    assert answer.out == b"broken\n" and answer.of("from") == [[str(BIG + 1)]]
    log.unlink()


def resident_kib(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)


def test_a_reader_that_stops_does_not_stop_the_job(node: Node) -> None:
    call = node.open(node.submission("seq 1 200000; echo done >../done"))
    assert call.stdout is not None
    call.stdout.read(10)
    call.stdout.close()
    node.finish(call)
    assert node.wait(1) == "SUCCEEDED" and (node.home / "done").exists()


@pytest.mark.parametrize("follow", ["0", "1"])
@pytest.mark.parametrize("offset", [0, 1, 5, len(TEXT) - 1, len(TEXT)])
def test_from_an_offset(node: Node, offset: int, follow: str) -> None:
    write(node, TEXT)
    answer = node.call("logs", "1", str(offset), "-1", follow)
    assert answer.out == TEXT[offset:] and answer.of("from") == [[str(offset)]]
    assert answer.end == ["SUCCEEDED", "0", str(len(TEXT))]


@pytest.mark.parametrize("text", [TEXT, TEXT + b"\n", b"", b"\n", b"no end", bytes(range(256)) * 40])
def test_tail(node: Node, text: bytes) -> None:
    write(node, text)
    lines = text.splitlines(keepends=True) if b"\r" not in text else [p + b"\n" for p in text.split(b"\n")]
    if b"\r" in text:
        lines[-1] = lines[-1][:-1]
    for count in (0, 1, 2, 99):
        answer = node.call("logs", "1", "0", str(count), "0")
        expected = b"".join(lines[-count:] if count else [])
        assert answer.out == expected, count
        assert answer.of("from") == [[str(len(text) - len(expected))]]
        assert answer.end[2] == str(len(text))


def write(node: Node, text: bytes) -> None:
    """A finished job whose log is `text`."""
    assert node.submit(None).end[0] == "SUCCEEDED"
    (node.directory(1) / "log").write_bytes(text)


def test_stream_as_it_grows(node: Node) -> None:
    call = node.open(node.submission("echo a; until [ -e ../go ]; do sleep 0.01; done; printf b"))
    assert call.stdout is not None
    assert call.stdout.readline() == b"a\n"
    second = node.open(protocol.call("", "logs", "1", "1", "-1", "1"))
    assert second.stdout is not None and second.stdout.read(1) == b"\n"
    (node.home / "go").touch()
    assert node.finish(call).out == b"b"
    answer = node.finish(second)
    assert (answer.out, answer.end) == (b"b", ["SUCCEEDED", "0", "3"])


def test_unknown_job_and_lost_log(node: Node) -> None:
    assert node.call("logs", "7", "0", "-1", "1").lines == [["error", "no", "job", "7"]]
    node.submit("true")
    (node.directory(1) / "log").unlink()
    for follow in "01":
        answer = node.call("logs", "1", "0", "-1", follow)
        assert answer.code == 0 and "log" in " ".join(answer.of("error")[0])


def test_slice(node: Node) -> None:
    """A file of another engine's."""
    file = node.home / "a log"
    file.write_bytes(TEXT)
    answer = node.call("slice", str(file), "4")
    assert (answer.out, answer.end) == (TEXT[4:], ["-", "-", str(len(TEXT))])
    assert node.call("slice", str(file) + "x", "0").of("error")


def test_list_of_300(bash_node: Node) -> None:
    """Reading facts starts no process, so that it is quick."""
    bash_node.submit("true")
    first = bash_node.directory(1)
    for number in range(2, 301):
        (bash_node.work / "q" / str(number)).write_text(first.name + "\n")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert len(bash_node.jobs()) == 300
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1


def test_times_and_names(node: Node) -> None:
    started = time.time()
    node.submit("sleep 0.1", name="a\tb %\n ü")
    (status,) = node.jobs()
    assert status.name == "a\tb %\n ü"
    assert status.submitted_at and status.started_at and status.ended_at
    assert started - 1 < status.submitted_at <= status.started_at <= status.ended_at < time.time() + 1
