"""`sky_run` against a stub API server that runs commands for real and misbehaves where a test says so."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any, BinaryIO

import pytest
from kubernetes_fixtures import MakeContext
from kubernetes_stub import Exec, StubServer, status

from sky.api import (
    Cancelled,
    CancelToken,
    Command,
    ConnectionLost,
    Context,
    Host,
    HostGone,
    LoginExpired,
    NotPermitted,
    ProgramMissing,
    TimedOut,
    Unreachable,
)
from sky_kubernetes.plugin import KubernetesRunner
from sky_kubernetes.runner import status_code

POD = "/api/v1/namespaces/ns/pods/p"
HOST = Host(transport="kubernetes", address={"context": "stub", "namespace": "ns", "pod": "p", "uid": "u1"})
RUNNING = {"metadata": {"uid": "u1"}, "status": {"phase": "Running"}}


class Ran:
    """A finished run: its code and what it wrote."""

    def __init__(self, ctx: Context, argv: tuple[str, ...], stdin: BinaryIO | None, **more: Any) -> None:
        self.out, self.err = io.BytesIO(), io.BytesIO()
        command = Command(argv=argv, **more)
        self.code = KubernetesRunner().sky_run(ctx, HOST, command, stdin, self.out, self.err)


def sh(ctx: Context, script: str, stdin: bytes | None = None, **more: Any) -> Ran:
    return Ran(ctx, ("sh", "-c", script), None if stdin is None else io.BytesIO(stdin), **more)


def wait_until(what: Callable[[], bool], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it never became true"
        time.sleep(0.01)


def _lost_with(stub: StubServer, make_context: MakeContext, message: str) -> str:
    """What a run says whose channel ends with this status message alone."""
    stub.answers["GET", POD] = (200, RUNNING)
    said = {"status": "Failure", "reason": "NonZeroExitCode", "message": message}
    stub.exec = lambda run: run.send(3, json.dumps(said).encode())
    with pytest.raises(ConnectionLost) as caught:
        sh(make_context(seconds=10), "true")
    return caught.value.message


def test_what_the_status_says_is_told_without_the_command_and_in_brief(
    stub: StubServer, make_context: MakeContext
) -> None:
    script = "a=$1\nif [ $x ]; then b; fi, exit code 3\n" * 50
    message = f"command terminated with non-zero exit code: error executing command [sh -c {script}]"
    told = _lost_with(stub, make_context, f"{message}, exit code 137")
    assert told.endswith("said how it ended: command terminated with non-zero exit code, exit code 137")
    assert _lost_with(stub, make_context, message[:300]).endswith(
        "command terminated with non-zero exit code"
    )
    told = _lost_with(stub, make_context, "a reason\n" * 100)
    assert "\n" not in told
    assert len(told.partition("said how it ended: ")[2]) == 200


# --- the code ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("exit 255", 255)])
def test_code_is_the_programs(stub: StubServer, make_context: MakeContext, script: str, code: int) -> None:
    assert sh(make_context(), script).code == code


def test_signal_is_128_and_its_number_and_adds_no_words(stub: StubServer, make_context: MakeContext) -> None:
    ran = sh(make_context(), "kill -s KILL $$")
    assert (ran.code, ran.out.getvalue(), ran.err.getvalue()) == (137, b"", b"")


def test_code_can_be_asked_twice() -> None:
    assert [status_code(status(7)) for _ in range(2)] == [7, 7]
    assert [status_code(status(0)) for _ in range(2)] == [0, 0]
    assert [status_code(text) for text in (b"", b"{", b"[]", b'{"status":"Failure"}')] == [None] * 4


def test_missing_program_is_named(stub: StubServer, make_context: MakeContext) -> None:
    with pytest.raises(ProgramMissing) as caught:
        Ran(make_context(), ("no-such-program",), None)
    assert caught.value.program == "no-such-program"


def test_missing_shell_is_named(stub: StubServer, make_context: MakeContext) -> None:
    def refuse(run: Exec) -> None:
        message = 'OCI runtime exec failed: exec: "sh": executable file not found in $PATH: unknown'
        run.send(3, b'{"status":"Failure","reason":"InternalError","message":%s}' % _json(message))
        run.close_frame()

    stub.exec = refuse
    with pytest.raises(ProgramMissing) as caught:
        sh(make_context(), "true")
    assert caught.value.program == "sh"


def _json(text: str) -> bytes:
    import json

    return json.dumps(text).encode()


# --- never a success ---------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [b"", b"{garbled", b'{"status":"Success"}', None])
def test_end_without_marks_is_a_lost_connection(
    stub: StubServer, make_context: MakeContext, last: bytes | None
) -> None:
    def end(run: Exec) -> None:
        run.send(1, b"half of the out")
        if last is not None:
            run.send(3, last)
        run.close_frame()

    stub.exec = end
    stub.answers["GET", POD] = (200, RUNNING)
    with pytest.raises(ConnectionLost) as caught:
        sh(make_context(), "true")
    assert not isinstance(caught.value, HostGone)


def test_cut_output_is_no_success_though_the_server_says_so(
    stub: StubServer, make_context: MakeContext
) -> None:
    """What a restart of the container runtime does: stdout ends early, the status says success."""

    def cut(run: Exec) -> None:
        run.run_process(limit=5000)
        run.send(3, status(0))
        run.close_frame()

    stub.exec = cut
    stub.answers["GET", POD] = (200, RUNNING)
    with pytest.raises(ConnectionLost):
        sh(make_context(), "seq 1 10000")


def test_stream_that_never_ends_ends_at_the_deadline(stub: StubServer, make_context: MakeContext) -> None:
    def hang(run: Exec) -> None:
        run.send(1, b"all of the data")
        run.wait_for_client_to_go()

    stub.exec = hang
    begun = time.monotonic()
    with pytest.raises(TimedOut, match="running 'sh' on pod p"):
        sh(make_context(seconds=0.5), "true")
    assert time.monotonic() - begun < 3


def test_both_marks_are_enough(stub: StubServer, make_context: MakeContext) -> None:
    """The program is known to have ended: no status and no close are waited for."""

    def no_end(run: Exec) -> None:
        run.run_process()
        run.wait_for_client_to_go()

    stub.exec = no_end
    assert sh(make_context(seconds=10), "echo done; exit 4").code == 4


# --- bytes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame_bytes", [1, 2, 3, 5, 7, 4096])
def test_bytes_are_the_same_wherever_frames_are_cut(
    stub: StubServer, make_context: MakeContext, frame_bytes: int
) -> None:
    data = "é漢🙂\n".encode() * 20 + b"\xd4\x1e\x1e\x00" + gzip.compress(b"x" * 500)
    if frame_bytes == 4096:
        data = b"\xd4" + "漢".encode() * 5000 + data

    def small(run: Exec) -> None:
        run.frame_bytes = frame_bytes
        run.run()

    stub.exec = small
    assert sh(make_context(), "cat", data).out.getvalue() == data
    assert sh(make_context(), "cat >&2", data).err.getvalue() == data


def test_fragmented_messages_are_put_together(stub: StubServer, make_context: MakeContext) -> None:
    def fragment(run: Exec) -> None:
        send = run.send_frame

        def halves(opcode: int, payload: bytes, fin: bool = True) -> None:
            if opcode == 2 and len(payload) > 2:
                send(2, payload[:2], False)
                send(0, payload[2:], True)
            else:
                send(opcode, payload, fin)

        run.send_frame = halves  # type: ignore[method-assign]
        run.run()

    stub.exec = fragment
    assert sh(make_context(), "echo one; echo two").out.getvalue() == b"one\ntwo\n"


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v5.channel.k8s.io"])
@pytest.mark.parametrize("size", [0, 1, 10_000_000])
def test_stdin_of_any_size_has_an_end(
    stub: StubServer, make_context: MakeContext, protocol: str, size: int
) -> None:
    stub.protocol = protocol
    data = os.urandom(size)
    assert sh(make_context(), "cat", data).out.getvalue() == data
    assert sh(make_context(), "wc -c", data).out.getvalue().split() == [b"%d" % size]


def test_no_stdin_is_an_empty_one(stub: StubServer, make_context: MakeContext) -> None:
    assert sh(make_context(), "cat; echo end").out.getvalue() == b"end\n"


def test_open_stdin_goes_through_as_it_is(stub: StubServer, make_context: MakeContext) -> None:
    ran = sh(make_context(), "dd bs=4 count=1 iflag=fullblock 2>/dev/null", b"abcdefgh", stdin_mode="open")
    assert (ran.code, ran.out.getvalue()) == (0, b"abcd")


def test_open_stdin_ends_where_the_protocol_can_say_so(stub: StubServer, make_context: MakeContext) -> None:
    stub.protocol = "v5.channel.k8s.io"
    assert sh(make_context(), "cat", b"abc", stdin_mode="open").out.getvalue() == b"abc"


def test_program_that_ends_before_its_stdin(stub: StubServer, make_context: MakeContext) -> None:
    ran = sh(make_context(seconds=20), "head -c 1", b"x" * 20_000_000)
    assert (ran.code, ran.out.getvalue()) == (0, b"x")


def test_arguments_arrive_as_they_are(stub: StubServer, make_context: MakeContext) -> None:
    arguments = ("a b", "$HOME", "*", "it's", "", "\n", "é", "--", "-n", 'q"q', "\\x", "a&b=c+d%20")
    ran = Ran(make_context(), ("printf", "%s\\0", *arguments), None)
    assert ran.out.getvalue() == b"".join(a.encode() + b"\0" for a in arguments)


def test_process_list_holds_no_mark(stub: StubServer, make_context: MakeContext) -> None:
    """A program that prints its parents' arguments must not seem to have ended."""
    ran = sh(make_context(), "cat /proc/*/cmdline 2>/dev/null; echo; echo last")
    assert ran.out.getvalue().endswith(b"\nlast\n")


