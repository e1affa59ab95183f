"""A power cut at every step before and after every commit and command; the outcome is always the same."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random

import pytest

from orchestrator.core.events import events
from orchestrator.core.task.agent import ProcessState
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.publication import Publication
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.task_policy import Autonomy, TaskPolicy
from orchestrator.core.task.user_requests import POLICY, RequestDraft, RequestStatus, Subject
from tests.fakes.tasks import TWO_CHECKS, bundled_pipeline, full_pipeline, submitted
from tests.fakes.world import Night, Plug, PowerCut, Request, World

AT_WORK: Callable[[Task], bool] = lambda task: task.stage == "IMPLEMENTATION" and task.next_action is NextAction.TURN  # noqa: E731
STILL: Callable[[Task], bool] = lambda task: task.run is not None and task.run.process is ProcessState.FROZEN  # noqa: E731
PAUSED_AT_WORK = (
    Request(AT_WORK, lambda at: events.PauseRequested(at=at)),
    Request(STILL, lambda at: events.ResumeRequested(at=at)),
)
PARKED_AT_WORK = (
    Request(AT_WORK, lambda at: events.PauseRequested(at=at, park=True)),
    Request(lambda task: task.is_paused and task.run is None, lambda at: events.ResumeRequested(at=at)),
)
CANCELLED = (Request(AT_WORK, lambda at: events.CancelRequested(at=at)),)
Requests = Sequence[Request]


@pytest.fixture(scope="module")
def full() -> Pipeline:
    """Blocked after two evaluations: a third one has no step that the second does not have."""
    pipeline = full_pipeline()
    return replace(pipeline, budgets={**pipeline.budgets, "eval_cycles": 2})


def night(pipeline: Pipeline, failing: int, requests: Requests, plug: Plug) -> tuple[Task, World, Night]:
    world = World(pipeline=pipeline, failing=failing)
    lived = Night(world=world, begun=submitted(checks=TWO_CHECKS), plug=plug, requests=requests)
    return lived.until_the_end(), world, lived


def moments(pipeline: Pipeline, failing: int, requests: Requests) -> int:
    plug = Plug()
    night(pipeline, failing, requests, plug)
    return plug.passed


STORIES = [
    pytest.param(0, (), TaskStatus.COMPLETED, id="all checks pass"),
    pytest.param(1, (), TaskStatus.COMPLETED, id="one evaluation fails and is fixed"),
    pytest.param(2, (), TaskStatus.BLOCKED, id="every evaluation fails"),
    pytest.param(0, PAUSED_AT_WORK, TaskStatus.COMPLETED, id="a user pauses and resumes it"),
]


@pytest.mark.parametrize(("failing", "requests_", "end"), STORIES)
def test_a_power_cut_at_any_step_does_not_change_the_outcome(
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


def test_a_power_cut_at_any_step_of_a_cancelled_run_leaves_nothing_running(full: Pipeline) -> None:
    _, undisturbed, _ = night(full, 0, CANCELLED, Plug())
    for moment in range(moments(full, 0, CANCELLED)):
        task, world, _ = night(full, 0, CANCELLED, Plug(at=moment))
        assert task.status is TaskStatus.CANCELLED, moment
        assert world.effects <= undisturbed.effects, moment
        assert not [folder for folder, tree in world.runs.items() if tree.alive], moment
        assert world.delivered is None


# Runs that involve users


def answered(number: int, status: RequestStatus, answer: str = "") -> Callable[[datetime], events.Event]:
    return lambda at: events.AskAnswered(at=at, number=number, status=status, answer=answer, by="ada")


def approved(number: int) -> Callable[[datetime], events.Event]:
    return answered(number, RequestStatus.APPROVED)


def asked(number: int) -> Callable[[Task], bool]:
    return lambda task: len(task.requests) == number and task.requests[-1].is_pending


def parked(task: Task) -> bool:
    return asked(1)(task) and task.run is None


QUESTION = RequestDraft(subject=Subject.QUESTION, text="Which one?", options=("left", "right"))
BY_REQUEST = replace(QUESTION, request_id="r1")
KEY = RequestDraft(subject=Subject.DEPENDENCY, text="a key", name="API_KEY", type="api_key")
LEFT = answered(1, RequestStatus.ANSWERED, "left")
FORGE = "https://forge.example/a/b.git"
ATTENDED = TaskPolicy(autonomy=Autonomy.INTERACTIVE)
LOOKING = TaskPolicy(look_every=60.0)
TAKEN_UP = Request(
    lambda task: task.waits_for_merge and "a thread is not resolved" in task.publication.hindrances,
    lambda at: events.RoundRequested(at=at, by="ada"),
)
PLANS = tuple(Request(asked(number), approved(number)) for number in (1, 3, 4))
APPROVALS = tuple(Request(asked(number), approved(number)) for number in range(1, 5))
PHASES = (
    Request(asked(1), answered(1, RequestStatus.CHANGES_REQUESTED, "leave the second feature out")),
    *(Request(asked(number), approved(number)) for number in range(2, 6)),
)
CHANGES = (
    Request(asked(1), answered(1, RequestStatus.CHANGES_REQUESTED, "split step 2")),
    Request(asked(2), approved(2)),
)


@dataclass(frozen=True)
class Story:
    """A run in which a user is asked something, a limit is reached, or the change is published."""

    asks: Mapping[str, RequestDraft] = field(default_factory=dict)
    people: Requests = ()
    reviewed: str | None = None
    walled: str | None = None
    refused: str | None = None
    pipeline: str = "full"
    forge: str | None = None
    rounds: int = 0
    merges: bool = False
    policy: TaskPolicy = ATTENDED

    def night(self, plug: Plug) -> tuple[Task, World, Night]:
        """Run it to its end."""
        pipeline = bundled_pipeline(self.pipeline)
        if self.reviewed:
            stage = replace(pipeline.stage(self.reviewed), review=True)
            pipeline = replace(pipeline, stages={**pipeline.stages, self.reviewed: stage})
        world = World(
            pipeline=pipeline,
            asks=self.asks,
            walled=self.walled,
            refused=self.refused,
            rounds=self.rounds,
            merges=self.merges,
        )
        begun = submitted(
            checks=TWO_CHECKS,
            policy=self.policy,
            pipeline=self.pipeline,
            publication=Publication(forge=self.forge),
        )
        lived = Night(world=world, begun=begun, plug=plug, requests=self.people)
        return lived.until_the_end(), world, lived


NIGHTS = [
    pytest.param(Story({"DESIGN": QUESTION}, (Request(asked(1), LEFT),)), id="a question is answered"),
    pytest.param(Story({"DESIGN": QUESTION}, (Request(parked, LEFT),)), id="a question is answered late"),
    pytest.param(Story({"DESIGN": BY_REQUEST}, (Request(asked(1), LEFT),)), id="a request is answered"),
    pytest.param(Story({"DESIGN": BY_REQUEST}, (Request(parked, LEFT),)), id="a request is answered late"),
    pytest.param(
        Story({"PLANNING": KEY}, (Request(asked(1), answered(1, RequestStatus.PROVIDED)),)), id="a key is provided"
    ),
    pytest.param(Story(people=CHANGES, reviewed="PLANNING"), id="a plan is sent back once"),
    pytest.param(Story(people=CHANGES, reviewed="IMPLEMENTATION"), id="a change is sent back once"),
    pytest.param(Story(walled="IMPLEMENTATION"), id="a usage limit is reached"),
    pytest.param(Story(people=PARKED_AT_WORK), id="a user parks it"),
    pytest.param(
        Story(
            forge=FORGE,
            rounds=1,
            reviewed="PLANNING",
            people=(*PLANS[:1], TAKEN_UP, *PLANS[1:]),
            policy=replace(ATTENDED, look_every=60.0),
        ),
        id="comments are handled once, their plan is approved, and a user merges",
    ),
    pytest.param(
        Story(forge=FORGE, rounds=1, policy=replace(LOOKING, follow_reviews=True, auto_merge=True)),
        id="comments are handled once and it merges automatically",
    ),
    pytest.param(Story(forge=FORGE, merges=True, policy=LOOKING), id="a reviewer merges on the forge"),
    pytest.param(
        Story(forge=FORGE, pipeline="release", people=(Request(asked(1), approved(1)),), policy=LOOKING),
        id="a release is confirmed",
    ),
    pytest.param(Story(pipeline="review_only", policy=LOOKING), id="code is reviewed"),
    pytest.param(Story(pipeline="create_app", people=PHASES), id="phases are approved, the first one changed before"),
    pytest.param(
        Story(pipeline="create_app", people=APPROVALS, refused="DESIGN_VERIFICATION"), id="a phase is verified twice"
    ),
    pytest.param(Story(pipeline="custom", people=APPROVALS[:1]), id="a task without phases is approved"),
]


@pytest.mark.parametrize("story", NIGHTS)
def test_a_power_cut_at_any_step_of_a_run_with_users_does_not_change_the_outcome(story: Story) -> None:
    plug = Plug()
    expected, undisturbed, _ = story.night(plug)
    assert expected.status is TaskStatus.COMPLETED
    assert expected.failures.total == int(story.refused is not None)
    for moment in range(plug.passed):
        task, world, lived = story.night(Plug(at=moment))
        assert lived.restarts == 1, moment
        assert outcome(task) == outcome(expected), moment
        assert world.effects == undisturbed.effects, moment
        of_people = {f"ask-{ask.number}" for ask in task.requests if ask.answered_by != POLICY}
        assert world.told >= of_people | {"completed"}, moment
        assert not [folder for folder, tree in world.runs.items() if tree.alive], moment


class FailingPower(Plug):
    """Fails again and again, after random numbers of steps from a seeded generator."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._dice = Random(seed)
        self._left = self._dice.randrange(1, 12)

    def moment(self) -> None:
        self._left -= 1
        if not self._left:
            self._left = self._dice.randrange(1, 12)
            raise PowerCut


