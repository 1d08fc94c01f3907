"""Command lines of OpenSSH: what is always said to it, and what an address says.

What is given here wins over any ssh config, as options of the command line come first.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sky_ssh.address import Target

PROGRAM = "ssh"
KEEP_SECONDS = 600
CONNECT_SECONDS = 10
_ALIVE_SECONDS, _ALIVE_COUNT = 4, 2  # a network that is silent for 12 s is a lost one

# A session is asked of a master only. One that no master takes would connect by itself: past the limit on
# handshakes, and with another configuration. An address that has no address of its family makes that fail
# at once, without a query or a process.
_NO_OTHER_WAY = ("-o", "AddressFamily=inet6", "-o", "HostName=127.0.0.1")
FELL_THROUGH = b"Could not resolve hostname 127.0.0.1"
"""What ssh says when no master took the session: then nothing was started for sure."""
FULL = (b"Session open refused", b"administratively prohibited")


def identity(config: Mapping[str, Any], target: Target, hop_socket: str = "") -> list[str]:
    """The options that decide where a connection leads, as whom, and which host keys are right."""
    chosen = config_arguments(config, target)
    for key, value in (("Port", target.port), ("User", target.user)):
        chosen += option(key, value) if value else []
    if target.key:
        chosen += option("IdentityFile", path(target.key)) + option("IdentitiesOnly", "yes")
    if target.known_hosts:
        chosen += option("UserKnownHostsFile", path(target.known_hosts)) + option(
            "GlobalKnownHostsFile", "none"
        )
    if target.host_keys:
        chosen += option("StrictHostKeyChecking", "yes" if target.host_keys == "strict" else "accept-new")
    if hop_socket:
        session = " ".join(quoted(word) for word in session_arguments(hop_socket.replace("%", "%%")))
        chosen += option("ProxyCommand", f"{PROGRAM} {session} -W '[%h]:%p' hop")
    elif target.proxy_command:
        chosen += option("ProxyCommand", target.proxy_command)
    elif target.proxy_jump == "none":
        chosen += option("ProxyJump", "none")
    return chosen


def config_arguments(config: Mapping[str, Any], target: Target) -> list[str]:
    """`-F FILE` where ssh wouldn't read the right file by itself: it takes `~` from the password file."""
    if target.config == "none":
        return ["-F", "none"]
    if chosen := config.get("config_file"):
        return ["-F", os.path.expanduser(str(chosen))]  # noqa: PTH111 - pathlib's cost shows in exec
    home = os.environ.get("HOME", "")
    file = f"{home}/.ssh/config"
    if home and os.path.isfile(file) and not _is_home(home):  # noqa: PTH113
        return ["-F", file]
    return []


def _is_home(home: str) -> bool:
    import pwd

    try:
        return os.path.samefile(home, pwd.getpwuid(os.getuid()).pw_dir)  # noqa: PTH121
    except (KeyError, OSError):
        return False


def master_arguments(
    config: Mapping[str, Any], socket: str, seconds_left: float | None, spare: bool
) -> list[str]:
    """A connection in the background that others share: commands only, nothing of a terminal's."""
    keep = int(config.get("control_persist", KEEP_SECONDS))
    chosen = {
        "ControlMaster": "yes",
        "ControlPath": socket.replace("%", "%%"),
        "ControlPersist": str(max(1, min(keep, 60) if spare else keep)),
        "ConnectTimeout": _patience(seconds_left),
        **_ALIVE,
        **_COMMANDS_ONLY,
    }
    return ["-M", "-N", "-f", "-T", *(word for pair in chosen.items() for word in option(*pair))]


_ALIVE = {"ServerAliveInterval": str(_ALIVE_SECONDS), "ServerAliveCountMax": str(_ALIVE_COUNT)}
_COMMANDS_ONLY = {
    "ForwardX11": "no",
    "RequestTTY": "no",
    "RemoteCommand": "none",
    "ClearAllForwardings": "yes",
    "PermitLocalCommand": "no",
    "LogLevel": "ERROR",
}
BATCH = ("-o", "BatchMode=yes")


def session_arguments(socket: str) -> list[str]:
    """One session of a master. No ssh config is read: the master has done so."""
    return ["-F", "none", "-S", socket, "-T", *BATCH, *_SESSION]


_SESSION = ("-o", "ControlMaster=no", *_NO_OTHER_WAY, "-o", "LogLevel=ERROR")


def terminal_arguments(socket: str) -> list[str]:
    """A terminal by a master, or, where that has no room, by a connection of its own, as the user's ssh."""
    chosen = {
        "ControlMaster": "no",
        "ControlPath": socket.replace("%", "%%"),
        "RemoteCommand": "none",
        "ClearAllForwardings": "yes",
        "PermitLocalCommand": "no",
        "LogLevel": "ERROR",
    }
    return ["-tt", *(word for pair in chosen.items() for word in option(*pair))]


def alone_arguments(seconds_left: float | None) -> list[str]:
    """A connection that nobody shares, for ports."""
    chosen = {**_COMMANDS_ONLY, **_ALIVE, "ControlPath": "none", "ConnectTimeout": _patience(seconds_left)}
    del chosen["ClearAllForwardings"]  # it would clear those of the command line, too
    return ["-T", *BATCH, "-a", *(word for pair in chosen.items() for word in option(*pair))]


def _patience(seconds_left: float | None) -> str:
    return str(CONNECT_SECONDS if seconds_left is None else min(CONNECT_SECONDS, int(seconds_left) + 1))


def option(key: str, value: str) -> list[str]:
    """`-o KEY=VALUE`."""
    return ["-o", f"{key}={value}"]


def path(name: str) -> str:
    """A file's name as ssh's options take it: `~` is $HOME's, and nothing else in it is special."""
    full = str(Path(name).expanduser()).replace("%", "%%")
    return '"' + full.replace("\\", "\\\\").replace('"', '\\"') + '"'


def quoted(word: str) -> str:
    """For the user's own shell, by which ssh starts a ProxyCommand."""
    return word if word.replace("-", "").replace("/", "").replace("=", "").isalnum() else f"'{word}'"
