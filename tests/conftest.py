"""Settings of all tests: a busy machine fails none, and a test that did not run is reported.

In CI the real CLI and Chromium must be present.
"""

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

NEEDED_IN_CI = {"claude": "the claude CLI", "browser": "Chromium"}
"""What the tests with these marks need; elsewhere they are skipped without it."""
LONG = "long"
"""Marks a further case of a behaviour that a shorter test shows: random kills, and most with the real CLI."""

settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(LONG, settings.get_profile("patient"), max_examples=1000)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take `--long`: run every test, and let hypothesis try ten times as many examples."""
    parser.addoption("--long", action="store_true", help="run the tests marked long too")


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples hypothesis tries, and let programs be interrupted as at a terminal.

    A shell that starts the tests in the background has them ignore Ctrl-C, and what they start inherits that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.load_profile(LONG if config.getoption("--long") else "patient")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the long tests unless they were asked for."""
    left_out = [] if config.getoption("--long") else [item for item in items if item.get_closest_marker(LONG)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where CI is set, a test that skips although CI has what it needs has failed."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true":
        for needed in (thing for mark, thing in NEEDED_IN_CI.items() if item.get_closest_marker(mark)):
            report.outcome = "failed"
            report.longrepr = f"tests that need {needed} must run in CI: {call.excinfo and call.excinfo.value}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List every test that did not run, and why: a skipped test proves nothing."""
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        return
    terminalreporter.section(f"{len(skipped)} TESTS DID NOT RUN", sep="!", red=True, bold=True)
    for report in skipped:
        terminalreporter.line(f"{report.nodeid}: {report.longrepr[2]}")
