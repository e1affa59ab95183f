"""The plug is pulled at every moment before and after every commit and command; the end is always the same."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest

from orchestrator.core import events
from orchestrator.core.model import Owed, Process, Task, TaskStatus
from orchestrator.core.pipeline import Pipeline
from tests.fakes.tasks import TWO_CHECKS, full_pipeline, submitted
from tests.fakes.world import Night, Plug, PowerCut, Request, World

AT_WORK: Callable[[Task], bool] = lambda task: task.stage == "IMPLEMENTATION" and task.owed is Owed.TURN  # noqa: E731
STILL: Callable[[Task], bool] = lambda task: task.run is not None and task.run.process is Process.FROZEN  # noqa: E731
PAUSED_AT_WORK = (
    Request(AT_WORK, lambda at: events.PauseRequested(at=at)),
    Request(STILL, lambda at: events.ResumeRequested(at=at)),
)
CANCELLED = (Request(AT_WORK, lambda at: events.CancelRequested(at=at)),)
Requests = Sequence[Request]


@pytest.fixture(scope="module")
def full() -> Pipeline:
    return full_pipeline()


def night(pipeline: Pipeline, failing: int, requests: Requests, plug: Plug) -> tuple[Task, World, Night]:
    world = World(pipeline=pipeline, failing=failing)
    lived = Night(world=world, begun=submitted(checks=TWO_CHECKS), plug=plug, requests=requests)
    return lived.until_the_end(), world, lived


def moments(pipeline: Pipeline, failing: int, requests: Requests) -> int:
    plug = Plug()
    night(pipeline, failing, requests, plug)
    return plug.passed


STORIES = [
    pytest.param(0, (), TaskStatus.COMPLETED, id="it passes at once"),
    pytest.param(1, (), TaskStatus.COMPLETED, id="one evaluation fails and is mended"),
    pytest.param(3, (), TaskStatus.BLOCKED, id="three evaluations fail"),
    pytest.param(0, PAUSED_AT_WORK, TaskStatus.COMPLETED, id="a person pauses and resumes it"),
]


@pytest.mark.parametrize(("failing", "requests_", "end"), STORIES)
def test_a_power_cut_at_any_moment_changes_nothing_in_the_end(
    full: Pipeline, failing: int, requests_: Requests, end: TaskStatus
) -> None:
    expected, undisturbed, _ = night(full, failing, requests_, Plug())
    assert expected.status is end
    for moment in range(moments(full, failing, requests_)):
        task, world, lived = night(full, failing, requests_, Plug(at=moment))
        assert lived.restarts == 1, moment
        assert task.status is end, moment
        assert outcome(task) == outcome(expected), moment
        assert world.effects == undisturbed.effects, moment
        assert not [folder for folder, tree in world.runs.items() if tree.alive], moment


def test_a_power_cut_at_any_moment_of_a_cancelled_night_leaves_nothing_running(full: Pipeline) -> None:
    _, undisturbed, _ = night(full, 0, CANCELLED, Plug())
    for moment in range(moments(full, 0, CANCELLED)):
        task, world, _ = night(full, 0, CANCELLED, Plug(at=moment))
        assert task.status is TaskStatus.CANCELLED, moment
        assert world.effects <= undisturbed.effects, moment
        assert not [folder for folder, tree in world.runs.items() if tree.alive], moment
        assert world.delivered is None


class FailingPower(Plug):
    """Goes off again and again, after as many moments as a seeded die says."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._dice = Random(seed)
        self._left = self._dice.randrange(1, 12)

    def moment(self) -> None:
        self._left -= 1
        if not self._left:
            self._left = self._dice.randrange(1, 12)
            raise PowerCut


@pytest.mark.parametrize("seed", range(50))
def test_power_that_fails_again_and_again_changes_nothing_in_the_end(full: Pipeline, seed: int) -> None:
    expected, undisturbed, _ = night(full, 1, PAUSED_AT_WORK, Plug())
    task, world, lived = night(full, 1, PAUSED_AT_WORK, FailingPower(seed))
    assert lived.restarts > 5
    assert outcome(task) == outcome(expected)
    assert world.effects == undisturbed.effects


def outcome(task: Task) -> object:
    """What a person would compare of two nights; times and the count of decisions differ."""
    return (
        task.stage,
        task.block_reason,
        [(step.step_id, step.status, step.commits) for step in task.steps],
        [(entry.id, entry.state, entry.type) for entry in task.failures.entries],
        [(name, record.visits, record.status) for name, record in task.stages.items()],
        {name: replace(result, seconds=None) for name, result in task.results.items()},
        task.head,
    )
