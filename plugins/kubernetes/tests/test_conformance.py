"""Kubernetes keeps the contract, on a real cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sky.api import Quantity, Request
from sky.testing import CloudConformance, CloudLifecycle, RunnerConformance

SMALL = Request(cpus=Quantity(0.05), memory=Quantity(0.05))
CONFIG = {"image": "docker.io/library/busybox:testbed"}


class TestCloud(CloudConformance):
    plugin = "kubernetes"
    sdk_modules = ("kubernetes", "yaml", "websocket", "urllib3")


@pytest.mark.usefixtures("cluster")
class TestLifecycle(CloudLifecycle):
    plugin = "kubernetes"
    config = CONFIG
    request = SMALL


@pytest.mark.usefixtures("cluster")
class TestRunner(RunnerConformance):
    plugin = "kubernetes"
    config = CONFIG
    cloud = "kubernetes"
    request = SMALL


@pytest.mark.usefixtures("cluster")
class TestLifecycleOfTwoPods(CloudLifecycle):
    plugin = "kubernetes"
    config = CONFIG
    request = replace(SMALL, num_nodes=2)
