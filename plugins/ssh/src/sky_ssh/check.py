"""`sky check ssh`: first contact with every host of every pool, and what stands in the way of the others.

One line a host, with the cause and what to do. fabric connects, with what `ssh -G` says of the host, so that
each step (name, network, host key, login, sudo) fails by itself; ways in by other hosts are OpenSSH's own.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence

from sky.api import Context, CredentialStatus, SkyError, UsageError, ask_each, counted
from sky_ssh import facts, first_contact
from sky_ssh.leasing import sudo_refused
from sky_ssh.pools import Machine, Pool, load, pools_file

_SECONDS = 20.0


def check_credentials(ctx: Context) -> CredentialStatus:
    """Whether a host of the pools can be used. Blocks for 20 s at most; asks all at once. Changes nothing."""
    try:
        pools = load(ctx)
    except UsageError as error:
        return CredentialStatus(ok=False, reason=error.message, remedy=error.remedy)
    if not pools:
        return CredentialStatus(
            ok=False,
            reason=f"there are no pools: {pools_file(ctx)} has none",
            remedy="write one, or launch on hosts of your ssh config: --infra ssh/HOST[,HOST…]",
        )
    machines = [machine for pool in pools for machine in pool.machines]
    answers = iter(ask_each(ctx, machines, first_contact.look, _SECONDS))
    lines, usable = [], 0
    for pool in pools:
        for machine in pool.machines:
            good, line = _line(machine, next(answers))
            usable += good
            lines.append(f"{pool.name}/{machine.name}: {line}")
    details = (*_open_file(ctx, pools), *lines)
    if usable:
        return CredentialStatus(
            ok=True, reason=f"{usable} of {counted(len(machines), 'host')}", details=details
        )
    return CredentialStatus(
        ok=False, reason=f"no host can be used: {lines[0]}", remedy="sky check -v names all", details=details
    )


def _line(machine: Machine, answer: first_contact.Seen | SkyError) -> tuple[bool, str]:
    """Whether it can be used, and what to say of it."""
    if isinstance(answer, SkyError):
        # Errors of connecting name the host themselves; here it's at the beginning of the line.
        message = answer.message.removeprefix(f"{machine.name}: ")
        return False, _joined(message, answer.remedy)
    if machine.sudo_required and answer.sudo not in ("free", "accepted"):
        error = sudo_refused(machine.name, answer.sudo)
        return False, _joined(error.message.removeprefix(f"{machine.name}: "), error.remedy)
    found = facts.Facts(machine, answer)
    told = [f"ok, {found.cpus:g} CPUs, {found.memory_gib:g} GiB, {found.accelerator or 'no GPUs'}"]
    told += [answer.whose] if answer.holder else []
    if not answer.writable:
        told.append(f"its home {answer.home!r} can't be written to: jobs get one below /tmp")
    if answer.sudo == "password":
        told.append("sudo asks for a password")
    if answer.sudo == "refused":
        told.append("sudo refuses the `password` of the pools file")
    return True, "; ".join(told)


def _joined(message: str, remedy: str) -> str:
    return " ".join((f"{message}; {remedy}" if remedy else message).split("\n"))


def _open_file(ctx: Context, pools: Sequence[Pool]) -> tuple[str, ...]:
    path = pools_file(ctx)
    secrets = any(machine.password for pool in pools for machine in pool.machines)
    if secrets and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        return (f"others may read {path}, which holds passwords; chmod 600 {path}",)
    return ()
