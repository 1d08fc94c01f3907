"""Leasing the testbed's hosts: all or none, whoever else wants them, whatever breaks in the middle."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from cloud_fixtures import THREE, MakePool, Pools

from sky.api import (
    Cancelled,
    CancelToken,
    Event,
    InstanceState,
    LaunchSpec,
    NoCapacity,
    NotYet,
    Place,
    Request,
    SkyError,
    Unreachable,
)
from sky.testing.lab import eventually, unconfirmed
from sky_ssh import cloud, connection, feasibility, lease


@pytest.fixture(autouse=True)
def lab(pool: MakePool) -> str:
    """The pool of three hosts."""
    return pool()


# --- all or none -------------------------------------------------------------------------------------


def test_hosts_are_leased_and_given_back_without_a_trace(pools: Pools) -> None:
    before = pools.on("h1", "find /home/lab2 | sort")
    spec = pools.spec(num_nodes=2)
    allocation = pools.lease(spec)
    assert pools.leases() == {"h1": spec.cluster_id, "h2": spec.cluster_id}
    cloud.wait_instances(pools.make_context(), allocation)
    hosts = cloud.cluster_hosts(pools.make_context(), allocation)
    assert [(h.rank, h.name, h.internal_ip) for h in hosts] == [
        (0, THREE[0], THREE[0]),
        (1, THREE[1], THREE[1]),
    ]
    assert hosts[0].work_dir == f"/home/lab2/.sky-node/c/{spec.cluster_id}.h1"
    pools.on("h1", f"touch {hosts[0].work_dir}/made; mkdir /home/lab2/sky_workdir")
    cloud.terminate_instances(pools.make_context(), allocation)
    assert pools.leases() == {}
    assert pools.on("h1", "find /home/lab2 | sort") == before
    assert cloud.query_instances(pools.make_context(), allocation) == []


def test_another_host_stands_in_for_one_that_was_taken_meanwhile(pools: Pools) -> None:
    late = pools.spec(num_nodes=2)
    first = pools.spec()
    pools.lease(first)
    pools.lease(late)
    assert pools.leases() == {"h1": first.cluster_id, "h2": late.cluster_id, "h3": late.cluster_id}


def test_too_few_hosts_are_none_and_the_holders_are_named(pools: Pools) -> None:
    late = pools.spec(num_nodes=3)
    first = pools.spec(name="the first")
    pools.lease(first)
    with pytest.raises(NoCapacity) as caught:
        pools.lease(late)
    assert "leased by cluster 'the first' of kit@test since" in caught.value.message
    assert "has 2 of 3 hosts" in caught.value.message
    assert pools.leases() == {"h1": first.cluster_id}
    assert cloud.query_instances(pools.make_context(), unconfirmed(late)) == []


def test_a_host_that_is_taken_while_hosts_are_taken(pools: Pools) -> None:
    """The last of them: what was taken before it is given back."""
    late = pools.spec(num_nodes=3)
    begun = lease.unpack(late.offer.spec["hosts"])
    attempt_at = pools.spec()
    h3 = json.dumps([dataclasses.asdict(begun[2])])
    first = dataclasses.replace(
        attempt_at, offer=dataclasses.replace(attempt_at.offer, spec={"pool": "lab", "hosts": h3})
    )
    pools.lease(first)
    with pytest.raises(NoCapacity, match=r"10\.77\.0\.13: leased by cluster 'test'"):
        pools.lease(late)
    assert pools.leases() == {"h3": first.cluster_id}


def test_what_a_crash_left_half_is_completed(pools: Pools) -> None:
    spec = pools.spec(num_nodes=2)
    nodes = lease.unpack(spec.offer.spec["hosts"])
    from sky_ssh.leasing import document

    # As a launch that was killed leaves it: rank 1 on another host than it would choose now.
    lease.ask(pools.make_context(), nodes[2], "take", id=spec.cluster_id, doc=document(spec, 1))
    allocation = pools.lease(spec)
    hosts = cloud.cluster_hosts(pools.make_context(), allocation)
    assert [host.name for host in hosts] == [THREE[0], THREE[2]]
    assert pools.lease(spec) == allocation


def test_cancelled_in_the_middle_nothing_stays(pools: Pools) -> None:
    spec = pools.spec(num_nodes=3)
    cancel = CancelToken()

    def give_up_at_the_first_lease() -> None:
        while not pools.leases() and not cancel.wait(0.001):
            pass
        cancel.cancel()

    watcher = threading.Thread(target=give_up_at_the_first_lease)
    watcher.start()
    try:
        with pytest.raises(Cancelled):
            cloud.run_instances(pools.make_context(cancel=cancel), spec)
        assert pools.leases() == {}
    finally:
        cancel.cancel()
        watcher.join()


# --- races -------------------------------------------------------------------------------------------


def _contender(pools: Pools, spec: LaunchSpec, start: Any, results: Any) -> None:
    start.wait()
    try:
        pools.lease(spec)
        results.put((spec.cluster_id, "leased"))
    except SkyError as error:
        results.put((spec.cluster_id, error.kind))


def test_of_many_processes_that_want_two_of_three_hosts_one_gets_them(pools: Pools) -> None:
    processes = multiprocessing.get_context("fork")
    for _ in range(3):
        specs = [pools.spec(num_nodes=2) for _ in range(5)]
        start, results = processes.Event(), processes.Queue()
        running = [processes.Process(target=_contender, args=(pools, spec, start, results)) for spec in specs]
        for process in running:
            process.start()
        start.set()
        came = dict(results.get(timeout=90) for _ in specs)
        for process in running:
            process.join(30)
        winners = [cluster_id for cluster_id, how in came.items() if how == "leased"]
        assert len(winners) == 1, came
        assert set(came.values()) == {"leased", NoCapacity.kind}
        assert list(pools.leases().values()) == winners * 2, "the others left nothing"
        pools.give_all_back()
        assert pools.leases() == {}


def test_killed_while_it_leases_it_is_found_and_given_back(pools: Pools) -> None:
    processes = multiprocessing.get_context("fork")
    for number in range(6):
        spec = pools.spec(num_nodes=3)
        start, results = processes.Event(), processes.Queue()
        process = processes.Process(target=_contender, args=(pools, spec, start, results))
        process.start()
        start.set()
        time.sleep(0.03 + number * 0.03)  # another moment each time: nothing is waited for
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(10)
        tags = {"sky-cluster-id": spec.cluster_id}

        def found_if_held(tags: dict[str, str] = tags) -> bool:
            return bool(cloud.list_clusters(pools.make_context(), tags)) == bool(pools.leases())

        eventually(found_if_held, 20)  # a command that was on its way may still arrive

        def free(spec: LaunchSpec = spec) -> bool:
            cloud.terminate_instances(pools.make_context(), unconfirmed(spec))
            return pools.leases() == {}

        eventually(free, 20)


# --- hosts that don't answer -------------------------------------------------------------------------


@pytest.fixture
def silent(pools: Pools, tmp_path: Path) -> tuple[Path, str]:
    """A pool whose second host can be made to refuse: by the content of its file of host keys."""
    file = tmp_path / "known-of-h2"
    good = (pools.state / "known_hosts").read_text()
    file.write_text(good)
    pools.add("shaky", [THREE[0], {"ip": THREE[1], "known_hosts": str(file)}])
    return file, good


def silence(pools: Pools, spec: LaunchSpec, file: Path) -> None:
    """The second host can no longer be asked: connections that were kept are closed."""
    file.write_text("")
    for node in lease.unpack(spec.offer.spec["hosts"]):
        connection.disconnect(pools.make_context(), node.host())


def test_an_unreachable_host_is_pending_and_given_back_when_it_answers(
    pools: Pools, silent: tuple[Path, str]
) -> None:
    file, good = silent
    spec = pools.spec("shaky", 2)
    allocation = pools.lease(spec)
    silence(pools, spec, file)

    states = cloud.query_instances(pools.make_context(), allocation)
    assert [(s.rank, s.state) for s in states] == [(0, InstanceState.RUNNING), (1, InstanceState.PENDING)]
    assert "host key isn't known" in states[1].reason and "\n" not in states[1].reason
    for ask in (cloud.cluster_hosts, cloud.wait_instances):
        with pytest.raises(Unreachable, match=THREE[1]):
            ask(pools.make_context(), allocation)

    with pytest.raises(Unreachable) as caught:
        cloud.terminate_instances(pools.make_context(), allocation)
    assert THREE[1] in caught.value.message and THREE[0] not in caught.value.message
    assert pools.leases() == {"h2": spec.cluster_id}, "the other was given back"
    states = cloud.query_instances(pools.make_context(), allocation)
    assert [(s.rank, s.state) for s in states] == [(1, InstanceState.PENDING)]

    file.write_text(good)
    cloud.terminate_instances(pools.make_context(), allocation)
    assert pools.leases() == {}


def test_what_could_not_be_asked_is_never_nothing(pools: Pools, silent: tuple[Path, str]) -> None:
    file, good = silent
    spec = pools.spec("shaky", 1)
    pools.lease(spec)
    cloud.terminate_instances(pools.make_context(), unconfirmed(spec))
    silence(pools, spec, file)
    with pytest.raises(Unreachable, match="not known"):
        cloud.query_instances(pools.make_context(), unconfirmed(spec))
    file.write_text(good)


def test_a_host_that_others_took_since_is_left_alone(pools: Pools) -> None:
    spec = pools.spec()
    allocation = pools.lease(spec)
    cloud.terminate_instances(pools.make_context(), allocation)
    other = pools.spec()
    pools.lease(other)
    cloud.terminate_instances(pools.make_context(), allocation)
    assert pools.leases() == {"h1": other.cluster_id}
    assert cloud.query_instances(pools.make_context(), allocation) == []
    with pytest.raises(NotYet):
        cloud.cluster_hosts(pools.make_context(), allocation)


# --- finding -----------------------------------------------------------------------------------------


def test_clusters_are_found_by_their_tags_and_silent_hosts_are_named(
    pools: Pools, silent: tuple[Path, str]
) -> None:
    file, _ = silent
    spec = pools.spec("lab", 3, tags={"odd": "größe\n'x'"})
    allocation = pools.lease(spec)
    file.write_text("")
    events: list[Event] = []
    (found,) = cloud.list_clusters(pools.make_context(events=events), {"odd": "größe\n'x'"})
    assert (found.id, found.num_nodes, found.offer) == (spec.cluster_id, 3, spec.offer)
    assert dict(found.spec) == dict(allocation.spec)
    assert cloud.list_clusters(pools.make_context(), {"odd": "other"}) == []
    warned = [event.message for event in events if event.kind == "warning"]
    assert len(warned) == 1 and THREE[1] in warned[0]


def test_a_published_cluster_is_found_without_its_pool(pools: Pools, home: Path) -> None:
    from sky_ssh import names, published

    spec = pools.spec()
    allocation = pools.lease(spec)
    hosts = tuple(cloud.cluster_hosts(pools.make_context(), allocation))
    names.publish(pools.make_context(), Place(allocation=allocation, hosts=hosts))
    (home / ".ssh" / "sky" / "bad.conf").write_text(f"{published.MARK}{{\n")
    other = dataclasses.replace(allocation, id="other", cloud="another")
    names.publish(pools.make_context(), Place(allocation=other, hosts=hosts))
    pools.file.unlink()

    events: list[Event] = []
    (found,) = cloud.list_clusters(pools.make_context(events=events), {"sky-cluster-id": spec.cluster_id})
    assert found == allocation
    assert [event.kind for event in events] == ["warning"] and "bad.conf" in events[0].message
    assert [node.name for node in published.nodes(pools.make_context())] == [THREE[0]], "not another cloud's"


# --- several accounts --------------------------------------------------------------------------------


def test_accounts_that_share_a_directory_of_leases_take_turns(pools: Pools) -> None:
    pools.add("theirs", THREE[:1], user="lab")
    spec = pools.spec("lab")
    pools.lease(spec)
    found = feasibility.feasible(pools.make_context(), Request(region="theirs"))
    assert [(r.rule, r.reason.split(" since")[0]) for r in found.rejections] == [
        ("leased", "leased by cluster 'test' of kit@test")
    ]
    stranger = lease.Node("h1", {**_address(pools, "theirs")}, pools.lease_dir)
    lease.ask(pools.make_context(), stranger, "give", id=spec.cluster_id)
    assert pools.leases() == {"h1": spec.cluster_id}, "another account can't give it back"
    assert pools.on("h1", f"stat -c '%a' {pools.lease_dir} {pools.lease_dir}/lease.h1") == "1777\n644\n"

    cloud.terminate_instances(pools.make_context(), unconfirmed(spec))
    # What was seen of a host holds for a few seconds.
    ask = Request(region="theirs")
    eventually(lambda: feasibility.feasible(pools.make_context(), ask).offers, 10)
    theirs = pools.spec("theirs")
    pools.lease(theirs)
    assert pools.leases() == {"h1": theirs.cluster_id}


def test_a_lease_that_another_account_made_in_our_name_is_not_ours(pools: Pools) -> None:
    pools.add("theirs", THREE[:1], user="lab")
    spec = pools.spec("lab")
    forged = lease.Node("h1", {**_address(pools, "theirs")}, pools.lease_dir)
    lease.ask(pools.make_context(), forged, "take", id=spec.cluster_id, doc='{"rank":0}')
    try:
        allocation = pools.lease(spec)
        assert [node.name for node in lease.unpack(allocation.spec["hosts"])] == [THREE[1]]
        # It says, too, that this directory came with the cluster.
        pools.on("h1", "mkdir /home/lab2/sky_workdir; chown lab2 /home/lab2/sky_workdir")
        cloud.terminate_instances(pools.make_context(), unconfirmed(spec))
        pools.on("h1", "rmdir /home/lab2/sky_workdir")
    finally:
        lease.ask(pools.make_context(), forged, "give", id=spec.cluster_id)


def _address(pools: Pools, name: str) -> dict[str, str]:
    from sky_ssh.pools import select

    return dict(select(pools.make_context(), name)[0].machines[0].address)
