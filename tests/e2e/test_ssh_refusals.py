"""What a user reads when a host can't be used: the cause, and what mends it, in two lines, before anything changed."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import places
import pytest
from places import ACCOUNT
from said import expect_two_lines
from sky_command import Sky
from ssh_home import Hosts


def add_pool(sky: Sky, name: str, host: str = "10.77.0.13", **keys: Any) -> None:
    """A pool of one host, with keys of its own over those of `lab`."""
    file = sky.state / "ssh_node_pools.yaml"
    pools = json.loads(file.read_text())
    pools[name] = {**pools["lab"], "hosts": [host], **keys}
    file.write_text(json.dumps(pools))


@pytest.fixture
def sky(ssh_sky: Sky, ssh_hosts: Hosts) -> Sky:
    places.ssh(ssh_sky, ssh_hosts)
    return ssh_sky


def other_key(sky: Sky) -> Path:
    """A key that no host knows."""
    key = sky.root / "other-key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    return key


def changed(sky: Sky) -> dict[str, Any]:
    kind, key = other_key(sky).with_suffix(".pub").read_text().split()[:2]
    file = sky.root / "known"
    file.write_text(f"10.77.0.13 {kind} {key}\n")
    return {"known_hosts": str(file)}


def unknown(sky: Sky) -> dict[str, Any]:
    file = sky.root / "known"
    file.write_text("")
    return {"known_hosts": str(file)}


def refused(sky: Sky) -> dict[str, Any]:
    return {"identity_file": str(other_key(sky))}


def open_to_all(sky: Sky) -> dict[str, Any]:
    key = other_key(sky)
    key.chmod(0o644)
    return {"identity_file": str(key)}


def closed(sky: Sky) -> dict[str, Any]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return {"port": listener.getsockname()[1]}


CAUSES = {
    "the host key changed": (changed, ("10.77.0.13", "ssh-keygen -f {root}/known -R")),
    "the host key is unknown": (unknown, ("10.77.0.13", "ssh-keyscan", "{root}/known")),
    "the key is refused": (refused, ("10.77.0.13", ACCOUNT, "other-key")),
    "no such key": (lambda sky: {"identity_file": "/no/such/key"}, ("/no/such/key",)),
    "the key is open to all": (open_to_all, ("other-key", "chmod 600")),
    "nobody listens": (closed, ("10.77.0.13", "refused")),
    "the name is unknown": (lambda sky: {"host": "no-such-host.invalid"}, ("no-such-host.invalid",)),
    "sudo asks for a password": (lambda sky: {"sudo": "required"}, ("10.77.0.13", "sudo", "password")),
    "the password is wrong": (
        lambda sky: {"sudo": "required", "password": "never-shown"},
        ("10.77.0.13", "sudo", "password"),
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_launch_and_check_name_the_cause_and_the_remedy(sky: Sky, ssh_hosts: Hosts, cause: str) -> None:
    make, parts = CAUSES[cause]
    add_pool(sky, "odd", **make(sky))
    told = [part.format(root=sky.root) for part in parts]
    before = ssh_hosts.on("h3", f"ls -A /home/{ACCOUNT}")
    done = sky("launch", "-c", "c", "--infra", "ssh/odd", "-y", "true", code=None)
    assert done.code in (120, 121, 122), done
    # A refusal that came after the choice follows its table.
    expect_two_lines(replace(done, raw_err=done.raw_err[done.raw_err.index(b"sky: ") :]), *told)
    assert ssh_hosts.on("h3", f"ls -A /home/{ACCOUNT}") == before
    assert sky("status").out == ""
    done = sky("check", "ssh", "-v", code=None)
    (line,) = (line for line in done.out.splitlines() if line.strip().startswith("odd/"))
    for part in told:
        assert part in line, done
    assert "never-shown" not in done.out + done.err


@contextlib.contextmanager
def owned_by_root(hosts: Hosts, name: str, home: str) -> Iterator[None]:
    owner = hosts.on(name, f"stat -c %u:%g {home}").strip()
    hosts.on(name, f"chown root:root {home}")
    try:
        yield
    finally:
        hosts.on(name, f"chown {owner} {home}")


def test_a_home_that_cannot_be_written_to_has_a_stand_in(sky: Sky, ssh_hosts: Hosts) -> None:
    """For the job, its files, and a terminal; `down` leaves nothing in it."""
    add_pool(sky, "odd", user="labtcsh")
    uid = ssh_hosts.on("h3", "id -u labtcsh").strip()
    (sky.project / "one.txt").write_text("one\n")
    (sky.project / "t.yaml").write_text(
        "workdir: .\nfile_mounts: {~/mounted: one.txt}\nrun: cat one.txt ~/mounted; pwd\n"
    )
    with owned_by_root(ssh_hosts, "h3", "/home/labtcsh"):
        (line,) = (line for line in sky("check", "ssh", "-v").out.splitlines() if "odd/" in line)
        assert "ok, " in line and "its home '/home/labtcsh' can't be written to" in line
        one, mounted, where = sky("launch", "-c", "c", "--infra", "ssh/odd", "-y", "t.yaml").out.split()
        assert (one, mounted) == ("one", "one")
        assert where.startswith(f"/tmp/sky-node-{uid}/home/") and where.endswith("/sky_workdir")
        assert sky("exec", "c", "--", "cat", "one.txt").out == "one\n"
        sky("rsync", "c:mounted", "back.txt")
        assert sky("ssh", "c", "cat mounted").out == "one\n"
        sky("down", "c", "-y")
        assert ssh_hosts.on("h3", f"cd /tmp/sky-node-{uid}/home && find .") == ".\n"
