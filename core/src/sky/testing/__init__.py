"""The conformance kit: what every plugin must do, as tests that its author inherits.

The whole test file of a plugin that brings a cloud and a runner:

    import pytest
    from sky.api import Quantity, Request
    from sky.testing import CloudConformance, CloudLifecycle, RunnerConformance

    SMALL = Request(cpus=Quantity(0.1, "at_least"))

    class TestCloud(CloudConformance):
        plugin = "acme"
        sdk_modules = ("acme_sdk",)

    class TestLifecycle(CloudLifecycle):
        plugin = "acme"
        config = {"project": "tests"}
        request = SMALL
        impossible = Request(cpus=Quantity(1e6))

    class TestRunner(RunnerConformance):
        plugin = "acme"
        config = {"project": "tests"}
        cloud = "acme"
        request = SMALL

A runner without a cloud of its own leaves `cloud` out and overrides the fixtures `host` (a host to run
on) and `gone_host` (one that is no more), both class-scoped class methods. Whatever the classes need to
be there first (credentials, a simulated provider) is a fixture of the author's, named by
`@pytest.mark.usefixtures`. `pip install 'sky-core[testing]'` brings what the kit needs.

`sky.testing.fixtures` has `make_context`, for tests of a plugin's own modules.

An observer's test file is `class TestObserver(ObserverConformance)` with its `plugin`.

A test of the kit can't be taken away: a subclass that overrides one is refused when it is collected,
unless the override is marked `pytest.mark.xfail(reason=...)`. What is optional is skipped only when the
plugin doesn't declare it: by a capability, or by not implementing the hook. The kit's version is the
plugin API's.
"""

from __future__ import annotations

import pytest

# Before they are imported: a failing assertion of the kit shows its values to authors, too.
pytest.register_assert_rewrite(
    *(
        f"sky.testing.{name}"
        for name in (
            "plugin",
            "answers",
            "cloud",
            "lab",
            "observer",
            "lifecycle",
            "run",
            "streams",
            "rsync",
            "runner",
        )
    )
)

from sky.testing.cloud import CloudConformance  # noqa: E402
from sky.testing.lab import MakeContext, launched  # noqa: E402
from sky.testing.lifecycle import CloudLifecycle  # noqa: E402
from sky.testing.observer import ObserverConformance  # noqa: E402
from sky.testing.runner import RunnerConformance  # noqa: E402

__all__ = [
    "CloudConformance",
    "CloudLifecycle",
    "MakeContext",
    "ObserverConformance",
    "RunnerConformance",
    "launched",
]
