"""What a task has used, over agents that succeed, are stopped, or are killed."""

from dataclasses import replace
from datetime import datetime

import pytest

from orchestrator.core.events import events
from orchestrator.core.task.task import Task
from tests.unit.playbook import Playbook, alarm, at_work, finished, later, started


def ended(code: int | None, signal: int | None) -> Playbook:
    """Return a task whose agent exited after 1000 tokens and whose successor is active in the same session."""

    def exited(task: Task, at: datetime) -> events.Event:
        return events.AgentExited(at=at, attempt=task.agent.attempt, code=code, signal=signal)

    begun = at_work()
    used = replace(
        begun,
        agent=replace(
            begun.agent,
            usage=replace(
                begun.agent.usage, tokens=1000, cost_usd=0.25, tokens_before_session=0, cost_before_session=0.0
            ),
        ),
    )
    play = Playbook(used) >> exited << "wake in 10 s" >> later(10) >> alarm << "resume planner 2"
    return play >> started << "follow agents/2" << "turn 1 of 2" << "wake in 3600 s"


@pytest.mark.parametrize("signal", [9, None])
def test_usage_of_a_killed_agent_is_added_to_its_successors_totals(signal: int | None) -> None:
    agent = (ended(None, signal) >> finished() << "look at ANALYSIS").task.agent
    assert (agent.usage.tokens, agent.usage.cost_usd) == (2000, 0.5)


@pytest.mark.parametrize("code", [0, 1, 143])
def test_totals_that_an_agent_saved_at_its_exit_are_counted_once(code: int) -> None:
    agent = (ended(code, None) >> finished() << "look at ANALYSIS").task.agent
    assert (agent.usage.tokens, agent.usage.cost_usd) == (1000, 0.25)
