"""The testbed's SSH hosts, and an installed `sky` whose pools they are: what the fixture `ssh_sky` gives."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from sky_command import Sky, eventually

from testbed import ssh_lab

SCRIPT = Path(__file__).resolve().parents[1] / "testbed" / "ssh-hosts.sh"
STATE = Path(os.environ.get("SKY_TESTBED", "~/.cache/sky-testbed")).expanduser() / "ssh" / "state"
NAMES = ("h1", "h2", "h3", "bastion", "inner")
LAB = {"h1": "10.77.0.11", "h2": "10.77.0.12", "h3": "10.77.0.13"}
"""The hosts of pool `lab`, and their addresses."""


def missing() -> str:
    """Why there can be no testbed here; empty if there can."""
    if os.geteuid() == 0 and shutil.which("unshare") and Path("/usr/sbin/sshd").exists():
        return ""
    return "no SSH testbed: it needs root, and sshd"


@dataclass
class Hosts:
    """The hosts themselves, not by ssh. They are shared: break them within `destroying()` only."""

    state: Path = STATE
    broken: bool = False
    """Whether `destroying` was used within the present `shared`."""
    _lock: IO[str] | None = field(default=None, repr=False)

    def script(self, *words: str, seconds: float = 60) -> str:
        """What ssh-hosts.sh printed; it must succeed."""
        done = subprocess.run(
            ["bash", str(SCRIPT), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, f"ssh-hosts.sh {' '.join(words)}: {done.stderr}"
        return done.stdout

    def on(self, name: str, script: str) -> str:
        """What a shell script prints, as root on a host."""
        return self.script("exec", name, "sh", "-c", script)

    def up(self) -> None:
        """All are started and connected. Those that are stay as they are."""
        states = dict(line.split()[:2] for line in self.script("status").splitlines() if " " in line)
        if [states.get(name) for name in NAMES] != ["up"] * len(NAMES):
            self.script("up", "3")
            for name in NAMES:
                self.script("heal", name)

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Nobody breaks hosts meanwhile. Blocks while somebody does."""
        with ssh_lab.held() as self._lock:
            self.up()
            self.broken = False
            yield
        self._lock = None

    @contextlib.contextmanager
    def destroying(self) -> Iterator[None]:
        """Within `shared()`: nobody else uses hosts meanwhile; afterwards they are whole again."""
        assert self._lock is not None
        # This lets go of what we share first: of two who ask, both get it, one after the other.
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.broken = True
        try:
            self.up()
            yield
        finally:
            self.up()
            fcntl.flock(self._lock, fcntl.LOCK_SH)


def pools(hosts: Hosts, lease_dir: str) -> dict[str, Any]:
    """`lab` is h1, h2 and h3; `behind` is `inner`, which is reached through the bastion only."""
    common = {
        "user": "lab",
        "identity_file": str(hosts.state / "id_ed25519"),
        "known_hosts": str(hosts.state / "known_hosts"),
        "lease_dir": lease_dir,
    }
    lab = [{"name": name, "host": address} for name, address in LAB.items()]
    behind = [{"name": "inner", "host": "10.77.1.10"}]
    return {
        "lab": {**common, "hosts": lab},
        "behind": {**common, "hosts": behind, "proxy_jump": "lab@10.77.0.200"},
    }


def ssh_home(root: Path, hosts: Hosts) -> Iterator[Sky]:
    """What `ssh_sky` gives. Afterwards its clusters are given back and its connections closed.

    Its leases are its own, so that several can use the same hosts at once. `~/.ssh/config` names the hosts, too.
    """
    lease_dir = f"/tmp/sky-lease-{uuid.uuid4().hex[:8]}"
    # A socket's path must be short, which that of a test's directory isn't.
    with hosts.shared(), tempfile.TemporaryDirectory(prefix="sky-") as runtime:
        made = Sky(root, {"XDG_RUNTIME_DIR": runtime, "KUBECONFIG": str(root / "no-kubeconfig")})
        (made.state / "ssh_node_pools.yaml").write_text(json.dumps(pools(hosts, lease_dir)))  # JSON is YAML
        (made.home / ".ssh").mkdir(mode=0o700)
        shutil.copy(hosts.state / "ssh_config", made.home / ".ssh" / "config")
        (made.home / ".ssh" / "config").chmod(0o600)
        try:
            yield made
        finally:
            made.clean()
            disconnect(Path(runtime), by_force=hosts.broken)
            for name in NAMES:  # a host's /tmp is a directory of the testbed's
                shutil.rmtree(hosts.state / "hosts" / name / lease_dir.lstrip("/"), ignore_errors=True)


def disconnect(runtime: Path, *, by_force: bool) -> None:
    """Close the connections whose sockets are there; fails if one stays.

    A connection that was being made to a host without network outlives the command that wanted it; when the host
    is back it has no socket of its own if a later command was faster. `by_force` ends those, too.
    """
    for socket in (runtime / "sky-ssh").glob("*"):
        if socket.is_socket():
            exit_ = ["ssh", "-F", "none", "-S", str(socket), "-O", "exit", "host"]
            subprocess.run(exit_, capture_output=True, timeout=20, check=False)
    if by_force:
        for pid in masters(runtime):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    eventually(lambda: not masters(runtime), 10, f"ssh still runs: {masters(runtime)}")


def masters(runtime: Path) -> dict[int, str]:
    """Programs that are connected by way of that directory, by pid."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = file.read_text(errors="replace").replace("\0", " ")
            if str(runtime / "sky-ssh") in words:
                found[int(file.parent.name)] = words
    return found
