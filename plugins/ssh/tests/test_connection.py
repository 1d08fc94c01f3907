"""Connections: kept, shared, lost, refused. On real hosts."""

from __future__ import annotations

import io
import os
import random
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ssh_fixtures import RUNNER, Lab, MakeContext, Ran, Sshd, alias, eventually, sockets

from sky.api import (
    Cancelled,
    CancelToken,
    Command,
    ConnectionLost,
    CredentialsError,
    Host,
    SkyError,
    TimedOut,
    Unreachable,
    UsageError,
)

LOST_SECONDS = 15
"""Two questions unanswered, four seconds each, and some for a busy machine."""


class Background(threading.Thread):
    """One command that runs meanwhile; `error` is what it ended with."""

    def __init__(self, make_context: MakeContext, host: Host, *argv: str) -> None:
        super().__init__()
        self.started = threading.Event()
        self.error: BaseException | None = None
        self.code: int | None = None
        self._ctx = make_context(seconds=120)
        self._host, self._argv = host, argv
        self.start()
        assert self.started.wait(20), "the command never printed anything"

    def run(self) -> None:
        started = self.started

        class Sink(io.BytesIO):
            def write(self, data: object, /) -> int:
                started.set()
                return super().write(data)  # type: ignore[arg-type]

        try:
            self.code = RUNNER.sky_run(
                self._ctx, self._host, Command(argv=self._argv), None, Sink(), io.BytesIO()
            )
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error


# --- lost --------------------------------------------------------------------------------------------

LONG = ("sh", "-c", "echo started; sleep 100")


def test_a_connection_killed_in_mid_command_is_never_a_code(lab: Lab, make_context: MakeContext) -> None:
    with lab.sshd() as server:
        running = Background(make_context, server.host(), *LONG)
        server.signal("KILL", listener=False)
        running.join(20)
        assert isinstance(running.error, ConnectionLost), running.code
        assert Ran(make_context(), server.host(), "echo", "again").out == b"again\n"


def test_the_local_master_killed_in_mid_command_is_never_a_code(lab: Lab, make_context: MakeContext) -> None:
    with lab.sshd() as server:
        before = set(sockets())
        running = Background(make_context, server.host(), *LONG)
        (ours,) = set(sockets()) - before
        os.kill(master_pid(ours), 9)
        running.join(20)
        assert isinstance(running.error, ConnectionLost), running.code


def master_pid(socket: Path) -> int:
    said = subprocess.run(
        ["ssh", "-F", "none", "-S", str(socket), "-O", "check", "host"], capture_output=True, text=True
    )
    found = re.search(r"pid=(\d+)", said.stderr)
    assert found, said.stderr
    return int(found[1])


def test_a_master_that_died_is_replaced_without_a_word(lab: Lab, make_context: MakeContext) -> None:
    with lab.sshd() as server:
        before = set(sockets())
        assert Ran(make_context(), server.host(), "true").code == 0
        (ours,) = set(sockets()) - before
        os.kill(master_pid(ours), 9)
        ran = Ran(make_context(), server.host(), "echo", "again")
        assert (ran.out, ran.err) == (b"again\n", b"")


def test_stdin_is_whole_when_a_dead_connection_is_replaced(lab: Lab, make_context: MakeContext) -> None:
    """What was read for the attempt that nobody took is given to the next."""
    data = random.Random(3).randbytes(3_000_000)
    with lab.sshd() as server:
        before = set(sockets())
        assert Ran(make_context(), server.host(), "true").code == 0
        (ours,) = set(sockets()) - before
        os.kill(master_pid(ours), 9)
        assert Ran(make_context(), server.host(), "cat", stdin=data).out == data


@pytest.mark.parametrize("silence", ["the host hangs", "the network is cut"])
def test_silence_is_noticed(lab: Lab, make_context: MakeContext, silence: str) -> None:
    """A running command is lost, a new one doesn't begin, and when all is well again it's as before."""
    if silence == "the host hangs":
        with lab.sshd() as server:
            _silence(
                make_context,
                server.host(),
                lambda: server.signal("STOP", listener=True),
                lambda: server.signal("CONT", listener=True),
            )
    else:
        with lab.destroying():
            _silence(
                make_context,
                alias("inner"),
                lambda: lab.script("cut", "inner"),
                lambda: lab.script("heal", "inner"),
            )


def _silence(
    make_context: MakeContext, host: Host, begin: Callable[[], object], end: Callable[[], object]
) -> None:
    running = Background(make_context, host, *LONG)
    begin()
    try:
        started = time.monotonic()
        running.join(60)
        took = time.monotonic() - started
        assert isinstance(running.error, ConnectionLost), running.code
        assert took < LOST_SECONDS
        with pytest.raises((Unreachable, ConnectionLost)):
            Ran(make_context(seconds=40), host, "true")
    finally:
        end()
    assert Ran(make_context(), host, "echo", "healed").out == b"healed\n"


