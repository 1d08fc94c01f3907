"""Offers and rejections from what hosts said."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cloud_fixtures import Pools

from sky.api import Accelerator, Offer, Quantity, Rejection, Request, Unreachable
from sky_ssh import devices, facts, feasibility, lease
from sky_ssh.pools import Machine, Pool


def host(
    name: str, cpus: float, gib: float, gpus: int = 0, error: Exception | None = None, **more: Any
) -> Any:
    kind = more.pop("kind", "NVIDIA H100 80GB HBM3")
    keys: dict[str, Any] = {key: more.pop(key) for key in ("holder", "document") if key in more}
    seen = lease.Seen(cpus=cpus, memory_gib=gib, gpus=(kind,) * gpus, **keys)
    machine = Machine(name, {"host": name}, **more)
    return facts.Facts(machine, None, error) if error else facts.Facts(machine, seen)  # type: ignore[arg-type]


def ask(request: Request, *hosts: Any) -> tuple[Offer | None, list[Rejection]]:
    return feasibility.answer(Pool("p", tuple(h.machine for h in hosts)), request, hosts)


def chosen(offer: Offer | None, count: int = 1) -> list[str]:
    assert offer is not None
    return [node["name"] for node in json.loads(offer.spec["hosts"])][:count]


def test_the_smallest_hosts_that_suffice_are_chosen() -> None:
    hosts = (host("big", 64, 512), host("gpu", 8, 32, 8), host("b", 8, 32), host("a", 8, 32), host("s", 2, 4))
    offer, rejected = ask(Request(cpus=Quantity(4), num_nodes=2), *hosts)
    assert chosen(offer, 2) == ["a", "b"]
    assert offer is not None and offer.instance_type == "8CPU--32GB"
    assert (offer.vcpus, offer.memory_gib, offer.accelerator) == (8, 32, None)
    assert [(r.subject, r.rule, r.near_misses) for r in rejected] == [("p/s", "cpus", ("cpus: 2",))]


def test_hosts_that_differ_promise_what_each_of_them_has() -> None:
    offer, _ = ask(Request(num_nodes=2), host("a", 8, 32, 8), host("b", 16, 16, 4))
    assert offer is not None
    assert (offer.vcpus, offer.memory_gib, offer.accelerator) == (8, 16, Accelerator("H100", 4))
    assert offer.note == "hosts differ: 16CPU--16GB--H100:4, 8CPU--32GB--H100:8"


def test_the_name_of_a_size_asks_for_just_that() -> None:
    hosts = (host("a", 8, 32, 8), host("b", 8, 32))
    offer, rejected = ask(Request(instance_type="8cpu--32gb--h100:8"), *hosts)
    assert chosen(offer) == ["a"]
    assert [(r.rule, r.near_misses) for r in rejected] == [("instance_type", ("8CPU--32GB",))]


@pytest.mark.parametrize(
    ("request_", "rule", "near"),
    [
        (Request(cpus=Quantity(9)), "cpus", "cpus: 8"),
        (Request(memory=Quantity(33)), "memory", "memory: 32"),
        (Request(memory=Quantity(5, "per_cpu")), "memory", "memory: 32"),
        (Request(accelerator=Accelerator("h100", 16)), "accelerator", "H100:8"),
        (Request(accelerator=Accelerator("A100")), "accelerator", "H100"),
        (Request(num_nodes=2), "num_nodes", "num_nodes: 1"),
    ],
)
def test_what_would_have_done(request_: Request, rule: str, near: str) -> None:
    offer, rejected = ask(request_, host("a", 8, 32, 8))
    assert offer is None
    assert (rejected[0].rule, rejected[0].near_misses) == (rule, (near,))


def test_who_holds_a_host_and_why_another_is_silent() -> None:
    told = {"cluster_name": "dev", "user": "ann@desk", "since": "yesterday"}
    away = Unreachable("b: it doesn't answer", remedy="is it up?")
    offer, rejected = ask(
        Request(),
        host("a", 8, 32, holder="sky-dev-1", document=told),
        host("b", 0, 0, error=away),
        host("d", 8, 32, holder="?"),
    )
    assert offer is None
    assert [(r.rule, r.reason) for r in rejected] == [
        ("leased", "leased by cluster 'dev' of ann@desk since yesterday"),
        ("leased", "leased by someone"),
        ("unreachable", "b: it doesn't answer (is it up?)"),
    ]


def test_prices_are_those_of_the_hosts_chosen() -> None:
    hosts = (host("a", 8, 32, price_usd_per_hour=3.0), host("b", 8, 32, price_usd_per_hour=1.0))
    offer, _ = ask(Request(), *hosts)
    assert offer is not None and offer.price_usd_per_hour == 1 and chosen(offer) == ["b"]
    offer, _ = ask(Request(num_nodes=2, max_price_usd_per_hour=4), *hosts)
    assert offer is not None and offer.price_usd_per_hour == 2
    offer, rejected = ask(Request(num_nodes=2, max_price_usd_per_hour=3.9), *hosts)
    assert offer is None and (rejected[0].rule, rejected[0].near_misses) == ("price", ("max_hourly_cost: 4",))


def test_what_is_declared_holds_but_for_gpus_that_are_seen() -> None:
    def has(gpus: int) -> str:
        machine = Machine("a", {"host": "a"}, cpus=4.0, memory_gib=10.0, accelerator=Accelerator("L4", 2))
        seen = lease.Seen(cpus=8.0, memory_gib=31.6, gpus=("NVIDIA H100 80GB HBM3",) * gpus)
        return facts.Facts(machine, seen).size

    assert has(0) == "4CPU--10GB--L4:2"
    assert has(1) == "4CPU--10GB--H100:1"


def test_a_thousand_hosts_are_summed_up() -> None:
    _, rejected = ask(Request(cpus=Quantity(99)), *(host(f"h{i}", 8, 32) for i in range(1000)))
    assert len(rejected) == 6 and "995 more" in rejected[-1].subject


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("h100", "H100"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB"),
        ("a100-80gb", "A100-80GB"),
        ("Tesla V100-SXM2-32GB", "V100-32GB"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("NVIDIA RTX A6000", "RTXA6000"),
        ("NVIDIA L40S", "L40S"),
    ],
)
def test_a_gpu_has_one_name(spelling: str, name: str) -> None:
    assert devices.canonical(spelling) == name


# --- on hosts ----------------------------------------------------------------------------------------


def test_every_pool_has_its_offer_and_what_never_goes_is_said(pools: Pools) -> None:
    pools.add("far", ["10.77.1.10"], proxy_jump="lab@10.77.0.200")
    pools.add("near", ["10.77.0.11", {"ip": "10.77.0.99", "name": "nobody"}])
    found = feasibility.feasible(pools.make_context(5), Request())
    assert sorted(offer.region for offer in found.offers) == ["far", "near"]
    assert [(r.subject, r.rule) for r in found.rejections] == [("near/nobody", Unreachable.kind)]
    assert found.offers[0].vcpus >= 1 and found.offers[0].memory_gib > 0
    (refused,) = feasibility.feasible(pools.make_context(5), Request(use_spot=True)).rejections
    assert refused.rule == "capability"
