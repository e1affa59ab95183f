"""What run windows do to tasks: none begins while they are closed, agents freeze or end their turn, all go on after."""

from dataclasses import replace
from datetime import time, timedelta

import pytest

from orchestrator.core.decide import machine
from orchestrator.core.events.events import ResumeRequested, TaskAdmitted
from orchestrator.core.schedule.admission import (
    Capacity,
    SchedulerSnapshot,
    tasks_to_admit,
    tasks_to_pause,
    tasks_to_resume,
)
from orchestrator.core.schedule.live_tasks import LiveTasks
from orchestrator.core.schedule.run_windows import AtEdge, RunWindow
from orchestrator.core.schedule.why import explain
from orchestrator.core.task.agent import AgentStatus, PauseReason
from orchestrator.core.task.task import NextAction, Schedule, Task
from orchestrator.core.task.usage_limits import Window
from orchestrator.errors import InvalidTransition
from tests.fakes.tasks import full_pipeline
from tests.fakes.world import START
from tests.unit.playbook import Playbook, a_task, at_work

OPENS = START + timedelta(hours=3)
CLOSED = RunWindow(
    name="night",
    days=frozenset(range(7)),
    opens=OPENS.time(),
    closes=(START - timedelta(hours=1)).time(),
    zone=START.tzinfo or OPENS.tzinfo,  # type: ignore[arg-type]  # both are UTC
)
ALWAYS = replace(CLOSED, name="always", opens=time(), closes=time())


def snapshot(*tasks: Task, window: RunWindow = CLOSED, hours: float = 0) -> SchedulerSnapshot:
    now = START + timedelta(hours=hours)
    return SchedulerSnapshot(tasks=LiveTasks(tasks), ended={}, capacity=Capacity(windows=(window,)), now=now)


def pending() -> Task:
    return Playbook.submitted(a_task()).task


def held() -> Task:
    task = at_work()
    agent = replace(task.agent, status=AgentStatus.PAUSED, blocked_by=PauseReason.WINDOW)
    return replace(task, agent=agent)


def in_turn() -> Task:
    task = at_work()
    assert task.next_action is NextAction.TURN
    return task


def test_no_task_begins_while_its_windows_are_closed() -> None:
    task = pending()
    assert tasks_to_admit(snapshot(task)) == []
    assert tasks_to_admit(snapshot(task, hours=3)) == [task.id]
    assert tasks_to_admit(snapshot(task, window=ALWAYS)) == [task.id]


def test_a_running_agent_is_frozen_when_its_windows_close() -> None:
    task = in_turn()
    ((task_id, by, reason),) = tasks_to_pause(snapshot(task))
    assert (task_id, by) == (task.id, PauseReason.WINDOW)
    assert reason.startswith("its run window night is closed until ")
    assert list(tasks_to_pause(snapshot(task, window=ALWAYS))) == []


def test_an_agent_may_end_its_turn_where_its_windows_say_so_and_gets_no_other() -> None:
    gentle = replace(CLOSED, at_edge=AtEdge.END_TURN)
    task = in_turn()
    assert list(tasks_to_pause(snapshot(task, window=gentle))) == []
    assert "it ends its turn and then waits: its run window night opens" in explain(task, snapshot(task)).facts[-1]
    between = replace(task, next_action=NextAction.AGENT).with_turn(replace(task.agent.turn, deadline=None))
    assert [by for _, by, _ in tasks_to_pause(snapshot(between, window=gentle))] == [PauseReason.WINDOW]


@pytest.mark.parametrize("action", [NextAction.DELIVERY, NextAction.PUBLISH, NextAction.MERGE])
def test_finished_work_is_brought_home_at_any_time(action: NextAction) -> None:
    task, standing = (replace(task, next_action=action) for task in (in_turn(), held()))
    assert list(tasks_to_pause(snapshot(task))) == []
    assert list(tasks_to_resume(snapshot(standing))) == [(standing.id, PauseReason.WINDOW)]


