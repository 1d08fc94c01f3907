"""Which contexts may be used, and what the configuration says of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sky.api import Context, UsageError
from sky_kubernetes import kubeconfig, shapes
from sky_kubernetes.about import DEFAULT_IMAGE
from sky_kubernetes.merge import merged

_PROVISION_TIMEOUT = 10.0
_PROVISION_TIMEOUT_AUTOSCALED = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """US dollars an hour of one vCPU, one GiB and one device of each kind (canonical names)."""

    cpu: float = 0.0
    memory: float = 0.0
    accelerators: Mapping[str, float] = field(default_factory=dict)

    def of(self, vcpus: float, memory_gib: float, kind: str | None, count: float) -> float:
        """The price of a node an hour."""
        devices = self.accelerators.get(kind, 0.0) * count if kind else 0.0
        return round(self.cpu * vcpus + self.memory * memory_gib + devices, 6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The section `kubernetes:` as it applies to one context."""

    context: str
    server: str
    namespace: str = "default"
    image: str = DEFAULT_IMAGE
    image_pull_policy: str | None = None
    pod_config: Mapping[str, Any] = field(default_factory=dict)
    provision_timeout_seconds: float | None = _PROVISION_TIMEOUT
    """How long a pod may be without a node; None means as long as the caller's deadline."""
    autoscaler: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    service_account: str | None = None
    pricing: Pricing = field(default_factory=Pricing)


def load_kubeconfig(ctx: Context) -> kubeconfig.Kubeconfig:
    """The user's kubeconfig. Blocks for a few file reads. Raises `CredentialsError`."""
    return kubeconfig.load(directory=ctx.directory)


def allowed_contexts(ctx: Context, config: kubeconfig.Kubeconfig) -> tuple[str, ...]:
    """Names of the contexts that may be used; they need not exist. Without `allowed_contexts`, the current.

    The current context is not looked at when the list names others: a dead one stops nobody.
    """
    allowed = ctx.config.get("allowed_contexts")
    if allowed == "all":
        return tuple(sorted(config.contexts))
    if isinstance(allowed, str):
        return (allowed,)
    if allowed is not None:
        return tuple(dict.fromkeys(str(name) for name in allowed))
    return (config.context().name,)


def settings(ctx: Context, ref: kubeconfig.ContextRef) -> Settings:
    """The section as it applies to one context; `context_configs` win over the rest of it.

    Raises `UsageError`, naming the key, for a namespace, image or `pod_config` of a shape that can't be.
    """
    own = (ctx.config.get("context_configs") or {}).get(ref.name) or {}
    _check(ctx.config, "kubernetes")
    _check(own, f"kubernetes.context_configs.{ref.name}")
    config = merged(ctx.config, own)
    if ref.namespace and not config.get("namespace"):
        shapes.check_namespace(ref.namespace, f"the kubeconfig's context {ref.name!r}")
    metadata = config.get("custom_metadata") or {}
    pricing = config.get("pricing") or {}
    autoscaler = config.get("autoscaler")
    return Settings(
        context=ref.name,
        server=ref.server,
        namespace=config.get("namespace") or ref.namespace or "default",
        image=config.get("image") or DEFAULT_IMAGE,
        image_pull_policy=config.get("image_pull_policy"),
        pod_config=config.get("pod_config") or {},
        provision_timeout_seconds=_timeout(config.get("provision_timeout"), autoscaler),
        autoscaler=autoscaler,
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        service_account=config.get("remote_identity"),
        pricing=_pricing(pricing),
    )


def settings_of(ctx: Context, context_name: str) -> Settings:
    """The same by name. Raises `UsageError` when the kubeconfig has no such context."""
    return settings(ctx, load_kubeconfig(ctx).context(context_name))


def _check(section: Mapping[str, Any], key: str) -> None:
    shapes.check_pod_config(section.get("pod_config"), f"{key}.pod_config")
    if section.get("namespace"):
        shapes.check_namespace(section["namespace"], f"{key}.namespace")
    if section.get("image"):
        shapes.check_image(section["image"], f"{key}.image")


def _timeout(configured: float | None, autoscaler: str | None) -> float | None:
    if configured is None:
        return _PROVISION_TIMEOUT_AUTOSCALED if autoscaler else _PROVISION_TIMEOUT
    return None if configured < 0 else float(configured)


def _pricing(section: Mapping[str, Any]) -> Pricing:
    from sky_kubernetes.accelerators import canonical

    accelerators = section.get("accelerators") or {}
    pricing = Pricing(
        cpu=float(section.get("cpu") or 0),
        memory=float(section.get("memory") or 0),
        accelerators={canonical(kind): float(price) for kind, price in accelerators.items()},
    )
    if min(pricing.cpu, pricing.memory, *pricing.accelerators.values()) < 0:
        raise UsageError("kubernetes.pricing: a price is below zero")
    return pricing
