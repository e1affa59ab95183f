"""What holds for every history of a task, likely or not."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core import commands as do
from orchestrator.core import events, machine
from orchestrator.core.admission import Room, Scene
from orchestrator.core.document import from_document, to_document
from orchestrator.core.errors import InvalidTransition
from orchestrator.core.guards import Evidence
from orchestrator.core.model import AgentStatus, BlockedBy, Owed, Task, TaskStatus, Verdict
from orchestrator.core.obligations import obligations
from orchestrator.core.transitions import AGENT_TRANSITIONS, TASK_TRANSITIONS, allowed
from orchestrator.core.why import explain
from tests.fakes.world import START
from tests.unit.playbook import (
    EXPLAINED,
    Happening,
    a_task,
    admitted,
    alarm,
    answer,
    cancel,
    checkpoint,
    committed,
    daemon_started,
    delivered,
    exited,
    finished,
    freeze_failed,
    frozen,
    full,
    judged,
    looked,
    pause,
    ready,
    resume,
    session,
    started,
    thawed,
)


def forgotten(task: Task, at: datetime) -> events.Event:
    """The daemon is back and the run is not alive."""
    return events.DaemonStarted(at=at, run_alive=False)


def of_an_old_attempt(happening: Happening) -> Happening:
    """What happens, but to the attempt before."""
    return lambda task, at: happening(replace(task, agent=replace(task.agent, attempt=task.agent.attempt - 1)), at)


def of_another_run(happening: Happening) -> Happening:
    """What happens, but to a run that is not there."""
    return lambda task, at: happening(replace(task, run=None), at)


def cannot(number: int) -> Happening:
    """One of the commands that are owed cannot be carried out."""

    def event(task: Task, at: datetime) -> events.Event:
        owed = obligations(full(), task) or (do.FreezeRun(folder="agents/0"),)
        return events.CommandFailed(at=at, command=owed[number % len(owed)], reason="it cannot be had")

    return event


GOES_WELL: st.SearchStrategy[Happening] = st.just(answer)
REQUESTS: st.SearchStrategy[Happening] = st.sampled_from(
    [pause(), resume(), cancel, pause(BlockedBy.PRESSURE), resume(BlockedBy.PRESSURE), resume(BlockedBy.RATE_LIMIT)]
)
ANYTHING: st.SearchStrategy[Happening] = st.sampled_from(
    [
        *(admitted, ready, started, session, exited, delivered, frozen, freeze_failed, thawed, alarm, checkpoint),
        *(daemon_started, forgotten, finished(), finished("refused"), finished(tool_uses=0)),
        *(finished("no", error_class="billing"), judged(), judged(Verdict.FAIL), judged(Verdict.WARN), judged(None)),
        *(looked(), looked(Evidence()), looked(committed("c1", dirty=("a",))), looked(Evidence(analysis=EXPLAINED))),
        *(looked(Evidence(fresh=("plan.md",))), cannot(0), cannot(1)),
        *(of_an_old_attempt(one) for one in (session, exited, finished())),
        *(of_another_run(one) for one in (started, frozen, thawed, freeze_failed, judged())),
    ]
)
PEACE = st.integers(0, 24).map(lambda count: [(answer, 0)] * count)
TROUBLE = st.lists(
    st.tuples(GOES_WELL | GOES_WELL | GOES_WELL | ANYTHING | REQUESTS, st.sampled_from([0, 1, 30, 4000])), max_size=40
)
HISTORIES = st.builds(lambda peace, trouble: peace + trouble, PEACE, TROUBLE)
"""A while without trouble, so that every stage is reached, and then anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision of a history."""

    before: Task
    event: events.Event
    after: Task
    commands: tuple[do.Command, ...]


REQUESTED = (events.PauseRequested, events.ResumeRequested, events.CancelRequested)


def lived(history: list[tuple[Happening, int]]) -> list[Decision]:
    """The decisions of a history; what is refused changes nothing and is left out."""
    task, commands = machine.begin(full(), events.TaskSubmitted(at=START, task=a_task()))
    decisions = [Decision(before=task, event=events.TaskSubmitted(at=START, task=task), after=task, commands=commands)]
    now = START
    for happening, seconds in history:
        now += timedelta(seconds=seconds)
        event = happening(task, now)
        try:
            after, commands = machine.decide(full(), task, event)
        except InvalidTransition as refusal:
            if not isinstance(event, REQUESTED) or refusal.allowed != allowed(task):
                raise
            continue
        decisions.append(Decision(before=task, event=event, after=after, commands=commands))
        task = after
    return decisions


def in_every_history(law: Callable[[list[Decision]], None]) -> Callable[[], None]:
    """A test that holds a law against many histories."""

    @settings(max_examples=150, deadline=None)
    @given(HISTORIES)
    def test(history: list[tuple[Happening, int]]) -> None:
        law(lived(history))

    return test


@in_every_history
def test_what_has_ended_stays_ended(decisions: list[Decision]) -> None:
    for one in decisions:
        if one.before.status.final:
            assert one.after.status is one.before.status
            assert all(isinstance(command, do.FollowRun | do.StopRun | do.TellPerson) for command in one.commands)


@in_every_history
def test_every_change_of_status_is_in_the_tables(decisions: list[Decision]) -> None:
    for one in decisions:
        assert one.after.status in TASK_TRANSITIONS[one.before.status] | {one.before.status}
        assert one.after.agent.status in AGENT_TRANSITIONS[one.before.agent.status] | {one.before.agent.status}


@in_every_history
def test_numbers_never_fall(decisions: list[Decision]) -> None:
    for one in decisions:
        before, after = one.before, one.after
        assert after.agent.attempt - before.agent.attempt in (0, 1)
        assert after.failures.total >= before.failures.total
        assert all(after.stages[name].visits >= record.visits for name, record in before.stages.items())
        same_attempt = after.agent.attempt == before.agent.attempt
        assert not same_attempt or after.agent.read_offset >= before.agent.read_offset
        assert not same_attempt or after.agent.turn >= before.agent.turn


@in_every_history
def test_each_decision_has_the_next_number_and_no_decision_has_none(decisions: list[Decision]) -> None:
    for one in decisions[1:]:
        assert one.after is one.before or one.after.seq == one.before.seq + 1
        assert one.after is not one.before or not one.commands


@in_every_history
def test_a_task_has_one_run_at_most_and_only_for_what_it_is_at(decisions: list[Decision]) -> None:
    for one in decisions:
        before, after = one.before.run, one.after.run
        if before and (after is None or after.folder != before.folder):
            assert isinstance(one.event, events.AgentExited | events.CheckFinished), "a run was dropped"
        if one.after.owed in (Owed.AGENT, Owed.TURN, Owed.CHECKS):
            assert after is not None


@in_every_history
def test_status_says_running_only_while_an_agent_is_there(decisions: list[Decision]) -> None:
    for one in decisions:
        run, running = one.after.run, one.after.agent.status is AgentStatus.RUNNING
        of_agent = run is not None and run.folder == f"agents/{one.after.agent.attempt}"
        at_it = one.after.status is TaskStatus.IN_PROGRESS and not one.after.paused
        assert running == (of_agent and at_it)


@in_every_history
def test_nothing_is_begun_while_a_task_is_paused_or_over(decisions: list[Decision]) -> None:
    still = (do.FollowRun, do.FreezeRun, do.StopRun, do.WakeAt, do.TellPerson)
    for one in decisions:
        if one.after.paused or one.after.status is not TaskStatus.IN_PROGRESS:
            assert all(isinstance(command, still) for command in obligations(full(), one.after))


@in_every_history
def test_a_task_at_work_owes_something_or_waits_for_its_place(decisions: list[Decision]) -> None:
    for one in decisions:
        if one.after.status is TaskStatus.IN_PROGRESS and not one.after.paused:
            assert obligations(full(), one.after)
        assert (one.after.owed is Owed.RETRY) <= (one.after.retry_at is not None)


@in_every_history
def test_no_folder_is_begun_twice_unless_it_may_not_have_been_heard_of(decisions: list[Decision]) -> None:
    """A restart asks again, and so does the end of a pause that came before the run was there."""
    begun: set[str] = set()
    for one in decisions:
        again = isinstance(one.event, events.DaemonStarted | events.TaskAdmitted | events.RunThawed)
        for command in one.commands:
            if isinstance(command, do.StartAgent | do.RunCheck):
                assert one.after.run is not None
                folder = one.after.run.folder
                assert again or folder not in begun
                begun.add(folder)


@in_every_history
def test_what_is_owed_follows_from_the_saved_state_alone(decisions: list[Decision]) -> None:
    for one in decisions:
        restored = from_document(to_document(one.after))
        assert obligations(full(), restored) == obligations(full(), one.after)


@in_every_history
def test_a_restart_asks_for_exactly_what_is_owed(decisions: list[Decision]) -> None:
    last = decisions[-1].after
    after, commands = machine.decide(full(), last, forgotten(last, last.updated_at))
    assert commands == obligations(full(), after) == obligations(full(), last)


@in_every_history
def test_it_can_always_be_said_why_a_task_is_where_it_is(decisions: list[Decision]) -> None:
    for one in decisions:
        scene = Scene(tasks=(one.after,), ended={}, room=Room(), now=one.after.updated_at)
        why = explain(one.after, scene)
        assert why.next
        assert all(why.facts)


@in_every_history
def test_a_task_that_is_left_in_peace_comes_to_an_end(decisions: list[Decision]) -> None:
    task = decisions[-1].after
    for _ in range(150):
        if task.status.final or task.status is TaskStatus.BLOCKED:
            return
        if task.paused and task.agent.blocked_by is not None:
            event: events.Event = resume(task.agent.blocked_by)(task, task.updated_at)
        elif task.wants_slot:
            event = admitted(task, task.updated_at)
        elif any(isinstance(command, do.ThawRun) for command in obligations(full(), task)):
            event = thawed(task, task.updated_at)
        else:
            event = answer(task, task.updated_at)
        task, _ = machine.decide(full(), task, event)
    raise AssertionError(f"it goes round: {task.stage} owes {task.owed}, {task.run}, {task.agent}")
