"""`local`: what a newcomer runs first, without an account. It uses nothing that another plugin couldn't.

A node is a directory with a home directory of its own; commands run there as the caller. Clusters are
kept outside Sky's own state, so that they are found again without it.
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
    Host,
    InstanceStatus,
    LaunchSpec,
    Request,
    Transfer,
    TransferResult,
    hookimpl,
)


class LocalCloud:
    api = (1, 0)

    @hookimpl
    def sky_cloud_info(self) -> CloudInfo:
        return CloudInfo(title="Local", levels=(), capabilities=frozenset({"multi_node"}), last_resort=True)

    @hookimpl
    def sky_config_schema(self) -> Mapping[str, Any]:
        return {
            "type": "object",
            "additionalProperties": False,
            "properties": {"price_usd_per_hour": {"type": "number"}},
        }

    @hookimpl
    def sky_check_credentials(self, ctx: Context) -> CredentialStatus:
        return CredentialStatus(ok=True)

    @hookimpl
    def sky_identity(self, ctx: Context) -> str:
        import os

        return f"uid {os.getuid()}"

    @hookimpl
    def sky_credential_fingerprint(self, ctx: Context) -> str:
        return self.sky_identity(ctx)

    @hookimpl
    def sky_feasible(self, ctx: Context, request: Request) -> Feasibility:
        from sky.local import machine

        return machine.feasible(ctx, request)

    @hookimpl
    def sky_run_instances(self, ctx: Context, spec: LaunchSpec) -> Allocation:
        from sky.local import clusters

        return clusters.create(spec)

    @hookimpl
    def sky_wait_instances(self, ctx: Context, allocation: Allocation) -> None:
        from sky.local import clusters

        clusters.hosts(allocation)

    @hookimpl
    def sky_query_instances(self, ctx: Context, allocation: Allocation) -> Sequence[InstanceStatus]:
        from sky.local import clusters

        return clusters.query(allocation)

    @hookimpl
    def sky_cluster_hosts(self, ctx: Context, allocation: Allocation) -> Sequence[Host]:
        from sky.local import clusters

        return clusters.hosts(allocation)

    @hookimpl
    def sky_list_clusters(self, ctx: Context, tags: Mapping[str, str]) -> Sequence[Allocation]:
        from sky.local import clusters

        return clusters.find(tags)

    @hookimpl
    def sky_terminate_instances(self, ctx: Context, allocation: Allocation) -> None:
        from sky.local import clusters

        clusters.remove(ctx, allocation)


class LocalRunner:
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
        from sky.local import runner

        return runner.run(ctx, host, command, stdin, stdout, stderr)

    @hookimpl
    def sky_rsync(self, ctx: Context, host: Host, transfer: Transfer) -> TransferResult:
        from sky.api import transfer_over

        return transfer_over(self.sky_run, ctx, host, transfer)

    @hookimpl
    def sky_shell(self, ctx: Context, host: Host, command: Command | None) -> int:
        from sky.local import runner

        return runner.shell(host, command)

    @hookimpl
    def sky_disconnect(self, ctx: Context, host: Host | None) -> None:
        """Nothing is kept open."""
