"""Agents whose program does not work burn no task: all wait, one tries from time to time, and all go on when it works.

The program is a script that a test breaks and mends. While it works, it is the scripted agent, which also says that it
is a claude of a certain version.
"""

import shlex
import sys
from pathlib import Path

import httpx
import pytest

from orchestrator.agents.installation import OLDEST, TESTED, dotted
from orchestrator.core.task.task import TaskStatus
from orchestrator.pipelines.bundled import Kind, bundled
from tests.acceptance.harness import DaemonHarness, Json, toml

BROKEN = "echo \"error: unknown option '--effort'\" >&2; exit 1"
AGENT = shlex.join([sys.executable, str(bundled(Kind.SCRIPTED_AGENT))])


def program(version: str, work: str = f"exec {AGENT} ''") -> str:
    """A claude that says this version, is logged in, and then does its work."""
    return (
        f'#!/bin/sh\ncase "$1" in\n--version) echo "{version} (Claude Code)";;\n'
        f"""auth) echo '{{"loggedIn": true}}';;\n*) {work};;\nesac\n"""
    )


class ProgramHarness(DaemonHarness):
    """A harness whose agents are started from a file that a test replaces."""

    def __init__(self, root: Path, agent: Json) -> None:
        super().__init__(root, agent=agent)
        self.agent = agent

    def install(self, text: str) -> None:
        """Put another program in the place of the present one, as an update does."""
        fresh = self.root / "fresh"
        fresh.write_text(text)
        fresh.chmod(0o755)
        (self.root / "bin").mkdir(exist_ok=True)
        fresh.replace(self.root / "bin/claude")

    def readyz(self) -> tuple[int, Json]:
        """What the daemon says to a monitor."""
        transport = httpx.HTTPTransport(uds=str(self.client.socket))
        with httpx.Client(transport=transport, base_url="http://daemon") as http:
            response = http.get("/readyz")
        return response.status_code, response.json()


@pytest.fixture
def harness(tmp_path: Path) -> ProgramHarness:
    """A daemon whose agents are what is in the place of claude."""
    agent = {
        "executable": str(tmp_path / "bin/claude"),
        "env": {"ORCHESTRATOR_SCRIPTED_HOME": str(tmp_path / "agent")},
        "writable": [str(tmp_path)],
    }
    return ProgramHarness(tmp_path, agent)


def test_a_program_that_refuses_its_options_burns_no_task_and_all_go_on_when_it_works(harness: ProgramHarness) -> None:
    harness.install(program(dotted(TESTED), BROKEN))
    with harness:
        first, second, third = (harness.submit() for _ in range(3))
        harness.wait_for("the word of the daemon", lambda: harness.client.status().health == "installation")
        status = harness.client.status()
        assert "unknown option '--effort'" in (status.trouble or "")
        harness.wait_until(first, lambda now: now.status is TaskStatus.IN_PROGRESS and now.paused)
        for task in (first, second, third):
            why = harness.client.why(task)
            assert "unknown option '--effort'; it is tried again at" in why.facts[0]
            assert "orchestrator resume --all" in why.next
        code, problem = harness.readyz()
        assert (code, problem["type"]) == (503, "urn:orchestrator:problem:installation")
        assert "unknown option '--effort'" in problem["detail"]
        spawned = [harness.client.task(task).agent.attempt for task in (first, second, third)]
        assert sum(spawned) <= 5
        assert "unknown option" in harness.cli("status").stdout
        harness.install(program(dotted(TESTED)))
        assert harness.cli("resume", "--all").returncode == 0
        for task in (first, second, third):
            assert harness.wait_for_end(task).failures.total <= 3
        assert harness.readyz()[0] == 200
        assert harness.nothing_is_left()


def test_a_claude_that_is_too_old_is_given_no_task_until_a_fit_one_is_there(
    harness: ProgramHarness,
) -> None:
    harness.install(program("2.0.9"))
    with harness:
        task = harness.submit()
        harness.wait_for("the word of the daemon", lambda: harness.client.status().health == "installation")
        assert harness.client.why(task).facts == (
            f"claude 2.0.9 is too old; {dotted(OLDEST)} is the oldest that is understood",
        )
        assert harness.client.task(task).agent.attempt == 0
        harness.install(program(dotted(TESTED)))
        harness.wait_for_end(task)


def test_a_claude_that_was_replaced_in_mid_night_is_looked_at_before_it_gets_the_next_turn(
    harness: ProgramHarness,
) -> None:
    harness.install(program(dotted(TESTED)))
    with harness:
        harness.wait_for_end(harness.submit())
        harness.install(program("3.0.0"))
        task = harness.submit()
        harness.wait_until(task, lambda now: now.paused and now.agent.attempt == 1)
        assert harness.client.why(task).facts[0].startswith("claude 3.0.0 is newer than this program knows")
        assert not list(harness.folder(task).glob("agents/*/pid")), "it was never started"
        agent = {**harness.agent, "allow_newer": True}
        harness.overwrite(harness.root / "orchestrator.toml", toml({**harness.settings, "agent": agent}))
        assert harness.wait_for_end(task).failures.total == 0
