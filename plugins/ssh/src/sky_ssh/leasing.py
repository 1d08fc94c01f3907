"""Taking hosts for a cluster: all or none, by an order that every caller keeps, so that of two that want the
same hosts one gets them."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

from sky.api import (
    Allocation,
    CancelToken,
    Context,
    LaunchSpec,
    NoCapacity,
    NotPermitted,
    SkyError,
    TimedOut,
    Unreachable,
    ask_each,
    counted,
)
from sky_ssh import facts, lease
from sky_ssh.about import CLOUD
from sky_ssh.lease import Node, Seen
from sky_ssh.pools import Machine, load

ASK_SECONDS = 10.0
"""For one question to each host. A connection that has gone silent is noticed after 12 s: it isn't waited for."""
_GIVE_BACK_SECONDS = 20.0
_LOCKS = 64
_POLL_SECONDS = 0.05


def run_instances(ctx: Context, spec: LaunchSpec) -> Allocation:
    """Lease the hosts of the offer, or others of its pool where some are taken by now; adopt what is held
    already. Blocks for a round trip to each. When it raises, what this call took is given back; what can't be
    is found by its tags.

    Raises `NoCapacity` that names the holders, `NotPermitted` where sudo is required and wouldn't work (before
    anything is changed), `Unreachable`, `TimedOut`, `Cancelled`.
    """
    nodes = lease.unpack(spec.offer.spec["hosts"])
    with _turn(ctx, spec.cluster_id):
        attempt = _Attempt(ctx, spec, _machines(ctx, spec.offer.spec.get("pool", "")))
        try:
            chosen = attempt.lease_all(nodes)
        except BaseException:
            attempt.give_back()
            raise
        finally:
            facts.forget(ctx, nodes)
    return Allocation(
        id=spec.cluster_id,
        cloud=CLOUD,
        cluster_name=spec.cluster_name,
        tags=spec.tags,
        num_nodes=spec.num_nodes,
        offer=spec.offer,
        spec={"pool": spec.offer.spec.get("pool", ""), "hosts": lease.pack(chosen)},
    )


def document(spec: LaunchSpec, rank: int) -> str:
    """What the lease says of the cluster: enough to find all of it again from one host. One line."""
    return json.dumps(
        {
            "id": spec.cluster_id,
            "cluster_name": spec.cluster_name,
            "user": spec.user,
            "rank": rank,
            "since": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "num_nodes": spec.num_nodes,
            "tags": dict(spec.tags),
            "offer": asdict(spec.offer),
        },
        separators=(",", ":"),
    )


def give_back(ctx: Context, cluster_id: str, node: Node) -> Seen:
    """Remove the cluster's files from one host, and its lease at last. Blocks; idempotent; what another
    cluster has there is left alone. Raises `ProvisioningFailed` for what can't be removed."""
    facts.forget(ctx, [node])
    return lease.ask(ctx, node, "give", id=cluster_id)


