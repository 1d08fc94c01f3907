"""What went wrong when ssh could not connect, from its own words."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sky.api import CredentialsError, SkyError, Unreachable, UsageError
from sky_ssh import options
from sky_ssh.address import Target

_DROPPED = re.compile(
    r"(kex|ssh)_exchange_identification|Connection (reset|closed) by|Exceeded MaxStartups|Broken pipe"
)
_NETWORK = (
    ("Could not resolve hostname", "its name is unknown", "check the name; is a VPN needed?"),
    ("Connection refused", "refused the connection", "is sshd running there, and is the port right?"),
    ("No route to host", "there is no route to it", "is it up, and is a VPN or a jump host needed?"),
    ("Network is unreachable", "there is no route to it", "is this machine online?"),
    ("timed out", "it doesn't answer", "is it up? does a firewall drop the port?"),
)


def check_files(target: Target) -> None:
    """What ssh would pass over in silence: a key that isn't there or is open, a file it can't make.

    Raises `CredentialsError`.
    """
    if target.host_keys == "first-use" and target.known_hosts:
        Path(target.known_hosts).expanduser().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not target.key:
        return
    key = Path(target.key).expanduser()
    try:
        mode = key.stat().st_mode
    except OSError as error:
        raise CredentialsError(
            f"{target.name}: the key {key} can't be read: {error.strerror}",
            remedy="check the path of the key",
        ) from None
    if mode & 0o077 and key.stat().st_uid == os.getuid():
        raise CredentialsError(
            f"{target.name}: others may read the key {key}, so ssh doesn't use it", remedy=f"chmod 600 {key}"
        )


def was_dropped(said: str) -> bool:
    """Whether the server was there and hung up before any key was spoken of: it's busy, or just starting."""
    return bool(_DROPPED.search(said)) and "Permission denied" not in said and "Host key" not in said


def by_dead_hop(said: str) -> bool:
    """Whether the way to the host, by a master kept for the hop, failed."""
    return "Control socket connect" in said or "mux_client" in said or was_dropped(said)


def of_connecting(config: Mapping[str, Any], target: Target, identity: Sequence[str], said: str) -> SkyError:
    """What `said`, the stderr of an ssh that could not connect, means. Nothing was started."""
    name = target.name if target.name == target.host else f"{target.name} ({target.host})"
    if not said:
        return Unreachable(
            f"{name}: ssh could not connect", remedy="its own message is above", retryable=True
        )
    if "Bad configuration option" in said or "bad configuration options" in said:
        return UsageError(f"{name}: the ssh config can't be read: {_first(said)}", remedy="correct that line")
    changed = re.search(r"Host key for (\S+) has changed", said)
    if changed or "HOST IDENTIFICATION HAS CHANGED" in said:
        return _changed(name, changed[1] if changed else target.host, said)
    if unknown := re.search(r"No (\S+) host key is known for (\S+) and", said):
        file = _known_hosts(config, target, identity)
        return Unreachable(
            f"{name}: its host key isn't known (as {unknown[2]} in {file})",
            remedy=f"compare the key with the host's own, then: {_keyscan(unknown[2])} >>{file}",
        )
    if "Host key verification failed" in said:
        return Unreachable(
            f"{name}: host key verification failed: {_first(said)}", remedy=f"ssh {target.host}"
        )
    if refused := _refused(name, target, said):
        return refused
    for words, cause, remedy in _NETWORK:
        if words in said:
            return Unreachable(f"{name}: {cause} ({_line_with(said, words)})", remedy=remedy, retryable=True)
    if was_dropped(said):
        return Unreachable(
            f"{name}: the server hangs up before it says who it is ({_first(said)})",
            remedy="it has too many connections at once (MaxStartups), or it bans this address",
            retryable=True,
        )
    return Unreachable(f"{name}: ssh could not connect: {_first(said)}", retryable=True)


def _refused(name: str, target: Target, said: str) -> SkyError | None:
    open_key = re.search(r"Permissions \d+ for '([^']+)' are too open", said)
    if open_key:
        return CredentialsError(
            f"{name}: others may read the key {open_key[1]}, so ssh doesn't use it",
            remedy=f"chmod 600 {open_key[1]}",
        )
    unread = re.search(r'Load key "([^"]+)": (.+)', said)
    if "Permission denied (" not in said and "Too many authentication failures" not in said:
        return None
    user = re.search(r"(\S+)@\S+: Permission denied", said)
    whom = f" for {user[1]}" if user else ""
    if unread:
        return CredentialsError(
            f"{name}: the key {unread[1]} can't be used: {unread[2].strip()}",
            remedy=f"ssh-add {unread[1]}, if it has a passphrase",
        )
    if "Too many authentication failures" in said:
        return CredentialsError(
            f"{name}: the server gave up after the wrong keys{whom}",
            remedy="name the right key: the agent offers all it has",
        )
    key = target.key or "the key"
    return CredentialsError(
        f"{name}: the server takes none of the keys offered{whom}",
        remedy=f"is the user right? ssh-add {key} if it has a passphrase; ssh-copy-id to have it accepted",
    )


def _changed(name: str, known_as: str, said: str) -> SkyError:
    place = re.search(r"Offending (?:\S+ )?key in (.+):\d+", said)
    file = place[1].strip() if place else "~/.ssh/known_hosts"
    return Unreachable(
        f"{name}: its host key has changed: another machine, or someone in between",
        remedy=f"if you know why it changed: ssh-keygen -f {file} -R '{known_as}'",
    )


def _keyscan(known_as: str) -> str:
    host, _, port = known_as.lstrip("[").partition("]:")
    return f"ssh-keyscan -p {port} {host}" if port else f"ssh-keyscan {host}"


def _known_hosts(config: Mapping[str, Any], target: Target, identity: Sequence[str]) -> str:
    """The file that ssh looks into, by its own word."""
    if target.known_hosts:
        return str(Path(target.known_hosts).expanduser())
    asked = [options.PROGRAM, "-G", *identity, "--", target.host]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    files = re.search(r"^userknownhostsfile (\S+)", done.stdout, re.MULTILINE)
    return files[1] if files else "~/.ssh/known_hosts"


def _first(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip(" @\r")]
    return lines[0] if lines else "it says nothing"


def _line_with(said: str, words: str) -> str:
    line = next((line.strip() for line in said.splitlines() if words in line), "")
    return line.removeprefix("ssh: ")
