"""Phases: the present one, how many there are, and how far a task has come through them."""

from dataclasses import replace

import pytest

from orchestrator.core.decide import machine
from orchestrator.core.events.events import DaemonStarted, TaskSubmitted
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.progress import StageRecord, StageStatus, deliverables
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.pipelines.pipeline_file import PipelineError, parse_pipeline
from orchestrator.pipelines.schemas import state_schema
from orchestrator.storage.journal import line_of
from orchestrator.storage.state_document import from_document, to_document
from tests.fakes.tasks import full_pipeline, submitted
from tests.fakes.world import START

TWO_PHASES = """\
name = "phased"
description = "Two phases, each done and looked at."
start = "TICKET"

[stages.TICKET]
work = "intake"
next = "PLANNING"

[stages.PLANNING]
work = "agent"
role = "worker"
artifacts = ["plan.md"]
phase = 1
next = "PLANNING_REVIEW"

[stages.PLANNING_REVIEW]
work = "agent"
role = "worker"
artifacts = ["review.md"]
phase = 1
next = "BUILDING"

[stages.BUILDING]
work = "agent"
role = "worker"
artifacts = ["code.md"]
phase = 2
next = "DONE"

[stages.DONE]
work = "deliver"
"""


def begun(task: Task, pipeline: Pipeline) -> Task:
    return machine.begin(pipeline, TaskSubmitted(at=START, task=task))[0]


def in_stage(stage: str, *completed: str, status: TaskStatus = TaskStatus.IN_PROGRESS) -> Task:
    """A task in a stage of that pipeline, with these stages completed."""
    pipeline = parse_pipeline(TWO_PHASES, "phased.toml")
    task = begun(submitted(pipeline="phased"), pipeline)
    states = dict.fromkeys(completed, StageStatus.COMPLETED) | {stage: StageStatus.IN_PROGRESS}
    stages = {
        name: replace(record, status=states[name], visits=1) if name in states else record
        for name, record in task.stages.items()
    }
    return replace(task, stage=stage, stages=stages, status=status)


@pytest.mark.parametrize(
    ("task", "phase", "progress"),
    [
        (in_stage("TICKET"), None, 0),
        (in_stage("PLANNING", "TICKET"), 1, 0),
        (in_stage("PLANNING_REVIEW", "TICKET", "PLANNING"), 1, 25),
        (in_stage("BUILDING", "TICKET", "PLANNING", "PLANNING_REVIEW"), 2, 50),
        (in_stage("DONE", "TICKET", "PLANNING", "PLANNING_REVIEW", "BUILDING"), 2, 99),
        (in_stage("DONE", status=TaskStatus.COMPLETED), None, 100),
    ],
    ids=lambda value: value.stage if isinstance(value, Task) else str(value),
)
def test_each_phase_counts_the_same_and_within_it_each_stage(task: Task, phase: int | None, progress: int) -> None:
    assert (task.current_phase, task.total_phases, task.progress) == (phase, 2, progress)


def test_a_pipeline_without_phases_has_none() -> None:
    task = begun(submitted(), full_pipeline())
    assert (task.current_phase, task.total_phases) == (None, None)


def test_phases_are_kept_in_state_json_and_shown_as_the_original_names_them() -> None:
    task = in_stage("PLANNING_REVIEW", "TICKET", "PLANNING")
    document = to_document(task)
    assert (document["current_phase"], document["total_phases"], document["progress"]) == (1, 2, 25)
    assert from_document(document) == task
    assert {"current_phase", "total_phases"} <= set(state_schema()["properties"])  # type: ignore[arg-type]


def test_the_journal_says_in_which_phase_a_transition_was_and_how_many_files_the_phase_left() -> None:
    before, after = in_stage("PLANNING", "TICKET"), in_stage("PLANNING_REVIEW", "TICKET", "PLANNING")
    left = replace(after.stages["PLANNING"], artifacts=("01_idea.md", "02_market.md"))
    after = replace(after, stages={**after.stages, "PLANNING": left})
    line = line_of(before, after, DaemonStarted(at=START), [])
    assert (line["task_id"], line["type"]) == (after.id, "state_transition")
    assert (line["from"], line["to"]) == ("PLANNING", "PLANNING_REVIEW")
    assert line["metadata"] == {
        "stage": "PLANNING_REVIEW", "status": "in_progress", "attempt": 0, "phase": 1, "deliverables": 2,
    }  # fmt: skip


def test_only_the_first_stage_of_a_phase_hands_anything_over() -> None:
    stages = {
        "A": StageRecord(phase=1, artifacts=("a.md",)),
        "A_REVIEW": StageRecord(phase=1, artifacts=("review.md",)),
        "B": StageRecord(phase=2),
    }
    assert [deliverables(stages, phase) for phase in (1, 2, 3)] == [("a.md",), (), ()]


@pytest.mark.parametrize(
    ("was", "number", "expected"),
    [("phase = 1", 2, "write 1"), ("phase = 2", 3, "write 1 or 2"), ("phase = 2", 0, "1 or more")],
)
def test_phases_that_are_out_of_order_are_refused(was: str, number: int, expected: str) -> None:
    text = TWO_PHASES.replace(was, f"phase = {number}", 1)
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(text, "phased.toml")
    assert expected in str(caught.value.problems[0])
