"""What tests of metrics share: promtool, from Debian's package `prometheus`, and the metrics that are documented."""

import re
import shutil
import subprocess

import pytest

from tests.documents import text_of

MISSING = (
    "promtool is missing, so nothing checks the files for Prometheus: "
    "as root on Debian, apt-get install --no-install-recommends prometheus"
)
NAME = re.compile(r"\b(?:orchestrator|process)_[a-z_]+")
"""The name of a metric."""


def promtool(*arguments: str, given: str = "") -> str:
    """Run promtool, and return what it says. It must find nothing wrong."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip(MISSING)
    done = subprocess.run([program, *arguments], input=given, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def documented_metrics() -> set[str]:
    """Return the metrics that the help page names."""
    return set(NAME.findall(text_of("metrics.md")))
