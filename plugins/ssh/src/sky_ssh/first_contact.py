"""A connection by fabric, to learn what is wrong with it. Never used for commands: that is `runner.py`'s.

Host keys are checked as ssh would, by the files that `ssh -G` names; none is ever learnt here.
"""

from __future__ import annotations

import errno
import logging
import socket
import time
from typing import Any

from sky.api import Context, CredentialsError, SkyError, TimedOut, Unreachable
from sky_ssh import failures, lease
from sky_ssh.address import Target
from sky_ssh.lease import Seen
from sky_ssh.pools import Machine
from sky_ssh.way import Way

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
    way = Way(ctx, target)
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
        _trust(way, made.client)
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


def _trust(way: Way, client: Any) -> None:
    """Only keys that are in the files: fabric would take any."""
    import paramiko

    client.set_missing_host_key_policy(_Unknown)
    for file in way.known:
        if not file.is_file():
            continue
        found = paramiko.HostKeys(str(file)).lookup(way.known_as)
        for kind, key in (found or {}).items():
            name = way.hostname if way.port == 22 else f"[{way.hostname}]:{way.port}"
            client.get_host_keys().add(name, kind, key)


class _HostKeyUnknown(Exception):
    pass


class _Unknown:
    """A policy of paramiko's for keys that no file has."""

    def missing_host_key(self, _client: object, _name: str, key: Any) -> None:
        raise _HostKeyUnknown(f"{key.get_name()} {key.fingerprint}")


def _explained(target: Target, way: Way, error: Exception) -> SkyError:
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


def _of_network(name: str, way: Way, error: Exception) -> SkyError:
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