def test_a_command_that_begins_in_silence_is_unreachable_not_lost(
    lab: Lab, make_context: MakeContext
) -> None:
    """The kept connection doesn't know yet; nothing was started, so it's tried anew."""
    with lab.sshd() as server:
        assert Ran(make_context(), server.host(), "true").code == 0
        server.signal("STOP", listener=True)
        try:
            with pytest.raises(Unreachable, match="doesn't answer"):
                Ran(make_context(seconds=60), server.host(), "true")
        finally:
            server.signal("CONT", listener=True)


def test_connecting_respects_the_deadline_and_the_token(lab: Lab, make_context: MakeContext) -> None:
    with lab.sshd() as server:
        server.signal("STOP", listener=True)
        started = time.monotonic()
        with pytest.raises((TimedOut, Unreachable)):
            Ran(make_context(seconds=1.5), server.host(), "true")
        assert time.monotonic() - started < 4
        token = CancelToken()
        threading.Timer(0.5, token.cancel).start()
        started = time.monotonic()
        with pytest.raises(Cancelled):
            Ran(make_context(cancel=token), server.host(), "true")
        assert time.monotonic() - started < 2
        server.signal("CONT", listener=True)


def test_those_who_wait_for_a_connection_share_its_failure(lab: Lab, make_context: MakeContext) -> None:
    """Ten at once to a dead host take as long as one."""
    host = lab.plain("10.77.0.98")
    failed: list[BaseException] = []

    def work() -> None:
        try:
            Ran(make_context(seconds=60), host, "true")
        except SkyError as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(10)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(error) for error in failed] == [Unreachable] * 10
    assert time.monotonic() - started < 10, "no route is known after three seconds"


def test_a_server_too_busy_to_greet_is_asked_again(lab: Lab, make_context: MakeContext) -> None:
    with lab.sshd(MaxStartups="1") as server:
        stranger = socket.create_connection((server.address, server.port), 10)
        assert stranger.recv(64).startswith(b"SSH-2.0")
        codes: list[int] = []
        thread = threading.Thread(
            target=lambda: codes.append(Ran(make_context(), server.host(), "true").code)
        )
        thread.start()
        eventually(lambda: "MaxStartups" in server.log() or "drop connection" in server.log())
        stranger.close()
        thread.join()
        assert codes == [0]


# --- host keys ---------------------------------------------------------------------------------------


def test_an_unknown_host_key_is_refused_with_the_file_to_write(lab: Lab, make_context: MakeContext) -> None:
    with lab.sshd() as server:
        server.known_hosts.write_text("")
        with pytest.raises(Unreachable, match="isn't known") as raised:
            Ran(make_context(), server.host(), "true")
        assert str(server.known_hosts) in raised.value.remedy
        _follow(raised.value.remedy.partition(": ")[2])
        assert Ran(make_context(), server.host(), "true").code == 0, "the remedy must be one"


@pytest.mark.parametrize("host_keys", ["strict", "first-use"])
def test_a_changed_host_key_is_refused_with_the_remedy(
    lab: Lab, make_context: MakeContext, host_keys: str
) -> None:
    with lab.sshd() as server:
        host = server.host(host_keys=host_keys)
        assert Ran(make_context(), host, "true").code == 0
        _set_up_anew(server)
        with pytest.raises(Unreachable, match="changed") as raised:
            Ran(make_context(), host, "true")
        assert not raised.value.retryable
        _follow(raised.value.remedy.partition(": ")[2])
        later = server.host(host_keys="first-use")
        assert Ran(make_context(), later, "true").code == 0, "the remedy must be one"


def _set_up_anew(server: Sshd) -> None:
    """Another machine at the same address."""
    known = server.known_hosts.read_text()
    server.stop()
    (server.shared / "pid").unlink(missing_ok=True)
    server.new_host_key()
    server.start()
    server.known_hosts.write_text(known)


