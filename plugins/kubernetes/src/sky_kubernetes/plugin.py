"""The hooks of Kubernetes, as a cloud (pods are nodes) and as a runner (the API server's exec channel).

Light on purpose: each hook imports what does its work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from sky.api import (
    Allocation,
    CloudInfo,
    Command,
    Context,
    CredentialStatus,
    Feasibility,
    Forward,
    Host,
    InstanceStatus,
    LaunchSpec,
    Request,
    Transfer,
    TransferResult,
    hookimpl,
)


class KubernetesCloud:
    """Pods as nodes, in the contexts of the kubeconfig."""

    api = (1, 0)

    @hookimpl
    def sky_cloud_info(self) -> CloudInfo:
        from sky_kubernetes.about import cloud_info

        return cloud_info()

    @hookimpl
    def sky_config_schema(self) -> Mapping[str, Any]:
        from sky_kubernetes.about import config_schema

        return config_schema()

    @hookimpl
    def sky_check_credentials(self, ctx: Context) -> CredentialStatus:
        from sky_kubernetes.cloud import check_credentials

        return check_credentials(ctx)

    @hookimpl
    def sky_identity(self, ctx: Context) -> str | None:
        from sky_kubernetes.cloud import identity

        return identity(ctx)

    @hookimpl
    def sky_credential_fingerprint(self, ctx: Context) -> str:
        from sky_kubernetes import fingerprint

        return fingerprint.of(ctx)

    @hookimpl
    def sky_feasible(self, ctx: Context, request: Request) -> Feasibility:
        from sky_kubernetes.cloud import feasible

        return feasible(ctx, request)

    @hookimpl
    def sky_preview(self, ctx: Context, spec: LaunchSpec) -> str:
        from sky_kubernetes.creation import preview

        return preview(ctx, spec)

    @hookimpl
    def sky_run_instances(self, ctx: Context, spec: LaunchSpec) -> Allocation:
        from sky_kubernetes.cloud import run_instances

        return run_instances(ctx, spec)

    @hookimpl
    def sky_wait_instances(self, ctx: Context, allocation: Allocation) -> None:
        from sky_kubernetes.cloud import wait_instances

        wait_instances(ctx, allocation)

    @hookimpl
    def sky_query_instances(self, ctx: Context, allocation: Allocation) -> Sequence[InstanceStatus]:
        from sky_kubernetes.cloud import query_instances

        return query_instances(ctx, allocation)

    @hookimpl
    def sky_cluster_hosts(self, ctx: Context, allocation: Allocation) -> Sequence[Host]:
        from sky_kubernetes.cloud import cluster_hosts

        return cluster_hosts(ctx, allocation)

    @hookimpl
    def sky_list_clusters(self, ctx: Context, tags: Mapping[str, str]) -> Sequence[Allocation]:
        from sky_kubernetes.cloud import list_clusters

        return list_clusters(ctx, tags)

    @hookimpl
    def sky_terminate_instances(self, ctx: Context, allocation: Allocation) -> None:
        from sky_kubernetes.cloud import terminate_instances

        terminate_instances(ctx, allocation)


class KubernetesRunner:
    """Commands in pods. An address names `context`, `namespace`, `pod`, `container` and the pod's `uid`."""

    api = (1, 0)

    @hookimpl
    def sky_run(
        self,
        ctx: Context,
        host: Host,
        command: Command,
        stdin: BinaryIO | None,
        stdout: BinaryIO,
        stderr: BinaryIO,
    ) -> int:
        from sky_kubernetes.runner import run

        return run(ctx, host, command, stdin, stdout, stderr)

    @hookimpl
    def sky_rsync(self, ctx: Context, host: Host, transfer: Transfer) -> TransferResult:
        from sky.api import transfer_over

        return transfer_over(self.sky_run, ctx, host, transfer)

    @hookimpl
    def sky_shell(self, ctx: Context, host: Host, command: Command | None) -> int:
        from sky_kubernetes.shell import shell

        return shell(ctx, host, command)

    @hookimpl
    def sky_forward(self, ctx: Context, host: Host, remote_port: int, local_port: int | None) -> Forward:
        from sky_kubernetes.port_forward import forward

        return forward(ctx, host, remote_port, local_port)

    @hookimpl
    def sky_disconnect(self, ctx: Context, host: Host | None) -> None:
        """Nothing is kept: each command has a connection of its own, which ends with it."""
