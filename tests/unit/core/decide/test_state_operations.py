"""State operations on an active task: the same guards apply, and an agent cannot open one by itself."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

import pytest

from orchestrator.core.decide import machine, pausing
from orchestrator.core.events import events
from orchestrator.core.events.operations import (
    FailureReport,
    ForcedTransition,
    Operation,
    OperationRefused,
    StepUpdate,
    Transition,
)
from orchestrator.core.task.agent import AgentStatus
from orchestrator.core.task.checks import Verdict
from orchestrator.core.task.failures import Failure
from orchestrator.core.task.guards import NOTHING_SEEN, Evidence
from orchestrator.core.task.progress import StageStatus, StepStatus
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.user_requests import RequestDraft, RequestStatus, Subject
from orchestrator.errors import InvalidTransition
from orchestrator.formats.codec import Json
from tests.fakes.world import START
from tests.unit.playbook import (
    LEFT_BEHIND,
    Happening,
    Playbook,
    a_task,
    admitted,
    at_work,
    cancel,
    committed,
    evaluating,
    exited,
    finished,
    full,
    interactive,
    looked,
)


def asked(operation: Operation, evidence: Evidence = NOTHING_SEEN) -> Happening:
    """A program requests an operation."""

    def happening(_: Task, now: datetime) -> events.Event:
        return events.OperationRequested(at=now, operation=operation, evidence=evidence, by="ada")

    return happening


def move(origin: str, target: str, evidence: Evidence = NOTHING_SEEN, reason: str = "") -> Happening:
    return asked(Transition(from_state=origin, to_state=target, reason=reason), evidence)


def force(target: str) -> Happening:
    return asked(ForcedTransition(to_state=target, reason="I know better", waived=("plan.md not found",)))


def step(number: int, status: StepStatus, evidence: Evidence = NOTHING_SEEN, *commits: str) -> Happening:
    return asked(StepUpdate(step_id=number, status=status, commits=commits), evidence)


def after(task: Task, happening: Happening) -> Task:
    """Return the task after it, whatever its next action becomes."""
    decided, _ = machine.decide(full(), task, happening(task, task.updated_at))
    return decided


def refusal(task: Task, happening: Happening) -> Mapping[str, Json]:
    with pytest.raises(OperationRefused) as caught:
        Playbook(task) >> happening
    return caught.value.document


def implementing() -> Task:
    """Return a task at its first step with a running turn."""
    return at_work("IMPLEMENTATION")


def test_a_move_of_an_active_task_is_checked_by_the_guards_of_its_pipeline() -> None:
    assert refusal(at_work("ANALYSIS"), move("ANALYSIS", "PLANNING"))["missing"] == [
        "analysis.md not found",
        "related-code.json not found",
    ]
    assert refusal(at_work("ANALYSIS"), move("PLANNING", "DESIGN"))["error"] == "STATE_MISMATCH"


def test_an_allowed_move_ends_the_turn_of_the_old_stage_and_continues_in_its_session() -> None:
    play = Playbook(at_work("ANALYSIS")) >> move("ANALYSIS", "PLANNING", LEFT_BEHIND["ANALYSIS"])
    play = play << "interrupt agents/1"
    assert (play.task.stage, play.task.stages["ANALYSIS"].status) == ("PLANNING", StageStatus.COMPLETED)
    assert set(play.task.stages["ANALYSIS"].artifacts) == {"analysis.md", "related-code.json"}
    play = play >> exited << "resume planner 2"
    assert play.task.agent.session.is_resumed


def test_leaving_a_plan_by_a_move_creates_its_steps() -> None:
    seen = Evidence(files={**LEFT_BEHIND["DESIGN"].files, **LEFT_BEHIND["PLANNING"].files})
    task = replace(at_work("DESIGN"), steps=())
    play = Playbook(task) >> move("DESIGN", "READY_FOR_IMPL", seen) << "interrupt agents/1"
    assert [one.description for one in play.task.steps] == ["Do it", "Test it"]


def test_a_failed_evaluation_leads_back_like_a_transition_of_the_pipeline() -> None:
    task = after(evaluating(Verdict.FAIL), move("EVALUATION", "EVALUATION_FAIL"))
    assert (task.stage, task.budgets["eval_cycles"].used) == ("ANALYSIS", 1)
    assert task.failures.entries[-1].transitioned_to == "ANALYSIS"


def test_any_program_may_halt_a_task_and_retry_it() -> None:
    play = Playbook(at_work("PLANNING")) >> move("PLANNING", "BLOCKED", reason="no money")
    play = play << "interrupt agents/1" << "tell blocked"
    assert (play.task.status, play.task.block_reason) == (TaskStatus.BLOCKED, "PLANNING: no money")
    assert refusal(play.task, move("BLOCKED", "DESIGN"))["from"] == "BLOCKED"
    again = after(play.task, move("BLOCKED", "PLANNING"))
    assert (again.status, again.agent.status) == (TaskStatus.IN_PROGRESS, AgentStatus.PAUSED)


def test_a_task_that_waits_for_approval_is_not_moved_past_it() -> None:
    under_review = replace(interactive("ANALYSIS"), status=TaskStatus.REVIEW)
    lacking = refusal(under_review, move("ANALYSIS", "PLANNING", LEFT_BEHIND["ANALYSIS"]))["missing"]
    assert lacking == ["the result of the stage has to be approved first"]


def test_nothing_moves_before_there_is_a_worktree_or_after_the_end() -> None:
    fresh = at_work("ANALYSIS")
    fresh = replace(fresh, source=replace(fresh.source, worktree=None))
    for happening in (move("ANALYSIS", "PLANNING", LEFT_BEHIND["ANALYSIS"]), force("DESIGN")):
        assert refusal(fresh, happening)["missing"] == ["the task's worktree is not prepared yet"]
    ended = (Playbook(at_work("ANALYSIS")) >> cancel << "interrupt agents/1").task
    with pytest.raises(InvalidTransition) as refused:
        Playbook(ended) >> force("DESIGN")
    assert refused.value.allowed == ("archive", "delete")


def test_operations_on_ended_or_unstarted_tasks_are_refused_in_the_original_format() -> None:
    ended = (Playbook(at_work("ANALYSIS")) >> cancel << "interrupt agents/1").task
    told = "the task is cancelled; allowed now: archive, delete"
    assert refusal(ended, move("ANALYSIS", "PLANNING")) == {
        "error": "TRANSITION_BLOCKED",
        "missing": [told],
        "from": "ANALYSIS",
        "to": "PLANNING",
    }
    late = {"error": "STATE_MISMATCH", "expected": "PLANNING", "actual": "ANALYSIS"}
    assert refusal(ended, move("PLANNING", "DESIGN")) == late
    nothing: Mapping[str, Json] = {
        "error": "NOT_AT_WORK",
        "state": "ANALYSIS",
        "task_status": "cancelled",
        "allowed": ["archive", "delete"],
    }
    assert refusal(ended, step(1, StepStatus.FAILED)) == nothing
    waiting = Playbook.submitted(a_task()).task
    assert refusal(waiting, step(1, StepStatus.FAILED))["task_status"] == "pending"


def test_a_user_may_move_past_the_guards_to_any_stage() -> None:
    play = Playbook(at_work("ANALYSIS")) >> force("DESIGN") << "interrupt agents/1"
    assert (play.task.stage, play.task.stages["DESIGN"].visits) == ("DESIGN", 1)
    play = play >> exited << "resume planner 2"
    known = refusal(at_work("ANALYSIS"), force("COMPLETED"))["missing"]
    assert isinstance(known, list)
    assert "it has TICKET_INTAKE, ANALYSIS" in str(known[0])


def test_a_blocked_task_continues_in_the_stage_a_user_forces_once_there_is_a_place() -> None:
    halted = (
        Playbook(at_work("PLANNING")) >> move("PLANNING", "BLOCKED") << "interrupt agents/1" << "tell blocked"
    ).task
    gone = (Playbook(halted) >> exited).task
    play = Playbook(replace(gone, notices=())) >> force("ANALYSIS")
    assert (play.task.status, play.task.stage, play.task.block_reason) == (TaskStatus.IN_PROGRESS, "ANALYSIS", None)
    assert (play >> admitted << "resume planner 2").task.agent.status is AgentStatus.RUNNING


def test_a_step_is_completed_only_by_commits_that_were_seen() -> None:
    assert refusal(implementing(), step(1, StepStatus.COMPLETED))["missing"] == ["no new commit was made for this step"]
    dirty = committed("c1", dirty=("a.py",))
    assert refusal(implementing(), step(1, StepStatus.COMPLETED, dirty))["missing"] == ["uncommitted changes: a.py"]
    assert refusal(implementing(), step(1, StepStatus.IN_PROGRESS, NOTHING_SEEN, "c9"))["missing"] == [
        "commit c9 was not seen on the task's branch"
    ]
    assert refusal(implementing(), step(9, StepStatus.COMPLETED))["error"] == "UNKNOWN_STEP"
    assert refusal(at_work("PLANNING"), step(1, StepStatus.FAILED))["error"] in {"UNKNOWN_STEP", "TRANSITION_BLOCKED"}


def test_steps_that_an_agent_completes_within_its_turn_count_as_done_at_its_end() -> None:
    task = after(implementing(), step(1, StepStatus.COMPLETED, committed("c1abc"), "c1"))
    task = after(task, step(2, StepStatus.COMPLETED, committed("c1abc", "c2abc")))
    assert [(one.status, one.commits) for one in task.steps] == [
        (StepStatus.COMPLETED, ("c1abc",)),
        (StepStatus.COMPLETED, ("c2abc",)),
    ]
    assert refusal(task, step(1, StepStatus.PENDING))["missing"] == ["step 1 is completed by its commits"]
    task = after(after(task, finished()), looked(committed("c1abc", "c2abc")))
    assert (task.stage, task.steps[0].commits) == ("EVALUATION", ("c1abc",))


def test_a_failure_reported_by_an_agent_is_recorded_with_the_next_id() -> None:
    failure = Failure(
        id="", occurred_at=START, state="ANALYSIS", agent="planner", step=None, attempted="", command=None,
        expected="", type="note", summary="the index is gone",
    )  # fmt: skip
    task = after(at_work("ANALYSIS"), asked(FailureReport(failure=failure)))
    assert task.failures.entries[-1].id == "fail-001"
    again = FailureReport(failure=replace(failure, id="fail-001"))
    assert refusal(task, asked(again))["error"] == "FAILURE_EXISTS"


def test_operations_on_a_task_that_has_not_started_are_refused() -> None:
    with pytest.raises(InvalidTransition):
        Playbook(Playbook.submitted(a_task()).task) >> force("DESIGN")


def test_open_requests_about_a_stage_are_withdrawn_when_a_user_forces_the_task_on() -> None:
    task = replace(interactive("ANALYSIS"), status=TaskStatus.REVIEW)
    asked_for = pausing.add_request(task, RequestDraft(subject=Subject.STAGE, text="review it", name="ANALYSIS"), START)
    forced = after(asked_for, force("PLANNING"))
    assert (forced.status, forced.stage, forced.pending_requests) == (TaskStatus.IN_PROGRESS, "PLANNING", ())
    assert forced.requests[-1].status is RequestStatus.WITHDRAWN


def test_step_updates_are_recorded_only_in_the_stage_that_executes_steps() -> None:
    elsewhere = replace(at_work("PLANNING"), steps=implementing().steps)
    refused = refusal(elsewhere, step(1, StepStatus.FAILED))
    assert refused["missing"] == ["PLANNING does not work through the steps of a plan"]
    assert (refused["error"], refused["state"]) == ("NOT_AT_WORK", "PLANNING")
    assert "from" not in refused
