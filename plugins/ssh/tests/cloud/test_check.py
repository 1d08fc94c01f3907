"""`sky check ssh` names the cause and the remedy; and sudo that asks for a password."""

from __future__ import annotations

import io
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
from cloud_fixtures import TESTBED, THREE, Pools

from sky.api import Command, CredentialStatus, Event, NotPermitted
from sky_ssh import cloud, runner
from sky_ssh.check import check_credentials

PASSWORD = "Geheim '9' $x"


def check(pools: Pools) -> CredentialStatus:
    return check_credentials(pools.make_context())


def said(pools: Pools, name: str) -> str:
    """The line of one host."""
    (line,) = [line for line in check(pools).details if line.split(": ")[0].endswith(f"/{name}")]
    assert "\n" not in line
    return line.partition(": ")[2]


# --- causes ------------------------------------------------------------------------------------------


@pytest.fixture
def keys(tmp_path: Path, pools: Pools) -> Path:
    """Keys that don't do: `other`, `locked` (with a passphrase), `open` (others may read it)."""
    for name, phrase in (("other", ""), ("locked", "pw")):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", phrase, "-f", str(tmp_path / name)]
        subprocess.run(command, check=True)
    shutil.copy(pools.state / "id_ed25519", tmp_path / "open")
    (tmp_path / "open").chmod(0o644)
    return tmp_path


