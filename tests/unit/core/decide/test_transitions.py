"""The tables of the two state machines, and the refusal of changes that are not in them."""

from dataclasses import replace
from itertools import product

import pytest

from orchestrator.core.decide.transitions import (
    ACTIONS,
    AGENT_TRANSITIONS,
    TASK_TRANSITIONS,
    allowed,
    require,
    require_legal,
)
from orchestrator.core.task.agent import AgentStatus, PauseReason
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.errors import InvalidTransition
from tests.unit.playbook import at_work


def with_agent(task: Task, status: AgentStatus, blocked_by: PauseReason | None = None) -> Task:
    return replace(task, agent=replace(task.agent, status=status, blocked_by=blocked_by))


def test_every_status_is_in_its_table() -> None:
    assert set(TASK_TRANSITIONS) == set(ACTIONS) == set(TaskStatus)
    assert set(AGENT_TRANSITIONS) == set(AgentStatus)


def test_an_archived_task_stays_archived_and_an_ended_one_never_becomes_active() -> None:
    assert TASK_TRANSITIONS[TaskStatus.ARCHIVED] == frozenset()
    for status in TaskStatus:
        if status.is_final:
            assert TaskStatus.IN_PROGRESS not in TASK_TRANSITIONS[status]


def test_an_ended_task_can_only_be_archived_or_deleted_and_a_failed_one_repeated() -> None:
    for status in TaskStatus:
        repeated = {"retry"} if status is TaskStatus.FAILED else set()
        assert set(ACTIONS[status]).issubset({"archive", "delete"} | repeated) is status.is_final


@pytest.mark.parametrize(("old", "new"), list(product(TaskStatus, TaskStatus)))
def test_a_task_changes_status_exactly_as_its_table_allows(old: TaskStatus, new: TaskStatus) -> None:
    before = replace(at_work(), status=old)
    after = replace(before, status=new)
    if new is old or new in TASK_TRANSITIONS[old]:
        require_legal(before, after)
        return
    with pytest.raises(InvalidTransition, match=f"cannot make {new} of a task that is {old} in ANALYSIS"):
        require_legal(before, after)


@pytest.mark.parametrize(("old", "new"), list(product(AgentStatus, AgentStatus)))
def test_an_agent_changes_status_exactly_as_its_table_allows(old: AgentStatus, new: AgentStatus) -> None:
    before, after = with_agent(at_work(), old), with_agent(at_work(), new)
    if new is old or new in AGENT_TRANSITIONS[old]:
        require_legal(before, after)
        return
    with pytest.raises(InvalidTransition, match=f"cannot make the agent {new} of .* with its agent {old} in ANALYSIS"):
        require_legal(before, after)


@pytest.mark.parametrize(
    ("blocked_by", "actions"),
    [
        (None, ("pause", "cancel")),
        (PauseReason.USER, ("resume", "cancel")),
        (PauseReason.PRESSURE, ("pause", "resume", "cancel")),
    ],
)
def test_the_actions_on_a_paused_task_depend_on_who_paused_it(
    blocked_by: PauseReason | None, actions: tuple[str, ...]
) -> None:
    assert allowed(with_agent(at_work(), AgentStatus.PAUSED, blocked_by)) == actions


def test_a_refusal_names_the_action_status_stage_and_allowed_actions() -> None:
    with pytest.raises(InvalidTransition) as caught:
        require("resume", at_work())
    assert str(caught.value) == "cannot resume a task that is in_progress in ANALYSIS; allowed now: pause, cancel"
