"""The contract of every store.

A new store is tested by one more `Harness` in test_store_contract.py.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

import pytest

from orchestrator.core.events import events
from orchestrator.core.events.agent_events import LimitStatus
from orchestrator.core.schedule.trouble import AccountState, Breaker, Fault
from orchestrator.core.task.agent import AgentStatus
from orchestrator.core.task.checkpoint import KEPT, Checkpoint, CheckpointContext, Reason, checkpoint_of
from orchestrator.core.task.failures import Failure
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.usage_limits import Window
from orchestrator.formats.codec import stamp
from orchestrator.storage.records import (
    Cursor,
    EventGap,
    EventRecord,
    NoSuchCheckpoint,
    SequenceConflict,
    StoreError,
    StoreInUse,
    TaskSummary,
)
from orchestrator.supervisor.protocols import Store
from tests.fakes.tasks import submitted
from tests.fakes.world import START

A, B, C = "LOCAL-1", "LOCAL-2", "LOCAL-3"


class Harness(Protocol):
    """A place where tasks are stored, and its crashes."""

    def open(self) -> Store:
        """Open the store of this place. Raises StoreInUse, or returns a second writer."""

    def after_crash(self) -> Store:
        """Open a store on what a crash at this moment leaves, while the other one stays open."""

    def after_crashes_in(self, store: Store, commit: Callable[[], None]) -> Iterator[Store]:
        """Commit, and open a store on every state that a crash within this commit can leave, one after the other."""


class StoreContract:
    """The contract; a test class provides the fixture `place`."""

    def test_a_loaded_task_is_the_last_committed_one(self, place: Harness) -> None:
        store = place.open()
        task = long_history(store, A)
        assert store.load(A).task == task
        store.close()
        assert place.open().load(A).task == task

    def test_a_commit_survives_a_crash_as_soon_as_it_returns(self, place: Harness) -> None:
        store = place.open()
        task = begin(store, A)
        for _ in range(3):
            task = decide(store, task, feedback=(f"try {task.seq}",))
            assert place.after_crash().load(A).task == task

    def test_a_crash_within_a_commit_leaves_the_task_before_or_after_it(self, place: Harness) -> None:
        store = place.open()
        before = long_history(store, A)
        after = successor(before, feedback=("one more",))
        found = [
            left.load(A).task
            for left in place.after_crashes_in(store, lambda: store.commit(before, after, alarm(after)))
        ]
        assert before in found
        assert after in found
        assert all(task in (before, after) for task in found)

    def test_a_decision_that_does_not_follow_the_last_one_is_refused(self, place: Harness) -> None:
        store = place.open()
        first = begin(store, A)
        second = decide(store, first)
        for before, seq in ((first, 2), (second, 4), (second, 2), (first, 3)):
            stale = replace(before, seq=seq, feedback=("lost",))
            with pytest.raises(SequenceConflict):
                store.commit(before, stale, alarm(stale))
        assert store.load(A).task == second
        assert store.load(A).task == place.after_crash().load(A).task
        assert numbers(store) == [1, 2]
        decide(store, second)

    def test_a_task_is_created_only_once(self, place: Harness) -> None:
        store = place.open()
        task = decide(store, begin(store, A))
        with pytest.raises(StoreError):
            begin(store, A)
        assert store.load(A).task == task

    def test_of_two_writers_one_is_refused(self, place: Harness) -> None:
        first = place.open()
        task = begin(first, A)
        try:
            second = place.open()
        except StoreInUse:
            decide(first, task)
            return
        stale = second.load(A, keep_open=True).task
        decide(first, task)
        with pytest.raises(SequenceConflict):
            decide(second, stale)

    def test_a_closed_store_can_be_opened_again(self, place: Harness) -> None:
        store = place.open()
        task = begin(store, A)
        store.close()
        store = place.open()
        again = store.load(A, keep_open=True).task
        assert again == task
        after = decide(store, again)
        assert store.load(A).task == after

    def test_a_released_task_accepts_no_decision_until_it_is_opened_again(self, place: Harness) -> None:
        store = place.open()
        task = begin(store, A)
        store.release(A)
        store.release(A)
        with pytest.raises(StoreError):
            decide(store, task)
        store.load(A)
        with pytest.raises(StoreError):
            decide(store, task)
        assert store.load(A, keep_open=True).task == task
        after = decide(store, task)
        assert store.load(A).task == after

    def test_telemetry_is_stored_with_the_state_and_is_not_a_decision(self, place: Harness) -> None:
        store = place.open()
        task = decide(store, begin(store, A), status=TaskStatus.IN_PROGRESS)
        noted = replace(task, agent=replace(task.agent, read_offset=900))
        store.note_telemetry(noted)
        store.settle()
        assert store.load(A).task == noted
        assert numbers(store) == [1, 2]
        after = decide(store, noted, agent=replace(noted.agent, read_offset=950))
        assert place.after_crash().load(A).task == after

    def test_every_task_is_listed_with_its_summary(self, place: Harness) -> None:
        store = place.open()
        begin(store, A)
        working = decide(store, begin(store, B), status=TaskStatus.IN_PROGRESS)
        over = decide(store, begin(store, C), status=TaskStatus.COMPLETED, stage="COMPLETION")
        store.release(C)
        found = {one.id: one for one in store.summaries() if isinstance(one, TaskSummary)}
        assert sorted(found) == [A, B, C]
        assert [one.ended for one in map(found.__getitem__, (A, B, C))] == [False, False, True]
        assert found[B].updated_at == stamp(working.updated_at)
        assert (found[C].stage, found[C].title, found[C].repo) == ("COMPLETION", over.title, over.source.repo)
        assert store.holds(A)
        assert not store.holds("LOCAL-4")

    def test_a_missing_task_cannot_be_loaded(self, place: Harness) -> None:
        with pytest.raises(StoreError):
            place.open().load(A)

    def test_a_deleted_task_no_longer_exists_and_its_decisions_are_gaps(self, place: Harness) -> None:
        store = place.open()
        decide(store, begin(store, A))
        other = begin(store, B)
        store.release(A)
        store.delete(A)
        assert not store.holds(A)
        assert [one.id for one in store.summaries() if isinstance(one, TaskSummary)] == [B]
        with pytest.raises(StoreError):
            store.load(A)
        decide(store, other)
        assert [isinstance(one, EventGap) for one in every_event(store)] == [True, True, False, False]
        assert store.events.read_task(A, Cursor(number=0))[0] == []

    def test_events_are_numbered_over_all_tasks_in_the_order_of_commits(self, place: Harness) -> None:
        store = place.open()
        first, second = begin(store, A), begin(store, B)
        first = decide(store, first)
        second = decide(store, second)
        decide(store, first)
        assert told(store) == [(A, 1), (B, 1), (A, 2), (B, 2), (A, 3)]
        assert numbers(store) == [1, 2, 3, 4, 5]
        assert store.events.last == 5

    def test_an_event_has_the_fields_of_its_decision(self, place: Harness) -> None:
        store = place.open()
        task = decide(store, begin(store, A), status=TaskStatus.IN_PROGRESS)
        begun, decided = records(store)
        assert begun.line["trigger"] == "TaskSubmitted"
        assert (decided.line["task_id"], decided.line["seq"], decided.line["trigger"]) == (A, 2, "AlarmRang")
        assert (decided.line["from"], decided.line["to"]) == ("pending", "in_progress")
        assert decided.line["timestamp"] == stamp(task.updated_at)
        assert decided.line["change"]

    def test_reading_continues_after_a_number_or_from_a_time(self, place: Harness) -> None:
        store = place.open()
        task = begin(store, A)
        for _ in range(4):
            task = decide(store, task)
        assert numbers(store, store.events.after(3)) == [4, 5]
        assert numbers(store, store.events.after(-2)) == [4, 5]
        assert numbers(store, store.events.after(-20)) == [1, 2, 3, 4, 5]
        assert numbers(store, store.events.since(stamp(task.updated_at))) == [5]
        assert numbers(store, store.events.since("2999-01-01T00:00:00.000Z")) == []
        found, cursor = store.events.read(store.events.after(5))
        assert found == []
        decide(store, task)
        assert [one.number for one in store.events.read(cursor)[0]] == [6]

    def test_a_number_that_does_not_exist_yet_is_a_gap(self, place: Harness) -> None:
        store = place.open()
        task = begin(store, A)
        found, cursor = store.events.read(store.events.after(500))
        assert [(type(one), one.number) for one in found] == [(EventGap, 1)]
        decide(store, task)
        assert [one.number for one in store.events.read(cursor)[0]] == [2]

    def test_the_events_of_one_task_are_numbered_as_its_decisions(self, place: Harness) -> None:
        store = place.open()
        task = begin(store, A)
        begin(store, B)
        decide(store, task)
        found, cursor = store.events.read_task(A, Cursor(number=0))
        assert [(one.number, isinstance(one, EventRecord)) for one in found] == [(1, True), (2, True)]
        assert store.events.read_task(A, cursor)[0] == []

    def test_numbers_stay_the_same_after_a_restart_and_continue_without_a_gap(self, place: Harness) -> None:
        store = place.open()
        task = decide(store, begin(store, A))
        begin(store, B)
        before = told(store)
        store.close()
        store = place.open()
        assert told(store) == before
        decide(store, store.load(A, keep_open=True).task)
        assert told(store) == [*before, (A, 3)]
        assert store.load(A).task.seq == task.seq + 1

    def test_a_crash_within_a_commit_neither_loses_nor_repeats_an_event(self, place: Harness) -> None:
        store = place.open()
        task = begin(store, A)
        begin(store, B)
        before = told(store)
        after = successor(task)
        for left in place.after_crashes_in(store, lambda: store.commit(task, after, alarm(after))):
            known = left.load(A, keep_open=True).task
            assert told(left) == [*before, (A, 2)][: len(before) + known.seq - 1]
            decide(left, known)
            assert told(left)[len(before) :] == [(A, seq) for seq in range(2, known.seq + 2)]
            assert numbers(left) == list(range(1, len(before) + known.seq + 1))

    def test_times_in_the_order_never_run_backwards(self, place: Harness) -> None:
        store = place.open()
        task = begin(store, A)
        late = decide(store, task, at=START + timedelta(hours=2))
        decide(store, late, at=START + timedelta(hours=1))
        assert numbers(store, store.events.since(stamp(START + timedelta(hours=1, minutes=30)))) == [2, 3]

    def test_the_account_state_is_stored(self, place: Harness) -> None:
        store = place.open()
        assert store.account() == AccountState()
        window = Window(status=LimitStatus.REJECTED, seen_at=START, resets_at=START + timedelta(hours=5))
        breaker = Breaker(
            fault=Fault.START, reason="no such option", suspects={"ABC-1": Fault.START}, cleared=("ABC-2",)
        )
        kept = AccountState(windows={"five_hour": window}, breaker=breaker, paused_by="ann")
        assert store.keep_account(kept)
        assert place.after_crash().account() == kept
        assert store.keep_account(AccountState())
        assert store.account() == AccountState()

    def test_checkpoints_are_listed_newest_first_and_pinned_ones_are_kept_for_good(self, place: Harness) -> None:
        store = place.open()
        task = begin(store, A)
        store.save_checkpoint(task, checkpoint(task, 1))
        assert store.pin_checkpoint(A, 1, pinned=True).pinned
        for number in range(2, KEPT + 10):
            store.save_checkpoint(task, checkpoint(task, number))
        kept = [one.number for one in store.checkpoints(A)]
        assert kept == sorted(kept, reverse=True)
        assert {1, KEPT + 9} <= set(kept)
        assert 2 not in kept
        assert store.checkpoint(A, KEPT + 9) == checkpoint(task, KEPT + 9)
        assert [one.number for one in place.after_crash().checkpoints(A)] == kept
        for missing in (2, 10_000):
            with pytest.raises(NoSuchCheckpoint):
                store.checkpoint(A, missing)
            with pytest.raises(NoSuchCheckpoint):
                store.pin_checkpoint(A, missing, pinned=True)

    def test_settling_a_store_without_foreign_edits_finds_nothing(self, place: Harness) -> None:
        store = place.open()
        task = decide(store, begin(store, A))
        assert list(store.settle()) == []
        assert list(store.foreign_edits(task)) == []


def begin(store: Store, task_id: str) -> Task:
    """Commit the first decision of a task."""
    task = submitted(task_id, folder=f"/work/{task_id}", title="Schön: a flag", seq=1)
    store.commit(None, task, events.TaskSubmitted(at=START, task=task, by="ann"))
    return task


def successor(before: Task, at: object = None, **changes: object) -> Task:
    at = at or before.updated_at + timedelta(seconds=1)
    return replace(before, seq=before.seq + 1, updated_at=at, **changes)  # type: ignore[arg-type]  # any field


def alarm(after: Task) -> events.AlarmRang:
    return events.AlarmRang(at=after.updated_at)


def decide(store: Store, before: Task, **changes: object) -> Task:
    """Commit one more decision."""
    after = successor(before, **changes)
    store.commit(before, after, alarm(after))
    return after


def long_history(store: Store, task_id: str) -> Task:
    """Commit decisions that change all kinds of fields, with telemetry in between."""
    task = decide(store, begin(store, task_id), status=TaskStatus.IN_PROGRESS, next_action=NextAction.WORKSPACE)
    task = decide(store, task, agent=replace(task.agent, role="planner", attempt=1, read_offset=40))
    task = replace(task, agent=replace(task.agent, read_offset=900))
    store.note_telemetry(task)
    failure = Failure(
        id="", occurred_at=START, state="ANALYSIS", agent="planner", step=None, attempted="turn 1", command=None,
        expected="a finished turn", type="agent_lost", summary="it ended: “\u0000”\nwithout a word",
    )  # fmt: skip
    task = decide(store, task, failures=task.failures.with_failure(failure), feedback=("a/b~c",))
    return decide(store, task, feedback=(), agent=replace(task.agent, status=AgentStatus.RUNNING))


def checkpoint(task: Task, number: int) -> Checkpoint:
    return checkpoint_of(task, number, task.updated_at, Reason.INTERVAL, CheckpointContext())


def every_event(store: Store, cursor: Cursor | None = None) -> list[EventRecord | EventGap]:
    """Return everything after a cursor, read to the end."""
    found, cursor = store.events.read(cursor or store.events.after(0))
    every = list(found)
    while found:
        found, cursor = store.events.read(cursor)
        every += found
    return every


def records(store: Store) -> list[EventRecord]:
    found = every_event(store)
    assert not [one for one in found if isinstance(one, EventGap)]
    return [one for one in found if isinstance(one, EventRecord)]


def told(store: Store) -> list[tuple[object, object]]:
    """Return task and number of every decision, in order."""
    return [(one.line["task_id"], one.line["seq"]) for one in records(store)]


def numbers(store: Store, cursor: Cursor | None = None) -> list[int]:
    return [one.number for one in every_event(store, cursor)]
