"""Clusters of several pods: had whole or not at all, whatever one of them meets."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from sky.api import Accelerator, NoCapacity, ProvisioningFailed, SkyError
from sky_kubernetes import cloud

GPUS = Accelerator("H100", 2)
# The testbed's node has eight devices.
GREEDY = {"name": "greedy", "image": "docker.io/library/busybox:testbed", "command": ["sleep", "600"]}


def test_a_third_pod_without_room_is_said_in_the_schedulers_words(lab: Any, eventually: Any) -> None:
    """There was room when it was asked for; then somebody else came first."""
    config = {"provision_timeout": 2}
    spec = lab.spec(config, num_nodes=3, accelerator=GPUS)
    name = f"{spec.cluster_id}-greedy"
    resources = {"limits": {"nvidia.com/gpu": "4"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{**GREEDY, "resources": resources}]},
    }
    lab.cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    try:
        lab.cluster.kubectl("wait", "--for=condition=PodScheduled", "pod", name, "--timeout=20s")
        allocation = lab.start(spec, config)
        with pytest.raises(
            NoCapacity, match=r"no node took pod .*-2 within \d s: .*Insufficient nvidia.com/gpu"
        ):
            cloud.wait_instances(lab.ctx(config), allocation)
        # What the launcher does then.
        cloud.terminate_instances(lab.ctx(config), allocation)
        eventually(lambda: not lab.pods(spec.cluster_id))
    finally:
        lab.cluster.kubectl("delete", "pod", name, "--grace-period=0", "--force")


def test_room_is_counted_for_all_of_them(lab: Any) -> None:
    three = lab.spec(num_nodes=3, accelerator=GPUS).request  # there is an offer
    found = cloud.feasible(lab.ctx(), replace(three, num_nodes=5))
    assert not found.offers
    assert any(rejection.rule == "num_nodes" for rejection in found.rejections), found.rejections


def test_one_pod_whose_image_fails_fails_the_cluster(lab: Any) -> None:
    allocation = lab.up(num_nodes=3)
    bad = json.loads(lab.cluster.kubectl("get", "pod", f"{allocation.id}-1", "-o", "json"))
    lab.cluster.kubectl("delete", "pod", f"{allocation.id}-1", "--grace-period=0", "--force")
    kept = ("name", "labels", "annotations")
    bad["metadata"] = {key: bad["metadata"][key] for key in kept}
    bad["spec"]["containers"][0].update(image="no/such:1", imagePullPolicy="Never")
    del bad["spec"]["nodeName"], bad["status"]
    lab.cluster.kubectl("create", "-f", "-", stdin=json.dumps(bad))
    with pytest.raises(ProvisioningFailed, match=rf"pod {allocation.id}-1: ErrImageNeverPull"):
        cloud.wait_instances(lab.ctx(), allocation)


def test_two_clients_at_once_have_one_set_of_pods(lab: Any) -> None:
    spec = lab.spec(num_nodes=3)
    failed: list[SkyError] = []

    def launch() -> None:
        try:
            cloud.wait_instances(lab.ctx(), lab.start(spec))
        except SkyError as error:
            failed.append(error)

    clients = [threading.Thread(target=launch) for _ in range(2)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert not failed
    assert sorted(lab.pods(spec.cluster_id)) == [f"{spec.cluster_id}-{rank}" for rank in range(3)]
    hosts = cloud.cluster_hosts(lab.ctx(), lab.launched[0])
    listing = lab.cluster.kubectl("get", "pods", "-l", f"sky.dev/cluster={spec.cluster_id}", "-o", "json")
    ips = {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in json.loads(listing)["items"]}
    assert [host.internal_ip for host in hosts] == [ips[host.name] for host in hosts]


def test_one_that_vanishes_while_waiting_is_an_error_that_names_it(lab: Any) -> None:
    allocation = lab.start(lab.spec(num_nodes=3))
    lab.cluster.kubectl("delete", "pod", f"{allocation.id}-2", "--grace-period=0", "--force")
    with pytest.raises(ProvisioningFailed, match=rf"{allocation.id}-2|1 of 3 pods"):
        cloud.wait_instances(lab.ctx(), allocation)
