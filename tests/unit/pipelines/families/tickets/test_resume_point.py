"""Where a task continues, based on its artifacts, its checkpoint notes and its reviews."""

from dataclasses import replace
from typing import cast

import pytest

from orchestrator.core.decide.resume_point import resume_point
from orchestrator.core.task.guards import NOTHING_SEEN, Evidence, FileFacts
from orchestrator.core.task.task import TaskStatus
from orchestrator.formats.codec import Json, JsonObject, stamp
from tests.fakes.world import START
from tests.unit.pipelines.families.tickets.test_standalone_state import (
    FULL,
    a_document,
    in_state,
    in_steps,
    step,
    task_of,
)


def resumed(document: JsonObject, evidence: Evidence = NOTHING_SEEN) -> JsonObject:
    return resume_point(FULL, task_of(document), evidence, START)


def files(*names: str) -> Evidence:
    return Evidence(files={name: FileFacts(chars=9) for name in names})


@pytest.mark.parametrize(
    ("state", "there", "sub_status"),
    [
        ("ANALYSIS", (), "fresh"),
        ("ANALYSIS", ("related-code.json",), "partial"),
        ("ANALYSIS", ("plan.md",), "fresh"),
        ("PLANNING", ("plan.md",), "partial"),
        ("DESIGN", (), "fresh"),
        ("DESIGN", ("design-v1.md",), "review_pending"),
        ("DESIGN", ("design-v1.md", "design-changelog.md"), "partial"),
    ],
)
def test_the_existing_artifacts_determine_the_progress_of_a_stage(
    state: str, there: tuple[str, ...], sub_status: str
) -> None:
    point = resumed(in_state(state), files(*there))
    assert (point["state"], point["sub_status"]) == (state, sub_status)
    assert set(cast(list[str], point["existing_artifacts"])) <= set(there)
    assert (point["recommendation"] == "start the stage over") == (sub_status == "fresh")


def test_a_reviewed_design_is_not_pending_review_although_no_change_of_it_was_recorded() -> None:
    left = in_state("DESIGN", artifacts=["design-v1.md"], revision=1)
    assert resumed(left, files("design-v1.md"))["sub_status"] == "partial"
    assert resumed(left, files("design-v1.md", "design-v2.md"))["sub_status"] == "review_pending"


def test_an_open_review_means_review_pending_in_every_stage() -> None:
    task = replace(task_of(in_state("PLANNING")), status=TaskStatus.REVIEW)
    assert resume_point(FULL, task, files("plan.md"), START)["sub_status"] == "review_pending"


def test_a_step_continues_from_its_checkpoint_or_from_uncommitted_files() -> None:
    noted: JsonObject = {
        "at": stamp(START),
        "reason": "token_limit",
        "work_in_progress": "70 %",
        "uncommitted_files": [],
    }
    with_note = in_steps(step(1, "completed", "a1"), {**step(2, "in_progress"), "last_checkpoint": noted})
    point = resumed(with_note)
    assert point["step"] == {"step_id": 2, "description": "Part 2", "status": "in_progress"}
    assert (point["checkpoint"], point["recommendation"]) == (noted, "go on with what is there")
    dirty = resumed(in_steps(step(1, "in_progress")), Evidence(dirty=("a.go",)))
    assert cast(JsonObject, dirty["checkpoint"])["uncommitted_files"] == ["a.go"]
    assert resumed(in_steps(step(1, "in_progress")))["checkpoint"] is None
    untouched = resumed(in_steps(step(1)), Evidence(dirty=("a.go",)))
    assert (untouched["checkpoint"], untouched["recommendation"]) == (None, "start the stage over")


def test_without_an_open_step_none_is_continued() -> None:
    assert resumed(in_steps(step(1, "completed", "a1")))["step"] is None
    assert resumed(in_state("IMPLEMENTATION"))["recommendation"] == "start the stage over"


def test_an_evaluation_continues_after_the_last_check_that_has_a_result() -> None:
    results: Json = {"unit_test": "PASS", "lint": "PASS", "security": None, "chainbench": None}
    point = resumed(in_state("EVALUATION", results=results))
    assert (point["last_stage_completed"], point["next_stage"]) == ("lint", "security")
    fresh = resumed(in_state("EVALUATION"))
    assert (fresh["last_stage_completed"], fresh["next_stage"]) == (None, "unit_test")


def test_the_first_and_the_last_state_have_no_step() -> None:
    nothing = {"step": None, "checkpoint": None}
    assert resumed(a_document()) == {"state": "TICKET_INTAKE", **nothing, "recommendation": "start the stage over"}
    merge = "deliver the branch, or merge it"
    assert resumed(in_state("COMPLETION")) == {"state": "COMPLETION", **nothing, "recommendation": merge}
    ended = {**in_state("COMPLETION"), "current_state": "COMPLETED"}
    assert resumed(ended) == {"state": "COMPLETED", **nothing, "recommendation": "nothing is left to do"}


def test_a_halt_states_why_and_that_a_user_is_needed() -> None:
    halted = {**in_state("EVALUATION"), "current_state": "BLOCKED", "block_reason": "three cycles"}
    point = resumed(halted)
    assert (point["state"], point["block_reason"]) == ("BLOCKED", "three cycles")
    assert (point["failure_summary"], point["recommendation"]) == (
        halted["failure_summary"],
        "a person has to look at it",
    )
