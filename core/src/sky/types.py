"""What crosses the plugin boundary: frozen dataclasses of plain data, units in the field names.

Nothing here does I/O. A field that a plugin's own code reads back (`Offer.spec`, `Host.address`,
`Allocation.spec`) is a flat mapping of strings, so that it can be stored and printed by who doesn't
understand it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from sky.cache import Cache
    from sky.cancellation import CancelToken

NO_DATA: Mapping[str, str] = {}

# --- context -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, for observers and progress. Secrets are masked before it is made."""

    kind: str
    """`phase`, `progress`, `warning`, `hook`, `provision`, `job`; observers ignore what they don't know."""
    message: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Context:
    """What every hook that may block is given. One type everywhere; a new field always has a default."""

    config: Mapping[str, Any]
    """The plugin's own section of the user's configuration, the task's overrides merged in."""
    deadline: float | None
    """Absolute, by `time.monotonic()`, in seconds; None means no limit. Raise `TimedOut` when it passes."""
    cancel: CancelToken
    """Set when the user gives up; a blocking hook returns within a second of it, raising `Cancelled`."""
    emit: Callable[[Event], None]
    """Say something: never blocks, never raises."""
    cache: Cache
    """One per plugin and process: TTL, one lock, single flight."""
    directory: Path
    """The plugin's own private directory (0700), for caches that outlive the process."""


# --- what a task asks for ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quantity:
    """`4` (exact), `4+` (at least), `16x` (that many for each vCPU, at least; memory only)."""

    value: float
    mode: Literal["exact", "at_least", "per_cpu"] = "exact"

    def __str__(self) -> str:
        return f"{self.value:g}" + {"exact": "", "at_least": "+", "per_cpu": "x"}[self.mode]


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A kind and how many of it on each node. The count may be a fraction of a device (0.125)."""

    name: str
    count: float = 1

    def __str__(self) -> str:
        return f"{self.name}:{self.count:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One alternative of what a task's resources ask for, for each of `num_nodes` equal nodes."""

    num_nodes: int = 1
    cloud: str | None = None
    """Name of the plugin to ask; None means any."""
    region: str | None = None
    """Within the cloud: a region, a context, a pool, a cluster: its second level."""
    zone: str | None = None
    """Within the region: a zone, a partition: its third level."""
    instance_type: str | None = None
    cpus: Quantity | None = None
    """vCPUs."""
    memory: Quantity | None = None
    """GiB, or GiB for each vCPU."""
    accelerator: Accelerator | None = None
    use_spot: bool = False
    disk_size_gb: int | None = None
    disk_tier: str | None = None
    image_id: str | None = None
    """As the user wrote it; `docker:NAME` is a container image."""
    ports: tuple[str, ...] = ()
    """`8080` or `8000-8010`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    max_price_usd_per_hour: float | None = None
    """For all nodes together."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The task's `config:`, all sections; the core merges the plugin's own into `Context.config`."""


# --- what a cloud answers ----------------------------------------------------------------------------

