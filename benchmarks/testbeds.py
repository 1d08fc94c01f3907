"""Where things are measured: this machine, the testbed's SSH hosts, and its Kubernetes."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import ssh_lab

from benchmarks.commands import down_all, hosts, sky

SCRIPTS = Path(__file__).resolve().parents[1] / "tests" / "testbed"
CACHE = Path(os.environ.get("SKY_TESTBED") or Path.home() / ".cache/sky-testbed")
DEBIAN, BUSYBOX = (f"docker.io/library/{name}:testbed" for name in ("debian", "busybox"))
OURS = "sky.dev/cluster-name in (bench, bench-new)"


@dataclass(frozen=True)
class Node:
    """A node of a cluster, reached by plain tools alone."""

    shell: Sequence[str]
    """Before a command that is to run there."""
    remote_shell: str
    """As rsync's `-e` takes it."""
    rsync_host: str
    home: str
    """Where `CLUSTER:PATH` begins; on a disk."""
    memory: str = ""
    """A directory in memory with room for all that is sent, where there is one."""


class Local:
    """Processes on this machine."""

    name = "local"
    ask = ("--infra", "local", "-y")

    def down_all(self) -> None:
        """Leave no cluster, and nothing that still ends."""
        down_all()


class Kubernetes:
    """Pods of the testbed's cluster; KUBECONFIG is its."""

    name = "kubernetes"
    kubectl = str(CACHE / "kubernetes/bin/kubectl")
    ask = (
        "--infra",
        "kubernetes",
        "--image-id",
        f"docker:{BUSYBOX}",
        "--cpus",
        "0.05",
        "--memory",
        "0.1",
        "-y",
    )
    ask_debian = (*ask[:3], f"docker:{DEBIAN}", "--cpus", "0.1", "--memory", "0.2", "-y")

    def down_all(self) -> None:
        """Leave no cluster, and nothing that still ends: pods that do would keep the machine busy."""
        down_all()
        command = [self.kubectl, "delete", "pods", "-l", OURS, "--ignore-not-found", "--wait"]
        subprocess.run(command, check=True, capture_output=True)

    @contextlib.contextmanager
    def node(self, cluster: str) -> Iterator[Node]:
        """A new cluster, of the image that has rsync."""
        sky("launch", "-c", cluster, *self.ask_debian, "--", "true")
        try:
            pod = hosts(cluster)[0]["name"]
            with tempfile.TemporaryDirectory() as name:
                script = Path(name, "remote-shell")
                script.write_text(f'#!/bin/sh\npod=$1\nshift\nexec {self.kubectl} exec -i "$pod" -- "$@"\n')
                script.chmod(0o700)
                yield Node((self.kubectl, "exec", "-i", pod, "--"), str(script), pod, "/root")
        finally:
            sky("down", cluster, "-y")


class SSH:
    """Pools `one` (h1) and `three` (h1, h2, h3) of the testbed's hosts."""

    name = "ssh"
    ask = ("--infra", "ssh/three", "-y")
    ask_one = ("--infra", "ssh/one", "-y")
    addresses = ("10.77.0.11", "10.77.0.12", "10.77.0.13")
    user = "lab2"
    state = CACHE / "ssh" / "state"

    def __init__(self, runtime: Path) -> None:
        self._sockets = runtime / "sky-ssh"

    @property
    def cold(self) -> list[str]:
        """ssh to h1 with a connection of its own."""
        told = {
            "IdentityFile": str(self.state / "id_ed25519"),
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": str(self.state / "known_hosts"),
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            "LogLevel": "ERROR",
        }
        options = [word for key, value in told.items() for word in ("-o", f"{key}={value}")]
        return ["ssh", "-F", "none", "-T", *options, f"{self.user}@{self.addresses[0]}"]

    def down_all(self) -> None:
        """Leave no cluster; connections stay."""
        down_all()

    def disconnect(self) -> None:
        """Close the connections that sky keeps."""
        for path in self._sockets.glob("*"):
            if path.is_socket():
                command = ["ssh", "-F", "none", "-S", str(path), "-O", "exit", "host"]
                subprocess.run(command, capture_output=True, check=True)

    def warm(self, cluster: str) -> list[str]:
        """ssh to the cluster's only node over the connection that sky's own commands share."""
        self.disconnect()
        sky("exec", cluster, "--", "true")
        (socket,) = (path for path in self._sockets.glob("*") if path.is_socket())
        return ["ssh", "-F", "none", "-T", "-o", "BatchMode=yes", "-S", str(socket)]

    @contextlib.contextmanager
    def node(self, cluster: str) -> Iterator[Node]:
        """A new cluster on h1, with a connection that is kept."""
        sky("launch", "-c", cluster, *self.ask_one, "--", "true")
        try:
            ssh = self.warm(cluster)
            yield Node((*ssh, "host"), " ".join(ssh), "host", f"/home/{self.user}", "/dev/shm")
        finally:
            sky("down", cluster, "-y")

    def pools(self, lease_dir: str) -> str:
        """The text of the pools file. The leases are ours alone: others may use the hosts meanwhile."""
        common = {
            "user": self.user,
            "identity_file": str(self.state / "id_ed25519"),
            "known_hosts": str(self.state / "known_hosts"),
            "lease_dir": lease_dir,
        }
        one, three = {**common, "hosts": self.addresses[:1]}, {**common, "hosts": self.addresses}
        return json.dumps({"one": one, "three": three})  # JSON is YAML


@contextlib.contextmanager
def kubernetes() -> Iterator[Kubernetes | None]:
    """None, with a line that says so, where there is no testbed."""
    if not Path(Kubernetes.kubectl).exists():
        print("  kubernetes: left out, there is no testbed here (make testbed)")
        yield None
        return
    _up("kubernetes.sh")
    with _environment(KUBECONFIG=str(CACHE / "kubernetes/kubeconfig")):
        yield Kubernetes()


@contextlib.contextmanager
def ssh(sky_home: Path) -> Iterator[SSH | None]:
    """None, with a line that says so, where there can be none. $HOME is another meanwhile: a launch writes
    to ~/.ssh/config. Nobody breaks the hosts meanwhile."""
    if os.geteuid() != 0 or not Path("/usr/sbin/sshd").exists() or shutil.which("unshare") is None:
        print("  ssh: left out, the testbed of hosts needs root and sshd")
        yield None
        return
    lease_dir = f"/tmp/sky-lease-bench-{os.getpid()}"
    # A socket's path must be short.
    with (
        ssh_lab.held(),
        tempfile.TemporaryDirectory(prefix="sky-", dir="/tmp") as runtime,
        tempfile.TemporaryDirectory() as home,
        _environment(HOME=home, XDG_RUNTIME_DIR=runtime, SKY_TESTBED=str(CACHE), SSH_AUTH_SOCK=""),
    ):
        _up("ssh-hosts.sh")
        bed = SSH(Path(runtime))
        Path(home, ".ssh").mkdir(mode=0o700)
        (sky_home / "ssh_node_pools.yaml").write_text(bed.pools(lease_dir))
        try:
            yield bed
        finally:
            down_all()
            bed.disconnect()
            (sky_home / "ssh_node_pools.yaml").unlink()
            for host in ("h1", "h2", "h3"):  # a host's /tmp is a directory of the testbed's
                shutil.rmtree(bed.state / "hosts" / host / lease_dir.lstrip("/"), ignore_errors=True)


def _up(script: str) -> None:
    done = subprocess.run(
        ["bash", str(SCRIPTS / script), "up"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{script} up: {done.returncode}\n{os.fsdecode(done.stderr)}")


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