@pytest.mark.parametrize("seed", range(25))
def test_repeated_power_cuts_do_not_change_the_outcome(full: Pipeline, seed: int) -> None:
    expected, undisturbed, _ = night(full, 1, PAUSED_AT_WORK, Plug())
    task, world, lived = night(full, 1, PAUSED_AT_WORK, FailingPower(seed))
    assert lived.restarts > 5
    assert outcome(task) == outcome(expected)
    assert world.effects == undisturbed.effects


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("story", NIGHTS)
def test_repeated_power_cuts_do_not_change_the_outcome_of_runs_with_users(story: Story, seed: int) -> None:
    expected, undisturbed, _ = story.night(Plug())
    task, world, _ = story.night(FailingPower(seed))
    assert outcome(task) == outcome(expected)
    assert world.effects == undisturbed.effects


def outcome(task: Task) -> object:
    """Return what a user would compare between two runs; times and the number of decisions differ."""
    return (
        task.stage,
        task.block_reason,
        [(step.step_id, step.status, step.commits) for step in task.steps],
        [(entry.id, entry.state, entry.type) for entry in task.failures.entries],
        [(name, record.visits, record.status) for name, record in task.stages.items()],
        {name: replace(result, seconds=None) for name, result in task.evaluation.results.items()},
        task.source.head,
        [(ask.number, ask.status, ask.answer, ask.is_delivered) for ask in task.requests],
        replace(task.publication, merged_at=None),
    )