Capability = Literal["stop", "spot", "ports", "multi_node", "image", "autostop", "disk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudInfo:
    """What a cloud is, known without any I/O."""

    title: str
    """For people: `Kubernetes`."""
    levels: tuple[str, ...] = ("region", "zone")
    """What the parts of `--infra NAME/A/B` are called here, for messages and the table."""
    capabilities: frozenset[Capability] = frozenset()
    """Whatever isn't listed is refused by the core before the cloud is asked."""
    last_resort: bool = False
    """Chosen only when asked for by name, or when no other enabled cloud has an offer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialStatus:
    """Whether a cloud can be used, and if not why and what to do."""

    ok: bool
    reason: str = ""
    remedy: str = ""
    details: tuple[str, ...] = ()
    """More lines for `sky check -v`: contexts, pools, accounts, one each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogQuery:
    """Which rows of a catalog are wanted; None means any."""

    accelerator: str | None = None
    accelerator_count: float | None = None
    region: str | None = None
    zone: str | None = None
    instance_type: str | None = None
    spot: bool | None = None
    limit: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One way to get what a request asks for. Prices are for one node."""

    cloud: str
    region: str
    zone: str | None = None
    instance_type: str = ""
    vcpus: float
    memory_gib: float
    accelerator: Accelerator | None = None
    price_usd_per_hour: float = 0.0
    spot: bool = False
    note: str = ""
    """Shown beside the row: how a price is known, what is unusual."""
    spec: Mapping[str, str] = field(default_factory=dict)
    """Whatever the cloud needs to act on this offer later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """One thing that was looked at and can't serve, with the rule that says so."""

    cloud: str
    subject: str
    """What was looked at: a region, a node, an instance type, a context, or the cloud as a whole."""
    rule: str
    """A stable word: `cpus`, `memory`, `accelerator`, `taint`, `not_ready`, `capability`, `price`, …"""
    reason: str
    near_misses: tuple[str, ...] = ()
    """What would have worked, as the user would write it: `cpus: 7`, `A100-80GB:8`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feasibility:
    """A cloud's whole answer to one request: offers best first, and every rejection."""

    offers: tuple[Offer, ...] = ()
    rejections: tuple[Rejection, ...] = ()


# --- what a cloud gives ------------------------------------------------------------------------------


class InstanceState(enum.StrEnum):
    """A node's life as its provider sees it."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    ENDED = "ENDED"
    """It ended by itself or was taken away; it costs nothing and can't come back."""
    FAILED = "FAILED"
    """It will not run as it is (image can't be pulled, out of memory); `reason` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStatus:
    """One node, now."""

    name: str
    """The provider's own name of it: pod name, instance id."""
    rank: int
    state: InstanceState
    reason: str = ""
    """For any state but RUNNING: what it waits for or died of, in the provider's words, one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """All that a cloud needs to create, adopt or resume one cluster."""

    cluster_id: str
    """Unique for ever, `[a-z][a-z0-9-]*`, at most 40 characters: safe in labels and host names everywhere."""
    cluster_name: str
    """As the user wrote it: any length, any character. For tags that allow it, and for people."""
    user: str
    num_nodes: int
    offer: Offer
    request: Request
    tags: Mapping[str, str] = field(default_factory=dict)
    """Must be found again on what was created: `sky_list_clusters` returns them unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A place where commands run. Made by a cloud, understood by the runner of its transport."""

    transport: str
    """Name of the runner."""
    address: Mapping[str, str]
    """That runner's own data. Equal addresses are the same connection."""
    rank: int = 0
    name: str = ""
    """For people: pod name, host name."""
    internal_ip: str = ""
    work_dir: str = ""
    """Absolute path for Sky's own files on the host; empty lets the node find one ($HOME, else /tmp)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What a cloud gave: pods, machines, a lease. Its hosts may come later; its tags say whose it is."""

    id: str
    """`LaunchSpec.cluster_id` of what created it."""
    cloud: str
    cluster_name: str
    tags: Mapping[str, str]
    num_nodes: int
    offer: Offer | None = None
    """As far as the tags tell it."""
    spec: Mapping[str, str] = field(default_factory=dict)
    """The cloud's own data to find it again without searching."""


# --- commands and files ------------------------------------------------------------------------------

StdinMode = Literal["eof", "open"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program and its arguments, as data: no shell reads them unless argv[0] is one.

    All of argv together is at most 32 KiB (one argument of exec holds 131,072 bytes on Linux, and some
    transports wrap it); what is longer goes by stdin.
    """

    argv: tuple[str, ...]
    stdin_mode: StdinMode = "eof"
    """`eof`: the program sees the end of stdin after the last byte. `open`: it knows by itself how much to
    read and may never see an end, which spares some transports a wrapper (rsync, the job script)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Files from a local path to a host, or back. See `sky_rsync` for the exact semantics."""

    direction: Literal["up", "down"]
    source: str
    """Up: a local path. Down: a path on the host. A leading `~/` is the home of whoever owns that side."""
    target: str
    """Where it lands. For a directory: the target *becomes* it (a trailing slash changes nothing)."""
    delete: bool = False
    """Remove what the source doesn't have (excluded paths are kept)."""
    excludes: tuple[str, ...] = ()
    """Paths relative to the source that are left out, with all below them; literal, no patterns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferResult:
    """What a transfer did."""

    files_sent: int
    bytes_sent: int
    """Of file content, before any compression."""
    method: str
    """`rsync`, `tar` or `sh`: how it was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """A local TCP port that leads to a port of a host until `close` is called (may be repeated)."""

    local_port: int
    remote_port: int
    close: Callable[[], None]


# --- jobs --------------------------------------------------------------------------------------------


class JobState(enum.StrEnum):
    """What is known of a job. The last five are final, but UNKNOWN may still become another."""

    PENDING = "PENDING"
    SETTING_UP = "SETTING_UP"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    FAILED_SETUP = "FAILED_SETUP"
    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"
    """No result was recorded and nothing that could record one is alive: neither failed nor done."""

    @property
    def final(self) -> bool:
        """Whether it waits for nothing any more."""
        return self not in (JobState.PENDING, JobState.SETTING_UP, JobState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to run on a place. `repr` shows no value of `secrets`."""

    token: str
    """Unique for ever, `[a-z0-9]{8,40}`: submitting the same token again is the same job."""
    name: str
    setup: str | None
    run: str | None
    envs: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)
    num_nodes: int
    accelerators_per_node: float
    place_accelerators_per_node: int
    """How many devices each node of the place has: what the queue shares out."""
    cluster_name: str = ""
    cloud: str = ""
    region: str = ""
    zone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where jobs of one cluster run: the allocation and its hosts, rank 0 first."""

    allocation: Allocation
    hosts: tuple[Host, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReference:
    """How an engine knows a job, and where its log is."""

    id: str
    token: str = ""
    log_host: Host | None = None
    """Where `log_path` can be read; None while the engine hasn't placed the job."""
    log_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """One job, now."""

    id: str
    name: str
    state: JobState
    exit_code: int | None = None
    """Only when `state` is SUCCEEDED, FAILED or FAILED_SETUP."""
    reason: str = ""
    submitted_at: float | None = None
    """Seconds since the epoch, by the clock of the place."""
    started_at: float | None = None
    ended_at: float | None = None
    num_nodes: int = 1
    accelerators: str = ""
    """Device numbers granted on each node, `0,1`."""
    reference: JobReference | None = None


# --- explain and watch -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What a provider's error means for the core."""

    scope: Literal["", "zone", "region", "cloud"] = ""
    retryable: bool = False
    remedy: str = ""
