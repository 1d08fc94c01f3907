"""What the user's ssh config says of a cluster's hosts, so that `ssh NAME` reaches them."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from sky.api import Host, Place, SkyError
from sky_ssh import options, published
from sky_ssh.address import Target

_KEPT = {
    "identityfile": "IdentityFile",
    "identitiesonly": "IdentitiesOnly",
    "identityagent": "IdentityAgent",
    "certificatefile": "CertificateFile",
    "addressfamily": "AddressFamily",
    "bindaddress": "BindAddress",
    "bindinterface": "BindInterface",
    "forwardagent": "ForwardAgent",
    "globalknownhostsfile": "GlobalKnownHostsFile",
    "userknownhostsfile": "UserKnownHostsFile",
    "stricthostkeychecking": "StrictHostKeyChecking",
    "hostkeyalias": "HostKeyAlias",
    "hostkeyalgorithms": "HostKeyAlgorithms",
    "pubkeyacceptedalgorithms": "PubkeyAcceptedAlgorithms",
    "kexalgorithms": "KexAlgorithms",
    "ciphers": "Ciphers",
    "macs": "MACs",
    "proxycommand": "ProxyCommand",
}
"""Options that decide whether the host is reached; what concerns the session only is the user's own affair."""


def names(cluster_name: str, cluster_id: str, count: int) -> list[str]:
    """What the hosts are called, rank 0 first: in characters that ssh and its config take."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", cluster_name).strip("-") or cluster_id
    return [safe, *(f"{safe}-worker{rank}" for rank in range(1, count))]


def document(config: Mapping[str, Any], place: Place, named: Mapping[str, Host]) -> str:
    """The file of a cluster, with an entry for each of `named`. Runs `ssh -G`, which connects to nobody.

    Raises `SkyError` when ssh can't read the config, and `UsageError` for an address that isn't of this runner.
    """
    lines = ["# Written by Sky; `sky down` takes it away.", published.line(place)]
    for name, host in named.items():
        lines += ["", f"Host {name}", *(f"  {line}" for line in entry(config, Target.of(host)))]
    return "\n".join(lines) + "\n"


def entry(config: Mapping[str, Any], target: Target) -> list[str]:
    """The options of one host, spelt out: an entry of another name doesn't get those of its alias.

    What a `Host *` of the user's config would add to what decides where it leads is said here, first.
    """
    resolved = _resolve([*options.identity(config, target), "--", target.host])
    usual = _resolve(["-F", "none", "--", target.host])
    lines = [
        f"HostName {resolved['hostname'][0]}",
        f"User {resolved['user'][0]}",
        f"Port {resolved['port'][0]}",
    ]
    if target.key:
        lines += [f"IdentityFile {options.path(target.key)}", "IdentitiesOnly yes"]
    if target.known_hosts:
        lines += [f"UserKnownHostsFile {options.path(target.known_hosts)}"]
    hop = target.hop()
    lines.append("ProxyJump none" if hop is None else f"ProxyCommand {_command(config, hop)}")
    if hop is None and (jump := resolved.get("proxyjump")) and jump[0] != "none":
        lines[-1] = f"ProxyJump {jump[0]}"
    elif hop is None and "proxycommand" in resolved:
        del lines[-1]  # said below, and one excludes the other
    said = {line.partition(" ")[0] for line in lines}
    for key, spelling in _KEPT.items():
        if spelling not in said and resolved.get(key) != usual.get(key):
            lines += [f"{spelling} {_value(key, value)}" for value in resolved.get(key, ())]
    return lines


def _command(config: Mapping[str, Any], hop: Target) -> str:
    """An ssh that leads on from a hop, to which its own hops lead in the same way."""
    way = options.identity(config, hop)
    if (before := hop.hop()) is not None:
        way += options.option("ProxyCommand", _command(config, before))
    # The ssh that starts it takes each `%` for its own, but for those of the last words.
    words = " ".join(shlex.quote(word.replace("%", "%%")) for word in (options.PROGRAM, *way))
    return f"{words} -W '[%h]:%p' -- {shlex.quote(hop.host)}"


def _value(key: str, value: str) -> str:
    # `ssh -G` prints a file's name without the quotes that it needs.
    return f'"{value}"' if key in ("identityfile", "certificatefile") and " " in value else value


def _resolve(arguments: Sequence[str]) -> dict[str, list[str]]:
    """What ssh would do, by `ssh -G`: values by their lower-case keys."""
    asked = [options.PROGRAM, "-G", *arguments]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        raise SkyError("this machine has no program ssh", remedy="install the OpenSSH client") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"ssh -G ended with {done.returncode}"]
        raise SkyError(f"ssh can't read its config: {said[0]}")
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        found.setdefault(key, []).append(value)
    return found
