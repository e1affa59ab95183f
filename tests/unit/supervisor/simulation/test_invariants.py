"""Each invariant of a simulation yields a text when it is violated, and nothing when it holds."""

from dataclasses import replace
from datetime import timedelta

from orchestrator.core.events.commands import SendTurn
from orchestrator.core.schedule.admission import Capacity, SchedulerSnapshot
from orchestrator.core.schedule.live_tasks import LiveTasks
from orchestrator.core.task.agent import Agent, AgentStatus, PauseReason, ProcessState, Run
from orchestrator.core.task.budget import Caps, Spending, TaskSpending
from orchestrator.core.task.children import Child, ChildPlan, ChildStatus
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.task_policy import TaskPolicy
from orchestrator.core.task.usage_limits import Window
from orchestrator.core.task.user_requests import RequestDraft, RequestStatus, Subject, UserRequest
from orchestrator.pipelines.pipeline_file import parse_pipeline
from orchestrator.supervisor.simulation import invariants
from tests.documents import ROOT
from tests.fakes.tasks import submitted
from tests.fakes.world import START

TURN = SendTurn(attempt=1, turn=2, uuid="u", text="go on")
NOTHING = invariants.ProgressSigns(alarm=None, in_flight=False, is_active=False)
WORKING: Task = submitted(status=TaskStatus.IN_PROGRESS, stage="ANALYSIS", next_action=NextAction.TURN)


def snapshot(*tasks: Task, places: int = 1) -> SchedulerSnapshot:
    return SchedulerSnapshot(tasks=LiveTasks(tasks), ended={}, capacity=Capacity(places=places), now=START)


def paused(by: PauseReason) -> Task:
    return replace(WORKING, agent=Agent(status=AgentStatus.PAUSED, blocked_by=by))


def request(status: RequestStatus, answer: str | None = None) -> UserRequest:
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


def test_more_active_tasks_than_places_are_a_violation() -> None:
    other = replace(WORKING, id="LOCAL-2")
    assert not list(invariants.active_tasks_fit_places(snapshot(WORKING, other, places=2)))
    assert list(invariants.active_tasks_fit_places(snapshot(WORKING, other)))


def test_leaving_a_final_status_is_a_violation() -> None:
    assert not list(invariants.final_status_is_permanent(TaskStatus.COMPLETED, TaskStatus.COMPLETED))
    assert list(invariants.final_status_is_permanent(TaskStatus.COMPLETED, TaskStatus.IN_PROGRESS))


def test_a_second_answer_or_a_lost_request_is_a_violation() -> None:
    pending, one, other = (
        replace(WORKING, requests=(ask,))
        for ask in (
            request(RequestStatus.PENDING),
            request(RequestStatus.ANSWERED, "this"),
            request(RequestStatus.ANSWERED, "that"),
        )
    )
    assert not list(invariants.requests_are_answered_once(pending, one))
    assert list(invariants.requests_are_answered_once(one, other))
    assert list(invariants.requests_are_answered_once(one, WORKING))


def test_a_turn_under_a_limit_or_beyond_a_cap_is_a_violation() -> None:
    wall = Window(status="rejected", resets_at=START + timedelta(hours=1), seen_at=START)
    assert not list(invariants.turns_respect_limits_and_budgets(WORKING, snapshot(WORKING), TURN))
    inside = replace(snapshot(WORKING), windows={"five_hour": wall})
    assert list(invariants.turns_respect_limits_and_budgets(WORKING, inside, TURN))
    spent = replace(
        WORKING,
        spending=replace(WORKING.spending, by_day={"2026-11-21": Spending(usd=2.0)}),
        policy=TaskPolicy(caps=Caps(usd=1.0)),
    )
    assert list(invariants.turns_respect_limits_and_budgets(spent, snapshot(spent), TURN))
    poor = replace(snapshot(spent), capacity=Capacity(day=Caps(usd=1.0)))
    assert len(list(invariants.turns_respect_limits_and_budgets(spent, poor, TURN))) == 2


def test_repeated_effects_and_surplus_runs_are_violations() -> None:
    assert not list(invariants.effects_happen_once({"start agents/1": 1}))
    assert list(invariants.effects_happen_once({"start agents/1": 2}))
    assert not list(invariants.at_most_one_run_is_alive(["agents/1"]))
    assert list(invariants.at_most_one_run_is_alive(["agents/1", "agents/2"]))
    assert list(invariants.ended_tasks_have_no_run(["agents/1"]))


