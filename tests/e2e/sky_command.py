"""The installed `sky` as a subprocess, in a home of its own: what every end-to-end test drives."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SKY = Path(sys.executable).with_name("sky")
TESTBED = Path(os.environ.get("SKY_TESTBED", "~/.cache/sky-testbed")).expanduser() / "kubernetes"
KUBECTL = TESTBED / "bin" / "kubectl"
SMALL = ("--infra", "k8s", "-y", "--cpus", "0.05", "--memory", "0.2", "--image-id", "docker:debian:testbed")
"""Options of `launch` for a pod that is small enough to share the testbed."""


def eventually(check: Callable[[], Any], seconds: float = 30, why: str = "it never came true") -> Any:
    """What `check` returns as soon as that is true; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < deadline, why
        time.sleep(0.05)
    return value


@dataclass(frozen=True)
class Done:
    """A command that has ended; both outputs apart, as text and as bytes."""

    argv: tuple[str, ...]
    code: int
    raw: bytes
    raw_err: bytes
    seconds: float

    @property
    def out(self) -> str:
        return self.raw.decode("utf-8", "replace")

    @property
    def err(self) -> str:
        return self.raw_err.decode("utf-8", "replace")

    def json(self) -> dict[str, Any]:
        """The one document on stdout; fails if there is anything else."""
        lines = self.out.splitlines()
        assert len(lines) == 1, f"not exactly one document on stdout of {self}"
        document = json.loads(lines[0])
        assert document["schema"] == 1 and document["kind"], document
        return dict(document)

    def __str__(self) -> str:
        words = " ".join(self.argv)
        return f"`sky {words}` ended with {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


@dataclass
class Running:
    """A command that still runs. Its outputs are files, so that nothing blocks it."""

    argv: tuple[str, ...]
    process: subprocess.Popen[bytes]
    out_file: Path
    err_file: Path
    started: float

    @property
    def out(self) -> str:
        return self.out_file.read_text(errors="replace")

    @property
    def err(self) -> str:
        return self.err_file.read_text(errors="replace")

    def until(self, text: str, seconds: float = 30) -> None:
        """Wait until it has printed `text` on either output."""

        def said() -> bool:
            return text in self.out + self.err

        eventually(
            lambda: said() or self.process.poll() is not None, seconds, f"{text!r} never came: {self.err}"
        )
        assert said(), f"{text!r} never came: {self.end()}"

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, seconds: float = 60) -> Done:
        """Wait for its end."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"`sky {' '.join(self.argv)}` never ended: {self.err}") from None
        took = time.monotonic() - self.started
        return Done(self.argv, code, self.out_file.read_bytes(), self.err_file.read_bytes(), took)


@dataclass
class Sky:
    """`sky(*args)` runs it and checks its exit code. State, home and temporary files are below `root`."""

    root: Path
    extra: Mapping[str, str] = field(default_factory=dict)
    user: str = field(default_factory=lambda: f"e2e-{uuid.uuid4().hex[:12]}")
    _running: list[Running] = field(default_factory=list)

    def __post_init__(self) -> None:
        for directory in (
            self.home,
            self.state,
            self.project,
            self.data,
            self.root / "tmp",
            self.root / "out",
        ):
            directory.mkdir(parents=True, exist_ok=True)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def state(self) -> Path:
        """SKY_HOME."""
        return self.root / "state"

    @property
    def project(self) -> Path:
        """The directory that commands are started in."""
        return self.root / "project"

    @property
    def data(self) -> Path:
        """XDG_DATA_HOME: where clusters of `local` are."""
        return self.root / "data"

    def environment(self, extra: Mapping[str, str | None] | None = None) -> dict[str, str]:
        values: dict[str, str | None] = {
            **{name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ},
            "HOME": str(self.home),
            "SKY_HOME": str(self.state),
            "XDG_DATA_HOME": str(self.data),
            "TMPDIR": str(self.root / "tmp"),
            "SKY_USER": self.user,
            **self.extra,
            **(extra or {}),
        }
        return {name: value for name, value in values.items() if value is not None}

    def configure(self, text: str) -> None:
        """Write config.yaml."""
        (self.state / "config.yaml").write_text(text)

    def __call__(
        self,
        *args: str,
        code: int | None = 0,
        env: Mapping[str, str | None] | None = None,
        timeout: float = 60,
        stdin: bytes = b"",
    ) -> Done:
        began = time.monotonic()
        done = subprocess.run(
            [str(SKY), *args],
            env=self.environment(env),
            cwd=self.project,
            input=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        result = Done(args, done.returncode, done.stdout, done.stderr, time.monotonic() - began)
        assert code is None or result.code == code, f"expected {code}: {result}"
        assert "Traceback" not in result.err or "SKY_DEBUG" in (env or {}), result
        return result

    def start(self, *args: str, env: Mapping[str, str | None] | None = None) -> Running:
        """Run it without waiting; a test that fails leaves none behind."""
        stem = self.root / "out" / uuid.uuid4().hex[:8]
        out_file, err_file = stem.with_suffix(".out"), stem.with_suffix(".err")
        with out_file.open("wb") as out, err_file.open("wb") as err:
            process = subprocess.Popen(
                [str(SKY), *args],
                env=self.environment(env),
                cwd=self.project,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        running = Running(args, process, out_file, err_file, time.monotonic())
        self._running.append(running)
        return running

    def clean(self) -> None:
        """End what still runs and give every cluster back, known here or not."""
        for running in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.process.pid, signal.SIGKILL)
            running.process.wait()
        self("status", "--rebuild", code=None)
        self("down", "-a", "-y", "--purge", code=None)


@dataclass(frozen=True)
class Kubernetes:
    """A real Kubernetes, and a namespace of it that is ours alone."""

    kubeconfig: Path
    namespace: str

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """The oracle: what kubectl says, in our namespace."""
        done = subprocess.run(
            [str(KUBECTL), "--kubeconfig", str(self.kubeconfig), "-n", self.namespace, *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pods(self, *more: str) -> list[dict[str, Any]]:
        return list(json.loads(self.kubectl("get", "pods", "-o", "json", *more))["items"])

    def pods_of(self, user: str) -> list[dict[str, Any]]:
        """Pods that a `Sky` made and that aren't being deleted."""
        found = self.pods("-l", f"sky.dev/user={user}")
        return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]

    def pod_names(self, user: str) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods_of(user)]

    def config(self, pod_config: str = "", **keys: str) -> str:
        """The section of config.yaml that leads here."""
        lines = [f"  namespace: {self.namespace}", *(f"  {key}: {value}" for key, value in keys.items())]
        if pod_config:
            lines.append(f"  pod_config: {pod_config}")
        return "kubernetes:\n" + "\n".join(lines) + "\n"


def kubernetes_home(root: Path, kubernetes: Kubernetes, config: str = "") -> Iterator[Sky]:
    """What `kube_sky` gives, for fixtures of another scope; its pods are gone afterwards."""
    made = Sky(root, {"KUBECONFIG": str(kubernetes.kubeconfig)})
    made.configure(config or kubernetes.config())
    yield made
    made.clean()
    kubernetes.kubectl("delete", "pods", "-l", f"sky.dev/user={made.user}", "--grace-period=0", "--force")
