"""A task store in memory for the simulation, and the injector that crashes the daemon at a chosen step.

It passes the same contract as the store on disk. `MemoryDisk` is what survives a crash of the daemon, `MemoryStore` is
one daemon's access to it.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

from orchestrator.core.events.events import Event
from orchestrator.core.schedule.trouble import AccountState
from orchestrator.core.task.checkpoint import Checkpoint, superseded_checkpoints
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.formats.codec import JsonObject, stamp
from orchestrator.formats.diffs.patch import difference
from orchestrator.storage.journal import line_of
from orchestrator.storage.records import (
    Cursor,
    EventGap,
    EventRecord,
    Events,
    ForeignEdit,
    LoadedTask,
    NoSuchCheckpoint,
    SequenceConflict,
    StoreError,
    StoreInUse,
    TaskSummary,
    summary_of,
)
from orchestrator.storage.state_document import from_document, to_document

KEPT_DECISIONS = 10_000
"""Newest decisions that can be read again, with the earlier ones of their tasks and those of live ones."""
AT_ONCE = 100
"""Decisions that one read gives at most."""


class SimulatedCrash(BaseException):
    """The daemon dies here. A BaseException, so that no handler of the daemon catches it."""


class FaultInjector:
    """Counts the steps at which the daemon can crash, and crashes it at the one that was chosen.

    A step is the moment before or after a commit, or before or after the effect of a command.
    """

    def __init__(self) -> None:
        self._remaining: int | None = None
        self.steps = 0

    def crash_after(self, steps: int) -> None:
        """Crash the daemon after that many more steps."""
        self._remaining = steps

    def step(self) -> None:
        """Count one step. Raises SimulatedCrash if it is the chosen one."""
        self.steps += 1
        if self._remaining is None:
            return
        self._remaining -= 1
        if self._remaining < 0:
            self._remaining = None
            raise SimulatedCrash


@dataclass(frozen=True, kw_only=True)
class _Decision:
    number: int
    at: str
    before: Task | None
    after: Task
    event: Event

    @cached_property
    def line(self) -> JsonObject:
        """The line that a journal has for it."""
        change = difference(to_document(self.before) if self.before else {}, to_document(self.after))
        return line_of(self.before, self.after, self.event, change)


@dataclass(slots=True)
class MemoryDisk:
    """What is stored; `conflicts` are the commits that were refused because they followed no stored decision."""

    tasks: dict[str, Task] = field(default_factory=dict)
    read: dict[str, tuple[Task, Task]] = field(default_factory=dict)
    decisions: deque[_Decision] = field(default_factory=deque)
    decisions_of: dict[str, list[_Decision]] = field(default_factory=dict)
    checkpoints: dict[tuple[str, int], Checkpoint] = field(default_factory=dict)
    account: AccountState = field(default_factory=AccountState)
    conflicts: list[str] = field(default_factory=list)
    in_use: bool = False


class MemoryEventLog:
    """The newest decisions of all tasks, in order; `EventLog` documents the methods."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk

    @property
    def last(self) -> int:
        return self._disk.decisions[-1].number if self._disk.decisions else 0

    @property
    def written(self) -> int:
        return 0  # nobody streams what is simulated

    def append(self, before: Task | None, after: Task, event: Event) -> None:
        """Number a decision; times never run backwards, so that they can be searched."""
        earlier = self._disk.decisions[-1].at if self._disk.decisions else ""
        at = max(earlier, stamp(event.at))
        decision = _Decision(number=self.last + 1, at=at, before=before, after=after, event=event)
        self._disk.decisions.append(decision)
        self._disk.decisions_of.setdefault(after.id, []).append(decision)
        if len(self._disk.decisions) > KEPT_DECISIONS:
            self._forget(self._disk.decisions.popleft())

    def _forget(self, decision: _Decision) -> None:
        """Drop all decisions of a task that has ended, once its last one is old."""
        task_id = decision.after.id
        task, own = self._disk.tasks.get(task_id), self._disk.decisions_of.get(task_id, ())
        if (task is None or task.is_over) and own and own[-1] is decision:
            del self._disk.decisions_of[task_id]

    def after(self, number: int) -> Cursor:
        return Cursor(number=max(0, self.last + number) if number < 0 else number)

    def since(self, at: str) -> Cursor:
        first = next((one.number for one in self._disk.decisions if one.at >= at), self.last + 1)
        return Cursor(number=first - 1)

    def read(self, cursor: Cursor) -> Events:
        if cursor.number > self.last:
            gap = EventGap(number=self.last, reason=f"there is no event {cursor.number} yet; {self.last} is last")
            return [gap], self.after(self.last)
        behind = (one for one in self._disk.decisions if one.number > cursor.number)
        found: list[EventRecord | EventGap] = []
        for one in islice(behind, AT_ONCE):
            if not found and one.number != cursor.number + 1:
                found.append(EventGap(number=one.number - 1, reason="older decisions are not kept in memory"))
            found.append(self._shown(one, one.number))
        return found, Cursor(number=found[-1].number if found else cursor.number)

    def read_task(self, task_id: str, cursor: Cursor) -> Events:
        own = self._disk.decisions_of.get(task_id, ()) if task_id in self._disk.tasks else ()
        found: list[EventRecord | EventGap] = []
        for one in (one for one in own if one.after.seq > cursor.number):
            if not found and one.after.seq != cursor.number + 1:
                found.append(EventGap(number=one.after.seq - 1, reason="older decisions are not kept in memory"))
            found.append(self._shown(one, one.after.seq))
        return found, Cursor(number=found[-1].number if found else cursor.number)

    def _shown(self, one: _Decision, number: int) -> EventRecord | EventGap:
        if one.after.id not in self._disk.tasks:
            return EventGap(number=number, reason=f"{one.after.id} was deleted, and its events with it", deleted=True)
        return EventRecord(number=number, line=one.line)


