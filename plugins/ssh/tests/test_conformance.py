"""The SSH plugin keeps the contract, on real hosts."""

from __future__ import annotations

import pytest
from ssh_fixtures import Lab, alias

from sky.api import Host
from sky.testing import RunnerConformance


@pytest.mark.usefixtures("lab")
class TestRunner(RunnerConformance):
    plugin = "ssh"
    sdk_modules = ("fabric", "paramiko", "yaml")

    @pytest.fixture(scope="class")
    @classmethod
    def host(cls, lab: Lab) -> Host:
        return alias("h1")

    @pytest.fixture(scope="class")
    @classmethod
    def gone_host(cls, lab: Lab) -> Host:
        """A machine that was turned off: nobody has its address."""
        return lab.plain("10.77.0.99")
