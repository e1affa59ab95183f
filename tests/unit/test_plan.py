"""Steps: read from headings, worked through in their order."""

from datetime import timedelta

import pytest

from orchestrator.core.model import Step, StepStatus
from orchestrator.core.plan import begun, finished, first_open, steps_of
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


def test_steps_are_numbered_in_the_order_in_which_they_stand() -> None:
    steps = steps_of(["# Plan", "## Step 3: Last", "## Why", "### Step 9: No", "## Step 1: First"])
    assert [(step.step_id, step.description) for step in steps] == [(1, "Last"), (2, "First")]


def test_the_first_open_step_is_the_first_that_is_not_completed() -> None:
    one, two = steps_of(["## Step 1: a", "## Step 2: b"])
    assert first_open((one, two)) == one
    assert first_open(finished((one, two), 1, ["c"], START)) == two
    assert first_open(()) is None


def test_a_step_begun_again_keeps_the_time_of_its_first_beginning() -> None:
    steps = begun(begun(steps_of(["## Step 1", "## Step 2"]), 1, START), 1, LATER)
    assert (steps[0].status, steps[0].started_at) == (StepStatus.IN_PROGRESS, START)
    assert (steps[1].status, steps[1].started_at) == (StepStatus.PENDING, None)


def test_a_finished_step_has_each_commit_once() -> None:
    steps = finished(finished(steps_of(["## Step 1", "## Step 2"]), 1, ["c1"], START), 1, ["c1", "c2"], LATER)
    assert (steps[0].commits, steps[0].status, steps[0].completed_at) == (("c1", "c2"), StepStatus.COMPLETED, LATER)
    assert steps[1].commits == ()
