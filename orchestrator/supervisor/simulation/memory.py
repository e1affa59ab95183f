"""A task store in memory that keeps exactly what was committed, and the injector that crashes the daemon."""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.core.events.events import Event
from orchestrator.core.task.model import Task, TaskStatus
from orchestrator.core.task.usage_limits import AccountState
from orchestrator.storage.state_document import from_document, to_document
from orchestrator.supervisor.protocols import ForeignEdit


class SimulatedCrash(BaseException):
    """The daemon dies here. A BaseException, so that no handler of the daemon catches it."""


class FaultInjector:
    """Counts the steps at which the daemon can crash, and crashes it at the one that was chosen."""

    def __init__(self) -> None:
        self._remaining: int | None = None

    def crash_after(self, steps: int) -> None:
        """Crash the daemon after that many more steps."""
        self._remaining = steps

    def step(self) -> None:
        """Count one step. Raises SimulatedCrash if it is the chosen one."""
        if self._remaining is None:
            return
        self._remaining -= 1
        if self._remaining < 0:
            self._remaining = None
            raise SimulatedCrash


class MemoryStore:
    """Tasks as they were last committed; like a disk, it survives a crash of the daemon."""

    def __init__(self, faults: FaultInjector) -> None:
        self.account_state = AccountState()
        self.sequence_errors: list[str] = []
        self._faults = faults
        self._tasks: dict[str, Task] = {}
        self._read: dict[str, tuple[Task, Task]] = {}

    def commit(self, before: Task | None, after: Task, event: Event) -> None:  # noqa: ARG002 - events are not kept
        """Keep a decision; the daemon may crash right before or right after."""
        self._faults.step()
        known = self._tasks.get(after.id)
        if (known.seq if known else 0) != after.seq - 1 or (before.seq if before else 0) != after.seq - 1:
            self.sequence_errors.append(f"{after.id}: decision {after.seq} follows {known.seq if known else 0}")
        self._tasks[after.id] = after
        self._faults.step()

    def settle(self) -> Sequence[ForeignEdit]:
        """Do nothing: every commit is complete at once, and nobody else edits the tasks."""
        return ()

    def note_telemetry(self, task: Task) -> None:
        """Keep an agent's progress that is not a decision."""
        known = self._tasks[task.id]
        if known.seq == task.seq:
            self._tasks[task.id] = replace(known, agent=task.agent)

    def release(self, task_id: str) -> None:
        """Do nothing: a task that is no longer active is kept as it ended."""

    def foreign_edits(self, task: Task) -> Sequence[ForeignEdit]:  # noqa: ARG002 - memory has no other writer
        """Return nothing: memory has no other writer."""
        return ()

    def keep_account(self, kept: AccountState) -> bool:
        """Keep the state that all tasks share."""
        self.account_state = kept
        return True

    def all(self) -> Sequence[Task]:
        """Return every task as it was last committed."""
        return tuple(self._tasks.values())

    def loaded(self, task: Task) -> Task:
        """Return a task as a restarted daemon reads it: a started task goes through its document, once per decision."""
        if task.status is TaskStatus.PENDING:
            return task
        kept, read = self._read.get(task.id, (None, task))
        if kept is not task:
            read = from_document(to_document(task))
            self._read[task.id] = (task, read)
        return read


def is_done(task: Task) -> bool:
    """Whether a task has ended and nothing is left to be done for it."""
    return task.status.is_final and task.run is None and not task.notices
