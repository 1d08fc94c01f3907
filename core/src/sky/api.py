"""The only module that plugins import: the contract's types and errors, and the tools to keep it.

Everything named here is public and follows `API_VERSION`; everything else in `sky` is not.
"""

from __future__ import annotations

import pluggy

from sky.cache import Cache
from sky.cancellation import CancelToken
from sky.errors import (
    Cancelled,
    ConnectionLost,
    CredentialsError,
    HostGone,
    LoginExpired,
    NoCapacity,
    NothingFeasible,
    NotPermitted,
    NotSupported,
    NotYet,
    PluginError,
    ProgramMissing,
    ProvisioningFailed,
    QuotaExceeded,
    SkyError,
    TimedOut,
    TransferFailed,
    Unreachable,
    UsageError,
)
from sky.hookspecs import API_VERSION
from sky.types import (
    Accelerator,
    Allocation,
    CatalogQuery,
    CloudInfo,
    Command,
    Context,
    CredentialStatus,
    Diagnosis,
    Event,
    Feasibility,
    Forward,
    Host,
    InstanceState,
    InstanceStatus,
    Job,
    JobReference,
    JobState,
    JobStatus,
    LaunchSpec,
    Offer,
    Place,
    Quantity,
    Rejection,
    Request,
    Transfer,
    TransferResult,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sky.asking import ask_each, limited
    from sky.marks import MarkReader
    from sky.node.caller import end_jobs_over
    from sky.process import run_process
    from sky.transfer import transfer_over
    from sky.wording import counted

hookimpl = pluggy.HookimplMarker("sky")

_TOOLS = {
    # What helps to implement hooks, imported on first use: a command pays only for what it does.
    "MarkReader": "sky.marks",
    "ask_each": "sky.asking",
    "counted": "sky.wording",
    "end_jobs_over": "sky.node.caller",
    "limited": "sky.asking",
    "run_process": "sky.process",
    "transfer_over": "sky.transfer",
}


def __getattr__(name: str) -> object:
    if name not in _TOOLS:
        raise AttributeError(f"module 'sky.api' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_TOOLS[name]), name)


__all__ = [
    "API_VERSION",
    "Accelerator",
    "Allocation",
    "Cache",
    "CancelToken",
    "Cancelled",
    "CatalogQuery",
    "CloudInfo",
    "Command",
    "ConnectionLost",
    "Context",
    "CredentialStatus",
    "CredentialsError",
    "Diagnosis",
    "Event",
    "Feasibility",
    "Forward",
    "Host",
    "HostGone",
    "InstanceState",
    "InstanceStatus",
    "Job",
    "JobReference",
    "JobState",
    "JobStatus",
    "LaunchSpec",
    "LoginExpired",
    "MarkReader",
    "NoCapacity",
    "NotPermitted",
    "NotSupported",
    "NotYet",
    "NothingFeasible",
    "Offer",
    "Place",
    "PluginError",
    "ProgramMissing",
    "ProvisioningFailed",
    "Quantity",
    "QuotaExceeded",
    "Rejection",
    "Request",
    "SkyError",
    "TimedOut",
    "Transfer",
    "TransferFailed",
    "TransferResult",
    "Unreachable",
    "UsageError",
    "ask_each",
    "counted",
    "end_jobs_over",
    "hookimpl",
    "limited",
    "run_process",
    "transfer_over",
]
