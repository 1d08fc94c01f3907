"""What goes wrong with pods is said within seconds, in Kubernetes' words, by waiting and by asking."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from sky.api import (
    Accelerator,
    Cancelled,
    CancelToken,
    InstanceState,
    NoCapacity,
    ProvisioningFailed,
    QuotaExceeded,
    SkyError,
    TimedOut,
)
from sky_kubernetes import api_client, cloud

DEBIAN = "docker.io/library/debian:testbed"


def main(**container: Any) -> dict[str, Any]:
    return {"pod_config": {"spec": {"containers": [container]}}}


def failure(lab: Any, config: dict[str, Any], kind: type[SkyError], **request: Any) -> tuple[Any, str]:
    """The allocation, and what waiting for it failed with within case 57's minute."""
    allocation = lab.start(lab.spec(config, **request), config)
    with pytest.raises(kind) as raised:
        cloud.wait_instances(lab.ctx(config), allocation)
    assert raised.type is kind
    return allocation, raised.value.message


def said(lab: Any) -> str:
    return "\n".join(event.message for event in lab.events if event.kind == "phase")


def test_a_mistyped_image_is_named(lab: Any) -> None:
    typo = "docker:127.0.0.1:9/library/ubunu:22.04"
    allocation, message = failure(lab, {}, ProvisioningFailed, image_id=typo)
    assert "ErrImagePull" in message
    assert "127.0.0.1:9/library/ubunu:22.04" in message
    assert "ErrImagePull" in said(lab)
    (status,) = cloud.query_instances(lab.ctx(), allocation)
    assert "127.0.0.1:9/library/ubunu:22.04" in status.reason


def test_an_image_that_can_never_be_had_fails_at_once(lab: Any) -> None:
    image = "no/such:1"
    config = {"image": image, "image_pull_policy": "Never"}
    begun = time.monotonic()
    allocation, message = failure(lab, config, ProvisioningFailed)
    assert "ErrImageNeverPull" in message
    assert image in message
    assert time.monotonic() - begun < 10
    assert cloud.query_instances(lab.ctx(), allocation)[0].state is InstanceState.FAILED


def test_out_of_memory_is_named(lab: Any, eventually: Any) -> None:
    eats = {"command": ["python3", "-c", "import time; time.sleep(1); x = b'x' * (2 << 30)"]}
    config = {"image": DEBIAN, **main(**eats)}
    allocation = lab.start(lab.spec(config), config)
    eventually(lambda: cloud.query_instances(lab.ctx(), allocation)[0].state is InstanceState.FAILED)
    assert "OOMKilled" in cloud.query_instances(lab.ctx(), allocation)[0].reason
    with pytest.raises(ProvisioningFailed, match="OOMKilled"):
        cloud.wait_instances(lab.ctx(), allocation)


def test_a_pod_that_outlived_an_oom_kill_and_ended_well_has_not_failed(lab: Any, eventually: Any) -> None:
    allocation = lab.up({"image": DEBIAN})
    assert "killed" in lab.sh(allocation, "python3 -c 'x = b\"x\" * (2 << 30)' || echo killed")
    lab.end(allocation)
    ended = InstanceState.ENDED
    eventually(lambda: cloud.query_instances(lab.ctx(), allocation)[0].state is ended)
    assert "OOMKilled" in cloud.query_instances(lab.ctx(), allocation)[0].reason


def test_a_pod_that_fills_its_disk_is_evicted_by_name(lab: Any, eventually: Any) -> None:
    limit = {"resources": {"limits": {"ephemeral-storage": "8Mi"}}}
    allocation = lab.up(main(**limit))
    lab.sh(allocation, "dd if=/dev/zero of=/fill bs=1M count=32 2>/dev/null")
    failed = InstanceState.FAILED
    # The kubelet looks at disks every half a minute.
    eventually(lambda: cloud.query_instances(lab.ctx(), allocation)[0].state is failed, seconds=90)
    reason = cloud.query_instances(lab.ctx(), allocation)[0].reason
    assert reason.startswith("Evicted: Pod ephemeral local storage usage exceeds")


def test_a_failed_init_container_and_a_missing_shell_are_named(lab: Any) -> None:
    busybox = "docker.io/library/busybox:testbed"
    init = {"name": "prepare", "image": busybox, "command": ["sh", "-c", "exit 3"]}
    config = {"pod_config": {"spec": {"initContainers": [init]}}}
    _, message = failure(lab, config, ProvisioningFailed)
    assert "'prepare' ended with code 3" in message
    _, message = failure(lab, main(command=["/no/such/shell"]), ProvisioningFailed)
    assert "/no/such/shell" in message


