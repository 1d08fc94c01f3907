"""The places where one behaviour is tested on all of them: a home for each, and the options that lead there."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sky_command import SMALL, Kubernetes, Sky, kubernetes_home
from ssh_home import NAMES, Hosts, ssh_home

LOCAL = ("--infra", "local", "-y")
SSH = ("--infra", "ssh/lab", "-y")
EVERYWHERE = ("local", "ssh", "kubernetes")
ACCOUNT = "labdash"
"""Ours on the SSH hosts; its homes are empty at first. Others may use `lab` meanwhile, which has one ~/sky_workdir."""


@dataclass
class Place:
    """A home, the options of `launch` that lead from it to the place, and what really exists there."""

    kind: str
    sky: Sky
    options: tuple[str, ...]
    existing: Callable[[], list[str]]
    """One word for each node that exists, asked of the place itself."""
    _settings: dict[Path, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._settings = {path: path.read_text() for path in self.sky.state.glob("*.yaml")}

    def forget(self) -> None:
        """Lose all state but what a user wrote."""
        shutil.rmtree(self.sky.state)
        self.sky.state.mkdir()
        for path, text in self._settings.items():
            path.write_text(text)


def local(sky: Sky) -> Place:
    """This machine; `existing` are the directories of the nodes."""
    return Place(
        "local", sky, LOCAL, lambda: [str(p.parent) for p in sky.data.glob("sky/local/*/cluster.json")]
    )


def kubernetes(sky: Sky, server: Kubernetes) -> Place:
    """Pods."""
    return Place("kubernetes", sky, SMALL, lambda: server.pod_names(sky.user))


def ssh(sky: Sky, hosts: Hosts, account: str = ACCOUNT) -> Place:
    """The pool `lab`, the account's homes emptied; `existing` are the leases, `HOST:CLUSTER_ID`."""
    file = sky.state / "ssh_node_pools.yaml"
    pools = {name: {**pool, "user": account} for name, pool in json.loads(file.read_text()).items()}
    file.write_text(json.dumps(pools))
    lease_dir = pools["lab"]["lease_dir"].lstrip("/")
    for name in NAMES:  # what other tests left there is in nobody's way
        for path in (hosts.state / "hosts" / name / "home" / account).iterdir():
            if path.is_dir() and not path.is_symlink() and path.name != ".ssh":
                shutil.rmtree(path)
            elif path.name != ".ssh":
                path.unlink()

    def leases() -> list[str]:
        found = []
        for name in NAMES:  # a host's /tmp is a directory of the testbed's
            for lease in (hosts.state / "hosts" / name / lease_dir).glob("lease.*"):
                found.append(f"{name}:{lease.read_text().split()[1]}")
        return found

    return Place("ssh", sky, SSH, leases)


@contextlib.contextmanager
def place(kind: str, root: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    """One of `EVERYWHERE`, with a home below `root`; all that was made there is gone afterwards."""
    if kind == "local":
        home = Sky(root, {"KUBECONFIG": str(root / "no-kubeconfig")})
        yield local(home)
        home.clean()
    elif kind == "ssh":
        hosts: Hosts = request.getfixturevalue("ssh_hosts")
        with contextlib.contextmanager(ssh_home)(root, hosts) as home:
            yield ssh(home, hosts)
    else:
        server: Kubernetes = request.getfixturevalue("kubernetes")
        with contextlib.contextmanager(kubernetes_home)(root, server) as home:
            yield kubernetes(home, server)
