"""Fixtures of the SSH plugin's tests: a context for hooks, and real hosts with sshd."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sky.api import Cache, CancelToken, Context, Event

# Test modules are imported by path (importlib mode), so their shared helper is found by name only here.
sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[3] / "tests"))

from ssh_fixtures import RUNNER, SCRIPT, STATE, Lab, MakeContext

from testbed import ssh_lab


@pytest.fixture
def make_context(tmp_path: Path) -> MakeContext:
    """`make_context(config={}, seconds=30, events=None, cancel=None)`: a hook's `ctx`."""

    def make(
        config: Mapping[str, Any] | None = None,
        seconds: float | None = 30.0,
        events: list[Event] | None = None,
        cancel: CancelToken | None = None,
    ) -> Context:
        home = tmp_path / "plugin-directory"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Context(
            config=config or {},
            deadline=None if seconds is None else time.monotonic() + seconds,
            cancel=cancel or CancelToken(),
            emit=(events if events is not None else []).append,
            cache=Cache(),
            directory=home,
        )

    return make


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The testbed's hosts, started if need be; HOME is a new one, and no agent is there. See `Lab`."""
    if os.getuid() != 0 or shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no SSH testbed: CI must be root and have sshd (make testbed)")
        pytest.skip("no SSH testbed (as root: make testbed)")
    with ssh_lab.held():
        subprocess.run(["bash", str(SCRIPT), "up"], check=True, capture_output=True, timeout=120)
    home = tmp_path_factory.mktemp("home")
    (home / ".ssh").mkdir(mode=0o700)
    shutil.copy(STATE / "ssh_config", home / ".ssh" / "config")
    (home / ".ssh" / "config").chmod(0o600)
    # A socket's path must be short.
    with tempfile.TemporaryDirectory(prefix="sky-") as runtime, pytest.MonkeyPatch.context() as patch:
        # The script's own directory must not move with HOME.
        patch.setenv("SKY_TESTBED", str(STATE.parents[1]))
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_RUNTIME_DIR", runtime)
        patch.delenv("SSH_AUTH_SOCK", raising=False)
        yield Lab(home)
        ctx = Context(
            config={},
            deadline=time.monotonic() + 60,
            cancel=CancelToken(),
            emit=lambda event: None,
            cache=Cache(),
            directory=home,
        )
        RUNNER.sky_disconnect(ctx, None)


@pytest.fixture
def ssh_config(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    """A HOME of the test's own, for tests that change the ssh config."""
    home = tmp_path / "home"
    shutil.copytree(lab.home / ".ssh", home / ".ssh")
    monkeypatch.setenv("HOME", str(home))
    return Lab(home)