def _follow(remedy: str) -> None:
    done = subprocess.run(["sh", "-c", remedy], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr


def test_first_use_learns_a_key_and_strict_then_takes_it(
    lab: Lab, make_context: MakeContext, tmp_path: Path
) -> None:
    with lab.sshd() as server:
        known = tmp_path / "a directory" / "known hosts"
        assert (
            Ran(make_context(), server.host(host_keys="first-use", known_hosts=str(known)), "true").code == 0
        )
        assert f"]:{server.port} " in known.read_text()
        assert Ran(make_context(), server.host(known_hosts=str(known)), "true").code == 0


def test_two_ports_of_one_address_are_two_hosts(lab: Lab, make_context: MakeContext, tmp_path: Path) -> None:
    known = str(tmp_path / "known_hosts")
    with lab.sshd() as one, lab.sshd() as other:
        for server in (one, other):
            host = server.host(host_keys="first-use", known_hosts=known)
            ran = Ran(make_context(), host, "sh", "-c", 'set -- $SSH_CONNECTION; echo "$4"')
            assert ran.out == b"%d\n" % server.port
        assert len(Path(known).read_text().splitlines()) == 2


# --- refused -----------------------------------------------------------------------------------------


def test_why_a_host_cannot_be_reached(lab: Lab, make_context: MakeContext, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(stranger)], check=True)
    broken = tmp_path / "broken"
    broken.write_text("this is no key\n")
    broken.chmod(0o600)
    cases: list[tuple[Host, type[SkyError], str]] = [
        (lab.plain(port="9"), Unreachable, "refused the connection"),
        (lab.plain("no-such-host.invalid"), Unreachable, "name is unknown"),
        (lab.plain("10.77.1.10"), Unreachable, "no route"),
        (lab.plain(user="nobody"), CredentialsError, "none of the keys offered for nobody"),
        (lab.plain(key=str(stranger)), CredentialsError, "none of the keys offered for lab"),
        (lab.plain(key=str(tmp_path / "absent")), CredentialsError, "absent can't be read: No such file"),
        (lab.plain(key=str(broken)), CredentialsError, "broken can't be used"),
        (lab.plain("10.77.1.10", proxy_jump="10.77.0.200:9"), Unreachable, "by 10.77.0.200.*refused"),
        (lab.plain(host_keys="whatever"), UsageError, "host_keys"),
        (lab.plain(port="ssh"), UsageError, "'ssh' is no port"),
        (lab.plain("-oProxyCommand=touch /tmp/x"), UsageError, "is no host"),
        (Host(transport="ssh", address={"host": "h1", "identity": "x"}), UsageError, "identity"),
    ]
    for host, kind, words in cases:
        with pytest.raises(kind, match=words) as raised:
            Ran(make_context(), host, "true")
        assert "\n" not in raised.value.message
        assert raised.value.remedy or kind is UsageError


def test_a_key_that_others_may_read_is_refused_with_the_remedy(
    lab: Lab, make_context: MakeContext, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_bytes(lab.key.read_bytes())
    key.chmod(0o644)
    with pytest.raises(CredentialsError, match="others may read") as raised:
        Ran(make_context(), lab.plain(key=str(key)), "true")
    _follow(raised.value.remedy)
    assert Ran(make_context(), lab.plain(key=str(key)), "true").code == 0


# --- kept --------------------------------------------------------------------------------------------


def test_disconnecting_ends_what_is_kept_and_may_be_repeated(lab: Lab, make_context: MakeContext) -> None:
    with lab.sshd() as server:
        before = set(sockets())
        assert Ran(make_context(), server.host(), "true").code == 0
        (ours,) = set(sockets()) - before
        pid = master_pid(ours)
        for _ in range(2):
            RUNNER.sky_disconnect(make_context(), server.host())
        eventually(lambda: not Path(f"/proc/{pid}").exists())
        assert not ours.exists()


def test_an_idle_connection_ends_by_itself(lab: Lab, make_context: MakeContext) -> None:
    with lab.sshd() as server:
        before = set(sockets())
        assert Ran(make_context({"control_persist": 1}), server.host(), "true").code == 0
        (ours,) = set(sockets()) - before
        eventually(lambda: not ours.exists())


@pytest.mark.parametrize("mode", [0o755, 0o770])
def test_a_directory_of_sockets_that_others_may_enter_is_refused(
    lab: Lab, make_context: MakeContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int
) -> None:
    runtime = Path(os.environ["XDG_RUNTIME_DIR"]) / f"m{mode:o}"
    (runtime / "sky-ssh").mkdir(parents=True)
    (runtime / "sky-ssh").chmod(mode)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    with pytest.raises(SkyError, match="isn't a private directory"):
        Ran(make_context(), alias("h1"), "true")


def test_a_link_in_the_place_of_the_directory_is_refused(
    lab: Lab, make_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = Path(os.environ["XDG_RUNTIME_DIR"]) / "link"
    (runtime / "elsewhere").mkdir(mode=0o700, parents=True)
    (runtime / "sky-ssh").symlink_to("elsewhere")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    with pytest.raises(SkyError, match="isn't a private directory"):
        Ran(make_context(), alias("h1"), "true")
