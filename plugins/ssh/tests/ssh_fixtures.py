"""What the fixtures of `conftest.py` give, as types that test modules can name."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sky.api import Command, Context, Host
from sky_ssh.plugin import SSHRunner
from testbed import ssh_lab

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "tests" / "testbed" / "ssh-hosts.sh"
STATE = Path(os.environ.get("SKY_TESTBED", "~/.cache/sky-testbed")).expanduser() / "ssh" / "state"
OUTSIDE, INSIDE = "10.77.0", "10.77.1"

MakeContext = Callable[..., Context]
RUNNER = SSHRunner()


@dataclass(frozen=True)
class Lab:
    """The testbed's hosts: h1, h2, h3, bastion, and inner behind it. HOME's ssh config names them."""

    home: Path
    """HOME of all tests; its .ssh/config is the testbed's."""
    key: Path = STATE / "id_ed25519"
    known_hosts: Path = STATE / "known_hosts"

    @property
    def config(self) -> Path:
        return self.home / ".ssh" / "config"

    def script(self, *words: str, seconds: float = 60) -> str:
        """What ssh-hosts.sh printed; it must succeed."""
        done = subprocess.run(
            ["bash", str(SCRIPT), *words], capture_output=True, text=True, timeout=seconds, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def on(self, name: str, script: str) -> str:
        """Run a shell script as root on a host, not by ssh."""
        return self.script("exec", name, "sh", "-c", script)

    def plain(self, address: str = f"{OUTSIDE}.11", **more: str) -> Host:
        """A host by its address alone, whatever the ssh config says."""
        own = {"user": "lab", "key": str(self.key), "known_hosts": str(self.known_hosts), "config": "none"}
        return Host(
            transport="ssh", name=address, address={"host": address, "host_keys": "strict", **own, **more}
        )

    @contextlib.contextmanager
    def destroying(self) -> Iterator[None]:
        """One at a time breaks hosts; they are whole again afterwards."""
        with ssh_lab.held(alone=True):
            try:
                yield
            finally:
                self.script("up")

    @contextlib.contextmanager
    def sshd(self, name: str = "h2", address: str = f"{OUTSIDE}.12", **options: str) -> Iterator[Sshd]:
        """An sshd of the test's own on a host, on a port and with a host key of its own."""
        server = Sshd(self, name, address, options)
        try:
            server.start()
            yield server
        finally:
            server.stop()


class Sshd:
    """See `Lab.sshd`."""

    def __init__(self, lab: Lab, name: str, address: str, options: Mapping[str, str]) -> None:
        self._lab, self._name, self.address, self._options = lab, name, address, options
        self.shared = Path(tempfile.mkdtemp(dir=STATE / "hosts" / name / "tmp", prefix="sshd-"))
        self.shared.chmod(0o755)
        self.there = f"/tmp/{self.shared.name}"
        """`shared`, as the host names it."""
        self.port = 20000 + (os.getpid() * 7 + time.time_ns() // 1000) % 20000
        self.known_hosts = self.shared / "known_hosts"
        self.new_host_key()

    def new_host_key(self) -> None:
        """Another key, as a machine set up anew has; not written to `known_hosts`."""
        key = self.shared / "host_key"
        for path in (key, self.shared / "host_key.pub"):
            path.unlink(missing_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)

    def know(self) -> None:
        """Write the present host key to `known_hosts`."""
        kind, key = (self.shared / "host_key.pub").read_text().split()[:2]
        self.known_hosts.write_text(f"[{self.address}]:{self.port} {kind} {key}\n")

    def start(self) -> None:
        settings = {
            "Port": str(self.port),
            "HostKey": f"{self.there}/host_key",
            "PidFile": f"{self.there}/pid",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "UsePAM": "no",
            "LogLevel": "VERBOSE",
            **self._options,
        }
        text = "".join(f"{key} {value}\n" for key, value in settings.items())
        (self.shared / "config").write_text(text)
        self.know()
        self._lab.on(self._name, f"/usr/sbin/sshd -f {self.there}/config -E {self.there}/log")
        eventually(lambda: (self.shared / "pid").exists())

    def host(self, **more: str) -> Host:
        """This server, as the account `lab`."""
        own = {"port": str(self.port), "known_hosts": str(self.known_hosts)}
        return self._lab.plain(self.address, **{**own, **more})

    def log(self) -> str:
        return (self.shared / "log").read_text(errors="replace")

    def signal(self, name: str, *, listener: bool) -> None:
        """Send a signal to the processes of its connections, and to the listener, too."""
        script = f"""
        ours() {{ case $(ps -o args= -p $1) in sshd:*) echo $1; tree $1;; esac; }}
        tree() {{ for c in $(ps -o pid= --ppid $1); do ours $c; done; }}
        p=$(cat {self.there}/pid); kill -{name} $(tree $p) {"$p" if listener else ""}
        """
        self._lab.on(self._name, script)

    def stop(self) -> None:
        if (self.shared / "pid").exists():
            with contextlib.suppress(AssertionError):  # a test has killed it
                self.signal("KILL", listener=True)


class Ran:
    """What came of one command on a host."""

    def __init__(
        self,
        ctx: Context,
        host: Host,
        *argv: str,
        stdin: BinaryIO | bytes | None = None,
        stdout: BinaryIO | None = None,
    ) -> None:
        out, err = io.BytesIO(), io.BytesIO()
        given = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
        self.code = RUNNER.sky_run(ctx, host, Command(argv=argv), given, stdout or out, err)
        self.out, self.err = out.getvalue(), err.getvalue()


def alias(name: str, **more: str) -> Host:
    """A host as the user's ssh config names it."""
    return Host(transport="ssh", name=name, address={"host": name, **more})


def eventually(check: Callable[[], object], seconds: float = 20.0) -> None:
    """Return as soon as `check()` is true; fail after `seconds`."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, f"it didn't come true within {seconds:g} s"
        time.sleep(0.05)


def sockets() -> list[Path]:
    """Those of the masters that are kept now."""
    directory = Path(os.environ["XDG_RUNTIME_DIR"]) / "sky-ssh"
    return [path for path in directory.glob("*") if path.is_socket()] if directory.exists() else []
