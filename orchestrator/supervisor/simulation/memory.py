"""A store in memory that keeps what was committed and nothing else, and the plug that is pulled at some moment."""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.core.events.events import Event
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.usage_limits import AccountState
from orchestrator.storage.state_document import from_document, to_document
from orchestrator.supervisor.protocols import ForeignEdit


class PowerCut(BaseException):
    """The daemon dies here; nothing within it may answer that."""


class Plug:
    """Counts moments, and is pulled at one of them if that was arranged."""

    def __init__(self) -> None:
        self._left: int | None = None

    def pull_after(self, moments: int) -> None:
        """Arrange for the power to go after so many moments more."""
        self._left = moments

    def moment(self) -> None:
        """One more moment goes by; raises PowerCut."""
        if self._left is None:
            return
        self._left -= 1
        if self._left < 0:
            self._left = None
            raise PowerCut


class MemoryStore:
    """Tasks as they were last committed; survives the daemon as a disk does."""

    def __init__(self, plug: Plug) -> None:
        self.kept = AccountState()
        self.skipped: list[str] = []
        self._plug = plug
        self._tasks: dict[str, Task] = {}
        self._read: dict[str, tuple[Task, Task]] = {}

    def commit(self, before: Task | None, after: Task, event: Event) -> None:  # noqa: ARG002 - kept in journals only
        """Keep a decision, unless the power goes before; it may go right after as well."""
        self._plug.moment()
        known = self._tasks.get(after.id)
        if (known.seq if known else 0) != after.seq - 1 or (before.seq if before else 0) != after.seq - 1:
            self.skipped.append(f"{after.id}: decision {after.seq} follows {known.seq if known else 0}")
        self._tasks[after.id] = after
        self._plug.moment()

    def settle(self) -> Sequence[ForeignEdit]:
        """Nothing is left to be written."""
        return ()

    def note_telemetry(self, task: Task) -> None:
        """Keep what is no decision."""
        known = self._tasks[task.id]
        if known.seq == task.seq:
            self._tasks[task.id] = replace(known, agent=task.agent)

    def release(self, task_id: str) -> None:
        """A task that is not at work any more stays as it ended."""

    def foreign_edits(self, task: Task) -> Sequence[ForeignEdit]:  # noqa: ARG002 - nobody else has a hand in memory
        """Nobody else writes here."""
        return ()

    def keep_account(self, kept: AccountState) -> bool:
        """Keep what binds all tasks."""
        self.kept = kept
        return True

    def all(self) -> Sequence[Task]:
        """Every task as it was last committed."""
        return tuple(self._tasks.values())

    def loaded(self, task: Task) -> Task:
        """A task as a start reads it: by way of its document, once for each decision, if it was begun."""
        if task.status is TaskStatus.PENDING:
            return task
        kept, read = self._read.get(task.id, (None, task))
        if kept is not task:
            read = from_document(to_document(task))
            self._read[task.id] = (task, read)
        return read

    def ended(self) -> dict[str, TaskStatus]:
        """How the tasks ended that nothing is owed for any more."""
        return {task.id: task.status for task in self._tasks.values() if over(task)}


def over(task: Task) -> bool:
    """Whether a task has ended and nothing of it is left to be done."""
    return task.status.is_final and task.run is None and not task.notices
