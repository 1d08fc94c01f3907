"""Fixtures of the SSH cloud's tests: the testbed's hosts, and pools of them whose leases are the test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Test modules are imported by path (importlib mode), so their shared helper is found by name only here.
sys.path.insert(0, str(Path(__file__).parent))

from cloud_fixtures import TESTBED, MakePool, Pools

from sky.testing.lab import MakeContext, context_maker
from testbed import ssh_lab


@pytest.fixture(scope="session")
def testbed() -> Path:
    """The state directory of the testbed, its hosts up."""
    if os.geteuid() != 0 or shutil.which("unshare") is None or not Path("/usr/sbin/sshd").exists():
        if os.environ.get("CI") == "true":
            pytest.fail("no SSH testbed: CI must have root, and sshd")
        pytest.skip("no SSH testbed: it needs root, and sshd")
    with ssh_lab.held():
        subprocess.run(["bash", str(TESTBED), "up", "3"], check=True, capture_output=True, timeout=120)
    place = Path(os.environ.get("SKY_TESTBED", "~/.cache/sky-testbed")).expanduser()
    return place / "ssh" / "state"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A $HOME of the test's own, with an empty ~/.ssh."""
    made = tmp_path / "home"
    (made / ".ssh").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.delenv("SKY_HOME", raising=False)
    return made


@pytest.fixture
def make_context(tmp_path: Path) -> Iterator[Any]:
    """`make_context(**config)`: what makes contexts, with that configuration and the same cache."""
    directory = tmp_path / "plugin-directory"
    directory.mkdir(mode=0o700)

    def make(**config: Any) -> MakeContext:
        return context_maker(config, directory)

    return make  # type: ignore[return-value]


@pytest.fixture
def pools(testbed: Path, home: Path, tmp_path: Path, make_context: Any) -> Iterator[Pools]:
    """Pools of the testbed, and all that was leased given back; see `Pools`."""
    (home / ".ssh" / "config").write_text((testbed / "ssh_config").read_text())
    shared = f"/tmp/sky-lease-{uuid.uuid4().hex[:8]}"
    file = tmp_path / "pools.yaml"
    made = Pools(file, testbed, shared, make_context(pools_file=str(file)))
    yield made
    made.give_all_back()


@pytest.fixture
def pool(pools: Pools) -> MakePool:
    """`pool(hosts=..., **keys)` adds a pool to the file."""
    return pools.add
