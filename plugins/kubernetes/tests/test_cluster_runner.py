"""The runner on a real Kubernetes; kubectl and the official client are the oracles."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import pty
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from kubernetes_fixtures import Cluster, MakeContext

from sky.api import Command, Context, Event, Host, HostGone, ProgramMissing, TimedOut
from sky_kubernetes.api_client import connect
from sky_kubernetes.plugin import KubernetesRunner

RUNNER = KubernetesRunner()
PODS = ("debian", "busybox", "user1000")


def manifest(name: str, image: str, **spec: Any) -> dict[str, Any]:
    """A pod that sleeps, as PID 1 of a shell that reaps what is orphaned."""
    container = {
        "name": "main",
        "image": f"{image}:testbed",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", "while :; do sleep 1000 & wait $!; done"],
        **spec,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1},
    }


@pytest.fixture(scope="module")
def pods(cluster: Cluster) -> Cluster:
    """`debian` and `busybox` as root; `user1000` with a root file system that can't be written."""
    restricted = {"runAsUser": 1000, "readOnlyRootFilesystem": True}
    items = [
        manifest("debian", "debian"),
        manifest("busybox", "busybox"),
        manifest("user1000", "busybox", securityContext=restricted),
    ]
    cluster.kubectl(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    )
    cluster.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=40s")
    return cluster


def host(cluster: Cluster, pod: str) -> Host:
    address = {"context": cluster.context, "namespace": cluster.namespace, "pod": pod, "container": "main"}
    return Host(transport="kubernetes", address=address, work_dir="/dev/shm/sky")


class Ran:
    def __init__(
        self,
        ctx: Context,
        where: Host,
        argv: tuple[str, ...],
        stdin: BinaryIO | None = None,
        mode: Any = "eof",
    ) -> None:
        self.out, self.err = io.BytesIO(), io.BytesIO()
        command = Command(argv=argv, stdin_mode=mode)
        self.code = RUNNER.sky_run(ctx, where, command, stdin, self.out, self.err)


