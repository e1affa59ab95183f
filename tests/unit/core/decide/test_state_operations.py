"""State operations on a task at work: the same guards, and no word of an agent that opens one."""

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
    """Somebody asks for an operation."""

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
    """The task after it, whatever becomes owed."""
    decided, _ = machine.decide(full(), task, happening(task, task.updated_at))
    return decided


def refusal(task: Task, happening: Happening) -> Mapping[str, Json]:
    with pytest.raises(OperationRefused) as caught:
        Playbook(task) >> happening
    return caught.value.document


def implementing() -> Task:
    """A task at its first step, a turn under way."""
    return at_work("IMPLEMENTATION")


def test_a_move_of_a_task_at_work_is_judged_by_the_guards_of_its_pipeline() -> None:
    assert refusal(at_work("ANALYSIS"), move("ANALYSIS", "PLANNING"))["missing"] == [
        "analysis.md not found",
        "related-code.json not found",
    ]
    assert refusal(at_work("ANALYSIS"), move("PLANNING", "DESIGN"))["error"] == "STATE_MISMATCH"


def test_a_move_that_is_let_ends_the_turn_for_the_old_stage_and_goes_on_in_its_session() -> None:
    play = Playbook(at_work("ANALYSIS")) >> move("ANALYSIS", "PLANNING", LEFT_BEHIND["ANALYSIS"])
    play = play << "interrupt agents/1"
    assert (play.task.stage, play.task.stages["ANALYSIS"].status) == ("PLANNING", StageStatus.COMPLETED)
    assert set(play.task.stages["ANALYSIS"].artifacts) == {"analysis.md", "related-code.json"}
    play = play >> exited << "resume planner 2"
    assert play.task.agent.session.is_resumed


def test_a_plan_that_is_moved_on_from_brings_its_steps() -> None:
    seen = Evidence(files={**LEFT_BEHIND["DESIGN"].files, **LEFT_BEHIND["PLANNING"].files})
    task = replace(at_work("DESIGN"), steps=())
    play = Playbook(task) >> move("DESIGN", "READY_FOR_IMPL", seen) << "interrupt agents/1"
    assert [one.description for one in play.task.steps] == ["Do it", "Test it"]


def test_a_failed_evaluation_leads_back_as_if_the_pipeline_had_led() -> None:
    task = after(evaluating(Verdict.FAIL), move("EVALUATION", "EVALUATION_FAIL"))
    assert (task.stage, task.budgets["eval_cycles"].used) == ("ANALYSIS", 1)
    assert task.failures.entries[-1].transitioned_to == "ANALYSIS"


def test_anybody_may_bring_a_task_to_a_halt_and_try_it_again() -> None:
    play = Playbook(at_work("PLANNING")) >> move("PLANNING", "BLOCKED", reason="no money")
    play = play << "interrupt agents/1" << "tell blocked"
    assert (play.task.status, play.task.block_reason) == (TaskStatus.BLOCKED, "PLANNING: no money")
    assert refusal(play.task, move("BLOCKED", "DESIGN"))["from"] == "BLOCKED"
    again = after(play.task, move("BLOCKED", "PLANNING"))
    assert (again.status, again.agent.status) == (TaskStatus.IN_PROGRESS, AgentStatus.PAUSED)


def test_what_waits_for_approval_is_not_moved_past_it() -> None:
    under_review = replace(interactive("ANALYSIS"), status=TaskStatus.REVIEW)
    lacking = refusal(under_review, move("ANALYSIS", "PLANNING", LEFT_BEHIND["ANALYSIS"]))["missing"]
    assert lacking == ["somebody has to approve what was done first"]


def test_nothing_is_moved_before_there_is_a_worktree_or_after_the_end() -> None:
    fresh = at_work("ANALYSIS")
    fresh = replace(fresh, source=replace(fresh.source, worktree=None))
    for happening in (move("ANALYSIS", "PLANNING", LEFT_BEHIND["ANALYSIS"]), force("DESIGN")):
        assert refusal(fresh, happening)["missing"] == ["the task's worktree is not prepared yet"]
    ended = (Playbook(at_work("ANALYSIS")) >> cancel << "interrupt agents/1").task
    with pytest.raises(InvalidTransition) as refused:
        Playbook(ended) >> force("DESIGN")
    assert refused.value.allowed == ("archive", "delete")


def test_what_programs_ask_of_a_task_that_has_ended_or_was_not_begun_is_refused_in_the_seeds_form() -> None:
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


