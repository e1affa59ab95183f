"""A usage limit is the account's: who meets it stands still at once, others after their turn, all until the reset."""

import time
from pathlib import Path

import pytest

from orchestrator.core.task.agent import PauseReason, ProcessState
from orchestrator.core.task.task import TaskStatus
from orchestrator.pipelines.bundled import Kind, bundled
from tests.acceptance.claude_harness import ClaudeHarness, Ticker
from tests.acceptance.claude_roles import Roles, running_first
from tests.acceptance.harness import DaemonHarness, Json
from tests.fakes.scripted_model import Reply, Scene, usage_limit

RESETS_IN = 8
LONG = 600
"""Seconds until a window is reset: within a test, and not within one."""


def under_another_scenario(harness: DaemonHarness, scenario: Json) -> None:
    """Have agents that are started from now on play something else; those that run go on as they began."""
    harness.kill()
    harness.scenario = scenario
    harness.start()


def test_one_meets_the_limit_and_freezes_and_the_other_ends_its_turn_and_waits_as_well(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with DaemonHarness(
        tmp_path, {"ANALYSIS": [{"wait_for": str(go)}]}, limits={"margin": 0.2}, max_agents=2
    ) as harness:
        other = harness.submit()
        harness.wait_until_it_works(other, "ANALYSIS")
        under_another_scenario(harness, {"ANALYSIS": [{"limit": {"resets_in": RESETS_IN}}]})
        task = harness.submit()
        limited = harness.wait_until(task, lambda now: now.agent.blocked_by is PauseReason.RATE_LIMIT)
        reset = limited.retry_at
        assert reset is not None
        harness.wait_until_frozen(task)
        running = harness.client.task(other).run
        assert running is not None
        assert running.process is ProcessState.RUNNING, "its turn is not cut off"
        go.touch()
        harness.wait_until(other, lambda now: now.agent.blocked_by is PauseReason.RATE_LIMIT)
        harness.wait_until_frozen(other)
        assert len(harness.sent_turns(other)) == 1
        assert harness.client.why(other).blocked_by is PauseReason.RATE_LIMIT
        ended = [harness.wait_for_end(one) for one in (task, other)]
        assert [one.failures.total for one in ended] == [0, 0]
        second = [line["event"]["at"] for line in harness.journal(other, "ResumeRequested")]
        assert len(second) == 1
        assert [one.agent.attempt for one in ended] == [2, 2], "both planners went on in their own processes"


def with_models(root: Path, models: dict[str, str]) -> Json:
    """Settings under which roles are played by these models."""
    folder = root / "agents"
    folder.mkdir()
    for role, model in models.items():
        text = (bundled(Kind.AGENTS) / f"{role}.md").read_text()
        lines = [line for line in text.splitlines(keepends=True) if not line.startswith("model:")]
        (folder / f"{role}.md").write_text("".join([lines[0], f"model: {model}\n", *lines[1:]]))
    return {"folders": {"agents": [str(folder)]}}


def test_a_limit_of_one_family_of_models_lets_the_others_work(tmp_path: Path) -> None:
    go, models = tmp_path / "go", {"planner": "opus", "implementer": "sonnet", "evaluator": "sonnet"}
    first_step: Json = {"IMPLEMENTATION": [{"wait_for": str(go)}]}
    with DaemonHarness(tmp_path, first_step, max_agents=2, **with_models(tmp_path, models)) as harness:
        other = harness.submit()
        harness.wait_until_it_works(other, "IMPLEMENTATION")
        wall = {"window": "seven_day_opus", "resets_in": LONG}
        under_another_scenario(harness, {"ANALYSIS": [{"limit": wall}]})
        task = harness.submit()
        harness.wait_until(task, lambda now: now.agent.blocked_by is PauseReason.RATE_LIMIT)
        go.touch()
        assert harness.wait_for_end(other).failures.total == 0
        assert harness.client.task(task).agent.blocked_by is PauseReason.RATE_LIMIT
        third = harness.submit()
        assert "seven_day_opus" in " ".join(harness.client.why(third).facts)
        assert harness.client.task(third).status is TaskStatus.PENDING


class WallForOne:
    """A model that plays two tasks: `walled` meets the account's limit in its PLANNING, `busy` runs a command first."""

    def __init__(self, ticker: Ticker) -> None:
        self.walled, self.resets_at, self.hits = "nobody", 0, 0
        self._busy, self._quick = running_first(ticker.command, "ANALYSIS"), Roles()

    def __call__(self, scene: Scene) -> Reply:
        """The next move, or the wall."""
        if self.walled not in scene.prompt:
            return self._busy(scene)
        if "# PLANNING" in scene.prompt and not self.resets_at:
            self.resets_at = int(time.time()) + RESETS_IN
        if time.time() < self.resets_at:
            self.hits += 1
            return usage_limit(resets_at=self.resets_at)
        return self._quick(scene)


@pytest.mark.long
@pytest.mark.claude
def test_two_of_the_real_claude_share_their_account_s_limit(tmp_path: Path, claude: Path, ticker: Ticker) -> None:
    model = WallForOne(ticker)
    harness = ClaudeHarness(claude, tmp_path, model, limits={"margin": 0.2}, max_agents=2)
    harness.subscription = True
    with harness:
        other = harness.submit()
        ticker.begins(harness)
        model.walled = harness.submit()
        harness.wait_for(model.walled, lambda now: now.agent.blocked_by is PauseReason.RATE_LIMIT)
        ticker.assert_goes_on(harness)
        ticker.let_go()
        harness.wait_for(other, lambda now: now.agent.blocked_by is PauseReason.RATE_LIMIT)
        ended = [harness.end_of(task) for task in (model.walled, other)]
        assert [task.status for task in ended] == [TaskStatus.COMPLETED] * 2
        assert model.hits == 1
        assert [len(harness.sessions(task)) for task in ended] == [2, 2]
        assert [task.failures.total for task in ended] == [0, 0]
