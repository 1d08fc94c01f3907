"""The file of pools, and names of the ssh config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sky.api import Accelerator, UsageError
from sky_ssh import pools

SKYPILOT = """
my-cluster:
  hosts:
    - 1.2.3.4
    - my-alias
my-box:
  user: ubuntu
  identity_file: ~/.ssh/id_rsa
  hosts:
    - ip: hostname_in_ssh_config
    - ip: 1.2.3.5
      user: alice
      identity_file: /keys/alice
      password: 0123
"""


@pytest.fixture
def read(tmp_path: Path, make_context: Any) -> Any:
    """`read(text)`: the pools of a file with that text."""

    def load(text: str) -> list[pools.Pool]:
        file = tmp_path / "pools.yaml"
        file.write_text(text)
        return pools.load(make_context(pools_file=str(file))())

    return load


def test_skypilots_format_is_read(read: Any, home: Path) -> None:
    cluster, box = read(SKYPILOT)
    assert [m.address["host"] for m in cluster.machines] == ["1.2.3.4", "my-alias"]
    first, second = box.machines
    assert first.address == {
        "host": "hostname_in_ssh_config",
        "host_keys": "strict",
        "user": "ubuntu",
        "key": f"{home}/.ssh/id_rsa",
    }
    assert (second.address["user"], second.address["key"]) == ("alice", "/keys/alice")
    assert second.password == "0123", "as it was typed, not as an octal number"


def test_our_own_keys(read: Any, home: Path) -> None:
    (pool,) = read("""
gpus:
  proxy_jump: bastion
  known_hosts: ~/known
  accelerators: {h100: 8}
  price: 2.5
  lease_dir: /var/lib/sky
  hosts:
    - {host: bob@a, port: 2222, cpus: 96, memory: 512GB, internal_ip: 10.0.0.1, sudo: required}
    - {host: a, proxy_command: "ssh -W %h:%p gate", accelerators: "A100-80GB:4", name: second}
