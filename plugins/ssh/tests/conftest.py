"""Fixtures of the SSH plugin's tests: a context for hooks, and real hosts with sshd."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sky.testing.fixtures import make_context
from sky.testing.lab import context_maker

__all__ = ["make_context"]

# Test modules are imported by path (importlib mode), so their shared helper is found by name only here.
sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[3] / "tests"))

from ssh_fixtures import RUNNER, SCRIPT, STATE, Lab

from testbed import ssh_lab


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
        ctx = context_maker({}, home)(60)
        RUNNER.sky_disconnect(ctx, None)


@pytest.fixture
def ssh_config(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    """A HOME of the test's own, for tests that change the ssh config."""
    home = tmp_path / "home"
    shutil.copytree(lab.home / ".ssh", home / ".ssh")
    monkeypatch.setenv("HOME", str(home))
    return Lab(home)