def test_a_bill_that_differs_from_the_recorded_spending_is_a_violation() -> None:
    task = replace(WORKING, spending=replace(WORKING.spending, by_day={"2026-11-21": Spending(usd=2.0, tokens=10)}))
    assert not list(invariants.recorded_spending_matches_bill(task, Spending(usd=2.0, tokens=10)))
    assert list(invariants.recorded_spending_matches_bill(task, Spending(usd=2.1, tokens=10)))


def test_a_task_that_nothing_will_advance_is_a_violation() -> None:
    for stuck in (WORKING, paused(PauseReason.SERVICE), paused(PauseReason.QUESTION), paused(PauseReason.PRESSURE)):
        assert list(invariants.task_can_progress(stuck, snapshot(stuck), NOTHING)), stuck.agent
    assert not list(invariants.task_can_progress(paused(PauseReason.USER), snapshot(paused(PauseReason.USER)), NOTHING))
    assert not list(invariants.task_can_progress(WORKING, snapshot(WORKING), replace(NOTHING, is_active=True)))


def family(status: ChildStatus = ChildStatus.SUBMITTED, usd: float = 0.0) -> tuple[Task, Task]:
    """Return a parent that waits for its child, and that child."""
    known = Child(plan=ChildPlan(key="A", title="A"), task="P.A", status=status)
    waits = replace(paused(PauseReason.CHILDREN), id="P", children=(known,), next_action=NextAction.CHILDREN)
    child = replace(WORKING, id="P.A", parent="P", spending=TaskSpending(by_day={"2026-01-05": Spending(usd=usd)}))
    return replace(waits, policy=TaskPolicy(caps=Caps(usd=1.0))), child


def test_a_family_that_spends_more_than_its_budget_and_a_turn_is_a_violation() -> None:
    now = snapshot(*family(usd=1.4))
    assert not list(invariants.shared_budget_is_kept(now, lambda _: 0.5))
    assert list(invariants.shared_budget_is_kept(now, lambda _: 0.3))
    assert list(invariants.turns_respect_limits_and_budgets(family(usd=1.4)[1], now, TURN))


def test_more_than_one_commit_of_squashed_work_is_a_violation() -> None:
    child, folder = family()[1], ROOT / "tests/data/pipelines_with_children"
    for squash, commits, violated in (("true", 1, False), ("true", 2, True), ("false", 2, False)):
        text = (folder / "part.toml").read_text().replace("squash = true", f"squash = {squash}")
        pipeline = parse_pipeline(text, "part.toml")
        assert bool(list(invariants.squashed_work_is_one_commit(pipeline, child, {"P.A": commits}))) is violated


def test_a_lost_child_and_an_orphan_are_violations() -> None:
    parent, child = family()
    assert not list(invariants.children_exist(parent, {"P.A"}))
    assert list(invariants.children_exist(parent, set()))
    assert not list(invariants.child_has_parent(child, snapshot(parent, child)))
    assert list(invariants.child_has_parent(child, snapshot(child)))


def test_a_parent_that_waits_for_an_ended_child_is_a_violation() -> None:
    parent, child = family()
    ended = replace(child, status=TaskStatus.COMPLETED)
    assert not list(invariants.task_can_progress(parent, snapshot(parent, child), NOTHING))
    assert list(invariants.task_can_progress(parent, snapshot(parent, ended), NOTHING))
    assert list(invariants.task_can_progress(parent, snapshot(parent), NOTHING))
    planned, _ = family(ChildStatus.PLANNED)
    assert not list(invariants.task_can_progress(planned, snapshot(planned), NOTHING))


def test_processes_that_work_outside_run_windows_or_stay_frozen_after_that_are_violations() -> None:
    for task, frozen, thawed in ((paused(PauseReason.WINDOW), 0, 1), (WORKING, 1, 0)):
        running = replace(task, run=Run(folder="agents/1", process=ProcessState.RUNNING))
        for are_frozen, violations in ((True, frozen), (False, thawed)):
            found = invariants.processes_stand_still_as_the_task_does(running, are_frozen=are_frozen)
            assert len(list(found)) == violations
    assert not list(invariants.processes_stand_still_as_the_task_does(WORKING, are_frozen=True))
