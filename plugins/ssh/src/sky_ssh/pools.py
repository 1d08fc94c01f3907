"""Pools of machines: `~/.sky/ssh_node_pools.yaml` as SkyPilot has it, with more keys. See the README for all.

A pool is what `--infra ssh/POOL` names. Where no pool has the name, it is names of the user's ssh config,
separated by commas: a pool of the moment.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sky.api import Accelerator, Context, UsageError
from sky_ssh import ssh_names


@dataclass(frozen=True, slots=True)
class Machine:
    """One host as declared; what isn't declared is asked of the host."""

    name: str
    """For people, unique in its pool."""
    address: Mapping[str, str]
    """See `sky_ssh.address`."""
    cpus: float | None = None
    memory_gib: float | None = None
    accelerator: Accelerator | None = None
    internal_ip: str = ""
    price_usd_per_hour: float = 0.0
    lease_dir: str = ""
    """Where its lease is, when several accounts share the host; empty: below the account's home."""
    sudo_required: bool = False
    password: str = field(default="", repr=False)
    """What sudo asks for. Never printed, stored, or put on a command line."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Machines under one name."""

    name: str
    machines: tuple[Machine, ...]


def pools_file(ctx: Context) -> Path:
    """Where pools are written; it need not exist. `ssh.pools_file`, else beside Sky's own state."""
    configured = ctx.config.get("pools_file")
    if configured:
        return Path(str(configured)).expanduser()
    home = os.environ.get("SKY_HOME")
    return (Path(home) if home else Path("~/.sky").expanduser()) / "ssh_node_pools.yaml"


def load(ctx: Context) -> list[Pool]:
    """All pools of the file; none where there is no file. Raises `UsageError` that names every mistake."""
    from sky_ssh.pool_keys import read_pools

    path = pools_file(ctx)
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UsageError(f"{path} can't be read: {reason}", remedy="mend it, or remove it") from error
    return read_pools(path, text)


def select(ctx: Context, name: str | None) -> list[Pool]:
    """The pools that `--infra ssh[/name]` means: all, or one. Raises `UsageError` for a name of nothing."""
    pools = load(ctx)
    if name is None:
        return pools
    for pool in pools:
        if pool.name == name:
            return [pool]
    return [_of_ssh_config(ctx, name, [pool.name for pool in pools])]


def _of_ssh_config(ctx: Context, name: str, pool_names: list[str]) -> Pool:
    found = ssh_names.patterns(ctx)
    hosts = list(dict.fromkeys(part.strip() for part in name.split(",") if part.strip()))
    unknown = [host for host in hosts if host.startswith("-") or not ssh_names.known(host, found)]
    if unknown or not hosts:
        wrong = unknown[0] if unknown else name
        near = difflib.get_close_matches(wrong, [*pool_names, *ssh_names.plain(found)], n=3)
        raise UsageError(
            f"{wrong!r} is neither a pool of {pools_file(ctx)} nor a Host of {ssh_names.config_file(ctx)}",
            remedy=f"did you mean {', '.join(near)}?" if near else "write it into one of them",
        )
    return Pool(name, tuple(Machine(host, {"host": host, "host_keys": "strict"}) for host in hosts))