def test_a_task_goes_on_by_itself_when_its_windows_open() -> None:
    task = held()
    assert list(tasks_to_resume(snapshot(task))) == []
    assert list(tasks_to_resume(snapshot(task, hours=3))) == [(task.id, PauseReason.WINDOW)]


@pytest.mark.parametrize("task", [pending(), held()], ids=["pending", "held"])
def test_why_says_when_the_windows_open_and_how_not_to_wait_for_that(task: Task) -> None:
    why = explain(task, snapshot(task))
    assert why.facts[0] == f"its run window night opens at {OPENS:%H:%M} UTC, in 3 h"
    assert why.next.endswith(f"by itself then; orchestrator resume {task.id} --now lets it run before that")


def test_why_names_the_window_that_will_be_closed_when_the_start_time_comes() -> None:
    start_at = START + timedelta(minutes=30)
    task = replace(pending(), schedule=Schedule(start_at=start_at))
    why = explain(task, snapshot(task))
    assert why.facts == (
        f"it starts at {start_at:%Y-%m-%d %H:%M} UTC",
        f"its run window night opens at {OPENS:%H:%M} UTC, in 3 h",
    )
    assert why.next.startswith("it starts by itself when all of that is over; orchestrator resume ")
    later = replace(task, schedule=Schedule(start_at=OPENS + timedelta(hours=1)))
    assert explain(later, snapshot(later)).next.startswith("it starts by itself then; ")


def test_why_names_the_usage_limit_that_will_last_when_the_window_opens() -> None:
    limit = Window(status="rejected", resets_at=OPENS + timedelta(hours=2), seen_at=START)
    for task in (pending(), held()):
        why = explain(task, replace(snapshot(task), windows={"five_hour": limit}))
        assert why.facts[0] == f"its run window night opens at {OPENS:%H:%M} UTC, in 3 h"
        assert why.facts[1].startswith("the account's usage limit (five_hour) lasts until ")
        assert "by itself when all of that is over; " in why.next
        short = replace(limit, resets_at=OPENS - timedelta(hours=1))
        assert "by itself then; " in explain(task, replace(snapshot(task), windows={"five_hour": short})).next


def test_why_names_the_window_that_will_be_closed_when_a_limit_ends() -> None:
    until = START + timedelta(hours=1)
    agent = replace(at_work().agent, status=AgentStatus.PAUSED, blocked_by=PauseReason.RATE_LIMIT)
    why = explain(task := replace(at_work(), agent=agent, retry_at=until), snapshot(task))
    assert why.facts[0] == f"its account has reached a usage limit, until {until:%Y-%m-%d %H:%M:%S} UTC"
    assert why.facts[1] == f"its run window night opens at {OPENS:%H:%M} UTC, in 3 h"


@pytest.mark.parametrize("task", [pending(), held()], ids=["pending", "held"])
def test_a_person_lets_one_task_run_before_its_windows_open(task: Task) -> None:
    early = replace(task, schedule=Schedule(start_at=START + timedelta(days=1)))
    now = ResumeRequested(at=START, by="ada", at_once=True)
    let_run, _ = machine.decide(full_pipeline(), early, now)
    assert let_run.schedule == Schedule(let_run_at=START)
    assert tasks_to_admit(snapshot(let_run)) == [task.id]
    admitted, _ = machine.decide(full_pipeline(), let_run, TaskAdmitted(at=START))
    assert list(tasks_to_pause(snapshot(admitted))) == []


def test_a_task_that_waits_for_a_person_is_not_let_run() -> None:
    task = at_work()
    asking = replace(task.agent, status=AgentStatus.WAITING_QUESTION, blocked_by=PauseReason.QUESTION)
    with pytest.raises(InvalidTransition):
        machine.decide(full_pipeline(), replace(task, agent=asking), ResumeRequested(at=START, at_once=True))