def wait_until(what: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it never became true"
        time.sleep(0.05)


# --- codes and bytes ---------------------------------------------------------------------------------


def test_false_is_always_1(pods: Cluster, make_context: MakeContext) -> None:
    ctx = make_context(seconds=60)
    assert {Ran(ctx, host(pods, "debian"), ("false",)).code for _ in range(50)} == {1}


@pytest.mark.parametrize("pod", PODS)
def test_code_output_and_home(pods: Cluster, make_context: MakeContext, pod: str) -> None:
    script = 'echo out; echo err >&2; [ "$PWD" = "$HOME" ] && [ -w . ] && exit 7'
    ran = Ran(make_context(), host(pods, pod), ("sh", "-c", script))
    assert (ran.code, ran.out.getvalue(), ran.err.getvalue()) == (7, b"out\n", b"err\n")


@pytest.mark.parametrize("pod", PODS)
@pytest.mark.parametrize("size", [0, 1, 10_000_000])
def test_stdin_of_any_size(pods: Cluster, make_context: MakeContext, pod: str, size: int) -> None:
    data = os.urandom(size)
    ran = Ran(make_context(), host(pods, pod), ("sha256sum",), io.BytesIO(data))
    assert ran.out.getvalue().split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert Ran(make_context(), host(pods, pod), ("cat",), io.BytesIO(data)).out.getvalue() == data


def test_bytes_that_are_no_text(pods: Cluster, make_context: MakeContext) -> None:
    data = b"\xd4" + "漢".encode() * 5000 + gzip.compress(b"x" * 10000) + b"\x1e" * 40
    assert Ran(make_context(), host(pods, "debian"), ("cat",), io.BytesIO(data)).out.getvalue() == data


@pytest.mark.parametrize("pod", PODS)
def test_missing_program(pods: Cluster, make_context: MakeContext, pod: str) -> None:
    with pytest.raises(ProgramMissing, match="no-such-program"):
        Ran(make_context(), host(pods, pod), ("no-such-program", "x"))


def test_arguments_are_those_that_kubectl_gives(pods: Cluster, make_context: MakeContext) -> None:
    argv = ("printf", "[%s]", "a b", "$HOME", "*", "it's", "", "é\n", "--", "a&b=c+d%20")
    ours = Ran(make_context(), host(pods, "debian"), argv).out.getvalue()
    assert ours.decode() == pods.kubectl("exec", "debian", "--", *argv)


class Counter(io.RawIOBase):
    """Counts lines and digests bytes; keeps none."""

    def __init__(self) -> None:
        self.lines, self.digest = 0, hashlib.sha256()

    def write(self, data: Any) -> int:
        self.lines += bytes(data).count(b"\n")
        self.digest.update(data)
        return len(data)


def peak() -> int:
    """The most memory of this process since `forget_peak`, in KiB."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])


def forget_peak() -> int:
    """Begin anew, from what is used now: other tests may have used more."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


@pytest.mark.parametrize("lines", [1_000_000, pytest.param(20_000_000, marks=pytest.mark.soak)])
def test_every_line_of_much_output_arrives(pods: Cluster, make_context: MakeContext, lines: int) -> None:
    before = forget_peak()
    counter = Counter()
    command = Command(argv=("seq", "1", str(lines)))
    where = host(pods, "debian")
    code = RUNNER.sky_run(make_context(seconds=200), where, command, None, counter, io.BytesIO())  # type: ignore[arg-type]
    assert (code, counter.lines) == (0, lines)
    assert peak() - before < 50_000, "KiB more of memory"


class Zeros(io.RawIOBase):
    """So many zero bytes."""

    def __init__(self, size: int) -> None:
        self.left = size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        size = min(size, self.left)
        self.left -= size
        return bytes(size)


@pytest.mark.parametrize("megabytes", [50, pytest.param(2000, marks=pytest.mark.soak)])
def test_memory_is_bounded_whatever_goes_up(pods: Cluster, make_context: MakeContext, megabytes: int) -> None:
    before = forget_peak()
    size = megabytes * 1_000_000
    ran = Ran(make_context(seconds=200), host(pods, "debian"), ("wc", "-c"), Zeros(size))  # type: ignore[arg-type]
    assert ran.out.getvalue() == b"%d\n" % size
    assert peak() - before < 50_000, "KiB more of memory"


def test_program_that_does_not_read_holds_the_sender_back(pods: Cluster, make_context: MakeContext) -> None:
    source = Zeros(500_000_000)
    ran = Ran(make_context(), host(pods, "debian"), ("sh", "-c", "sleep 1; exit 5"), source)  # type: ignore[arg-type]
    assert ran.code == 5
    assert source.left > 400_000_000


# --- ends --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["eof", "open"])
@pytest.mark.parametrize("pod", PODS)
def test_deadline_ends_the_program_on_the_pod(
    pods: Cluster, make_context: MakeContext, pod: str, mode: str
) -> None:
    seconds = f"{time.time_ns() % 10_000_000 + 1000}"
    with pytest.raises(TimedOut, match="sleep"):
        Ran(make_context(seconds=1.5), host(pods, pod), ("sleep", seconds), io.BytesIO(b""), mode)

    def gone() -> bool:
        found = Ran(make_context(), host(pods, pod), ("sh", "-c", "cat /proc/[0-9]*/cmdline"))
        return f"sleep\0{seconds}".encode() not in found.out.getvalue()

    wait_until(gone)


def test_pod_deleted_during_a_command(pods: Cluster, make_context: MakeContext) -> None:
    pods.kubectl("create", "-f", "-", stdin=json.dumps(manifest("doomed", "busybox")))
    pods.kubectl("wait", "--for=condition=Ready", "pod/doomed", "--timeout=40s")
    delete = ("delete", "pod", "doomed", "--wait=false")
    timer = threading.Timer(0.5, pods.kubectl, delete)
    timer.start()
    begun = time.monotonic()
    with pytest.raises(HostGone, match="pod doomed is gone"):
        Ran(make_context(seconds=60), host(pods, "doomed"), ("sleep", "1000"))
    assert time.monotonic() - begun < 15
    timer.join()
    with pytest.raises(HostGone, match="deleted"):
        Ran(make_context(), host(pods, "never-was"), ("true",))


def test_pod_of_the_same_name_is_another(pods: Cluster, make_context: MakeContext) -> None:
    where = host(pods, "debian")
    other = Host(transport="kubernetes", address={**where.address, "uid": "another", "container": "gone"})
    with pytest.raises(HostGone, match="another pod has its name"):
        Ran(make_context(), other, ("true",))


# --- terminal, ports, login --------------------------------------------------------------------------

SHELL = """
import json, sys, time
from pathlib import Path
from sky.api import Cache, CancelToken, Command, Context, Host
from sky_kubernetes.plugin import KubernetesRunner
address, directory = json.loads(sys.argv[1]), Path(sys.argv[2])
directory.mkdir(exist_ok=True)
ctx = Context(config={}, deadline=time.monotonic() + 30, cancel=CancelToken(), emit=print, cache=Cache(),
              directory=directory)
sys.exit(KubernetesRunner().sky_shell(ctx, Host(transport="kubernetes", address=address), None))
"""


def test_shell_has_a_terminal_of_the_callers_size(pods: Cluster, tmp_path: Path) -> None:
    import fcntl
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 41, 123, 0, 0))
    arguments = [json.dumps(dict(host(pods, "debian").address)), str(tmp_path / "d")]
    environment = {name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")}
    process = subprocess.Popen(
        [sys.executable, "-c", SHELL, *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=environment,
        start_new_session=True,
    )
    os.close(follower)
    os.write(leader, b"while [ \"$(stty size)\" != '41 123' ]; do sleep .1; done; echo si''ze ok; exit 9\n")
    seen = b""
    deadline = time.monotonic() + 20
    while b"size ok" not in seen and time.monotonic() < deadline:
        if select.select([leader], [], [], 0.2)[0]:
            seen += os.read(leader, 4096)
    assert b"size ok" in seen
    assert process.wait(10) == 9
    os.close(leader)


ECHO = """
import socket
server = socket.create_server(("0.0.0.0", 5050))
print("ready", flush=True)
for _ in range(2):
    client, _ = server.accept()
    data = b""
    while len(data) < 300000:
        data += client.recv(65536)
    client.sendall(data[::-1])
    client.close()
"""


def test_port_leads_into_the_pod(pods: Cluster, make_context: MakeContext) -> None:
    events: list[Event] = []
    read, write = os.pipe()
    ctx = make_context(seconds=30, events=events)

    def serve() -> None:
        with open(write, "wb", buffering=0) as out:
            command = Command(argv=("python3", "-c", ECHO))
            RUNNER.sky_run(ctx, host(pods, "debian"), command, None, out, io.BytesIO())

    server = threading.Thread(target=serve)
    server.start()
    assert os.read(read, 10) == b"ready\n"
    forward = RUNNER.sky_forward(ctx, host(pods, "debian"), 5050, None)
    data = os.urandom(300_000)
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", forward.local_port)) as client:
            client.sendall(data)
            assert read_all(client) == data[::-1]
    server.join()
    with socket.create_connection(("127.0.0.1", forward.local_port)) as client:
        assert read_all(client) == b"", "nobody listens there any more"
    wait_until(lambda: any("5050" in event.message for event in events))
    forward.close()
    forward.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", forward.local_port))
    os.close(read)


def read_all(sock: socket.socket) -> bytes:
    data = b""
    while piece := sock.recv(65536):
        data += piece
    return data


@pytest.fixture
def embedded(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The cluster's kubeconfig with its certificates inside, as most providers give it."""
    text = cluster.kubectl("config", "view", "--flatten", "--raw", "--output=json")
    path = tmp_path / "embedded"
    path.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(path))
    yield path


def test_embedded_certificates_log_in_as_with_the_official_client(
    embedded: Path, make_context: MakeContext
) -> None:
    import kubernetes

    new_client: Any = kubernetes.config.new_client_from_config
    official: Any = kubernetes.client.CoreV1Api(new_client(str(embedded)))
    theirs = {item.metadata.name for item in official.list_node().items}
    key = json.loads(embedded.read_text())["users"][0]["user"]["client-key-data"]
    assert b"PRIVATE KEY" in base64.b64decode(key)
    old = time.time() - 60
    os.utime(embedded, (old, old))
    ctx = make_context()
    for _ in range(2):
        with connect(ctx) as api:
            ours = {item["metadata"]["name"] for item in api.list_all("/api/v1/nodes")["items"]}
        assert ours == theirs
    assert all(key not in file.read_text() for file in ctx.directory.iterdir())


def test_watch_sees_what_kubectl_does(cluster: Cluster, make_context: MakeContext) -> None:
    path = f"/api/v1/namespaces/{cluster.namespace}/configmaps"
    api = connect(make_context())
    timer = threading.Timer(0.3, cluster.kubectl, ("create", "configmap", "seen", "--from-literal=a=b"))
    timer.start()
    names = []
    for event in api.watch(path, deadline=time.monotonic() + 15):
        names.append((event["type"], event["object"]["metadata"]["name"]))
        if names[-1] == ("ADDED", "seen"):
            break
    assert ("ADDED", "seen") in names
    timer.join()
