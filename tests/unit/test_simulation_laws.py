"""Each law of a simulated week says so when it is broken, and is silent when it holds."""

from dataclasses import replace
from datetime import timedelta

from orchestrator.core.admission import Room, Scene
from orchestrator.core.asks import Ask, Asking, AskStatus, Subject
from orchestrator.core.budget import Caps, Spending
from orchestrator.core.commands import SendTurn
from orchestrator.core.limits import Window
from orchestrator.core.model import Agent, AgentStatus, BlockedBy, Owed, Task, TaskStatus
from orchestrator.core.terms import Terms
from orchestrator.simulation import laws
from tests.fakes.tasks import submitted
from tests.fakes.world import START

TURN = SendTurn(attempt=1, turn=2, uuid="u", text="go on")
NOTHING = laws.Signs(alarm=None, under_way=False, at_work=False)
WORKING: Task = submitted(status=TaskStatus.IN_PROGRESS, stage="ANALYSIS", owed=Owed.TURN)


def scene(*tasks: Task, places: int = 1) -> Scene:
    return Scene(tasks=tasks, ended={}, room=Room(places=places), now=START)


def held(by: BlockedBy) -> Task:
    return replace(WORKING, agent=Agent(status=AgentStatus.PAUSED, blocked_by=by))


def asked(status: AskStatus, answer: str | None = None) -> Ask:
    asking = Asking(subject=Subject.QUESTION, text="Which?")
    return Ask(
        number=1,
        asking=asking,
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
    assert not list(laws.places_are_kept(scene(WORKING, other, places=2)))
    assert list(laws.places_are_kept(scene(WORKING, other)))


def test_an_end_that_is_none() -> None:
    assert not list(laws.what_has_ended_stays_ended(TaskStatus.COMPLETED, TaskStatus.COMPLETED))
    assert list(laws.what_has_ended_stays_ended(TaskStatus.COMPLETED, TaskStatus.IN_PROGRESS))


def test_a_second_answer() -> None:
    pending, one, other = (
        replace(WORKING, asks=(ask,))
        for ask in (
            asked(AskStatus.PENDING),
            asked(AskStatus.ANSWERED, "this"),
            asked(AskStatus.ANSWERED, "that"),
        )
    )
    assert not list(laws.the_first_answer_counts(pending, one))
    assert list(laws.the_first_answer_counts(one, other))
    assert list(laws.the_first_answer_counts(one, WORKING))


def test_a_turn_inside_a_limit_or_beyond_a_cap() -> None:
    wall = Window(status="rejected", resets_at=START + timedelta(hours=1), seen_at=START)
    assert not list(laws.a_turn_begins_only_when_it_may(WORKING, scene(WORKING), TURN))
    inside = replace(scene(WORKING), windows={"five_hour": wall})
    assert list(laws.a_turn_begins_only_when_it_may(WORKING, inside, TURN))
    spent = replace(WORKING, spent={"2026-11-21": Spending(usd=2.0)}, terms=Terms(caps=Caps(usd=1.0)))
    assert list(laws.a_turn_begins_only_when_it_may(spent, scene(spent), TURN))
    poor = replace(scene(spent), room=Room(day=Caps(usd=1.0)))
    assert len(list(laws.a_turn_begins_only_when_it_may(spent, poor, TURN))) == 2


def test_what_is_done_twice_or_runs_on() -> None:
    assert not list(laws.nothing_is_done_twice({"start agents/1": 1}))
    assert list(laws.nothing_is_done_twice({"start agents/1": 2}))
    assert not list(laws.one_run_at_most(["agents/1"]))
    assert list(laws.one_run_at_most(["agents/1", "agents/2"]))
    assert list(laws.nothing_runs_when_it_is_over(["agents/1"]))


def test_a_bill_of_another_sum() -> None:
    task = replace(WORKING, spent={"2026-11-21": Spending(usd=2.0, tokens=10)})
    assert not list(laws.the_bill_is_right(task, Spending(usd=2.0, tokens=10)))
    assert list(laws.the_bill_is_right(task, Spending(usd=2.1, tokens=10)))


def test_a_task_that_nothing_moves() -> None:
    for stuck in (WORKING, held(BlockedBy.SERVICE), held(BlockedBy.QUESTION), held(BlockedBy.PRESSURE)):
        assert list(laws.something_moves_it(stuck, scene(stuck), NOTHING)), stuck.agent
    assert not list(laws.something_moves_it(held(BlockedBy.USER), scene(held(BlockedBy.USER)), NOTHING))
    assert not list(laws.something_moves_it(WORKING, scene(WORKING), replace(NOTHING, at_work=True)))