class MemoryStore:
    """One daemon's access to a disk in memory; `Store` documents the methods. Raises StoreInUse."""

    def __init__(self, disk: MemoryDisk, faults: FaultInjector) -> None:
        if disk.in_use:
            raise StoreInUse("the disk in memory is in use; close the other store first")
        disk.in_use = True
        self._disk, self._faults = disk, faults
        self._open: set[str] = set()
        self.events = MemoryEventLog(disk)

    def close(self) -> None:
        self._open.clear()
        self._disk.in_use = False

    def commit(self, before: Task | None, after: Task, event: Event) -> None:
        """Keep a decision; the daemon may crash right before or right after."""
        self._faults.step()
        stored = self._disk.tasks.get(after.id)
        known = stored.seq if stored else 0
        if known != after.seq - 1 or (before.seq if before else 0) != known:
            self._disk.conflicts.append(f"{after.id}: decision {after.seq} follows {known}")
            raise SequenceConflict(after.id, known, after.seq)
        if before is not None and after.id not in self._open:
            raise StoreError(f"{after.id} is not open; load it to be kept open")
        self._disk.tasks[after.id] = after
        self._open.add(after.id)
        self.events.append(before, after, event)
        self._faults.step()

    def settle(self) -> Sequence[ForeignEdit]:
        return ()

    def note_telemetry(self, task: Task) -> None:
        known = self._disk.tasks[task.id]
        if known.seq == task.seq:
            self._disk.tasks[task.id] = replace(known, agent=task.agent)

    def release(self, task_id: str) -> None:
        self._open.discard(task_id)

    def load(self, task_id: str, *, keep_open: bool = False) -> LoadedTask:
        """Return a task by way of its document, as a start reads it; the document is read once for each decision."""
        task = self._disk.tasks.get(task_id)
        if task is None:
            raise StoreError(f"there is no task {task_id}")
        if keep_open:
            self._open.add(task_id)
        if task.status is TaskStatus.PENDING:
            return LoadedTask(task=task)
        kept, read = self._disk.read.get(task_id, (None, task))
        if kept is not task:
            read = from_document(to_document(task))
            self._disk.read[task_id] = (task, read)
        return LoadedTask(task=read)

    def holds(self, task_id: str) -> bool:
        return task_id in self._disk.tasks

    def summaries(self) -> Iterator[TaskSummary]:
        return map(summary_of, tuple(self._disk.tasks.values()))

    def delete(self, task_id: str) -> None:
        self.release(task_id)
        self._disk.tasks.pop(task_id, None)
        self._disk.read.pop(task_id, None)
        self._disk.decisions_of.pop(task_id, None)
        for key in [key for key in self._disk.checkpoints if key[0] == task_id]:
            del self._disk.checkpoints[key]

    def foreign_edits(self, task: Task) -> Sequence[ForeignEdit]:  # noqa: ARG002 - no other program sees memory
        return ()

    def save_checkpoint(self, task: Task, checkpoint: Checkpoint) -> None:
        earlier = self._disk.checkpoints.get((task.id, checkpoint.number))
        pinned = checkpoint.pinned or (earlier is not None and earlier.pinned)
        self._disk.checkpoints[task.id, checkpoint.number] = replace(checkpoint, pinned=pinned)
        for number in superseded_checkpoints(self.checkpoints(task.id)):
            del self._disk.checkpoints[task.id, number]

    def checkpoints(self, task_id: str) -> list[Checkpoint]:
        own = [one for (owner, _), one in self._disk.checkpoints.items() if owner == task_id]
        return sorted(own, key=lambda one: one.number, reverse=True)

    def checkpoint(self, task_id: str, number: int) -> Checkpoint:
        found = self._disk.checkpoints.get((task_id, number))
        if found is None:
            raise NoSuchCheckpoint(task_id, number)
        return found

    def pin_checkpoint(self, task_id: str, number: int, *, pinned: bool) -> Checkpoint:
        found = replace(self.checkpoint(task_id, number), pinned=pinned)
        self._disk.checkpoints[task_id, number] = found
        return found

    def keep_account(self, kept: AccountState) -> bool:
        self._disk.account = kept
        return True

    def account(self) -> AccountState:
        return self._disk.account
