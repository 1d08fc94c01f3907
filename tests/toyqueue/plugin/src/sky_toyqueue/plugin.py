"""The hooks of the toy queue: a cloud that gives directories, and a runner with an engine of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import BinaryIO

from sky.api import (
    Allocation,
    CloudInfo,
    Command,
    Context,
    CredentialStatus,
    Feasibility,
    Host,
    InstanceStatus,
    Job,
    JobReference,
    JobStatus,
    LaunchSpec,
    Place,
    Request,
    Transfer,
    TransferResult,
    hookimpl,
)


class ToyCloud:
    """A cluster is a directory and a worker process."""

    api = (1, 0)

    @hookimpl
    def sky_cloud_info(self) -> CloudInfo:
        return CloudInfo(title="Toy queue", levels=(), last_resort=True)

    @hookimpl
    def sky_check_credentials(self, ctx: Context) -> CredentialStatus:
        return CredentialStatus(ok=True)

    @hookimpl
    def sky_feasible(self, ctx: Context, request: Request) -> Feasibility:
        from sky_toyqueue import places

        return places.feasible(request)

    @hookimpl
    def sky_run_instances(self, ctx: Context, spec: LaunchSpec) -> Allocation:
        from sky_toyqueue import places

        return places.create(spec)

    @hookimpl
    def sky_wait_instances(self, ctx: Context, allocation: Allocation) -> None:
        from sky_toyqueue import places

        places.wait(ctx, allocation)

    @hookimpl
    def sky_query_instances(self, ctx: Context, allocation: Allocation) -> Sequence[InstanceStatus]:
        from sky_toyqueue import places

        return places.query(allocation)

    @hookimpl
    def sky_cluster_hosts(self, ctx: Context, allocation: Allocation) -> Sequence[Host]:
        from sky_toyqueue import places

        return places.hosts(allocation)

    @hookimpl
    def sky_list_clusters(self, ctx: Context, tags: Mapping[str, str]) -> Sequence[Allocation]:
        from sky_toyqueue import places

        return places.find(tags)

    @hookimpl
    def sky_terminate_instances(self, ctx: Context, allocation: Allocation) -> None:
        from sky_toyqueue import places

        places.remove(ctx, allocation)


class ToyRunner:
    """Commands are child processes in the directory; jobs go through its queue."""

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
        from sky_toyqueue import runner

        return runner.run(ctx, host, command, stdin, stdout, stderr)

    @hookimpl
    def sky_rsync(self, ctx: Context, host: Host, transfer: Transfer) -> TransferResult:
        from sky.api import transfer_over

        return transfer_over(self.sky_run, ctx, host, transfer)

    @hookimpl
    def sky_submit_job(self, ctx: Context, place: Place, job: Job) -> JobReference:
        from sky_toyqueue import jobs

        return jobs.submit(place, job)

    @hookimpl
    def sky_query_jobs(
        self, ctx: Context, place: Place, references: Sequence[JobReference] | None
    ) -> Sequence[JobStatus]:
        from sky_toyqueue import jobs

        return jobs.query(place, references)

    @hookimpl
    def sky_cancel_job(self, ctx: Context, place: Place, reference: JobReference) -> None:
        from sky_toyqueue import jobs

        jobs.cancel(ctx, place, reference)
