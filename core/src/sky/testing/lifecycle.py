"""From a request to nothing left: what every cloud does, against the real place or a faithful simulation."""

from __future__ import annotations

import io
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from sky.api import (
    Allocation,
    Cancelled,
    CancelToken,
    Command,
    InstanceState,
    LaunchSpec,
    NotYet,
    TimedOut,
)
from sky.registry.plugins import Plugin, Registry
from sky.testing.answers import CloudAnswers, is_flat
from sky.testing.lab import MakeContext, eventually, given_back, is_gone, new_spec, start, unconfirmed

ODD_TAGS = {
    "plain": "value",
    "empty": "",
    "unicode": "größe 東京 🚀",
    "quotes": """it's "quoted" `and` $HOME \\ too""",
    "spaces": "  two  spaces, tab\there  ",
    "lines": "one\ntwo\n",
    "long": "x" * 300,
    "json": '{"a": [1, null, "é"], "b": {"c": "/"}}',
    "a key: with/odd=characters": "too",
}


class CloudLifecycle(CloudAnswers):
    """The author sets `plugin`, `request`, `impossible`, and `config` if the tests need one."""

    @pytest.fixture(scope="class")
    @classmethod
    def launch_spec(cls, loaded: Plugin, ctx_factory: MakeContext) -> LaunchSpec:
        """The spec of the cluster `up`, with tags that are hard to keep."""
        return new_spec(loaded, ctx_factory(), cls.request, name="kit: 'ödd' name", tags=ODD_TAGS)

    @pytest.fixture(scope="class")
    @classmethod
    def up(cls, loaded: Plugin, ctx_factory: MakeContext, launch_spec: LaunchSpec) -> Iterator[Allocation]:
        """A cluster that is up; tests only look at it."""
        with given_back(loaded, ctx_factory, launch_spec):
            yield start(loaded, ctx_factory, launch_spec)

    @pytest.fixture
    def fresh(self, loaded: Plugin, ctx_factory: MakeContext) -> Iterator[LaunchSpec]:
        """The spec of a cluster of the test's own, given back at the end."""
        spec = new_spec(loaded, ctx_factory(), self.request)
        with given_back(loaded, ctx_factory, spec):
            yield spec

    # --- get ------------------------------------------------------------------------------------------

    def test_the_allocation_says_whose_it_is(self, up: Allocation, launch_spec: LaunchSpec) -> None:
        assert up.id == launch_spec.cluster_id
        assert up.cloud == self.plugin
        assert up.cluster_name == launch_spec.cluster_name
        assert dict(up.tags) == dict(launch_spec.tags)
        assert up.num_nodes == launch_spec.num_nodes
        assert is_flat(up.spec)

    def test_every_node_runs_after_waiting(
        self, loaded: Plugin, ctx_factory: MakeContext, up: Allocation
    ) -> None:
        found = loaded.hook.sky_query_instances(ctx=ctx_factory(), allocation=up)
        assert [status.rank for status in found] == list(range(up.num_nodes))
        assert {status.state for status in found} == {InstanceState.RUNNING}
        assert all(status.name for status in found)

    def test_hosts_are_ranked_and_reachable(
        self, loaded: Plugin, ctx_factory: MakeContext, up: Allocation
    ) -> None:
        hosts = loaded.hook.sky_cluster_hosts(ctx=ctx_factory(), allocation=up)
        assert [host.rank for host in hosts] == list(range(up.num_nodes))
        for host in hosts:
            assert host.transport and host.name and is_flat(host.address)
            runner, out, err = Registry().runner(host.transport), io.BytesIO(), io.BytesIO()
            code = runner.hook.sky_run(
                ctx=ctx_factory(),
                host=host,
                command=Command(argv=("sh", "-c", "echo here")),
                stdin=None,
                stdout=out,
                stderr=err,
            )
            assert (code, out.getvalue()) == (0, b"here\n"), err.getvalue()

    def test_hosts_are_the_same_when_asked_again(
        self, loaded: Plugin, ctx_factory: MakeContext, up: Allocation
    ) -> None:
        first = list(loaded.hook.sky_cluster_hosts(ctx=ctx_factory(), allocation=up))
        assert list(loaded.hook.sky_cluster_hosts(ctx=ctx_factory(), allocation=up)) == first

    def test_it_is_found_by_its_tags_alone(
        self, loaded: Plugin, ctx_factory: MakeContext, up: Allocation, launch_spec: LaunchSpec
    ) -> None:
        key = {"sky-cluster-id": launch_spec.cluster_id}
        for tags in (key, dict(launch_spec.tags)):
            (found,) = loaded.hook.sky_list_clusters(ctx=ctx_factory(), tags=tags)
            assert dict(found.tags) == dict(launch_spec.tags), "tags come back unchanged"
            assert (found.id, found.cluster_name) == (up.id, launch_spec.cluster_name)
            assert found.num_nodes == launch_spec.num_nodes

    def test_what_was_found_by_tags_is_as_good_as_what_was_given(
        self, loaded: Plugin, ctx_factory: MakeContext, up: Allocation
    ) -> None:
        (found,) = loaded.hook.sky_list_clusters(ctx=ctx_factory(), tags={"sky-cluster-id": up.id})
        hosts = list(loaded.hook.sky_cluster_hosts(ctx=ctx_factory(), allocation=found))
        assert hosts == list(loaded.hook.sky_cluster_hosts(ctx=ctx_factory(), allocation=up))

    @pytest.mark.parametrize(
        "tags", [{"long": "x" * 299}, {"plain": "valu"}, {"nobody": ""}, {"plain": "value", "empty": "not"}]
    )
    def test_it_is_not_found_by_other_tags(
        self, loaded: Plugin, ctx_factory: MakeContext, up: Allocation, tags: Mapping[str, str]
    ) -> None:
        tags = {"sky-cluster-id": up.id, **tags}
        assert list(loaded.hook.sky_list_clusters(ctx=ctx_factory(), tags=tags)) == []

    def test_waiting_again_returns_at_once(
        self, loaded: Plugin, ctx_factory: MakeContext, up: Allocation
    ) -> None:
        loaded.hook.sky_wait_instances(ctx=ctx_factory(10), allocation=up)

    def test_hosts_come_all_or_not_yet(
        self, loaded: Plugin, ctx_factory: MakeContext, fresh: LaunchSpec
    ) -> None:
        allocation = loaded.hook.sky_run_instances(ctx=ctx_factory(), spec=fresh)
        try:
            hosts = loaded.hook.sky_cluster_hosts(ctx=ctx_factory(), allocation=allocation)
        except NotYet:
            return
        assert [host.rank for host in hosts] == list(range(fresh.num_nodes))

    def test_waiting_ends_at_the_deadline_and_when_cancelled(
        self, loaded: Plugin, ctx_factory: MakeContext, fresh: LaunchSpec
    ) -> None:
        """Unless the nodes run before that, which is as good."""
        allocation = loaded.hook.sky_run_instances(ctx=ctx_factory(), spec=fresh)
        started = time.monotonic()
        cancel = CancelToken()
        cancel.cancel()
        for ctx, expected in ((ctx_factory(0.05), TimedOut), (ctx_factory(cancel=cancel), Cancelled)):
            try:
                loaded.hook.sky_wait_instances(ctx=ctx, allocation=allocation)
            except expected as error:
                assert error.message
        assert time.monotonic() - started < 5

    def test_creating_it_twice_creates_it_once(
        self, loaded: Plugin, ctx_factory: MakeContext, up: Allocation, launch_spec: LaunchSpec
    ) -> None:
        before = list(loaded.hook.sky_cluster_hosts(ctx=ctx_factory(), allocation=up))
        again = start(loaded, ctx_factory, launch_spec)
        assert again.id == up.id
        assert list(loaded.hook.sky_cluster_hosts(ctx=ctx_factory(), allocation=again)) == before
        found = loaded.hook.sky_list_clusters(ctx=ctx_factory(), tags={"sky-cluster-id": up.id})
        assert len(found) == 1

    def test_creating_it_twice_at_the_same_time_creates_it_once(
        self, loaded: Plugin, ctx_factory: MakeContext, fresh: LaunchSpec
    ) -> None:
        together = threading.Barrier(2)
        given: list[Allocation] = []
        failed: list[BaseException] = []

        def create() -> None:
            together.wait()
            try:
                given.append(start(loaded, ctx_factory, fresh))
            except BaseException as error:  # noqa: BLE001 - shown by the test
                failed.append(error)

        threads = [threading.Thread(target=create) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        hosts = [list(loaded.hook.sky_cluster_hosts(ctx=ctx_factory(), allocation=a)) for a in given]
        assert hosts[0] == hosts[1]
        statuses = loaded.hook.sky_query_instances(ctx=ctx_factory(), allocation=given[0])
        assert len(statuses) == fresh.num_nodes
        tags = {"sky-cluster-id": fresh.cluster_id}
        assert len(loaded.hook.sky_list_clusters(ctx=ctx_factory(), tags=tags)) == 1

    def test_bootstrapping_twice_is_fine(
        self, loaded: Plugin, ctx_factory: MakeContext, launch_spec: LaunchSpec
    ) -> None:
        if not loaded.has("sky_bootstrap"):
            pytest.skip("not offered: it shares nothing between clusters")
        for _ in range(2):
            loaded.hook.sky_bootstrap(ctx=ctx_factory(), spec=launch_spec)

    def test_two_nodes_are_ranked(self, loaded: Plugin, ctx_factory: MakeContext) -> None:
        if "multi_node" not in loaded.hook.sky_cloud_info().capabilities:
            pytest.skip("not offered: it declares no multi_node")
        spec = new_spec(loaded, ctx_factory(), replace(self.request, num_nodes=2))
        with given_back(loaded, ctx_factory, spec):
            allocation = start(loaded, ctx_factory, spec)
            hosts = loaded.hook.sky_cluster_hosts(ctx=ctx_factory(), allocation=allocation)
            assert [host.rank for host in hosts] == [0, 1]
            assert hosts[0].address != hosts[1].address
            statuses = loaded.hook.sky_query_instances(ctx=ctx_factory(), allocation=allocation)
            assert [status.rank for status in statuses] == [0, 1]

    # --- give back ------------------------------------------------------------------------------------

    def test_a_stopped_cluster_is_resumed(
        self, loaded: Plugin, ctx_factory: MakeContext, fresh: LaunchSpec
    ) -> None:
        if "stop" not in loaded.hook.sky_cloud_info().capabilities:
            pytest.skip("not offered: it declares no stop")

        def states(allocation: Allocation) -> set[InstanceState]:
            found = loaded.hook.sky_query_instances(ctx=ctx_factory(), allocation=allocation)
            return {status.state for status in found}

        allocation = start(loaded, ctx_factory, fresh)
        for _ in range(2):
            loaded.hook.sky_stop_instances(ctx=ctx_factory(), allocation=allocation)
        eventually(lambda: states(allocation) == {InstanceState.STOPPED}, 300)
        assert start(loaded, ctx_factory, fresh).id == allocation.id
        assert states(allocation) == {InstanceState.RUNNING}

    def test_giving_back_leaves_nothing_and_may_be_repeated(
        self, loaded: Plugin, ctx_factory: MakeContext, fresh: LaunchSpec
    ) -> None:
        allocation = start(loaded, ctx_factory, fresh)
        for _ in range(2):
            loaded.hook.sky_terminate_instances(ctx=ctx_factory(), allocation=allocation)
        eventually(lambda: is_gone(loaded, ctx_factory, allocation))
        loaded.hook.sky_terminate_instances(ctx=ctx_factory(), allocation=allocation)

    def test_it_is_given_back_by_its_id_alone(
        self, loaded: Plugin, ctx_factory: MakeContext, fresh: LaunchSpec
    ) -> None:
        """A client that crashed in the middle of the creation knows no more than this."""
        allocation = loaded.hook.sky_run_instances(ctx=ctx_factory(), spec=fresh)
        loaded.hook.sky_terminate_instances(ctx=ctx_factory(), allocation=unconfirmed(fresh))
        eventually(lambda: is_gone(loaded, ctx_factory, allocation))

    def test_what_never_existed_is_empty_and_given_back(
        self, loaded: Plugin, ctx_factory: MakeContext, launch_spec: LaunchSpec
    ) -> None:
        never = unconfirmed(replace(launch_spec, cluster_id=f"never-{uuid.uuid4().hex[:16]}"))
        assert list(loaded.hook.sky_query_instances(ctx=ctx_factory(), allocation=never)) == []
        with pytest.raises(NotYet):
            loaded.hook.sky_cluster_hosts(ctx=ctx_factory(), allocation=never)
        assert list(loaded.hook.sky_list_clusters(ctx=ctx_factory(), tags={"sky-cluster-id": never.id})) == []
        loaded.hook.sky_terminate_instances(ctx=ctx_factory(), allocation=never)