def test_a_missing_secret_is_named_after_it_had_time_to_appear(lab: Any) -> None:
    env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "nowhere", "key": "k"}}}]
    _, message = failure(lab, main(env=env), ProvisioningFailed)
    assert "CreateContainerConfigError" in message
    assert "nowhere" in message


def test_no_room_is_said_at_once_and_given_up_after_the_timeout(lab: Any) -> None:
    # Past what feasibility sees: a selector that only the scheduler reads.
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "never", "operator": "In", "values": ["x"]}]}
                ]
            }
        }
    }
    config = {"pod_config": {"spec": {"affinity": affinity}}, "provision_timeout": 3}
    begun = time.monotonic()
    allocation, message = failure(lab, config, NoCapacity)
    assert 3 <= time.monotonic() - begun < 10
    assert "0/1 nodes are available" in message
    assert "Unschedulable" in said(lab)
    with pytest.raises(TimedOut, match="0/1 nodes are available"):
        cloud.wait_instances(lab.ctx({**config, "provision_timeout": -1}, seconds=2), allocation)


def test_a_pod_that_no_scheduler_takes_is_given_up_after_the_timeout(lab: Any) -> None:
    config = {"pod_config": {"spec": {"schedulerName": "nobody"}}, "provision_timeout": 2}
    begun = time.monotonic()
    _, message = failure(lab, config, NoCapacity)
    assert 2 <= time.monotonic() - begun < 8
    assert "no scheduler has taken" in message


def test_waiting_ends_within_a_second_of_a_cancel(lab: Any) -> None:
    config = {"pod_config": {"spec": {"schedulerName": "nobody"}}}
    allocation = lab.start(lab.spec(config), config)
    token = CancelToken()
    ctx = lab.make_context(config=config, cancel=token)
    begun = time.monotonic()
    threading.Timer(1.0, token.cancel).start()
    with pytest.raises(Cancelled):
        cloud.wait_instances(ctx, allocation)
    assert 1 <= time.monotonic() - begun < 2


def test_a_pod_deleted_as_it_starts_is_noticed(lab: Any) -> None:
    config = {"pod_config": {"spec": {"schedulerName": "nobody"}}, "provision_timeout": -1}
    allocation = lab.start(lab.spec(config), config)
    timer = threading.Timer(1.0, lab.cluster.kubectl, ("delete", "pod", f"{allocation.id}-0"))
    timer.start()
    with pytest.raises(ProvisioningFailed, match="deleted"):
        cloud.wait_instances(lab.ctx(config), allocation)
    timer.join()
    with pytest.raises(ProvisioningFailed, match="aren't there any more"):
        cloud.wait_instances(lab.ctx(config), allocation)


def test_a_mount_that_cannot_be_made_is_said_from_the_events(lab: Any) -> None:
    spec = {"volumes": [{"name": "v", "configMap": {"name": "nowhere"}}]}
    config = {
        "pod_config": {"spec": {**spec, "containers": [{"volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}}
    }
    allocation = lab.start(lab.spec(config), config)
    with pytest.raises(TimedOut, match="nowhere"):
        cloud.wait_instances(lab.ctx(config, seconds=8), allocation)
    assert "FailedMount" in said(lab)


def test_a_quota_is_told_from_a_missing_permission(lab: Any, eventually: Any) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tight"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "0"}},
    }
    spec = lab.spec(accelerator=Accelerator("H100", 1))
    lab.cluster.kubectl("create", "-f", "-", stdin=json.dumps(quota))
    try:
        hard = "jsonpath={.status.hard}"
        eventually(lambda: lab.cluster.kubectl("get", "quota", "tight", "-o", hard))
        with pytest.raises(QuotaExceeded, match="exceeded quota"):
            lab.start(spec)
    finally:
        lab.cluster.kubectl("delete", "quota", "tight")


def test_a_pod_that_the_server_refuses_and_a_missing_namespace(lab: Any) -> None:
    bad = {"pod_config": {"spec": {"dnsPolicy": "Nonsense"}}}
    with pytest.raises(api_client.ApiInvalid, match="dnsPolicy"):
        lab.start(lab.spec(bad), bad)
    nowhere = {"namespace": "no-such-namespace"}
    with pytest.raises(ProvisioningFailed, match="no-such-namespace") as raised:
        lab.start(lab.spec(nowhere), nowhere)
    assert "make the namespace" in raised.value.remedy


def test_a_missing_service_account_is_no_missing_permission(lab: Any) -> None:
    config = {"remote_identity": "no-such-account"}
    with pytest.raises(ProvisioningFailed, match="no service account 'no-such-account'") as raised:
        lab.start(lab.spec(config), config)
    assert "create serviceaccount no-such-account" in raised.value.remedy