# --- ends that are not the program's -----------------------------------------------------------------


def remember(stub: StubServer) -> list[Exec]:
    runs: list[Exec] = []

    def run(one: Exec) -> None:
        runs.append(one)
        one.run()

    stub.exec = run
    return runs


def ended(run: Exec) -> bool:
    return run.process is not None and run.process.poll() is not None


@pytest.mark.parametrize("mode", ["eof", "open"])
def test_deadline_ends_the_program_too(stub: StubServer, make_context: MakeContext, mode: str) -> None:
    runs = remember(stub)
    with pytest.raises(TimedOut):
        sh(make_context(seconds=0.5), "sleep 60", b"", stdin_mode=mode)
    wait_until(lambda: ended(runs[0]))


@pytest.mark.parametrize("mode", ["eof", "open"])
def test_cancel_is_heard_within_a_second(stub: StubServer, make_context: MakeContext, mode: str) -> None:
    runs = remember(stub)
    token = CancelToken()
    read, write = os.pipe()  # a stdin that stays open and silent
    timer = threading.Timer(0.3, token.cancel)
    timer.start()
    begun = time.monotonic()
    with open(read, "rb") as stdin, pytest.raises(Cancelled):
        Ran(make_context(cancel=token), ("sleep", "60"), stdin, stdin_mode=mode)
    assert time.monotonic() - begun < 1.4
    os.close(write)
    wait_until(lambda: ended(runs[0]))


