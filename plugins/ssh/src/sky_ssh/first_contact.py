"""A connection by fabric, to learn what is wrong with it. Never used for commands: that is `runner.py`'s.

Host keys are checked as ssh would, by the files that `ssh -G` names; none is ever learnt here.
"""

from __future__ import annotations

import errno
import logging
import shlex
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from sky.api import Context, CredentialsError, SkyError, TimedOut, Unreachable
from sky_ssh import connection, failures, lease, options
from sky_ssh.address import Target
from sky_ssh.lease import Seen
from sky_ssh.pools import Machine

__all__ = ["Seen", "look"]

_CONNECT_SECONDS = 10.0
_NETWORK = {
    errno.ECONNREFUSED: ("refused the connection", "is sshd running there, and is the port right?"),
    errno.EHOSTUNREACH: ("there is no route to it", "is it up, and is a VPN or a jump host needed?"),
    errno.ENETUNREACH: ("there is no route to it", "is this machine online?"),
    errno.ETIMEDOUT: ("it doesn't answer", "is it up? does a firewall drop the port?"),
}


def look(ctx: Context, machine: Machine) -> Seen:
    """What the host has, who holds it, and whether sudo would work there. Blocks; changes nothing.

    Raises `Unreachable` and `CredentialsError` with the cause and what to do, in one line each.
    """
    import fabric

    # Without a handler Python prints what paramiko logs, traces and all.
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    node = lease.node_of(machine)
    target = Target.of(node.host())
    failures.check_files(target)
    way = _Way(ctx, target)
    made = fabric.Connection(
        way.hostname,
        user=way.user,
        port=way.port,
        config=fabric.Config(lazy=True),
        connect_timeout=_left(ctx),
        connect_kwargs={
            "key_filename": way.keys,
            "look_for_keys": False,
            "banner_timeout": _left(ctx),
            "auth_timeout": _left(ctx),
            **({"sock": way.proxy.socket} if way.proxy else {}),
        },
    )
    try:
        way.trust(made.client)
        made.open()
        said, errors = _ask(
            made.client,
            lease.script("look", node, sudo="ask", password=machine.password),
            _left(ctx),
        )
    except Exception as error:  # of paramiko, of its key readers, of sockets: all named in one place
        raise _explained(target, way, error) from error
    finally:
        made.close()
        if way.proxy:
            way.proxy.close()
    return lease.parse(machine.name, said, errors)


def _ask(client: Any, script: str, seconds: float) -> tuple[bytes, bytes]:
    # Not `Connection.run`: it sends stdin one character each 10 ms.
    stdin, stdout, stderr = client.exec_command("sh", timeout=seconds)
    stdin.write(script)
    stdin.channel.shutdown_write()
    return stdout.read(), stderr.read()


def _left(ctx: Context) -> float:
    left = _CONNECT_SECONDS if ctx.deadline is None else ctx.deadline - time.monotonic()
    if left <= 0:
        raise TimedOut("no answer in time")
    return min(left, _CONNECT_SECONDS)


class _Way:
    """Where ssh would connect to, as whom, and by what: its own word."""

    def __init__(self, ctx: Context, target: Target) -> None:
        hop = target.hop()
        if hop is not None:
            connection.Master(ctx, hop).ensure()
        identity = connection.Master(ctx, target).identity
        said = self._resolved([options.PROGRAM, "-G", *identity, "--", target.host])
        self.hostname = said["hostname"][0]
        self.user = said["user"][0]
        self.port = int(said["port"][0])
        keys = [Path(name).expanduser() for name in said.get("identityfile", [])]
        self.keys = [str(key) for key in keys if key.is_file()]
        files = " ".join(said.get("userknownhostsfile", []) + said.get("globalknownhostsfile", []))
        self._known = [Path(name).expanduser() for name in shlex.split(files)]
        self.known_as = (said.get("hostkeyalias") or [""])[0] or (
            self.hostname if self.port == 22 else f"[{self.hostname}]:{self.port}"
        )
        self.proxy = self._proxy(said, options.config_arguments(ctx.config, target))

    @property
    def known_hosts(self) -> str:
        """The first file of known hosts: where ssh would add one."""
        return str(self._known[0]) if self._known else "~/.ssh/known_hosts"

    def _resolved(self, argv: list[str]) -> dict[str, list[str]]:
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        except FileNotFoundError as error:
            raise connection.no_program() from error
        if done.returncode != 0:
            raise CredentialsError(
                f"ssh can't read its config: {done.stderr.strip().splitlines()[0]}", remedy="mend that line"
            )
        said: dict[str, list[str]] = {}
        for line in done.stdout.splitlines():
            key, _, value = line.partition(" ")
            said.setdefault(key, []).append(value)
        return said

    def _proxy(self, said: dict[str, list[str]], config: list[str]) -> _Proxy | None:
        command, jump = said.get("proxycommand"), said.get("proxyjump")
        if command and command[0] != "none":
            line = command[0]
        elif jump and jump[0] != "none":
            before, _, last = jump[0].rpartition(",")
            words = [options.PROGRAM, *config, *options.BATCH, *(("-J", before) if before else ())]
            line = shlex.join([*words, "-W", f"[{self.hostname}]:{self.port}", last]).replace("%", "%%")
        else:
            return None
        tokens = {"%%": "%", "%h": self.hostname, "%p": str(self.port), "%r": self.user}
        return _Proxy("".join(tokens.get(part, part) for part in _tokens(line)))

    def trust(self, client: Any) -> None:
        """Only keys that are in the files: fabric would take any."""
        import paramiko

        client.set_missing_host_key_policy(_Unknown)
        for file in self._known:
            if not file.is_file():
                continue
            found = paramiko.HostKeys(str(file)).lookup(self.known_as)
            for kind, key in (found or {}).items():
                name = self.hostname if self.port == 22 else f"[{self.hostname}]:{self.port}"
                client.get_host_keys().add(name, kind, key)


