"""From offer to nothing left, on a real cluster: made once, found by anyone, given back."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from sky.api import Accelerator, Allocation, InstanceState, NotYet, ProvisioningFailed, Quantity, Request
from sky_kubernetes import cloud
from sky_kubernetes.pods import WORK_DIR


def test_a_cluster_is_made_runs_and_is_given_back(lab: Any, eventually: Any) -> None:
    allocation = lab.up()
    (status,) = cloud.query_instances(lab.ctx(), allocation)
    assert (status.state, status.rank, status.name) == (InstanceState.RUNNING, 0, f"{allocation.id}-0")
    (host,) = cloud.cluster_hosts(lab.ctx(), allocation)
    seen = json.loads(lab.cluster.kubectl("get", "pod", host.name, "-o", "json"))
    assert host.transport == "kubernetes"
    assert dict(host.address) == {
        "context": lab.cluster.context,
        "namespace": lab.cluster.namespace,
        "pod": host.name,
        "container": "sky",
        "uid": seen["metadata"]["uid"],
    }
    assert (host.internal_ip, host.work_dir) == (seen["status"]["podIP"], WORK_DIR)
    cloud.terminate_instances(lab.ctx(), allocation)
    eventually(lambda: not lab.pods(allocation.id))
    assert cloud.query_instances(lab.ctx(), allocation) == []
    cloud.terminate_instances(lab.ctx(), allocation)


def test_two_launches_of_one_cluster_make_one(lab: Any) -> None:
    spec = lab.spec()
    given: list[Allocation] = []
    threads = [threading.Thread(target=lambda: given.append(lab.start(spec))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    uids = lab.cluster.kubectl("get", "pods", "-l", f"sky.dev/cluster={spec.cluster_id}", "-o", "name")
    assert len(uids.split()) == 1
    assert given == [given[0]] * 4
    cloud.wait_instances(lab.ctx(), given[0])
    (before,) = cloud.cluster_hosts(lab.ctx(), given[0])
    assert lab.start(spec) == given[0]
    assert cloud.cluster_hosts(lab.ctx(), given[0]) == [before], "adopted, not made anew"


def test_a_pod_that_ended_is_replaced_and_one_that_is_not_ours_is_not(lab: Any, eventually: Any) -> None:
    allocation = lab.up()
    (first,) = cloud.cluster_hosts(lab.ctx(), allocation)
    lab.end(allocation)
    eventually(lambda: cloud.query_instances(lab.ctx(), allocation)[0].state is InstanceState.ENDED)
    again = lab.start(lab.spec(cluster_id=allocation.id))
    cloud.wait_instances(lab.ctx(), again)
    assert cloud.cluster_hosts(lab.ctx(), again)[0].address["uid"] != first.address["uid"]
    lab.cluster.kubectl("label", "pod", first.name, "--overwrite", "app.kubernetes.io/managed-by=someone")
    with pytest.raises(ProvisioningFailed, match="isn't of this cluster"):
        lab.start(lab.spec(cluster_id=allocation.id))
    lab.cluster.kubectl("label", "pod", first.name, "--overwrite", "app.kubernetes.io/managed-by=sky")


def test_what_never_was_is_empty_and_given_back_without_complaint(lab: Any) -> None:
    allocation = lab.up()
    cloud.terminate_instances(lab.ctx(), allocation)
    never = Allocation(
        id="never-was",
        cloud="kubernetes",
        cluster_name="never",
        tags={},
        num_nodes=1,
        spec=allocation.spec,
    )
    assert cloud.query_instances(lab.ctx(), never) == []
    cloud.terminate_instances(lab.ctx(), never)
    with pytest.raises(NotYet):
        cloud.cluster_hosts(lab.ctx(), never)


def test_clusters_are_found_by_tags_alone_with_names_unchanged(lab: Any) -> None:
    stem = "a very long name, of spaces and commas: ünïcode / slashes. " + "x" * 15
    names = [(stem + "-one").ljust(80, "1"), (stem + "-two").ljust(80, "2")]
    assert names[0][:60] == names[1][:60]
    mine = {
        name: lab.start(lab.spec(name=name, tags={"sky owner": "A.B_c", "cluster": name})) for name in names
    }
    for name, allocation in mine.items():
        found = cloud.list_clusters(lab.ctx(), {"cluster": name})
        assert found == [allocation], "the same allocation as when it was made"
        assert found[0].cluster_name == name
        assert found[0].tags == {"sky owner": "A.B_c", "cluster": name}
    assert {a.id for a in cloud.list_clusters(lab.ctx(), {"sky owner": "A.B_c"})} >= {
        a.id for a in mine.values()
    }
    assert cloud.list_clusters(lab.ctx(), {"sky owner": "A.B"}) == []
    assert cloud.list_clusters(lab.ctx(), {"sky owner": "A.B_c", "cluster": "another"}) == []


def test_a_cluster_that_ended_by_itself_is_listed_until_given_back(lab: Any, eventually: Any) -> None:
    allocation = lab.up(tags={"only": "this-one"})
    lab.end(allocation)
    eventually(lambda: cloud.query_instances(lab.ctx(), allocation)[0].state is InstanceState.ENDED)
    assert cloud.list_clusters(lab.ctx(), {"only": "this-one"}) == [allocation]
    cloud.terminate_instances(lab.ctx(), allocation)
    eventually(lambda: cloud.list_clusters(lab.ctx(), {"only": "this-one"}) == [])


def test_several_nodes_are_ranked(lab: Any) -> None:
    allocation = lab.up(num_nodes=2)
    hosts = cloud.cluster_hosts(lab.ctx(), allocation)
    assert [(h.rank, h.name) for h in hosts] == [(0, f"{allocation.id}-0"), (1, f"{allocation.id}-1")]
    lab.cluster.kubectl("delete", "pod", hosts[0].name, "--grace-period=0", "--force")
    assert [s.rank for s in cloud.query_instances(lab.ctx(), allocation)] == [1]
    with pytest.raises(NotYet, match="node 0"):
        cloud.cluster_hosts(lab.ctx(), allocation)


def test_of_several_nodes_all_are_made_or_none(lab: Any, eventually: Any) -> None:
    spec = lab.spec(num_nodes=2)
    blocker = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{spec.cluster_id}-1"},
        "spec": {"containers": [{"name": "c", "image": "docker.io/library/busybox:testbed"}]},
    }
    lab.cluster.kubectl("create", "-f", "-", stdin=json.dumps(blocker))
    with pytest.raises(ProvisioningFailed, match="isn't of this cluster"):
        lab.start(spec)
    eventually(lambda: not lab.pods(spec.cluster_id))
    lab.cluster.kubectl("delete", "pod", f"{spec.cluster_id}-1", "--grace-period=0", "--force")


LOCKED = {
    "pod_config": {
        "spec": {
            "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "runAsNonRoot": True},
            "containers": [
                {
                    "securityContext": {
                        "readOnlyRootFilesystem": True,
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    }
                },
                {
                    "name": "proxy",
                    "image": "docker.io/library/busybox:testbed",
                    "command": ["sleep", "1000"],
                    "resources": {"requests": {"cpu": "10m"}},
                },
            ],
        }
    }
}


def test_any_user_a_read_only_root_and_a_sidecar_will_do(lab: Any, eventually: Any) -> None:
    allocation = lab.up(LOCKED)
    assert lab.sh(allocation, "id -u").strip() == "1000"
    script = f"echo x >{WORK_DIR}/f && cat {WORK_DIR}/f; (echo no >/etc/f) 2>/dev/null || echo read-only"
    assert lab.sh(allocation, script).split() == ["x", "read-only"]
    lab.sh(allocation, "echo for the collector >/proc/1/fd/1")
    logs = lab.cluster.kubectl("logs", f"{allocation.id}-0", "-c", "sky")
    assert logs == "for the collector\n"
    lab.end(allocation)
    eventually(lambda: cloud.query_instances(lab.ctx(), allocation)[0].state is InstanceState.ENDED)


@pytest.mark.parametrize("image", ["busybox", "debian"])
def test_the_first_process_reaps_orphans_and_ends_at_once(lab: Any, eventually: Any, image: str) -> None:
    allocation = lab.up({"image": f"docker.io/library/{image}:testbed"})
    # Children whose parent ends first fall to process 1; what it doesn't reap stays as a zombie.
    lab.sh(allocation, "for i in 1 2 3 4 5; do (sleep 0.1 & sleep 0.2 &) & done; wait")
    states = 'for d in /proc/[0-9]*; do read -r l <$d/stat && echo "$l"; done 2>/dev/null || true'
    eventually(lambda: "(sleep)" in (seen := lab.sh(allocation, states)) and " Z " not in seen)
    name = f"{allocation.id}-0"
    lab.cluster.kubectl("delete", "pod", name, "--wait=false")
    code = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}"
    eventually(lambda: lab.cluster.kubectl("get", "pod", name, "--ignore-not-found", "-o", code) != "")
    assert lab.cluster.kubectl("get", "pod", name, "-o", code) == "0", "it waited to be killed"


def test_a_device_is_given_where_its_label_says(lab: Any) -> None:
    allocation = lab.up(accelerator=Accelerator("h100", 1))
    pod = json.loads(lab.cluster.kubectl("get", "pod", f"{allocation.id}-0", "-o", "json"))
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert allocation.offer is not None
    assert allocation.offer.instance_type == "0.05CPU--0.05GB--H100:1"


def test_an_offer_agrees_with_the_scheduler(lab: Any) -> None:
    """What is refused for cpus would indeed not have been scheduled, and the near miss is offered."""
    refused = cloud.feasible(lab.ctx(), of_cpus(64)).rejections
    (near,) = refused[0].near_misses
    fits = float(near.removeprefix("cpus: "))
    assert cloud.feasible(lab.ctx(), of_cpus(fits)).offers
    assert not cloud.feasible(lab.ctx(), of_cpus(fits + 1)).offers


def of_cpus(cpus: float) -> Request:
    return Request(cpus=Quantity(cpus), memory=Quantity(0.05))
