"""What hosts have and who holds them, asked of all at once: one command for each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from sky.api import Accelerator, Context, SkyError, ask_each
from sky_ssh import devices, lease
from sky_ssh.pools import Machine

_TTL_SECONDS = 3.0
SURVEY_SECONDS = 5.0
_SPARE_SECONDS = 0.5
"""Left for the answer to be used, before the caller's own deadline."""


@dataclass(frozen=True, slots=True)
class Facts:
    """One machine: as declared where it says something, else as it is."""

    machine: Machine
    seen: lease.Seen | None
    error: SkyError | None = None
    """Why it could not be asked; `seen` is None then."""

    @property
    def cpus(self) -> float:
        return self.machine.cpus or (self.seen.cpus if self.seen else 0.0)

    @property
    def memory_gib(self) -> float:
        """Whole GiB from 4 on: the kernel keeps a little of what is built in for itself."""
        has = self.seen.memory_gib if self.seen else 0.0
        return self.machine.memory_gib or float(round(has) if has >= 4 else round(has, 1))

    @property
    def accelerator(self) -> Accelerator | None:
        """What nvidia-smi says, where there is one; of several kinds the one that there is most of."""
        names = [devices.canonical(name) for name in (self.seen.gpus if self.seen else ())]
        if not names:
            return self.machine.accelerator
        kind = max(sorted(set(names)), key=names.count)
        return Accelerator(kind, names.count(kind))

    @property
    def size(self) -> str:
        """As one writes an instance type: `8CPU--32GB`, `8CPU--32GB--H100:8`."""
        has = self.accelerator
        return f"{self.cpus:g}CPU--{self.memory_gib:g}GB" + (f"--{has.name}:{has.count:g}" if has else "")


def survey(ctx: Context, machines: Sequence[Machine]) -> list[Facts]:
    """The facts of each machine, in order; a few seconds old at most. Blocks until all have answered or the
    time is over. What a host can't be asked is its `error`. Raises `Cancelled`."""

    def look(inner: Context, machine: Machine) -> lease.Seen:
        node = lease.node_of(machine)
        return ctx.cache.get(_key(node), _TTL_SECONDS, lambda: lease.ask(inner, node, "look"))

    left = SURVEY_SECONDS if ctx.deadline is None else ctx.deadline - time.monotonic()
    seconds = max(0.1, min(SURVEY_SECONDS, left) - _SPARE_SECONDS)
    answers = ask_each(ctx, machines, look, seconds)
    return [
        Facts(machine, None, answer) if isinstance(answer, SkyError) else Facts(machine, answer)
        for machine, answer in zip(machines, answers, strict=True)
    ]


def forget(ctx: Context, nodes: Sequence[lease.Node]) -> None:
    """Their leases are changed: what was seen before no longer holds."""
    for node in nodes:
        ctx.cache.forget(_key(node))


def _key(node: lease.Node) -> tuple[str, ...]:
    return ("facts", *node.key, *(f"{k}={v}" for k, v in sorted(node.address.items())))