class _Proxy:
    """A program that leads to the host, on a socket: unlike paramiko's own, its end is seen at once."""

    def __init__(self, line: str) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            end = theirs.fileno()
            self._process = subprocess.Popen(
                ["sh", "-c", f"exec {line}"], stdin=end, stdout=end, stderr=subprocess.PIPE
            )
        self._said = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            self._said = stderr.read(1 << 16)

    def last_words(self) -> str:
        """What it said before it gave up. Ends it."""
        self.close()
        lines = [line.strip() for line in self._said.decode("utf-8", "replace").splitlines() if line.strip()]
        # ssh's own last line tells that the connection is closed; the one before it, why.
        told = [line for line in lines if "UNKNOWN port 65535" not in line]
        return told[-1] if told else ""

    def close(self) -> None:
        """End it. Idempotent."""
        self.socket.close()
        self._process.terminate()
        self._process.wait()
        self._reader.join(1)  # what it started may still hold its stderr


def _tokens(line: str) -> list[str]:
    parts, at = [], 0
    while at < len(line):
        length = 2 if line[at] == "%" else 1
        parts.append(line[at : at + length])
        at += length
    return parts


class _HostKeyUnknown(Exception):
    pass


class _Unknown:
    """A policy of paramiko's for keys that no file has."""

    def missing_host_key(self, _client: object, _name: str, key: Any) -> None:
        raise _HostKeyUnknown(f"{key.get_name()} {key.fingerprint}")


def _explained(target: Target, way: _Way, error: Exception) -> SkyError:
    import paramiko

    name = target.name
    if isinstance(error, SkyError):
        return error
    if isinstance(error, paramiko.BadHostKeyException):
        return Unreachable(
            f"{name}: its host key has changed: another machine, or someone in between",
            remedy=f"if you know why it changed: ssh-keygen -f {way.known_hosts} -R '{way.known_as}'",
        )
    if isinstance(error, _HostKeyUnknown):
        return Unreachable(
            f"{name}: its host key isn't known (as {way.known_as} in {way.known_hosts}): {error}",
            remedy=f"compare it with the host's own, then: ssh-keyscan -p {way.port} {way.hostname} "
            f">>{way.known_hosts}",
        )
    if isinstance(error, paramiko.PasswordRequiredException):
        return CredentialsError(
            f"{name}: its key has a passphrase, and the agent hasn't got it",
            remedy=f"ssh-add {target.key or way.keys[0]}",
        )
    if isinstance(error, paramiko.AuthenticationException):
        keys = ", ".join(way.keys)
        if not keys:
            return CredentialsError(f"{name}: there is no key to log in with", remedy="set identity_file")
        return CredentialsError(
            f"{name}: the server takes none of the keys offered for {way.user} ({keys})",
            remedy="is the user right? ssh-copy-id has a key accepted",
        )
    if way.proxy is not None:
        said = way.proxy.last_words()
        return Unreachable(f"{name}: the way to it fails: {said or error}", remedy="is the jump host right?")
    return _of_network(name, way, error)


def _of_network(name: str, way: _Way, error: Exception) -> SkyError:
    if isinstance(error, socket.gaierror):
        return Unreachable(
            f"{name}: its name {way.hostname!r} is unknown", remedy="check it; is a VPN needed?"
        )
    numbers = [getattr(error, "errno", None)]
    numbers += [inner.errno for inner in getattr(error, "errors", {}).values()]
    if isinstance(error, TimeoutError):
        numbers.append(errno.ETIMEDOUT)
    for number in numbers:
        if number in _NETWORK:
            cause, remedy = _NETWORK[number]
            return Unreachable(f"{name}: {cause} ({way.hostname}, port {way.port})", remedy=remedy)
    return Unreachable(f"{name}: {error or type(error).__name__}")
