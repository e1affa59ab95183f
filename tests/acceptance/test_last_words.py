"""A daemon that a bug ends says why before anything else: no end is silent, however long it takes."""

import sys
from pathlib import Path

from tests.acceptance.harness import PATIENCE, DaemonHarness

PLANTED = """
from orchestrator.cli.app import main
from orchestrator.workspaces.workspace import Workspace

def facts(*_):
    raise ValueError("a planted bug")

Workspace.facts = facts
main()
"""


def test_a_daemon_that_a_bug_ends_has_the_reason_on_its_log_and_its_successor_goes_on(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, program=(sys.executable, "-c", PLANTED)) as harness:
        task = harness.submit()
        assert harness.daemon is not None
        assert harness.daemon.wait(PATIENCE) != 0
        (last,) = [line for line in harness.log if line["event"] == "daemon_failed"]
        assert last["level"] == "error"
        assert "ValueError: a planted bug" in last["exception"]
        harness.program = ()
        harness.start()
        harness.wait_for_end(task)
        assert len(set(harness.subjects(task))) == len(harness.subjects(task))
