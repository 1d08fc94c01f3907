"""`ssh NAME` after a launch: the files in ~/.ssh, and the user's own ssh on real hosts."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from ssh_fixtures import RUNNER, Lab, MakeContext, alias, eventually

from sky.api import Allocation, Event, Host, Place


def place(*hosts: Host, name: str = "dev", key: str = "dev-1234") -> Place:
    ranked = tuple(
        Host(transport="ssh", address=host.address, name=host.name, rank=rank)
        for rank, host in enumerate(hosts)
    )
    allocation = Allocation(id=key, cloud="ssh", cluster_name=name, tags={}, num_nodes=len(hosts))
    return Place(allocation=allocation, hosts=ranked)


def ssh(lab: Lab, name: str, *command: str) -> str:
    """What the user's own ssh prints. (`-F`: it takes `~` from the password file, not HOME.)"""
    done = subprocess.run(
        ["ssh", "-F", str(lab.config), "-o", "BatchMode=yes", name, *command],
        capture_output=True,
        text=True,
        timeout=30,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def words(events: list[Event]) -> str:
    assert all(event.kind == "warning" for event in events)
    return "; ".join(event.message for event in events)


# --- what it reaches ---------------------------------------------------------------------------------


def test_ssh_reaches_each_node_by_the_clusters_name(ssh_config: Lab, make_context: MakeContext) -> None:
    """An alias of the user's config, one behind its bastion, and a plain address."""
    events: list[Event] = []
    ctx = make_context(events=events)
    RUNNER.sky_publish_hosts(ctx, place(alias("h2"), alias("inner"), ssh_config.plain("10.77.0.13")))
    assert ssh(ssh_config, "dev", "hostname") == "h2"
    assert ssh(ssh_config, "dev-worker1", "hostname") == "inner"
    assert ssh(ssh_config, "dev-worker2", "hostname; id -un") == "h3\nlab"
    assert words(events) == ""


def test_ssh_goes_by_the_hops_of_the_address(ssh_config: Lab, make_context: MakeContext) -> None:
    """With their keys and known hosts, though no ssh config knows them."""
    ssh_config.config.write_text("Host *\n  User nobody\n  Port 1\n  ProxyJump nowhere\n")
    one = ssh_config.plain("10.77.1.10", proxy_jump="lab@10.77.0.200")
    two = ssh_config.plain("10.77.1.10", proxy_jump="lab@10.77.0.11:22,lab@10.77.0.200", user="lab2")
    RUNNER.sky_publish_hosts(make_context(), place(one, two, ssh_config.plain()))
    assert ssh(ssh_config, "dev", "hostname; id -un") == "inner\nlab"
    assert ssh(ssh_config, "dev-worker1", "hostname; id -un") == "inner\nlab2"
    assert ssh(ssh_config, "dev-worker2", "hostname") == "h1"


def test_files_with_strange_names_are_named_in_full(
    ssh_config: Lab, make_context: MakeContext, tmp_path: Path
) -> None:
    odd = tmp_path / "100% of keys"
    odd.mkdir()
    (odd / "the key").write_bytes(ssh_config.key.read_bytes())
    (odd / "the key").chmod(0o600)
    (odd / "known").write_bytes(ssh_config.known_hosts.read_bytes())
    own = {"key": str(odd / "the key"), "known_hosts": str(odd / "known")}
    jump = ssh_config.plain("10.77.1.10", proxy_jump="lab@10.77.0.11,lab@10.77.0.200", **own)
    RUNNER.sky_publish_hosts(make_context(), place(ssh_config.plain(**own), jump))
    assert ssh(ssh_config, "dev", "hostname") == "h1"
    assert ssh(ssh_config, "dev-worker1", "hostname") == "inner"


def test_the_entry_takes_nothing_of_our_own_connections(ssh_config: Lab, make_context: MakeContext) -> None:
    RUNNER.sky_publish_hosts(make_context(), place(alias("h1")))
    shown = subprocess.run(
        ["ssh", "-F", str(ssh_config.config), "-G", "dev"], capture_output=True, text=True, check=True
    ).stdout
    assert "controlpath" not in shown and "batchmode no" in shown and "requesttty auto" in shown


# --- what it writes ----------------------------------------------------------------------------------


def test_the_users_config_is_unchanged_but_for_its_first_line(
    ssh_config: Lab, make_context: MakeContext
) -> None:
    own = b"\xef\xbb\xbf# mine\r\nHost other\n\tUser x" + b"\xff\xfe no newline at the end"
    ssh_config.config.write_bytes(own)
    ssh_config.config.chmod(0o644)
    for _ in range(2):
        RUNNER.sky_publish_hosts(make_context(), place(ssh_config.plain()))
    line = f"Include {ssh_config.home}/.ssh/sky/*.conf\n".encode()
    assert ssh_config.config.read_bytes() == line + own
    assert ssh_config.config.stat().st_mode & 0o777 == 0o644
    (file,) = (ssh_config.home / ".ssh" / "sky").iterdir()
    assert (file.name, file.stat().st_mode & 0o777) == ("dev-1234.conf", 0o600)
    for _ in range(2):
        RUNNER.sky_withdraw_hosts(make_context(), place().allocation)
    assert ssh_config.config.read_bytes() == own
    assert sorted(path.name for path in (ssh_config.home / ".ssh").iterdir()) == ["config"]


def test_what_was_missing_is_made_private(ssh_config: Lab, make_context: MakeContext) -> None:
    ssh_config.config.unlink()
    ssh_config.config.parent.rmdir()
    RUNNER.sky_publish_hosts(make_context(), place(ssh_config.plain()))
    assert ssh_config.config.stat().st_mode & 0o777 == 0o600
    assert ssh_config.config.parent.stat().st_mode & 0o777 == 0o700
    assert ssh(ssh_config, "dev", "hostname") == "h1"


def test_a_config_that_is_a_link_stays_one(ssh_config: Lab, make_context: MakeContext) -> None:
    real = ssh_config.home / "dotfiles" / "ssh_config"
    real.parent.mkdir()
    ssh_config.config.rename(real)
    ssh_config.config.symlink_to("../dotfiles/ssh_config")
    own = real.read_bytes()
    RUNNER.sky_publish_hosts(make_context(), place(alias("h1")))
    assert ssh_config.config.is_symlink() and real.read_bytes().endswith(own) and real.read_bytes() != own
    assert ssh(ssh_config, "dev", "hostname") == "h1"
    RUNNER.sky_withdraw_hosts(make_context(), place().allocation)
    assert ssh_config.config.is_symlink() and real.read_bytes() == own


def test_the_line_stays_until_the_last_cluster_is_gone(ssh_config: Lab, make_context: MakeContext) -> None:
    own = ssh_config.config.read_bytes()
    other = place(alias("h2"), name="other", key="other-1")
    RUNNER.sky_publish_hosts(make_context(), place(alias("h1")))
    RUNNER.sky_publish_hosts(make_context(), other)
    RUNNER.sky_withdraw_hosts(make_context(), place().allocation)
    assert ssh(ssh_config, "other", "hostname") == "h2"
    RUNNER.sky_withdraw_hosts(make_context(), other.allocation)
    assert ssh_config.config.read_bytes() == own


def test_the_last_call_for_a_cluster_holds(ssh_config: Lab, make_context: MakeContext) -> None:
    RUNNER.sky_publish_hosts(make_context(), place(alias("h1"), alias("h2")))
    RUNNER.sky_publish_hosts(make_context(), place(alias("h3")))
    assert ssh(ssh_config, "dev", "hostname") == "h3"
    text = (ssh_config.home / ".ssh" / "sky" / "dev-1234.conf").read_text()
    assert "worker1" not in text
    told = json.loads(next(line for line in text.splitlines() if "# sky: " in line).removeprefix("# sky: "))
    assert told["hosts"] == [{"name": "h3", "address": {"host": "h3"}}]


def test_a_name_means_the_cluster_that_had_it_last(ssh_config: Lab, make_context: MakeContext) -> None:
    """The older one, of which this client may know nothing any more, is still to be found."""
    RUNNER.sky_publish_hosts(make_context(), place(alias("h1")))
    RUNNER.sky_publish_hosts(make_context(), place(alias("h2"), key="aaa-1"))
    assert ssh(ssh_config, "dev", "hostname") == "h2"
    assert ssh(ssh_config, "dev.dev-1234", "hostname") == "h1"


PROCESS = """
import sys, time
from pathlib import Path
from sky.api import Allocation, Cache, CancelToken, Context, Host, Place
from sky_ssh.plugin import SSHRunner
ctx = Context(config={}, deadline=time.monotonic() + 60, cancel=CancelToken(), emit=print, cache=Cache(),
              directory=Path("/"))
number = sys.argv[1]
made = Allocation(id=f"many-{number}", cloud="ssh", cluster_name=f"many{number}", tags={}, num_nodes=1)
host = Host(transport="ssh", name="h1", address={"host": "h1"})
for _ in range(3):
    SSHRunner().sky_withdraw_hosts(ctx, made)
    SSHRunner().sky_publish_hosts(ctx, Place(allocation=made, hosts=(host,)))
if number in "01234":
    SSHRunner().sky_withdraw_hosts(ctx, made)
"""


def test_processes_at_once_lose_nothing(ssh_config: Lab) -> None:
    own = ssh_config.config.read_bytes()
    processes = [subprocess.Popen([sys.executable, "-P", "-c", PROCESS, str(n)]) for n in range(6)]
    assert [process.wait(60) for process in processes] == [0] * 6
    assert ssh_config.config.read_bytes() == f"Include {ssh_config.home}/.ssh/sky/*.conf\n".encode() + own
    assert [path.name for path in (ssh_config.home / ".ssh" / "sky").iterdir()] == ["many-5.conf"]
    assert ssh(ssh_config, "many5", "hostname") == "h1"


def test_publishing_waits_for_another_that_is_at_it(ssh_config: Lab, make_context: MakeContext) -> None:
    directory = ssh_config.config.parent
    own = ssh_config.config.read_bytes()
    descriptor = os.open(directory, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    thread = threading.Thread(target=RUNNER.sky_publish_hosts, args=(make_context(), place(alias("h1"))))
    thread.start()
    waiting = re.compile(rf"-> FLOCK .*:{directory.stat().st_ino} ")
    try:
        eventually(lambda: waiting.search(Path("/proc/locks").read_text()))
        assert ssh_config.config.read_bytes() == own
    finally:
        os.close(descriptor)
        thread.join()
    assert ssh(ssh_config, "dev", "hostname") == "h1"


# --- names -------------------------------------------------------------------------------------------


def test_a_host_of_the_users_own_config_is_not_shadowed(ssh_config: Lab, make_context: MakeContext) -> None:
    events: list[Event] = []
    hosts = (alias("h2"), alias("h3"))
    RUNNER.sky_publish_hosts(make_context(events=events), place(*hosts, name="H1"))
    assert "`ssh H1`" in words(events)
    assert ssh(ssh_config, "h1", "hostname") == "h1"
    assert ssh(ssh_config, "H1-worker1", "hostname") == "h3"
    again: list[Event] = []
    RUNNER.sky_publish_hosts(make_context(events=again), place(*hosts, name="H1"))
    assert words(again) == words(events), "its own entry of before is not the user's"


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("my dev", "my-dev"),
        ("gpu*", "gpu"),
        ("-oProxyCommand=x", "oProxyCommand-x"),
        ("ünï", "n"),
        ("?", "dev-1234"),
    ],
)
def test_a_name_that_ssh_cannot_hold_gets_a_safe_spelling(
    ssh_config: Lab, make_context: MakeContext, name: str, safe: str
) -> None:
    events: list[Event] = []
    RUNNER.sky_publish_hosts(make_context(events=events), place(alias("h1"), name=name))
    assert f"`ssh {safe}`" in words(events)
    assert ssh(ssh_config, safe, "hostname") == "h1"


def test_what_cannot_be_written_is_a_warning(ssh_config: Lab, make_context: MakeContext) -> None:
    (ssh_config.home / ".ssh" / "sky").write_text("a file of the user's")
    events: list[Event] = []
    RUNNER.sky_publish_hosts(make_context(events=events), place(alias("h1")))
    assert "`ssh dev` won't work" in words(events)


def test_withdrawing_what_was_never_published_is_nothing(
    ssh_config: Lab, make_context: MakeContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = ssh_config.config.read_bytes()
    RUNNER.sky_withdraw_hosts(make_context(), place().allocation)
    assert ssh_config.config.read_bytes() == own
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("HOME", str(empty))
    RUNNER.sky_withdraw_hosts(make_context(), place().allocation)
    assert list(empty.iterdir()) == []