class Broken(io.RawIOBase):
    """A stream whose every use fails."""

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        raise OSError("no medium")

    def write(self, data: Any) -> int:
        raise OSError("disk full")


def test_error_of_the_callers_streams_is_raised_and_ends_the_program(
    stub: StubServer, make_context: MakeContext
) -> None:
    runs = remember(stub)
    command = Command(argv=("sh", "-c", "echo hi; sleep 60"))
    run = KubernetesRunner().sky_run
    with pytest.raises(OSError, match="disk full"):
        run(make_context(), HOST, command, None, Broken(), io.BytesIO())  # type: ignore[arg-type]
    with pytest.raises(OSError, match="no medium"):
        run(make_context(), HOST, command, Broken(), io.BytesIO(), io.BytesIO())  # type: ignore[arg-type]
    assert len(runs) == 2
    for one in runs:
        wait_until(lambda one=one: ended(one))  # type: ignore[misc]


def test_background_process_lives_on(stub: StubServer, make_context: MakeContext) -> None:
    runs = remember(stub)
    ran = sh(make_context(seconds=10), "sleep 30 >/dev/null 2>&1 & echo $!")
    pid = int(ran.out.getvalue())
    wait_until(lambda: ended(runs[0]))
    os.kill(pid, 0)
    os.kill(pid, 9)


# --- what the server says ----------------------------------------------------------------------------


def test_deleted_pod_is_gone(stub: StubServer, make_context: MakeContext) -> None:
    stub.answers["GET", f"{POD}/exec"] = (404, {"message": 'pods "p" not found'})
    with pytest.raises(HostGone, match="pod p is gone: it was deleted"):
        sh(make_context(), "true")


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        ({"metadata": {"uid": "other"}, "status": {"phase": "Running"}}, "another pod has its name now"),
        ({"metadata": {"uid": "u1"}, "status": {"phase": "Failed", "reason": "Evicted"}}, "Evicted"),
        ({"metadata": {"uid": "u1", "deletionTimestamp": "x"}, "status": {}}, "being deleted"),
        (
            {
                "metadata": {"uid": "u1"},
                "status": {
                    "containerStatuses": [
                        {"name": "c", "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
                    ]
                },
            },
            "OOMKilled",
        ),
    ],
)
def test_why_a_pod_is_gone(
    stub: StubServer, make_context: MakeContext, pod: dict[str, Any], reason: str
) -> None:
    stub.exec = Exec.close_frame
    stub.answers["GET", POD] = (200, pod)
    with pytest.raises(HostGone, match=reason):
        sh(make_context(), "true")


def test_refusals_say_what_they_mean(stub: StubServer, make_context: MakeContext) -> None:
    stub.answers["GET", f"{POD}/exec"] = (401, {"message": "Unauthorized"})
    with pytest.raises(LoginExpired):
        sh(make_context(), "true")
    stub.answers["GET", f"{POD}/exec"] = (403, {"message": 'cannot create resource "pods/exec"'})
    with pytest.raises(NotPermitted, match="pods/exec"):
        sh(make_context(), "true")
    stub.answers["GET", f"{POD}/exec"] = (500, {"message": "error dialing backend"})
    stub.answers["GET", POD] = (200, RUNNING)
    with pytest.raises(Unreachable, match="error dialing backend"):
        sh(make_context(), "true")


def test_dead_server_is_named(stub: StubServer, make_context: MakeContext) -> None:
    stub.close()
    with pytest.raises(Unreachable) as caught:
        sh(make_context(), "true")
    assert "'stub'" in caught.value.message and stub.url in caught.value.message
