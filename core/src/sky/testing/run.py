"""`sky_run`, sentence by sentence. The host needs `sh`, `cat`, `head`, `printf`, `sleep`, `kill` and `wc`."""

from __future__ import annotations

import hashlib
import os
import random
import threading
import time
from collections.abc import Iterator
from typing import BinaryIO, ClassVar

import pytest

from sky.api import Cancelled, CancelToken, ConnectionLost, ProgramMissing, TimedOut, Unreachable
from sky.registry.plugins import Plugin
from sky.testing.lab import MakeContext, eventually
from sky.testing.plugin import Kit
from sky.testing.streams import Failing, OneAtATime, Remote, Told

MEBIBYTE = 1 << 20
ODD_ARGUMENTS = (
    "a b",
    "$HOME",
    "*",
    "it's",
    'say "so"',
    "two\nlines\n",
    "",
    "\\",
    "`id`",
    "-n",
    "ünïcode",
    ";&|<>",
)
PRINT_ARGUMENTS = 'for a; do printf "%s\\0" "$a"; done'


class RunConformance(Kit):
    """Needs the fixture `remote`, which `RunnerConformance` makes of `host`."""

    kind: ClassVar[str] = "runner"

    # --- exit codes -----------------------------------------------------------------------------------

    @pytest.mark.parametrize("code", [0, 1, 2, 3, 42, 120, 125, 126, 127, 128, 129, 143, 200, 254, 255])
    def test_the_exit_code_is_the_programs_own(self, remote: Remote, code: int) -> None:
        ran = remote.run("sh", "-c", f"exit {code}")
        assert (ran.code, ran.out, ran.err) == (code, b"", b"")

    @pytest.mark.parametrize(("name", "number"), [("HUP", 1), ("INT", 2), ("KILL", 9), ("TERM", 15)])
    def test_death_by_signal_n_is_128_and_n(self, remote: Remote, name: str, number: int) -> None:
        assert remote.run("sh", "-c", f"kill -{name} $$; sleep 10").code == 128 + number

    # --- argv as data -----------------------------------------------------------------------------------

    def test_arguments_arrive_as_data(self, remote: Remote) -> None:
        out = remote.sh(PRINT_ARGUMENTS, *ODD_ARGUMENTS)
        assert out.decode().split("\0")[:-1] == list(ODD_ARGUMENTS)

    def test_no_shell_reads_them(self, remote: Remote) -> None:
        assert remote.run("printf", "%s|", "$HOME", "*", "a b", "").out == b"$HOME|*|a b||"

    def test_thirty_kib_of_arguments_arrive(self, remote: Remote) -> None:
        long = "".join(random.Random(1).choices("abc '\"$\\\n", k=30 * 1024))
        assert remote.sh(PRINT_ARGUMENTS, long) == long.encode() + b"\0"

    # --- stdin ------------------------------------------------------------------------------------------

    def test_no_stdin_is_an_empty_one(self, remote: Remote) -> None:
        assert remote.run("cat").out == b""

    @pytest.mark.parametrize("size", [0, 1, 10 * MEBIBYTE])
    def test_stdin_of_any_size_ends_after_its_last_byte(self, remote: Remote, size: int) -> None:
        data = random.Random(size).randbytes(size)
        ran = remote.run("cat", stdin=data)
        assert ran.code == 0
        assert (len(ran.out), digest(ran.out)) == (size, digest(data))

    @pytest.mark.parametrize("size", [0, 1, 10 * MEBIBYTE])
    def test_open_stdin_reaches_a_program_that_knows_how_much_to_read(
        self, remote: Remote, size: int
    ) -> None:
        data = random.Random(size).randbytes(size)
        ran = remote.run("sh", "-c", f"head -c {size}" if size else "exit 0", stdin=data, mode="open")
        assert ran.code == 0
        assert (len(ran.out), digest(ran.out)) == (size, digest(data))

    def test_a_program_may_leave_stdin_unread(self, remote: Remote) -> None:
        assert remote.run("sh", "-c", "exit 7", stdin=bytes(4 * MEBIBYTE)).code == 7

    def test_a_program_that_ends_does_not_wait_for_stdin(self, remote: Remote, pipe: Pipe) -> None:
        started = time.monotonic()
        assert remote.run("sh", "-c", "exit 5", stdin=pipe.reader, mode="open").code == 5
        assert time.monotonic() - started < 10

    def test_both_directions_move_while_the_program_runs(self, remote: Remote, pipe: Pipe) -> None:
        """It asks, we answer: output arrives before the end, stdin is passed on before it ends."""
        out = Told()

        def answer() -> None:
            if out.arrived.wait(10):
                os.write(pipe.writer, b"answer\n")

        thread = threading.Thread(target=answer)
        thread.start()
        script = 'echo ask; read -r said; echo "got $said"'
        ran = remote.run("sh", "-c", script, stdin=pipe.reader, mode="open", stdout=out, seconds=15)
        thread.join()
        assert (ran.code, out.getvalue()) == (0, b"ask\ngot answer\n")

    # --- output -----------------------------------------------------------------------------------------

    def test_every_byte_value_passes_unchanged_on_either_stream(self, remote: Remote) -> None:
        data = bytes(range(256)) * 3
        out, err = remote.run("cat", stdin=data), remote.run("sh", "-c", "cat >&2", stdin=data)
        assert (out.out, out.err) == (data, b"")
        assert (err.out, err.err) == (b"", data)

    def test_nothing_is_added_to_output_without_a_last_newline(self, remote: Remote) -> None:
        ran = remote.run("sh", "-c", "printf out; printf err >&2")
        assert (ran.out, ran.err) == (b"out", b"err")

    def test_large_output_is_whole_and_in_order_on_both_streams(
        self, loaded: Plugin, ctx_factory: MakeContext, remote: Remote
    ) -> None:
        from sky.api import Command

        script = "i=0; while [ $i -lt 20000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done"
        busy = threading.Lock()
        out, err = OneAtATime(busy), OneAtATime(busy)
        code = loaded.hook.sky_run(
            ctx=ctx_factory(),
            host=remote.host,
            command=Command(argv=("sh", "-c", script)),
            stdin=None,
            stdout=out,
            stderr=err,
        )
        assert code == 0
        for name, stream in (("out", out), ("err", err)):
            expected = "".join(f"{name} {i}\n" for i in range(20000)).encode()
            assert digest(stream.getvalue()) == digest(expected), f"{len(stream.getvalue())} bytes"
        assert not out.overlapped and not err.overlapped, "write is called from one thread at a time"

    # --- where it runs ----------------------------------------------------------------------------------

    def test_the_working_directory_is_the_home_directory(self, remote: Remote) -> None:
        here, home, writable = remote.sh(
            'pwd -P; cd "$HOME" && pwd -P; [ -w . ] && echo writable'
        ).decode().splitlines()  # fmt: skip
        assert here == home
        assert here.startswith("/") and writable == "writable"

    def test_nothing_of_one_command_is_left_for_the_next(self, remote: Remote) -> None:
        remote.sh("cd /; export SKY_KIT_LEFT=1; umask 077")
        assert remote.sh('printf %s "${SKY_KIT_LEFT-unset}"') == b"unset"

    def test_several_threads_may_use_one_host(self, remote: Remote) -> None:
        said: dict[int, tuple[int, bytes]] = {}

        def work(number: int) -> None:
            ran = remote.run("sh", "-c", f"cat; exit {number}", stdin=b"%d" % number * 50000)
            said[number] = (ran.code, ran.out)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert said == {number: (number, b"%d" % number * 50000) for number in range(8)}

    # --- how it fails -----------------------------------------------------------------------------------

    @pytest.mark.parametrize("program", ["sky-kit-no-such-program", "/no/such/program", "./no such"])
    def test_a_missing_program_is_named(self, remote: Remote, program: str) -> None:
        with pytest.raises(ProgramMissing) as raised:
            remote.run(program, "argument")
        assert raised.value.program == program

    def test_the_deadline_ends_it(self, remote: Remote) -> None:
        started = time.monotonic()
        with pytest.raises(TimedOut):
            remote.run("sleep", "30", seconds=1.0)
        assert 0.9 < time.monotonic() - started < 4

    def test_a_deadline_that_has_passed_runs_nothing_to_its_end(self, remote: Remote) -> None:
        with pytest.raises(TimedOut):
            remote.run("sleep", "30", seconds=-1.0)

    def test_cancelling_ends_it_within_a_second(self, remote: Remote) -> None:
        cancel, out, when = CancelToken(), Told(), []

        def give_up() -> None:
            out.arrived.wait(30)
            when.append(time.monotonic())
            cancel.cancel()

        thread = threading.Thread(target=give_up)
        thread.start()
        with pytest.raises(Cancelled):
            remote.run("sh", "-c", "echo started; exec sleep 30", cancel=cancel, stdout=out)
        took = time.monotonic() - when[0]
        thread.join()
        assert out.getvalue() == b"started\n"
        assert took < 1.5, "a second, and half of one for a busy machine"

    def test_what_write_raises_is_raised_unchanged_and_ends_the_program(
        self, remote: Remote, scratch: str
    ) -> None:
        error = KeyError("the reader has left")
        script = f"echo $$ >{scratch}/pid; while :; do echo x; sleep 0.05; done"
        with pytest.raises(KeyError) as raised:
            remote.run("sh", "-c", script, stdout=Failing(error, after=4))
        assert raised.value is error
        alive = f"kill -0 $(cat {scratch}/pid) 2>/dev/null && echo alive || true"
        eventually(lambda: remote.sh(alive) == b"", 15)

    @pytest.mark.parametrize("after", [0, 100_000])
    def test_what_read_raises_is_raised_unchanged(self, remote: Remote, after: int) -> None:
        error = KeyError("the source is broken")
        with pytest.raises(KeyError) as raised:
            remote.run("sh", "-c", "cat >/dev/null; sleep 20", stdin=Failing(error, after=after))
        assert raised.value is error

    def test_a_host_that_is_no_more_is_an_error(
        self, loaded: Plugin, ctx_factory: MakeContext, gone_remote: Remote
    ) -> None:
        """`HostGone` where the transport can tell; never an exit code."""
        with pytest.raises((ConnectionLost, Unreachable)):
            gone_remote.run("true", seconds=30)

    @pytest.fixture
    def pipe(self) -> Iterator[Pipe]:
        """A stdin that stays open."""
        made = Pipe()
        yield made
        made.close()


class Pipe:
    """`reader` gives what was written to the descriptor `writer`, as it comes."""

    def __init__(self) -> None:
        read, self.writer = os.pipe()
        self.reader: BinaryIO = open(read, "rb", buffering=0)  # noqa: SIM115

    def close(self) -> None:
        # The writing end first: a thread of the runner may still be reading.
        os.close(self.writer)
        self.reader.close()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
