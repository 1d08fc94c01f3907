"""The local cloud and runner keep the contract like any other plugin's."""

from __future__ import annotations

import pytest

from sky.testing import CloudConformance, CloudLifecycle, RunnerConformance


class TestCloud(CloudConformance):
    plugin = "local"


@pytest.mark.usefixtures("own_data")
class TestLifecycle(CloudLifecycle):
    plugin = "local"


@pytest.mark.usefixtures("own_data")
class TestRunner(RunnerConformance):
    plugin = "local"
    cloud = "local"