def test_a_person_may_go_past_the_guards_to_any_stage() -> None:
    play = Playbook(at_work("ANALYSIS")) >> force("DESIGN") << "interrupt agents/1"
    assert (play.task.stage, play.task.stages["DESIGN"].visits) == ("DESIGN", 1)
    play = play >> exited << "resume planner 2"
    known = refusal(at_work("ANALYSIS"), force("COMPLETED"))["missing"]
    assert isinstance(known, list)
    assert "it has TICKET_INTAKE, ANALYSIS" in str(known[0])


def test_a_blocked_task_goes_on_in_the_stage_that_a_person_forces_it_to_once_there_is_a_place() -> None:
    halted = (
        Playbook(at_work("PLANNING")) >> move("PLANNING", "BLOCKED") << "interrupt agents/1" << "tell blocked"
    ).task
    gone = (Playbook(halted) >> exited).task
    play = Playbook(replace(gone, notices=())) >> force("ANALYSIS")
    assert (play.task.status, play.task.stage, play.task.block_reason) == (TaskStatus.IN_PROGRESS, "ANALYSIS", None)
    assert (play >> admitted << "resume planner 2").task.agent.status is AgentStatus.RUNNING


def test_a_step_is_completed_by_commits_that_were_seen_and_by_no_word() -> None:
    assert refusal(implementing(), step(1, StepStatus.COMPLETED))["missing"] == ["no new commit was made for this step"]
    dirty = committed("c1", dirty=("a.py",))
    assert refusal(implementing(), step(1, StepStatus.COMPLETED, dirty))["missing"] == ["uncommitted changes: a.py"]
    assert refusal(implementing(), step(1, StepStatus.IN_PROGRESS, NOTHING_SEEN, "c9"))["missing"] == [
        "commit c9 was not seen on the task's branch"
    ]
    assert refusal(implementing(), step(9, StepStatus.COMPLETED))["error"] == "UNKNOWN_STEP"
    assert refusal(at_work("PLANNING"), step(1, StepStatus.FAILED))["error"] in {"UNKNOWN_STEP", "TRANSITION_BLOCKED"}


def test_steps_that_an_agent_completes_within_its_turn_are_taken_for_done_at_its_end() -> None:
    task = after(implementing(), step(1, StepStatus.COMPLETED, committed("c1abc"), "c1"))
    task = after(task, step(2, StepStatus.COMPLETED, committed("c1abc", "c2abc")))
    assert [(one.status, one.commits) for one in task.steps] == [
        (StepStatus.COMPLETED, ("c1abc",)),
        (StepStatus.COMPLETED, ("c2abc",)),
    ]
    assert refusal(task, step(1, StepStatus.PENDING))["missing"] == ["step 1 is completed by its commits"]
    task = after(after(task, finished()), looked(committed("c1abc", "c2abc")))
    assert (task.stage, task.steps[0].commits) == ("EVALUATION", ("c1abc",))


def test_a_failure_of_an_agent_goes_on_record_with_the_next_id() -> None:
    failure = Failure(
        id="", occurred_at=START, state="ANALYSIS", agent="planner", step=None, attempted="", command=None,
        expected="", type="note", summary="the index is gone",
    )  # fmt: skip
    task = after(at_work("ANALYSIS"), asked(FailureReport(failure=failure)))
    assert task.failures.entries[-1].id == "fail-001"
    again = FailureReport(failure=replace(failure, id="fail-001"))
    assert refusal(task, asked(again))["error"] == "FAILURE_EXISTS"


def test_a_task_that_has_not_begun_is_not_operated_on() -> None:
    with pytest.raises(InvalidTransition):
        Playbook(Playbook.submitted(a_task()).task) >> force("DESIGN")


def test_what_was_asked_of_people_about_a_stage_is_withdrawn_when_a_person_forces_the_task_on() -> None:
    task = replace(interactive("ANALYSIS"), status=TaskStatus.REVIEW)
    asked_for = pausing.add_request(task, RequestDraft(subject=Subject.STAGE, text="review it", name="ANALYSIS"), START)
    forced = after(asked_for, force("PLANNING"))
    assert (forced.status, forced.stage, forced.pending_requests) == (TaskStatus.IN_PROGRESS, "PLANNING", ())
    assert forced.requests[-1].status is RequestStatus.WITHDRAWN


def test_steps_are_news_only_in_the_stage_that_works_through_them() -> None:
    elsewhere = replace(at_work("PLANNING"), steps=implementing().steps)
    assert refusal(elsewhere, step(1, StepStatus.FAILED))["missing"] == [
        "PLANNING does not work through the steps of a plan"
    ]
