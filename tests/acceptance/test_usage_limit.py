"""Usage limits are waited out by the clock, with the daemon killed in between, and with the real claude too."""

import os
import time
from pathlib import Path

import pytest

from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import TaskStatus
from tests.acceptance.claude_harness import ClaudeHarness
from tests.acceptance.claude_roles import Roles
from tests.acceptance.harness import DaemonHarness
from tests.fakes.scripted_model import Reply, Scene, usage_limit

RESETS_IN = 6


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_usage_limit_is_waited_out_and_the_session_goes_on(tmp_path: Path, killed: bool) -> None:
    scenario = {"PLANNING": [{"limit": {"resets_in": RESETS_IN}}]}
    with DaemonHarness(tmp_path, scenario, limits={"margin": 0.2}) as harness:
        task = harness.submit()
        limited = harness.wait_until(task, lambda now: now.agent.blocked_by is PauseReason.RATE_LIMIT)
        harness.wait_until_frozen(task)
        assert harness.client.why(task).blocked_by is PauseReason.RATE_LIMIT
        if killed:
            harness.kill()
            harness.start()
        ended = harness.wait_for_end(task)
        state = harness.state(task)
        assert state["failure_log"] == []
        told = [line["event"] for line in harness.journal(task) if line["trigger"] == "TurnFinished"]
        assert [turn["error_class"] for turn in told].count("usage_limit") == 1
        assert ended.agent.attempt == limited.agent.attempt + 1, "the planner went on in its own process"
        assert harness.nothing_is_left()


def test_a_second_task_waits_for_the_same_limit(tmp_path: Path) -> None:
    scenario = {"ANALYSIS": [{"limit": {"resets_in": RESETS_IN}}, None]}
    with DaemonHarness(tmp_path, scenario, limits={"margin": 0.2}, max_agents=2) as harness:
        first = harness.submit()
        harness.wait_until(first, lambda now: now.agent.blocked_by is PauseReason.RATE_LIMIT)
        second = harness.submit()
        assert harness.client.task(second).status is TaskStatus.PENDING
        assert "five_hour" in " ".join(harness.client.why(second).facts)
        harness.wait_for_end(first)


def test_a_week_s_limit_is_forgotten_at_a_word_and_the_session_goes_on_at_once(tmp_path: Path) -> None:
    weekly = {"limit": {"window": "seven_day", "resets_in": 7 * 24 * 3600}}
    with DaemonHarness(tmp_path, {"PLANNING": [weekly]}) as harness:
        task = harness.submit()
        harness.wait_until(task, lambda now: now.agent.blocked_by is PauseReason.RATE_LIMIT)
        harness.wait_until_frozen(task)
        harness.kill()
        harness.start()
        assert "seven_day" in harness.cli("limits").stdout
        assert harness.cli("limits", "--forget", "seven_day").returncode == 0
        harness.wait_for_end(task)
        (lifted,) = harness.journal(task, "ResumeRequested")
        assert f"uid:{os.getuid()}" in str(lifted["event"])


class Wall:
    """A model that plays its part, but for the time before its account's reset."""

    def __init__(self) -> None:
        self.resets_at, self.hits, self.roles = 0, 0, Roles()

    def __call__(self, scene: Scene) -> Reply:
        """The next move, or the wall."""
        if "# PLANNING" in scene.prompt and not self.resets_at:
            self.resets_at = int(time.time()) + RESETS_IN
        if time.time() < self.resets_at:
            self.hits += 1
            return usage_limit(resets_at=self.resets_at)
        return self.roles(scene)


@pytest.mark.claude
def test_the_real_claude_waits_out_its_limit_in_the_same_session_over_a_kill(tmp_path: Path, claude: Path) -> None:
    wall = Wall()
    harness = ClaudeHarness(claude, tmp_path, wall, limits={"margin": 0.2})
    harness.subscription = True
    with harness:
        task = harness.submit()
        harness.wait_for(task, lambda now: now.agent.blocked_by is PauseReason.RATE_LIMIT and now.run is not None)
        harness.kill()
        harness.start()
        ended = harness.end_of(task)
        assert ended.status is TaskStatus.COMPLETED
        assert wall.hits == 1
        assert len(harness.sessions(ended)) == 2
        assert ended.failures.total == 0
