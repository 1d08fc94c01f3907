"""What a cloud answers before anything is created: who is asking, what there is, what would fit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

import pytest

from sky.api import CatalogQuery, CredentialStatus, Feasibility, Quantity, Request
from sky.registry.plugins import Plugin
from sky.testing.lab import MakeContext, new_spec
from sky.testing.plugin import Kit


class CloudAnswers(Kit):
    """Part of `CloudLifecycle`."""

    kind: ClassVar[str] = "cloud"
    request: ClassVar[Request] = Request()
    """Something small that the cloud offers now."""
    impossible: ClassVar[Request] = Request(cpus=Quantity(1e6))
    """Something that it never will."""

    # --- who ------------------------------------------------------------------------------------------

    def test_credentials_are_good_here(self, loaded: Plugin, ctx_factory: MakeContext) -> None:
        status: CredentialStatus = loaded.hook.sky_check_credentials(ctx=ctx_factory())
        assert isinstance(status, CredentialStatus)
        assert status.ok, f"{status.reason}: {status.remedy}"

    def test_the_identity_is_stable(self, loaded: Plugin, ctx_factory: MakeContext) -> None:
        if not loaded.has("sky_identity"):
            pytest.skip("not offered: it knows no identities")
        first = loaded.hook.sky_identity(ctx=ctx_factory())
        assert first is None or (isinstance(first, str) and first)
        assert loaded.hook.sky_identity(ctx=ctx_factory()) == first

    def test_the_fingerprint_is_stable(self, loaded: Plugin, ctx_factory: MakeContext) -> None:
        if not loaded.has("sky_credential_fingerprint"):
            pytest.skip("not offered: it knows no identities")
        first = loaded.hook.sky_credential_fingerprint(ctx=ctx_factory())
        assert isinstance(first, str) and first
        assert loaded.hook.sky_credential_fingerprint(ctx=ctx_factory()) == first

    # --- can ------------------------------------------------------------------------------------------

    def test_what_is_impossible_is_explained(self, loaded: Plugin, ctx_factory: MakeContext) -> None:
        found: Feasibility = loaded.hook.sky_feasible(ctx=ctx_factory(), request=self.impossible)
        assert found.offers == ()
        assert found.rejections, "no offers and no rejections is a defect"
        for rejection in found.rejections:
            assert rejection.cloud == self.plugin
            assert rejection.subject
            assert re.fullmatch("[a-z][a-z0-9_]*", rejection.rule)
            assert rejection.reason and "\n" not in rejection.reason

    def test_every_offer_satisfies_the_request(self, loaded: Plugin, ctx_factory: MakeContext) -> None:
        found: Feasibility = loaded.hook.sky_feasible(ctx=ctx_factory(), request=self.request)
        assert found.offers
        wanted = self.request
        for offer in found.offers:
            assert offer.cloud == self.plugin
            assert offer.price_usd_per_hour >= 0
            assert wanted.cpus is None or offer.vcpus >= wanted.cpus.value
            if wanted.memory is not None:
                factor = offer.vcpus if wanted.memory.mode == "per_cpu" else 1
                assert offer.memory_gib >= wanted.memory.value * factor
            assert wanted.region in (None, offer.region)
            assert wanted.zone in (None, offer.zone)
            assert wanted.instance_type in (None, offer.instance_type)
            if wanted.accelerator is not None:
                assert offer.accelerator is not None
                assert offer.accelerator.count >= wanted.accelerator.count
            assert is_flat(offer.spec)

    def test_asking_twice_gives_the_same(self, loaded: Plugin, ctx_factory: MakeContext) -> None:
        for request in (self.request, self.impossible):
            first, second = (loaded.hook.sky_feasible(ctx=ctx_factory(), request=request) for _ in range(2))
            assert [o.instance_type for o in first.offers] == [o.instance_type for o in second.offers]
            assert [r.rule for r in first.rejections] == [r.rule for r in second.rejections]

    def test_the_catalog_is_priced_and_cheapest_first(self, loaded: Plugin, ctx_factory: MakeContext) -> None:
        if not loaded.has("sky_catalog"):
            pytest.skip("not offered: it has no catalog")
        rows = loaded.hook.sky_catalog(ctx=ctx_factory(), query=CatalogQuery(limit=50))
        assert 0 < len(rows) <= 50
        assert {row.cloud for row in rows} == {self.plugin}
        prices = [row.price_usd_per_hour for row in rows]
        assert prices == sorted(prices)
        assert all(row.vcpus > 0 and row.memory_gib > 0 for row in rows)

    def test_a_preview_is_text_and_creates_nothing(self, loaded: Plugin, ctx_factory: MakeContext) -> None:
        if not loaded.has("sky_preview"):
            pytest.skip("not offered: it has no preview")
        spec = new_spec(loaded, ctx_factory(), self.request)
        text = loaded.hook.sky_preview(ctx=ctx_factory(), spec=spec)
        assert isinstance(text, str) and text.strip()
        assert loaded.hook.sky_preview(ctx=ctx_factory(), spec=spec) == text
        found = loaded.hook.sky_list_clusters(ctx=ctx_factory(), tags={"sky-cluster-id": spec.cluster_id})
        assert list(found) == []


def is_flat(data: Mapping[str, str]) -> bool:
    """Whether it can be stored and printed by who doesn't understand it."""
    return all(isinstance(key, str) and isinstance(value, str) for key, value in data.items())
