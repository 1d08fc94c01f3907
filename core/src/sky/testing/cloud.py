"""What holds for every cloud before it is asked for anything."""

from __future__ import annotations

from typing import ClassVar, get_args

from sky.api import CloudInfo
from sky.registry.plugins import Plugin
from sky.testing.plugin import PluginConformance
from sky.types import Capability


class CloudConformance(PluginConformance):
    """Static checks of a cloud. The author sets `plugin`, and `sdk_modules` if it has an SDK."""

    kind: ClassVar[str] = "cloud"

    def test_it_says_what_it_is(self, loaded: Plugin) -> None:
        info = loaded.hook.sky_cloud_info()
        assert isinstance(info, CloudInfo)
        assert info.title.strip() and "\n" not in info.title
        assert isinstance(info.levels, tuple) and all(isinstance(level, str) for level in info.levels)
        assert len(info.levels) <= 2, "`--infra NAME/A/B` has two"

    def test_its_capabilities_are_known_words(self, loaded: Plugin) -> None:
        assert loaded.hook.sky_cloud_info().capabilities <= set(get_args(Capability))

    def test_it_stops_exactly_when_it_says_so(self, loaded: Plugin) -> None:
        assert loaded.has("sky_stop_instances") == ("stop" in loaded.hook.sky_cloud_info().capabilities)

    def test_an_identity_comes_with_a_fingerprint(self, loaded: Plugin) -> None:
        """Identities are cached under the fingerprint: one without the other can't be used."""
        assert loaded.has("sky_identity") == loaded.has("sky_credential_fingerprint")