@dataclass
class _Attempt:
    """One call of `run_instances`."""

    ctx: Context
    spec: LaunchSpec
    machines: dict[str, Machine]
    taken: list[Node] = field(default_factory=list)
    """By this call, and not given back."""
    failures: dict[str, SkyError] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)
    askpass: set[str] = field(default_factory=set)
    """Names of hosts where sudo accepted the password."""

    def lease_all(self, nodes: Sequence[Node]) -> list[Node]:
        """A host for each rank."""
        held, free = self._look(nodes)
        while True:
            missing = [rank for rank in range(self.spec.num_nodes) if rank not in held]
            if len(free) < len(missing):
                raise self._no_room(len(held) + len(free))
            chosen = sorted(free[: len(missing)], key=lambda node: node.key)
            refused = self._take(held, dict(zip(missing, chosen, strict=True)))
            if refused is None:
                return [held[rank] for rank in range(self.spec.num_nodes)]
            free.remove(refused)
            held = {rank: node for rank, node in held.items() if node not in self.taken}
            self.give_back()

    def _look(self, nodes: Sequence[Node]) -> tuple[dict[int, Node], list[Node]]:
        """What is held already, by rank (and made ready), and what is free. Also whether sudo would work."""
        held: dict[int, Node] = {}
        free: list[Node] = []
        answers = ask_each(self.ctx, nodes, self._show, ASK_SECONDS)
        for node, seen in zip(nodes, answers, strict=True):
            if isinstance(seen, SkyError):
                self.failures[node.name] = seen
                continue
            if seen.sudo == "accepted":
                self.askpass.add(node.name)
            if seen.held_by(self.spec.cluster_id) and seen.rank not in held:
                held[seen.rank] = node
            elif seen.holder:
                self.holders[node.name] = seen.whose
            elif self._sudo_works(node, seen):
                free.append(node)
        for rank, node in held.items():
            self._ask_to_take(self.ctx, node, rank)
        return held, free

    def _take(self, held: dict[int, Node], wanted: dict[int, Node]) -> Node | None:
        """Take each into `held`; the first that can't be had, if there is one."""
        for rank, node in wanted.items():
            self.ctx.cancel.check()
            self.taken.append(node)  # before it is: a call that is cut short may have taken it
            try:
                seen = self._ask_to_take(self.ctx, node, rank)
            except (Unreachable, NotPermitted) as error:
                self.failures[node.name] = error
                return node
            if not seen.held_by(self.spec.cluster_id):
                self.taken.remove(node)
                self.holders[node.name] = seen.whose
                return node
            held[rank] = node
        return None

    def give_back(self) -> None:
        """Whatever this call took, even if the user has given up."""
        ctx = dataclasses.replace(
            self.ctx, cancel=CancelToken(), deadline=time.monotonic() + _GIVE_BACK_SECONDS
        )
        taken, self.taken = self.taken, []
        # What fails here carries the cluster's id: terminating the cluster finds it.
        ask_each(ctx, taken, lambda inner, t: give_back(inner, self.spec.cluster_id, t), _GIVE_BACK_SECONDS)

    # --- one host -------------------------------------------------------------------------------------

    def _show(self, ctx: Context, node: Node) -> Seen:
        machine = self.machines.get(node.name)
        if machine is None or not (machine.sudo_required or machine.password):
            return lease.ask(ctx, node, "show", id=self.spec.cluster_id)
        return lease.ask(ctx, node, "show", id=self.spec.cluster_id, sudo="ask", password=machine.password)

    def _ask_to_take(self, ctx: Context, node: Node, rank: int) -> Seen:
        variables = {"id": self.spec.cluster_id, "doc": document(self.spec, rank)}
        if node.name in self.askpass:
            variables |= {"password": self.machines[node.name].password, "askpass": "1"}
        return lease.ask(ctx, node, "take", **variables)

    def _sudo_works(self, node: Node, seen: Seen) -> bool:
        machine = self.machines.get(node.name)
        if machine is None or not machine.sudo_required or seen.sudo in ("free", "accepted"):
            return True
        self.failures[node.name] = sudo_refused(node.name, seen.sudo)
        return False

    def _no_room(self, found: int) -> SkyError:
        errors = sorted(self.failures.values(), key=lambda error: not isinstance(error, NotPermitted))
        if errors and (isinstance(errors[0], NotPermitted) or not self.holders):
            return errors[0]
        told = [f"{name}: {why}" for name, why in self.holders.items()]
        told += [f"{name}: {error.message}" for name, error in self.failures.items()]
        return NoCapacity(
            f"pool {self.spec.offer.region!r} has {found} of {counted(self.spec.num_nodes, 'host')}; {'; '.join(told)}",
            remedy="give a cluster back (sky down), or wait for one",
            scope="region",
        )


def sudo_refused(name: str, answer: str) -> NotPermitted:
    """The error for a host where sudo is required and wouldn't work; `answer` as in `Seen.sudo`."""
    why, remedy = {
        "missing": ("it isn't installed", "install it, or take `sudo: required` out of the pool"),
        "password": ("it asks for a password", "set `password` of the host in the pools file"),
        "refused": (
            "it refuses the password, or the account",
            "mend `password` of the host in the pools file",
        ),
    }.get(answer, ("it could not be asked", "try it there: sudo -v"))
    return NotPermitted(f"{name}: sudo is required and would not work: {why}", remedy=remedy)


def _machines(ctx: Context, pool_name: str) -> dict[str, Machine]:
    """By name: passwords are read where they are used, and stored nowhere else."""
    pools = [pool for pool in load(ctx) if pool.name == pool_name]
    return {machine.name: machine for pool in pools for machine in pool.machines}


@contextlib.contextmanager
def _turn(ctx: Context, cluster_id: str) -> Iterator[None]:
    """One call at a time for each cluster, here: the hosts see to it that clusters don't share one."""
    path = ctx.directory / f"lease-{zlib.crc32(cluster_id.encode()) % _LOCKS:02d}.lock"
    with path.open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                ctx.cancel.wait(_POLL_SECONDS)
                ctx.cancel.check()
                if ctx.deadline is not None and time.monotonic() >= ctx.deadline:
                    raise TimedOut(f"another launch of {cluster_id} didn't end in time") from None
        yield


def named(errors: Iterable[tuple[Node, SkyError]]) -> str:
    """Which hosts, and why, in one line."""
    return "; ".join(
        e.message if t.name in e.message else f"{t.name}: {e.message}" for t, e in errors
    ).replace("\n", " ")
