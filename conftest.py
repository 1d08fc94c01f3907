"""For every test: skips are counted by their reason at the end, and in CI none may be for want of a service.

A skip that begins with "not offered" is another thing: the conformance kit asks a plugin for what it doesn't
declare. Those stay.
"""

from __future__ import annotations

import collections
import os
import signal

import pytest

_reasons: collections.Counter[str] = collections.Counter()


def pytest_configure(config: pytest.Config) -> None:
    # Who starts the tests in the background of a script has them, and all that they start, ignore SIGINT.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        _reasons[report.longrepr[2].removeprefix("Skipped: ")] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _reasons:
        terminalreporter.section("skipped")
        for reason, count in _reasons.most_common():
            terminalreporter.line(f"{count:5}  {reason}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    missing = [reason for reason in _reasons if not reason.startswith("not offered")]
    if missing and os.environ.get("CI") == "true" and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print(f"\nin CI nothing may be skipped for want of a service: {'; '.join(missing)}")
