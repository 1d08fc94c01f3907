"""`rbac.yaml` grants enough, each part of it is needed, and what is missing is named."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sky.api import Command, InstanceState, NotPermitted, Quantity, Request
from sky_kubernetes import cloud
from sky_kubernetes.access import NEEDED

RBAC = Path(__file__).resolve().parents[2] / "rbac.yaml"


@pytest.fixture
def account(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """`account(*kinds)`: from now on we are a service account with those kinds of objects of `rbac.yaml`."""
    text = RBAC.read_text().replace("namespace: sky", f"namespace: {cluster.namespace}")
    objects = list(yaml.safe_load_all(text))
    for thing in objects:
        if thing["kind"].startswith("Cluster"):  # its name is the whole cluster's: keep to ourselves
            thing["metadata"]["name"] += f"-{cluster.namespace}"
            if "roleRef" in thing:
                thing["roleRef"]["name"] += f"-{cluster.namespace}"

    def become(*kinds: str) -> None:
        for thing in objects:
            if thing["kind"] in ("ServiceAccount", *kinds):
                cluster.kubectl("apply", "-f", "-", stdin=json.dumps(thing))
        name = cluster.kubectl("get", "serviceaccount", "sky", "-o", "jsonpath={.secrets[0].name}")
        secret = json.loads(cluster.kubectl("get", "secret", name, "-o", "json"))
        content = yaml.safe_load(cluster.kubeconfig.read_text())
        token = base64.b64decode(secret["data"]["token"]).decode()
        content["users"] = [{"name": "admin", "user": {"token": token}}]
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(content))
        monkeypatch.setenv("KUBECONFIG", str(path))

    yield become
    for thing in objects:
        cluster.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=json.dumps(thing))


def run_in(lab: Any, host: Any, *argv: str) -> bytes:
    from sky_kubernetes.runner import run

    out = io.BytesIO()
    assert run(lab.ctx(), host, Command(argv=argv), None, out, io.BytesIO()) == 0
    return out.getvalue()


def test_a_whole_life_with_the_least_permissions(lab: Any, cluster: Any, account: Any) -> None:
    account("Role", "RoleBinding")
    assert cloud.check_credentials(lab.ctx()).ok
    (offer,) = cloud.feasible(lab.ctx(), Request(cpus=Quantity(0.05))).offers
    assert "unknown" in offer.note
    allocation = lab.up()
    assert allocation.spec["cluster_uid"] == "", "kube-system may not be read"
    (host,) = cloud.cluster_hosts(lab.ctx(), allocation)
    assert run_in(lab, host, "echo", "hello") == b"hello\n"
    assert cloud.query_instances(lab.ctx(), allocation)[0].state is InstanceState.RUNNING
    (found,) = cloud.list_clusters(lab.ctx(), {"owner": "A.B_c"})
    assert (found.id, found.spec) == (allocation.id, allocation.spec)
    cloud.terminate_instances(lab.ctx(), allocation)
    assert cloud.identity(lab.ctx()) == f"system:serviceaccount:{cluster.namespace}:sky"


def test_the_optional_role_makes_capacity_known(lab: Any, account: Any) -> None:
    account("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    (offer,) = cloud.feasible(lab.ctx(), Request(cpus=Quantity(0.05))).offers
    assert offer.note == ""
    assert not cloud.feasible(lab.ctx(), Request(cpus=Quantity(64))).offers
    allocation = lab.up()
    assert allocation.spec["cluster_uid"]


def test_what_is_missing_is_named(lab: Any, cluster: Any, account: Any) -> None:
    account()
    status = cloud.check_credentials(lab.ctx())
    assert not status.ok
    for verb, resource, subresource in NEEDED:
        wanted = f"{verb} {resource}/{subresource}".rstrip("/")
        assert f"may not {wanted} in namespace {cluster.namespace!r}" in status.details[0]
    assert "rbac.yaml" in status.remedy
    with pytest.raises(NotPermitted):
        lab.up()
