"""The hooks of SSH, as a cloud (machines of a pool, leased) and as a runner (OpenSSH).

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
    Place,
    Request,
    Transfer,
    TransferResult,
    hookimpl,
)


class SSHCloud:
    """Machines that someone has: pools of ~/.sky/ssh_node_pools.yaml, or names of the ssh config."""

    api = (1, 1)

    @hookimpl
    def sky_cloud_info(self) -> CloudInfo:
        from sky_ssh.about import cloud_info

        return cloud_info()

    @hookimpl
    def sky_config_schema(self) -> Mapping[str, Any]:
        from sky_ssh.about import config_schema

        return config_schema()

    @hookimpl
    def sky_check_credentials(self, ctx: Context) -> CredentialStatus:
        from sky_ssh.check import check_credentials

        return check_credentials(ctx)

    @hookimpl
    def sky_feasible(self, ctx: Context, request: Request) -> Feasibility:
        from sky_ssh.feasibility import feasible

        return feasible(ctx, request)

    @hookimpl
    def sky_run_instances(self, ctx: Context, spec: LaunchSpec) -> Allocation:
        from sky_ssh.cloud import run_instances

        return run_instances(ctx, spec)

    @hookimpl
    def sky_wait_instances(self, ctx: Context, allocation: Allocation) -> None:
        from sky_ssh.cloud import wait_instances

        wait_instances(ctx, allocation)

    @hookimpl
    def sky_query_instances(self, ctx: Context, allocation: Allocation) -> Sequence[InstanceStatus]:
        from sky_ssh.cloud import query_instances

        return query_instances(ctx, allocation)

    @hookimpl
    def sky_cluster_hosts(self, ctx: Context, allocation: Allocation) -> Sequence[Host]:
        from sky_ssh.cloud import cluster_hosts

        return cluster_hosts(ctx, allocation)

    @hookimpl
    def sky_list_clusters(self, ctx: Context, tags: Mapping[str, str]) -> Sequence[Allocation]:
        from sky_ssh.cloud import list_clusters

        return list_clusters(ctx, tags)

    @hookimpl
    def sky_terminate_instances(self, ctx: Context, allocation: Allocation) -> None:
        from sky_ssh.cloud import terminate_instances

        terminate_instances(ctx, allocation)


class SSHRunner:
    """Commands over OpenSSH. What an address may hold is in `sky_ssh.address`."""

    api = (1, 1)

    @hookimpl
    def sky_config_schema(self) -> Mapping[str, Any]:
        from sky_ssh.about import config_schema

        return config_schema()

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
        from sky_ssh.runner import run

        return run(ctx, host, command, stdin, stdout, stderr)

    @hookimpl
    def sky_rsync(self, ctx: Context, host: Host, transfer: Transfer) -> TransferResult:
        from sky.api import transfer_over

        return transfer_over(self.sky_run, ctx, host, transfer)

    @hookimpl
    def sky_shell(self, ctx: Context, host: Host, command: Command | None) -> int:
        from sky_ssh.interactive import shell

        return shell(ctx, host, command)

    @hookimpl
    def sky_forward(self, ctx: Context, host: Host, remote_port: int, local_port: int | None) -> Forward:
        from sky_ssh.interactive import forward

        return forward(ctx, host, remote_port, local_port)

    @hookimpl
    def sky_disconnect(self, ctx: Context, host: Host | None) -> None:
        from sky_ssh.connection import disconnect

        disconnect(ctx, host)

    @hookimpl
    def sky_publish_hosts(self, ctx: Context, place: Place) -> None:
        from sky_ssh.names import publish

        publish(ctx, place)

    @hookimpl
    def sky_withdraw_hosts(self, ctx: Context, allocation: Allocation) -> None:
        from sky_ssh.names import withdraw

        withdraw(ctx, allocation)
