"""Several contexts: dead ones stop nobody, and an allocation stays with the cluster it was made in."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_stub import StubServer

from sky.api import Request, SkyError, TimedOut, Unreachable, UsageError, ask_each
from sky_kubernetes import cloud
from sky_kubernetes.kubeconfig import called

DEAD = "https://127.0.0.1:1"
OTHER_ADDRESS = "https://10.81.0.1:6443"
"""The testbed's API server listens here too, under the same certificate."""


class Kubeconfig:
    """A copy of the testbed's kubeconfig that a test writes as it likes."""

    def __init__(self, path: Path, source: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = yaml.safe_load(source.read_text())
        self.namespace = self.content["contexts"][0]["context"]["namespace"]

    def write(self, current: str, **server_of: str) -> None:
        """Contexts by name, each with its server; all as the testbed's administrator."""
        known = self.content["clusters"][0]["cluster"]
        clusters = [
            {"name": n, "cluster": {**known, "server": s} if s.startswith("https") else {"server": s}}
            for n, s in server_of.items()
        ]
        contexts = [
            {"name": n, "context": {"cluster": n, "user": "admin", "namespace": self.namespace}}
            for n in server_of
        ]
        changed = {**self.content, "clusters": clusters, "contexts": contexts, "current-context": current}
        self.path.write_text(yaml.safe_dump(changed))


@pytest.fixture
def kubeconfig(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubeconfig:
    made = Kubeconfig(tmp_path / "kubeconfig", cluster.kubeconfig)
    monkeypatch.setenv("KUBECONFIG", str(made.path))
    return made


@pytest.fixture
def server() -> str:
    return "https://127.0.0.1:6443"


@pytest.fixture
def other_cluster(stub: StubServer) -> str:
    """What answers as another cluster would: its kube-system has another uid, its lists are empty."""
    answer = (200, {"metadata": {"uid": "another", "resourceVersion": "1"}, "items": []})
    stub.answers["GET", "/api/v1/namespaces/kube-system"] = answer
    return stub.url


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"


def test_a_dead_current_context_stops_nobody_who_allows_another(
    lab: Any, kubeconfig: Kubeconfig, server: str
) -> None:
    kubeconfig.write("dead", dead=DEAD, live=server)
    config = {"allowed_contexts": ["live"]}
    assert [o.region for o in cloud.feasible(lab.ctx(config), Request()).offers] == ["live"]
    assert cloud.list_clusters(lab.ctx(config), {"no": "such"}) == []
    assert cloud.check_credentials(lab.ctx(config)).ok


def test_a_dead_or_silent_allowed_context_is_a_rejection_and_the_others_answer(
    lab: Any, kubeconfig: Kubeconfig, server: str, silent: str
) -> None:
    kubeconfig.write("dead", dead=DEAD, live=server, silent=silent)
    config = {"allowed_contexts": ["dead", "silent", "live", "misspelt"]}
    begun = time.monotonic()
    answer = cloud.feasible(lab.ctx(config), Request())
    assert time.monotonic() - begun < 7
    assert [offer.region for offer in answer.offers] == ["live"]
    rules = {r.subject: r.rule for r in answer.rejections}
    assert rules["dead"] == "unreachable"
    assert rules["silent"] in ("timed_out", "unreachable")
    assert rules["misspelt"] == "usage"
    status = cloud.check_credentials(lab.ctx({"allowed_contexts": ["dead", "live"]}))
    assert status.ok
    assert [line.split(":")[0] for line in status.details] == ["dead", "live"]
    assert status.details[1] == "live: ok"


def test_pods_that_take_too_long_to_list_leave_an_offer_that_says_so(lab: Any, stub: StubServer) -> None:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    ready = {"allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    nodes = {"metadata": {}, "items": [{"metadata": {"name": "n1"}, "spec": {}, "status": ready}]}
    never = threading.Event()

    def slow(_: object) -> tuple[int, Any]:
        never.wait(20)
        return 200, {"metadata": {}, "items": []}

    stub.answers["GET", "/api/v1/nodes"] = (200, nodes)
    stub.answers["GET", "/api/v1/pods"] = slow
    (offer,) = cloud.feasible(lab.ctx(), Request()).offers
    never.set()
    assert "not in time" in offer.note


def test_a_context_that_cannot_be_asked_is_named_and_hides_no_other_ones_clusters(
    lab: Any, kubeconfig: Kubeconfig, server: str
) -> None:
    kubeconfig.write("live", dead=DEAD, live=server)
    allocation = lab.up(tags={"owner": "A.B_c", "name": "seen"})
    lab.events.clear()
    config = {"allowed_contexts": ["dead", "live", "misspelt"]}
    found = cloud.list_clusters(lab.ctx(config), {"name": "seen"})
    assert [a.id for a in found] == [allocation.id]
    warnings = {e.data["context"]: e.message for e in lab.events if e.kind == "warning"}
    assert set(warnings) == {"dead", "misspelt"}
    assert "'dead' aren't listed" in warnings["dead"]


def test_listing_that_no_context_answers_raises(lab: Any, kubeconfig: Kubeconfig) -> None:
    kubeconfig.write("dead", dead=DEAD, gone=DEAD)
    with pytest.raises(Unreachable, match="dead"):
        cloud.list_clusters(lab.ctx({"allowed_contexts": ["dead", "gone"]}), {})


def test_only_the_current_context_is_used_unless_more_are_allowed(
    lab: Any, kubeconfig: Kubeconfig, server: str
) -> None:
    kubeconfig.write("one", one=server, two=server)
    assert [o.region for o in cloud.feasible(lab.ctx(), Request()).offers] == ["one"]
    refused = cloud.feasible(lab.ctx(), Request(region="two"))
    assert [(r.subject, r.rule, r.near_misses) for r in refused.rejections] == [("two", "context", ("one",))]
    everything = {"allowed_contexts": "all"}
    assert {o.region for o in cloud.feasible(lab.ctx(everything), Request()).offers} == {"one", "two"}


def test_the_namespace_is_the_contexts_own_unless_configured(lab: Any, cluster: Any) -> None:
    (offer,) = cloud.feasible(lab.ctx(), Request()).offers
    assert offer.spec["namespace"] == cluster.namespace
    config = {"namespace": "a", "context_configs": {cluster.context: {"namespace": "b"}}}
    (offer,) = cloud.feasible(lab.ctx(config), Request()).offers
    assert offer.spec["namespace"] == "b"


def test_a_cluster_whose_address_changed_is_still_ours(
    lab: Any, kubeconfig: Kubeconfig, server: str, eventually: Any
) -> None:
    kubeconfig.write("k", k=server)
    allocation = lab.up()
    kubeconfig.write("k", k=OTHER_ADDRESS)
    (status,) = cloud.query_instances(lab.ctx(), allocation)
    assert status.state == "RUNNING"
    (again,) = cloud.list_clusters(lab.ctx(), {"owner": "A.B_c"})
    assert again.spec["cluster_uid"] == allocation.spec["cluster_uid"]
    cloud.terminate_instances(lab.ctx(), allocation)
    eventually(lambda: not lab.pods(allocation.id))


def test_two_contexts_of_one_cluster_list_it_once(lab: Any, kubeconfig: Kubeconfig, server: str) -> None:
    kubeconfig.write("one", one=server, two=OTHER_ADDRESS)
    allocation = lab.up(tags={"twice": "no"})
    found = cloud.list_clusters(lab.ctx({"allowed_contexts": "all"}), {"twice": "no"})
    assert [a.id for a in found] == [allocation.id]


def test_a_context_that_leads_elsewhere_is_refused_rather_than_found_empty(
    lab: Any, other_cluster: str, kubeconfig: Kubeconfig, server: str
) -> None:
    kubeconfig.write("k", k=server)
    allocation = lab.up()
    kubeconfig.write("k", k=other_cluster)
    for ask in (cloud.query_instances, cloud.terminate_instances, cloud.cluster_hosts, cloud.wait_instances):
        with pytest.raises(Unreachable, match="another Kubernetes cluster"):
            ask(lab.ctx(), allocation)
    kubeconfig.write("other", other=server)
    with pytest.raises(Unreachable, match="which the kubeconfig has no more"):
        cloud.query_instances(lab.ctx(), allocation)
    kubeconfig.write("k", k=DEAD)
    with pytest.raises(Unreachable):
        cloud.query_instances(lab.ctx(), allocation)
    assert lab.pods(allocation.id), "nothing was deleted"


def test_without_a_kubeconfig_checking_answers_and_the_rest_raises(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    status = cloud.check_credentials(lab.ctx())
    assert not status.ok
    assert "KUBECONFIG" in status.remedy
    for ask in (cloud.identity, lambda ctx: cloud.list_clusters(ctx, {})):
        with pytest.raises(SkyError):
            ask(lab.ctx())


def test_a_check_that_reaches_nobody_raises_and_the_user_is_known_offline(
    lab: Any, kubeconfig: Kubeconfig
) -> None:
    kubeconfig.write("dead", dead=DEAD)
    with pytest.raises(Unreachable):
        cloud.check_credentials(lab.ctx())
    assert cloud.identity(lab.ctx()) == "admin"
    with pytest.raises(UsageError):
        cloud.identity(lab.ctx({"allowed_contexts": ["misspelt"]}))


def test_a_context_that_hangs_past_its_time_is_named_not_waited_for(lab: Any) -> None:
    never = threading.Event()
    begun = time.monotonic()
    stuck, quick = ask_each(
        lab.ctx(), ("stuck", "quick"), lambda _, name: name == "quick" or never.wait(30), 1, called
    )
    assert time.monotonic() - begun < 2
    never.set()
    assert quick is True
    assert isinstance(stuck, TimedOut)
    assert "'stuck'" in stuck.message