def test_every_cause_has_its_own_line(
    pools: Pools, keys: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    kind, key = (keys / "other.pub").read_text().split()[:2]
    (tmp_path / "changed").write_text(f"{THREE[0]} {kind} {key}\n")
    (tmp_path / "nobody").write_text("")
    h1 = THREE[0]
    hosts: dict[str, tuple[dict[str, str], Sequence[str]]] = {
        "fine": ({"ip": h1}, ("ok, ", " CPUs, ", " GiB, no GPUs")),
        "refused": ({"ip": h1, "port": "23"}, (f"refused the connection ({h1}, port 23)", "sshd")),
        "away": ({"ip": "10.77.0.99"}, ("there is no route to it", "VPN")),
        "unnamed": ({"ip": "nobody.invalid"}, ("its name 'nobody.invalid' is unknown",)),
        "keyless": ({"ip": h1, "identity_file": "/no/key"}, ("the key /no/key can't be read: No such file",)),
        "open": (
            {"ip": h1, "identity_file": str(keys / "open")},
            ("others may read the key", f"chmod 600 {keys / 'open'}"),
        ),
        "other": ({"ip": h1, "identity_file": str(keys / "other")}, ("takes none of the keys", "lab2")),
        "locked": ({"ip": h1, "identity_file": str(keys / "locked")}, ("passphrase", "ssh-add")),
        "changed": (
            {"ip": h1, "known_hosts": str(tmp_path / "changed")},
            ("host key has changed", f"ssh-keygen -f {tmp_path / 'changed'} -R '{h1}'"),
        ),
        "unknown": (
            {"ip": h1, "known_hosts": str(tmp_path / "nobody")},
            ("host key isn't known", f"ssh-keyscan -p 22 {h1} >>{tmp_path / 'nobody'}"),
        ),
        "inner": ({"ip": "10.77.1.10", "proxy_jump": "lab@10.77.0.200"}, ("ok, ",)),
        "by-command": (
            {"ip": "10.77.1.10", "proxy_command": f"ssh -F {pools.state}/ssh_config -W %h:%p bastion"},
            ("ok, ",),
        ),
        "bad-command": ({"ip": "10.77.1.10", "proxy_command": "echo no way >&2; false"}, ("no way",)),
    }
    pools.add(hosts=[{"name": name, **keys_} for name, (keys_, _) in hosts.items()])
    status = check(pools)
    assert status.ok and status.reason == f"3 of {len(hosts)} hosts"
    for name, (_, words) in hosts.items():
        (line,) = [line for line in status.details if line.startswith(f"lab/{name}: ")]
        assert "\n" not in line
        assert all(word in line for word in words), line


def test_names_of_the_ssh_config_are_reached_as_it_says(pools: Pools, home: Path) -> None:
    pools.add(hosts=["inner", "h1"], user=None, identity_file=None, known_hosts=None)
    status = check(pools)
    assert status.ok and status.reason == "2 of 2 hosts", status.details


def test_nothing_usable_is_not_ok_and_says_why(pools: Pools) -> None:
    pools.add(hosts=[{"ip": THREE[0], "port": "23", "name": "a"}])
    status = check(pools)
    assert not status.ok and "lab/a: refused the connection" in status.reason


def test_no_pools_is_an_answer(pools: Pools) -> None:
    status = check(pools)
    assert not status.ok and str(pools.file) in status.reason and "--infra ssh/" in status.remedy
    pools.file.write_text("lab: {hsots: [a]}")
    status = check(pools)
    assert not status.ok and "'hosts'?" in status.reason


def test_who_holds_a_host_is_said(pools: Pools) -> None:
    pools.add()
    pools.lease(pools.spec(name="dev"))
    assert "leased by cluster 'dev' of kit@test" in said(pools, THREE[0])


# --- sudo --------------------------------------------------------------------------------------------


@pytest.fixture
def sudoer(pools: Pools) -> str:
    """A host where lab2's sudo asks for `PASSWORD`."""
    if shutil.which("sudo") is None:
        pytest.skip("no sudo here")
    import os

    subprocess.run(
        ["bash", str(TESTBED), "sudoer", "h3", "lab2", PASSWORD],
        check=True,
        env={**os.environ, "SKY_TESTBED": str(pools.state.parent.parent)},
    )
    return THREE[2]


def test_sudo_that_asks_for_a_password_is_said(pools: Pools, sudoer: str) -> None:
    pools.add(hosts=[sudoer])
    assert said(pools, sudoer).startswith("ok, ") and "sudo asks for a password" in said(pools, sudoer)
    pools.add(hosts=[sudoer], sudo="required")
    assert said(pools, sudoer).startswith("sudo is required and would not work: it asks for a password; set")
    pools.add(hosts=[sudoer], password="wrong")
    assert "sudo refuses the `password`" in said(pools, sudoer)
    pools.add(hosts=[sudoer], password=PASSWORD, sudo="required")
    assert said(pools, sudoer).startswith("ok, ") and "sudo" not in said(pools, sudoer)


def test_an_open_file_of_passwords_is_said(pools: Pools) -> None:
    pools.add(hosts=[{"ip": THREE[0], "port": "23"}], password="x")
    assert f"chmod 600 {pools.file}" in check(pools).details[0]
    pools.file.chmod(0o600)
    assert "chmod" not in check(pools).details[0]


@pytest.mark.parametrize("password", [None, "wrong"])
def test_where_sudo_is_required_a_launch_is_refused_before_anything_is_changed(
    pools: Pools, sudoer: str, password: str | None
) -> None:
    pools.add(hosts=[sudoer, THREE[0]], sudo="required", password=password)
    spec = pools.spec(num_nodes=2)
    before = pools.on("h3", "find /home/lab2 | sort")
    with pytest.raises(NotPermitted) as caught:
        pools.lease(spec)
    assert "sudo is required and would not work" in caught.value.message
    assert "\n" not in caught.value.message and caught.value.remedy
    assert pools.leases() == {}
    assert pools.on("h3", "find /home/lab2 | sort") == before


def test_with_its_password_sudo_works_and_nobody_sees_it(pools: Pools, sudoer: str) -> None:
    pools.add(hosts=[sudoer], sudo="required", password=PASSWORD)
    events: list[Event] = []
    spec = pools.spec()
    allocation = pools.lease(spec, events)
    (host,) = cloud.cluster_hosts(pools.make_context(), allocation)

    out, err = io.BytesIO(), io.BytesIO()
    # As root, while sudo runs: every argument and environment of every process there.
    look = "id -u; cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | grep -ac 'Ge[h]eim'"
    command = Command(argv=("sudo", "-A", "sh", "-c", look))
    runner.run(pools.make_context(), host, command, None, out, err)
    assert out.getvalue() == b"0\n0\n", err.getvalue()

    told = [repr(asdict(spec)), repr(asdict(allocation)), repr(host), repr(events)]
    told.append(pools.on("h3", f"cat {pools.lease_dir}/lease.*"))
    assert not any("Geheim" in text for text in told)

    made = f"{host.work_dir}/by-root"
    command = Command(argv=("sudo", "-A", "sh", "-c", f"mkdir {made} && touch {made}/x && chmod 700 {made}"))
    assert runner.run(pools.make_context(), host, command, None, out, err) == 0, err.getvalue()
    cloud.terminate_instances(pools.make_context(), allocation)
    assert pools.leases() == {}
    assert "Geheim" not in pools.on("h3", "grep -r Geheim /home/lab2 /tmp || true")
    assert pools.on("h3", "ls -d /home/lab2/.sky-node 2>/dev/null || true") == ""
