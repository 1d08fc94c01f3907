"""A plugin that nobody of the core has written keeps the contract, by the kit alone."""

from __future__ import annotations

import pytest

from sky.testing import CloudConformance, CloudLifecycle, RunnerConformance


@pytest.mark.usefixtures("toyqueue_here")
class TestCloud(CloudConformance):
    plugin = "toyqueue"


@pytest.mark.usefixtures("toyqueue_here")
class TestLifecycle(CloudLifecycle):
    plugin = "toyqueue"


@pytest.mark.usefixtures("toyqueue_here")
class TestRunner(RunnerConformance):
    plugin = "toyqueue"
    cloud = "toyqueue"
