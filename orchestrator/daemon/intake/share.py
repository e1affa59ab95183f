"""How many tasks of each source wait for a slot: each source has a share of its own, so that none keeps others waiting.

A task that came in by itself has the key of what it was made from in its folder, which begins with its source. That is
read once for each task that waits.
"""

from orchestrator.core.schedule.admission import SchedulerSnapshot, may_begin
from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.intake.once import ORIGIN_FILE
from orchestrator.formats.fields import text_of
from orchestrator.formats.files import parsed
from orchestrator.storage.task_files import TaskFiles


class WaitingTasks:
    """Counts the tasks that wait for a slot, by their source; those that other people submitted have the source ""."""

    def __init__(self, files: TaskFiles) -> None:
        self._files = files
        self._sources: dict[str, str] = {}

    def count(self, snapshot: SchedulerSnapshot) -> dict[str, int]:
        """Return how many tasks of each source would begin if slots were free. Blocks. Raises OSError."""
        found: dict[str, str] = {}
        counts: dict[str, int] = {}
        for task in snapshot.tasks:
            if task.status is TaskStatus.PENDING:
                source = self._sources.get(task.id)
                found[task.id] = source = self._source_of(task.id) if source is None else source
                if may_begin(task, snapshot) and snapshot.closed(task) is None:
                    counts[source] = counts.get(source, 0) + 1
        self._sources = found
        return counts

    def _source_of(self, task_id: str) -> str:
        origin = parsed(self._files.read(task_id, ORIGIN_FILE)) or {}
        return text_of(origin.get("key")).partition(":")[0]
