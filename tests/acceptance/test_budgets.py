"""Caps of a task: reached in the middle of a turn it is interrupted and held, and goes on when they are raised."""

from pathlib import Path

import pytest

from orchestrator.core.task.agent import PauseReason
from tests.acceptance.claude_harness import ClaudeHarness
from tests.acceptance.claude_roles import Roles
from tests.acceptance.harness import DaemonHarness, Json, line_count
from tests.fakes.scripted_model import Reply, Scene, Use

MUCH: Json = {"caps": {"usd": 100.0, "tokens": 100_000_000, "turns": 1000, "hours": 100.0}}


def long_turn(ticks: Path) -> Json:
    """A turn that talks for two thousand tokens and then works for ten minutes."""
    turn = [*({"say": f"thought {number}"} for number in range(20)), {"tick": {"file": str(ticks), "seconds": 600}}]
    return {"PLANNING": [turn]}


@pytest.mark.parametrize(
    ("caps", "reached", "killed"),
    [
        pytest.param({"tokens": 1500}, "1,500 tokens", False, id="tokens"),
        pytest.param({"tokens": 1500}, "1,500 tokens", True, id="tokens, killed", marks=pytest.mark.long),
        pytest.param({"hours": 0.0006}, "hours", False, id="hours", marks=pytest.mark.long),
        pytest.param({"hours": 0.0006}, "hours", True, id="hours, killed"),
    ],
)
def test_a_cap_reached_in_mid_turn_interrupts_it_and_holds_the_task_until_it_is_raised(
    tmp_path: Path, caps: Json, reached: str, killed: bool
) -> None:
    ticks = tmp_path / "ticks"
    with DaemonHarness(tmp_path, long_turn(ticks), budget={"task": caps}) as harness:
        task = harness.submit()
        held = harness.wait_until(task, lambda now: now.paused and now.agent.blocked_by is PauseReason.BUDGET)
        harness.wait_until_frozen(task)
        assert reached in " ".join(harness.client.why(task).facts)
        assert line_count(ticks) < 6000
        if killed:
            harness.kill()
            harness.start()
            harness.wait_until_frozen(task)
        harness.request("PATCH", f"/api/tasks/{task}", MUCH)
        ended = harness.wait_for_end(task)
        assert ended.failures.total == 0
        assert (held.agent.attempt, ended.agent.attempt) == (1, 2), "the planner went on in its own process"
        interrupted = [line["event"]["outcome"] for line in harness.journal(task, "TurnFinished")]
        assert interrupted.count("interrupted") == 1


SAYS = [{"say": f"thought {number}"} for number in range(20)]
"""Twenty calls to the model, each of which costs half a thousandth of a dollar."""


@pytest.mark.parametrize(
    ("turns", "settings", "reached"),
    [
        pytest.param([], {"budget": {"turn_usd": 0, "day": {"usd": 0.004}}}, "of $0.00 are spent", id="day"),
        pytest.param(
            [[{"limit": {"resets_in": 1}}]],
            {"limits": {"margin": 0.1, "usd_after": 0.004}},
            "may follow a usage limit are spent",
            id="after a limit",
        ),
    ],
)
def test_money_that_runs_out_in_mid_turn_ends_the_turn_by_the_estimate_of_what_it_costs(
    tmp_path: Path, turns: Json, settings: Json, reached: str
) -> None:
    ticks = tmp_path / "ticks"
    scenario = {"ANALYSIS": [*turns, [*SAYS, {"tick": {"file": str(ticks), "seconds": 600}}]]}
    with DaemonHarness(tmp_path, scenario, **settings) as harness:
        task = harness.submit()
        harness.wait_until(task, lambda now: now.paused and now.agent.blocked_by is PauseReason.BUDGET)
        harness.wait_until_frozen(task)
        assert reached in " ".join(harness.client.why(task).facts)
        assert line_count(ticks) < 6000
        assert harness.journal(task, "TurnFinished")[-1]["event"]["outcome"] == "interrupted"
        free = {**harness.settings, "budget": {}, "limits": {}}
        if "budget" in settings:
            assert "when the day is over, at " in harness.client.why(task).next
            harness.settings = free
            harness.kill()
            harness.start()
        else:
            assert harness.client.why(task).next == f"orchestrator budget {task} --usd AMOUNT, or cancel it"
            harness.request("PATCH", f"/api/tasks/{task}", MUCH)
            harness.wait_until(task, lambda now: not now.paused)
        harness.request("POST", f"/api/tasks/{task}/cancel")
        assert harness.nothing_is_left()


def test_a_task_that_has_used_up_its_turns_begins_no_other(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, budget={"task": {"turns": 2}}) as harness:
        task = harness.submit()
        harness.wait_until(task, lambda now: now.paused and now.agent.blocked_by is PauseReason.BUDGET)
        harness.wait_until_frozen(task)
        assert len(harness.sent_turns(task)) == 2
        assert "2 of 2 turns" in " ".join(harness.client.why(task).facts)
        harness.request("PATCH", f"/api/tasks/{task}", MUCH)
        harness.wait_for_end(task)


@pytest.mark.claude
def test_the_real_claude_stops_at_its_budget_and_goes_on_in_its_session_when_that_is_raised(
    tmp_path: Path, claude: Path
) -> None:
    with ClaudeHarness(claude, tmp_path, Roles(), budget={"task": {"usd": 0.01}}) as harness:
        task = harness.submit()
        held = harness.wait_for(task, lambda now: now.paused and now.agent.blocked_by is PauseReason.BUDGET)
        assert 0.01 <= held.agent.cost_usd < 0.02
        harness.wait_for(task, lambda now: now.run is None)
        harness.request("PATCH", f"/api/tasks/{task}", MUCH)
        ended = harness.end_of(task)
        harness.assert_done_once(ended, repeated=1)
        first, second, *_ = harness.sessions(ended)
        assert second == first.replace("--session-id", "--resume")
        assert ended.failures.total == 0


@pytest.mark.claude
def test_the_real_claude_spends_at_most_one_call_more_than_the_day_allows(tmp_path: Path, claude: Path) -> None:
    def model(scene: Scene) -> Reply:
        return Use("Bash", {"command": "sleep 0.3"})  # so that the daemon can look between two calls

    budget = {"turn_usd": 0, "day": {"usd": 1.0}}
    with ClaudeHarness(claude, tmp_path, model, budget=budget) as harness:
        harness.api.input_tokens = 15_000  # six cents
        task = harness.submit()
        held = harness.wait_for(task, lambda now: now.paused and now.agent.blocked_by is PauseReason.BUDGET)
        assert 1.0 <= held.agent.cost_usd < 1.0 + 2 * 0.062
        assert len(harness.api.scenes) <= 19
        assert held.failures.total == 0
