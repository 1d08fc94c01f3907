"""A terminal on a host, and ports of it. On real hosts."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import socket
import struct
import subprocess
import sys
import termios

import pytest
from ssh_fixtures import RUNNER, Lab, MakeContext, Ran, alias, eventually

from sky.api import Host, Unreachable, UsageError

SHELL = """
import json, sys, time
from pathlib import Path
from sky.api import Cache, CancelToken, Command, Context, Host
from sky_ssh.plugin import SSHRunner
address, argv = json.loads(sys.argv[1]), tuple(json.loads(sys.argv[2]))
ctx = Context(config={}, deadline=time.monotonic() + 60, cancel=CancelToken(), emit=print, cache=Cache(),
              directory=Path("/"))
host = Host(transport="ssh", name="h", address=address)
try:
    code = SSHRunner().sky_shell(ctx, host, Command(argv=argv) if argv else None)
except Exception as error:
    print(type(error).__name__)
    raise SystemExit(99)
sys.exit(code)
"""


class Terminal:
    """`sky_shell` in a process of its own, on a terminal of 33 rows and 77 columns."""

    def __init__(self, host: Host, *argv: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", SHELL, json.dumps(dict(host.address)), json.dumps(argv)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        os.set_blocking(self._ours, False)
        self.seen = b""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def shows(self, text: bytes) -> bool:
        with contextlib.suppress(BlockingIOError, OSError):  # EIO: the other end is closed
            while chunk := os.read(self._ours, 4096):
                self.seen += chunk
        return text in self.seen

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)


# --- terminals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("user", ["lab", "labtcsh", "labfish"])
def test_the_accounts_own_shell_on_a_terminal_of_the_callers_size(lab: Lab, user: str) -> None:
    with contextlib.closing(Terminal(lab.plain(user=user))) as terminal:
        terminal.type("stty size; pwd\n")
        eventually(lambda: terminal.shows(b"33 77") and terminal.shows(f"/home/{user}".encode()))
        terminal.type("exit 9\n")
        eventually(lambda: terminal.shows(b"") and terminal.process.poll() is not None)
        assert terminal.process.returncode == 9, terminal.seen


def test_a_command_gets_its_arguments_as_they_are(lab: Lab) -> None:
    words = ("sh", "-c", 'echo "[$1]"', "sh", "it's $HOME !!")
    with contextlib.closing(Terminal(lab.plain(user="labtcsh"), *words)) as terminal:
        eventually(lambda: terminal.shows(b"[it's $HOME !!]"))


def test_a_shell_that_lost_its_connection_ended_by_no_code(lab: Lab) -> None:
    with lab.sshd() as server, contextlib.closing(Terminal(server.host())) as terminal:
        terminal.type("echo rea''dy\n")
        eventually(lambda: terminal.shows(b"ready"))
        server.signal("KILL", listener=False)
        eventually(lambda: terminal.shows(b"ConnectionLost"))
        assert terminal.process.wait(20) == 99


def test_without_a_terminal_it_is_a_plain_run(lab: Lab) -> None:
    words = [sys.executable, "-P", "-c", SHELL, json.dumps({"host": "h1"}), "[]"]
    done = subprocess.run(words, input=b"echo out; echo err >&2; exit 4\n", capture_output=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (4, b"out\n", b"err\n")


# --- ports -------------------------------------------------------------------------------------------


def greeting(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.settimeout(10)
        return connection.recv(64)


def test_a_forward_leads_to_the_host_until_it_is_closed(lab: Lab, make_context: MakeContext) -> None:
    """Whatever becomes of the connections that commands share."""
    for host in (alias("h1"), lab.plain("10.77.1.10", proxy_jump="lab@10.77.0.200")):
        assert Ran(make_context(), host, "true").code == 0
        forward = RUNNER.sky_forward(make_context(), host, 22, None)
        try:
            assert greeting(forward.local_port).startswith(b"SSH-2.0")
            RUNNER.sky_disconnect(make_context(), host)
            assert greeting(forward.local_port).startswith(b"SSH-2.0")
        finally:
            forward.close()
        with pytest.raises(ConnectionRefusedError):
            greeting(forward.local_port)


def test_a_local_port_that_is_taken_is_refused(lab: Lab, make_context: MakeContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(UsageError, match=f"{port}: it's taken"):
            RUNNER.sky_forward(make_context(), alias("h1"), 22, port)
    forward = RUNNER.sky_forward(make_context(), alias("h1"), 22, port)
    assert forward.local_port == port
    forward.close()


def test_forwards_of_the_ssh_config_are_in_nobodys_way(ssh_config: Lab, make_context: MakeContext) -> None:
    """The user's own ssh to that host holds their ports already."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        own = ssh_config.config.read_text()
        ssh_config.config.write_text(
            f"{own}Host *\n  LocalForward {taken} 127.0.0.1:22\n  RemoteCommand false\n"
        )
        forward = RUNNER.sky_forward(make_context(), alias("h1"), 22, None)
        assert greeting(forward.local_port).startswith(b"SSH-2.0")
        forward.close()


def test_a_forward_that_cannot_connect_says_why(lab: Lab, make_context: MakeContext) -> None:
    with pytest.raises(Unreachable, match="refused"):
        RUNNER.sky_forward(make_context(), lab.plain(port="9"), 22, None)


FORWARD = """
import json, os, sys, time
from pathlib import Path
from sky.api import Cache, CancelToken, Context, Host
from sky_ssh.plugin import SSHRunner
ctx = Context(config={}, deadline=time.monotonic() + 60, cancel=CancelToken(), emit=print, cache=Cache(),
              directory=Path("/"))
host = Host(transport="ssh", name="h1", address={"host": "h1"})
print(SSHRunner().sky_forward(ctx, host, 22, None).local_port, flush=True)
time.sleep(60)
"""


def test_a_forward_ends_with_the_process_that_wanted_it(lab: Lab) -> None:
    process = subprocess.Popen([sys.executable, "-P", "-c", FORWARD], stdout=subprocess.PIPE)
    assert process.stdout is not None
    port = int(process.stdout.readline())
    assert greeting(port).startswith(b"SSH-2.0")
    process.kill()
    process.wait()
    process.stdout.close()

    def refused() -> bool:
        try:
            greeting(port)
        except OSError:
            return True
        return False

    eventually(refused)