""")
    first, second = pool.machines
    assert first.name == "a:2222"
    assert first.address == {
        "host": "a",
        "host_keys": "strict",
        "user": "bob",
        "port": "2222",
        "proxy_jump": "bastion",
        "known_hosts": f"{home}/known",
    }
    assert (first.cpus, first.memory_gib, first.internal_ip) == (96, 512, "10.0.0.1")
    assert (first.accelerator, first.price_usd_per_hour) == (Accelerator("H100", 8), 2.5)
    assert first.sudo_required and first.lease_dir == "/var/lib/sky"
    assert second.name == "second"
    assert "proxy_jump" not in second.address, "a host's own way in replaces the pool's"
    assert second.accelerator == Accelerator("A100-80GB", 4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p: {hosts: [a], identityfile: /k}", "pool 'p': unknown key 'identityfile', did you mean 'identity_file'?"),
        ("p: {hosts: [{ip: a, prot: 22}]}", "pool 'p', host 1: unknown key 'prot', did you mean 'port'?"),
        ("p: {hosts: [a, {user: b}]}", "pool 'p', host 2: needs `host` or `ip`"),
        ("p: {hosts: [{ip: a, host: b}]}", "pool 'p', host 1: needs `host` or `ip`"),
        ("p: {hosts: []}", "pool 'p': `hosts` must be a list"),
        ("p: {user: a}", "pool 'p': `hosts` must be a list"),
        ("p: [a]", "pool 'p': it must map"),
        ("[a]", "it must map names of pools"),
        ("p: {hosts: [{ip: a, port: 70000}]}", "`port` must be 1 to 65535, not '70000'"),
        ("p: {hosts: [a], cpus: many}", "`cpus` must be a number, not 'many'"),
        ("p: {hosts: [a], memory: 0}", "`memory` must be a number of GiB, not '0'"),
        ("p: {hosts: [a], accelerators: {H100: 0}}", "`accelerators` must be one kind"),
        ("p: {hosts: [a], accelerators: {H100: 1, L4: 1}}", "`accelerators` must be one kind"),
        ("p: {hosts: [a], identity_file: key}", "`identity_file` must be an absolute path"),
        ("p: {hosts: [a], lease_dir: ~/x}", "`lease_dir` must be an absolute path"),
        ("p: {hosts: [a], sudo: maybe}", "`sudo` can only be `required`"),
        ("p: {hosts: [a], proxy_jump: b, proxy_command: c}", "only one of the two"),
        ("p: {hosts: [a, a]}", "'a' is there twice"),
        ("p: {hosts: ['-oProxyCommand=x']}", "starts with a dash"),
        ("p: {hosts: ['h1:2222']}", "host 1: 'h1:2222' is no name or address of a host"),
        ("p: {hosts: [{ip: 'bob@h1:2222'}]}", "write {host: 'h1', port: 2222}"),
        ("p: {hosts: ['[fe80::1%eth0]:22']}", "write {host: 'fe80::1%eth0', port: 22}"),
        ("p: {hosts: ['[::1]']}", "write {host: '::1'}"),
        ("p: {hosts: ['ssh://h1:2222']}", "write {host: 'h1', port: 2222}"),
        ("p: {hosts: ['a:b']}", "'a:b' is no name or address of a host"),
        ("p: {hosts: [a]}\np: {hosts: [b]}", "line 2: 'p' is there twice"),
        ("p: {hosts: [a", "line 1: "),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_file_pool_and_key(read: Any, tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(text)
    assert said in caught.value.message
    assert str(tmp_path / "pools.yaml") in caught.value.message
    assert "\n" not in caught.value.message


def test_an_ipv6_address_is_a_host(read: Any) -> None:
    (pool,) = read("p: {hosts: ['::1', 'bob@fe80::1%eth0', {ip: '2001:db8::7', port: 2222}]}")
    assert [m.address["host"] for m in pool.machines] == ["::1", "fe80::1%eth0", "2001:db8::7"]
    assert [m.address.get("port") for m in pool.machines] == [None, None, "2222"]


def test_all_mistakes_are_named_at_once(read: Any) -> None:
    with pytest.raises(UsageError) as caught:
        read("p: {hosts: [{ip: a, prot: 1}, {port: 2}]}\nq: {hsots: [a]}")
    assert all(word in caught.value.message for word in ("'prot'", "host 2", "'hsots'", "'hosts'?"))


def test_a_password_is_shown_nowhere(read: Any) -> None:
    (pool,) = read("p: {hosts: [a], password: 'Geheim 9'}")
    assert pool.machines[0].password == "Geheim 9"
    assert "Geheim" not in repr(pool)
    with pytest.raises(UsageError) as caught:
        read("p: {hosts: [{ip: a, prot: 1}], password: ['Geheim 9']}")
    assert "Geheim" not in str(caught.value)


def test_where_the_file_is(
    home: Path, tmp_path: Path, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pools.load(make_context()()) == []
    assert pools.pools_file(make_context()()) == home / ".sky" / "ssh_node_pools.yaml"
    monkeypatch.setenv("SKY_HOME", str(tmp_path / "state"))
    assert pools.pools_file(make_context()()) == tmp_path / "state" / "ssh_node_pools.yaml"
    assert pools.pools_file(make_context(pools_file="~/p")()) == home / "p"


def test_names_of_the_ssh_config_are_pools_of_the_moment(home: Path, make_context: Any) -> None:
    (home / ".ssh" / "config").write_text(
        'Include more/*\nhost=one\n  User x\nHost gpu-* "two" !not\nHost *\n  Port 22\n'
    )
    (home / ".ssh" / "more").mkdir()
    (home / ".ssh" / "more" / "a").write_text("Host three\n")
    ctx = make_context()()
    (pool,) = pools.select(ctx, "one,gpu-7,two,three,one")
    assert pool.name == "one,gpu-7,two,three,one"
    assert [m.name for m in pool.machines] == ["one", "gpu-7", "two", "three"]
    assert pool.machines[0].address == {"host": "one", "host_keys": "strict"}
    for wrong, near in (("thre", "three"), ("one,nothing", ""), ("not", ""), ("-oX", ""), (",", "")):
        with pytest.raises(UsageError) as caught:
            pools.select(ctx, wrong)
        assert near in caught.value.remedy
        assert str(home / ".ssh" / "config") in caught.value.message


def test_a_pool_comes_before_a_name_of_the_ssh_config(home: Path, make_context: Any) -> None:
    (home / ".ssh" / "config").write_text("Host same\n")
    (home / ".sky").mkdir()
    (home / ".sky" / "ssh_node_pools.yaml").write_text("same: {hosts: [other]}\nfurther: {hosts: [b]}")
    ctx = make_context()()
    assert [m.name for m in pools.select(ctx, "same")[0].machines] == ["other"]
    assert [pool.name for pool in pools.select(ctx, None)] == ["same", "further"]
