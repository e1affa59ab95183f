"""Each law of a simulated week says so when it is broken, and is silent when it holds."""

from dataclasses import replace
from datetime import timedelta

from orchestrator.core.events.commands import SendTurn
from orchestrator.core.schedule.admission import Capacity, SchedulerSnapshot
from orchestrator.core.task.agent import Agent, AgentStatus, PauseReason
from orchestrator.core.task.budget import Caps, Spending
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.task_policy import TaskPolicy
from orchestrator.core.task.usage_limits import Window
from orchestrator.core.task.user_requests import RequestDraft, RequestStatus, Subject, UserRequest
from orchestrator.supervisor.simulation import invariants
from tests.fakes.tasks import submitted
from tests.fakes.world import START

TURN = SendTurn(attempt=1, turn=2, uuid="u", text="go on")
NOTHING = invariants.Signs(alarm=None, under_way=False, is_active=False)
WORKING: Task = submitted(status=TaskStatus.IN_PROGRESS, stage="ANALYSIS", next_action=NextAction.TURN)


def scene(*tasks: Task, places: int = 1) -> SchedulerSnapshot:
    return SchedulerSnapshot(tasks=tasks, ended={}, room=Capacity(places=places), now=START)


def held(by: PauseReason) -> Task:
    return replace(WORKING, agent=Agent(status=AgentStatus.PAUSED, blocked_by=by))


def asked(status: RequestStatus, answer: str | None = None) -> UserRequest:
    asking = RequestDraft(subject=Subject.QUESTION, text="Which?")
    return UserRequest(
        number=1,
        draft=asking,
        digest=asking.digest,
        stage="ANALYSIS",
        visit=1,
        attempt=1,
        turn=1,
        asked_at=START,
        status=status,
        answer=answer,
    )


def test_more_at_work_than_places() -> None:
    other = replace(WORKING, id="LOCAL-2")
    assert not list(invariants.places_are_kept(scene(WORKING, other, places=2)))
    assert list(invariants.places_are_kept(scene(WORKING, other)))


def test_an_end_that_is_none() -> None:
    assert not list(invariants.what_has_ended_stays_ended(TaskStatus.COMPLETED, TaskStatus.COMPLETED))
    assert list(invariants.what_has_ended_stays_ended(TaskStatus.COMPLETED, TaskStatus.IN_PROGRESS))


def test_a_second_answer() -> None:
    pending, one, other = (
        replace(WORKING, requests=(ask,))
        for ask in (
            asked(RequestStatus.PENDING),
            asked(RequestStatus.ANSWERED, "this"),
            asked(RequestStatus.ANSWERED, "that"),
        )
    )
    assert not list(invariants.the_first_answer_counts(pending, one))
    assert list(invariants.the_first_answer_counts(one, other))
    assert list(invariants.the_first_answer_counts(one, WORKING))


def test_a_turn_inside_a_limit_or_beyond_a_cap() -> None:
    wall = Window(status="rejected", resets_at=START + timedelta(hours=1), seen_at=START)
    assert not list(invariants.a_turn_begins_only_when_it_may(WORKING, scene(WORKING), TURN))
    inside = replace(scene(WORKING), windows={"five_hour": wall})
    assert list(invariants.a_turn_begins_only_when_it_may(WORKING, inside, TURN))
    spent = replace(
        WORKING,
        spending=replace(WORKING.spending, by_day={"2026-11-21": Spending(usd=2.0)}),
        policy=TaskPolicy(caps=Caps(usd=1.0)),
    )
    assert list(invariants.a_turn_begins_only_when_it_may(spent, scene(spent), TURN))
    poor = replace(scene(spent), room=Capacity(day=Caps(usd=1.0)))
    assert len(list(invariants.a_turn_begins_only_when_it_may(spent, poor, TURN))) == 2


def test_what_is_done_twice_or_runs_on() -> None:
    assert not list(invariants.nothing_is_done_twice({"start agents/1": 1}))
    assert list(invariants.nothing_is_done_twice({"start agents/1": 2}))
    assert not list(invariants.one_run_at_most(["agents/1"]))
    assert list(invariants.one_run_at_most(["agents/1", "agents/2"]))
    assert list(invariants.nothing_runs_when_it_is_over(["agents/1"]))


def test_a_bill_of_another_sum() -> None:
    task = replace(WORKING, spending=replace(WORKING.spending, by_day={"2026-11-21": Spending(usd=2.0, tokens=10)}))
    assert not list(invariants.the_bill_is_right(task, Spending(usd=2.0, tokens=10)))
    assert list(invariants.the_bill_is_right(task, Spending(usd=2.1, tokens=10)))


def test_a_task_that_nothing_moves() -> None:
    for stuck in (WORKING, held(PauseReason.SERVICE), held(PauseReason.QUESTION), held(PauseReason.PRESSURE)):
        assert list(invariants.something_moves_it(stuck, scene(stuck), NOTHING)), stuck.agent
    assert not list(invariants.something_moves_it(held(PauseReason.USER), scene(held(PauseReason.USER)), NOTHING))
    assert not list(invariants.something_moves_it(WORKING, scene(WORKING), replace(NOTHING, is_active=True)))
