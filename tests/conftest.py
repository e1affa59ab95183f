"""What holds for all tests: a busy machine fails none, and one that does not run is told of loudly.

In CI the real CLI may not be missing.
"""

import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where CI is set, a test marked `claude` that skips has failed."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and item.get_closest_marker("claude"):
        report.outcome = "failed"
        report.longrepr = f"tests that need the claude CLI must run in CI: {call.excinfo and call.excinfo.value}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name every test that did not run, and why: a skipped test proves nothing."""
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        return
    terminalreporter.section(f"{len(skipped)} TESTS DID NOT RUN", sep="!", red=True, bold=True)
    for report in skipped:
        terminalreporter.line(f"{report.nodeid}: {report.longrepr[2]}")
