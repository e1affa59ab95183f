"""Usage limits: stand still at once, wait for the reset that was told, go on in the same session."""

from dataclasses import replace
from datetime import timedelta

import pytest

from orchestrator.core import machine
from orchestrator.core.admission import Room, Scene
from orchestrator.core.admission import admitted as let_in
from orchestrator.core.limits import probe_at, resume_at
from orchestrator.core.model import BlockedBy, Owed, Process, Task, TaskStatus
from orchestrator.core.obligations import obligations
from orchestrator.core.prompt import turn_text
from orchestrator.core.why import explain
from tests.fakes.tasks import submitted
from tests.fakes.world import START
from tests.unit.playbook import (
    Happening,
    Playbook,
    admitted,
    alarm,
    at_work,
    daemon_started,
    exited,
    finished,
    frozen,
    full,
    later,
    limit_hit,
    pause,
    started,
    thawed,
)

HOUR = 3600.0


def after(task: Task, *happenings: Happening | timedelta) -> Task:
    """The task after all of that, whatever it asked for."""
    now = task.updated_at
    for happening in happenings:
        if isinstance(happening, timedelta):
            now += happening
        else:
            task, _ = machine.decide(full(), task, happening(task, now))
    return task


def limited(resets_in: float | None = HOUR) -> Task:
    """A task that hit a limit and stands still."""
    return after(at_work(), limit_hit(resets_in), frozen)


def scene(*tasks: Task, seconds: float = 0.0) -> Scene:
    return Scene(tasks=tasks, ended={}, room=Room(places=9), now=tasks[0].updated_at + timedelta(seconds=seconds))


@pytest.mark.parametrize("seconds", [1, HOUR, 7 * 24 * HOUR])
def test_a_reset_that_was_told_is_waited_for_and_a_margin_beyond_it(seconds: float) -> None:
    resets = START + timedelta(seconds=seconds)
    for name in ("LOCAL-1", "LOCAL-2", "LOCAL-3"):
        at = resume_at(resets, START, 30.0, name)
        assert at is not None
        assert timedelta(seconds=30) <= at - resets < timedelta(seconds=60)


@pytest.mark.parametrize("seconds", [-HOUR, 0, 9 * 24 * HOUR])
def test_a_reset_that_is_over_or_absurd_is_not_believed(seconds: float) -> None:
    assert resume_at(START + timedelta(seconds=seconds), START, 30.0, "LOCAL-1") is None


def test_tasks_that_wait_for_the_same_reset_do_not_all_wake_at_once() -> None:
    resets = START + timedelta(hours=1)
    assert len({resume_at(resets, START, 30.0, f"LOCAL-{number}") for number in range(20)}) > 15


def test_without_a_reset_the_pauses_between_probes_double_up_to_an_hour() -> None:
    minutes = [(probe_at(START, hits) - START) / timedelta(minutes=1) for hits in (1, 2, 3, 4, 5, 50)]
    assert minutes == [5, 10, 20, 40, 60, 60]


def test_a_limit_freezes_the_agent_and_the_alarm_lets_the_same_session_go_on() -> None:
    task = at_work()
    resumed = (
        Playbook(task)
        >> limit_hit(1200)
        << "freeze agents/1"
        << "wake in 1252 s"
        << "tell limit_reached"
        >> frozen
        >> later(1200)
        >> alarm
        >> later(60)
        >> alarm
        << "wake in 540 s"
        >> admitted
        << "thaw agents/1"
        >> thawed
        << "turn 2 of 1"
        << "wake in 3600 s"
    ).task
    assert (resumed.agent.attempt, resumed.agent.session_id) == (task.agent.attempt, task.agent.session_id)
    assert resumed.agent.turn == task.agent.turn + 1
    assert resumed.owed is Owed.TURN
    assert resumed.failures.total == 0
    assert "A limit or trouble of the service ended your last turn" in turn_text(full(), resumed)


def test_the_alarm_before_its_time_changes_nothing() -> None:
    task = limited(1200)
    assert after(task, later(1200), alarm) is task


def test_a_good_turn_makes_the_next_limit_the_first_again() -> None:
    task = limited(None)
    assert task.agent.waits == 1
    going = after(task, later(300), alarm, admitted, thawed)
    again = after(going, limit_hit(None))
    assert again.agent.waits == 2
    assert again.retry_at == again.updated_at + timedelta(minutes=10)
    assert after(going, finished()).agent.waits == 0


def test_an_agent_that_dies_at_a_limit_is_started_again_only_when_it_is_over() -> None:
    task = after(limited(), exited)
    assert task.waits_for_service
    assert task.owed is Owed.RETRY
    going = after(task, later(HOUR + 60), alarm, admitted, alarm, started)
    assert going.agent.resumed
    assert going.failures.total == 0


def test_a_restart_in_between_sets_the_alarm_again() -> None:
    task = after(limited(), daemon_started)
    assert [type(command).__name__ for command in obligations(full(), task)] == ["FollowRun", "WakeAt", "TellPerson"]


def test_nobody_else_begins_or_goes_on_before_the_accounts_limit_is_over() -> None:
    waiting = limited()
    others = (submitted("LOCAL-1"), replace(at_work(), id="LOCAL-2", agent=replace(waiting.agent, blocked_by=None)))
    assert let_in(scene(waiting, *others)) == []
    assert let_in(scene(waiting, *others, seconds=HOUR + 61)) == ["LOCAL-2", "LOCAL-1"]


def test_both_the_one_that_hit_the_limit_and_those_behind_it_say_until_when() -> None:
    waiting, other = limited(), submitted("LOCAL-1")
    assert waiting.retry_at is not None
    why = explain(waiting, scene(waiting, other))
    assert why.facts == ("its account has reached a usage limit", "its processes stand still")
    assert f"{waiting.retry_at:%Y-%m-%d %H:%M:%S}" in why.next
    assert f"{waiting.retry_at:%H:%M:%S}" in explain(other, scene(waiting, other)).facts[0]


def test_a_persons_pause_outlasts_the_limit() -> None:
    task = after(limited(1200), pause(), later(1500), alarm)
    assert task.agent.blocked_by is BlockedBy.USER
    assert task.run is not None
    assert task.run.process is Process.FROZEN
    assert task.status is TaskStatus.IN_PROGRESS
