"""A lease lives on the host that it is of: the client of `lease.sh`. One host, one cluster."""

from __future__ import annotations

import functools
import importlib.resources
import io
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sky.api import Command, ConnectionLost, Context, Host, PluginError, ProvisioningFailed, UsageError
from sky_ssh.pools import Machine

_GIB_IN_KIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Node:
    """A machine and where its lease is: all that is needed to find it again without its pool. No secrets."""

    name: str
    address: Mapping[str, str]
    lease_dir: str = ""
    internal_ip: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        """The order in which hosts are taken, the same for every caller; equal keys are one lease."""
        found = self.address.get
        return (
            found("host", ""),
            found("port", ""),
            found("user", ""),
            found("proxy_jump", ""),
            self.lease_dir,
        )

    def host(self) -> Host:
        """For the runner."""
        return Host(transport="ssh", address=self.address, name=self.name)


def node_of(machine: Machine) -> Node:
    return Node(machine.name, machine.address, machine.lease_dir, machine.internal_ip)


def pack(nodes: Iterable[Node]) -> str:
    """As one string, for specs."""
    return json.dumps([asdict(node) for node in nodes], separators=(",", ":"))


def unpack(text: str) -> list[Node]:
    """What `pack` made. Raises `UsageError` if it isn't that."""
    try:
        return [Node(**entry) for entry in json.loads(text)]
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"the record of an SSH cluster's hosts can't be read: {text[:100]!r}",
            remedy="sky status --rebuild finds clusters by what is on their hosts",
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a host answered. What wasn't asked is empty."""

    home: str = ""
    hostname: str = ""
    """The host's own name."""
    ip: str = ""
    """By which this connection reached it; not that of a jump host."""
    writable: bool = False
    cpus: float = 0.0
    memory_gib: float = 0.0
    gpus: tuple[str, ...] = ()
    """As nvidia-smi names them, one for each device."""
    sudo: str = ""
    """`missing`, `free` (asks for nothing), `accepted`, `refused` (the password), `password` (wants one)."""
    holder: str = ""
    """Id of the cluster that holds the host; empty: it is free. `?` if it doesn't say."""
    mine: bool = False
    """Whether the lease belongs to the account that asked."""
    document: Mapping[str, Any] | None = None
    work_dir: str = ""
    ready: bool = False
    """It's held by the cluster that asked, and its work_dir can be written to."""
    taken: bool = False
    """By this very call."""

    def held_by(self, cluster_id: str) -> bool:
        return self.holder == cluster_id and self.mine

    @property
    def whose(self) -> str:
        """Who holds it, for people."""
        told = self.document or {}
        if not told.get("cluster_name"):
            return f"leased by {self.holder}" if self.holder != "?" else "leased by someone"
        return f"leased by cluster {told['cluster_name']!r} of {told.get('user')} since {told.get('since')}"

    @property
    def rank(self) -> int:
        """Of the host in the cluster that holds it; -1 if it isn't known."""
        rank = (self.document or {}).get("rank")
        return rank if isinstance(rank, int) else -1


def ask(ctx: Context, node: Node, verb: str, **variables: str) -> Seen:
    """Let `lease.sh` do `verb` (`look`, `show`, `take`, `give`) on the host. Blocks: one round trip.

    Raises what `sky_run` raises, `ProvisioningFailed` with the host's own reason, and `ConnectionLost` when
    it isn't known what was done.
    """
    from sky_ssh.runner import run

    out, err = io.BytesIO(), io.BytesIO()
    stdin = io.BytesIO(script(verb, node, **variables).encode("utf-8", "surrogateescape"))
    run(ctx, node.host(), Command(argv=("sh",)), stdin, out, err)
    return parse(node.name, out.getvalue(), err.getvalue())


def script(verb: str, node: Node, **variables: str) -> str:
    """What `sh` is to read. Secrets are only here, never on a command line."""
    values = dict.fromkeys(("id", "doc", "sudo", "password", "askpass"), "")
    values |= {"verb": verb, "dir": node.lease_dir, **variables}
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items()) + _source()


@functools.cache
def _source() -> str:
    return importlib.resources.files("sky_ssh").joinpath("lease.sh").read_text("utf-8")


def parse(name: str, out: bytes, err: bytes) -> Seen:
    """The answer of host `name`. Raises `ProvisioningFailed` and `ConnectionLost`."""
    values: dict[str, str] = {}
    gpus: list[str] = []
    for line in out.decode("utf-8", "replace").split("\n"):
        key, _, value = line.partition(" ")
        if key == "gpu":
            gpus.append(value)
        else:
            values[key] = value
    if "error" in values:
        raise ProvisioningFailed(f"{name}: {values['error']}", remedy="mend it there, and repeat")
    if "end" not in values:
        said = err.decode("utf-8", "replace").strip().replace("\n", " ")[:300]
        if said:
            raise ProvisioningFailed(f"{name}: its shell couldn't do what was asked: {said}")
        raise ConnectionLost(f"{name}: its answer was cut short; what was done is not known")
    try:
        return Seen(
            home=values.get("home", ""),
            hostname=values.get("node", ""),
            ip=values.get("ip", ""),
            writable="writable" in values,
            cpus=float(values.get("cpus") or 0),
            memory_gib=float(values.get("memory_kib") or 0) / _GIB_IN_KIB,
            gpus=tuple(gpus),
            sudo=values.get("sudo", ""),
            holder=values.get("lease", ""),
            mine="mine" in values,
            document=_document(values.get("document", "")),
            work_dir=values.get("work_dir", ""),
            ready="ready" in values,
            taken="taken" in values,
        )
    except ValueError as error:
        raise PluginError(f"{name}: its answer makes no sense: {error}") from error


def _document(text: str) -> Mapping[str, Any] | None:
    try:
        told = json.loads(text)
    except ValueError:
        return None  # of another version, or of someone else: only its id counts then
    return told if isinstance(told, dict) else None
