"""Steps of a plan: parsed from headings and executed in order."""

from datetime import timedelta

import pytest

from orchestrator.core.decide.plan import begin_step, finish_step, next_step, steps_of
from orchestrator.core.task.progress import Step, StepStatus
from tests.fakes.world import START

LATER = START + timedelta(hours=1)


@pytest.mark.parametrize(
    ("heading", "description"),
    [
        ("## Step 1: Add the flag", "Add the flag"),
        ("## Step 1 - Add the flag", "Add the flag"),
        ("## Step 1 — Add the flag", "Add the flag"),
        ("## Step 1. Add the flag", "Add the flag"),
        ("## Step 1) Add the flag  ", "Add the flag"),
        ("## Step: Add the flag", "Add the flag"),
        ("## Step 7", "Step 1"),
        ("## Step", "Step 1"),
        ("## Steps", "Step 1"),
        ("## Step 1: " + "x" * 400, "x" * 300),
    ],
)
def test_a_heading_declares_a_step(heading: str, description: str) -> None:
    assert steps_of([heading]) == (Step(step_id=1, description=description),)


def test_steps_are_numbered_in_their_order_in_the_plan() -> None:
    steps = steps_of(["# Plan", "## Step 3: Last", "## Why", "### Step 9: No", "## Step 1: First"])
    assert [(step.step_id, step.description) for step in steps] == [(1, "Last"), (2, "First")]


def test_the_current_step_is_the_first_that_is_not_completed() -> None:
    one, two = steps_of(["## Step 1: a", "## Step 2: b"])
    assert next_step((one, two)) == one
    assert next_step(finish_step((one, two), 1, ["c"], START)) == two
    assert next_step(()) is None


def test_a_restarted_step_keeps_the_time_of_its_first_start() -> None:
    steps = begin_step(begin_step(steps_of(["## Step 1", "## Step 2"]), 1, START), 1, LATER)
    assert (steps[0].status, steps[0].started_at) == (StepStatus.IN_PROGRESS, START)
    assert (steps[1].status, steps[1].started_at) == (StepStatus.PENDING, None)


def test_a_finished_step_lists_each_commit_once() -> None:
    steps = finish_step(finish_step(steps_of(["## Step 1", "## Step 2"]), 1, ["c1"], START), 1, ["c1", "c2"], LATER)
    assert (steps[0].commits, steps[0].status, steps[0].completed_at) == (("c1", "c2"), StepStatus.COMPLETED, LATER)
    assert steps[1].commits == ()


PLAN = ["## Step 1: a", "## Step 2: b", "## Step 2: b"]


def worked_off() -> tuple[Step, ...]:
    """Return the steps of a plan whose first two are done."""
    steps = steps_of(PLAN, ["d1", "d2", "d2"])
    return finish_step(finish_step(steps, 1, ["c1"], START), 2, ["c2"], START)


def test_a_plan_with_the_same_steps_keeps_what_was_done_and_its_commits() -> None:
    assert steps_of(PLAN, ["d1", "d2", "d2"], worked_off()) == worked_off()


def test_a_finished_step_is_recognised_by_heading_and_text_at_any_position() -> None:
    steps = steps_of(["## Step 1: new", "## Step 2: b", "## Step 3: a"], ["d0", "d2", "other"], worked_off())
    assert [(step.step_id, step.status, step.commits) for step in steps] == [
        (1, StepStatus.PENDING, ()),
        (2, StepStatus.COMPLETED, ("c2",)),
        (3, StepStatus.PENDING, ()),
    ]


def test_the_text_of_a_step_includes_its_subheadings() -> None:
    plan = ["## Step 1: a", "### How", "# a comment in code", "## Step 2: b", "### How", "## Risks", "### Which"]
    digests = ["d1", "d2", "d3", "d4", "d5", "d6", "d7"]
    done = finish_step(finish_step(steps_of(plan, digests), 1, ["c1"], START), 2, ["c2"], START)
    assert steps_of(plan, digests, done) == done
    assert steps_of(plan, [*digests[:5], "other", "other"], done) == done
    for changed in (1, 2):
        other = [digest if place != changed else "other" for place, digest in enumerate(digests)]
        assert [step.status for step in steps_of(plan, other, done)] == [StepStatus.PENDING, StepStatus.COMPLETED]


def test_of_two_equal_steps_as_many_stay_done_as_were_done() -> None:
    steps = steps_of([*PLAN, "## Step 4: b"], ["d1", "d2", "d2", "d2"], worked_off())
    assert [step.status is StepStatus.COMPLETED for step in steps] == [True, True, False, False]


def test_without_digests_no_step_is_kept() -> None:
    assert not any(step.commits for step in steps_of(PLAN, (), finish_step(steps_of(PLAN), 1, ["c1"], START)))


def test_a_step_that_was_started_but_not_finished_has_to_be_done() -> None:
    steps = steps_of(PLAN, ["d1", "d2", "d2"], begin_step(steps_of(PLAN, ["d1", "d2", "d2"]), 1, START))
    assert [step.status for step in steps] == [StepStatus.PENDING] * 3


def test_a_commit_counts_only_for_its_own_step() -> None:
    steps = finish_step(worked_off(), 3, ["c1", "c3"], LATER)
    assert steps[2].commits == ("c3",)
