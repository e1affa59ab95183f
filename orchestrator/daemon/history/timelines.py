"""Read a task's journal as a timeline."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from orchestrator.daemon.history.aside import aside
from orchestrator.daemon.history.timeline import Timeline, timeline_of
from orchestrator.daemon.services.errors import StoreError
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.files import Kept, parsed, version_of
from orchestrator.storage.task_files import TaskFiles

JOURNAL = "journal.jsonl"
MOST_LINES = 50_000
"""Of a longer journal only the newest lines are read."""
MOST_BYTES = 64 * 1024 * 1024
MOST_KEPT = 4
"""How many timelines are kept while nothing is added to their journals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineService:
    """Reads timelines; `redact` makes labels fit to leave."""

    index: TaskIndex
    files: TaskFiles
    redact: Callable[[str], str]
    clock: Callable[[], datetime]
    kept: Kept[Timeline] = field(default_factory=lambda: Kept(MOST_KEPT))

    async def timeline(self, name: str) -> Timeline:
        """Return a task's timeline, with its labels masked. Raises NoSuchTask, AmbiguousName and StoreError."""
        task_id = await self.index.find_id(name)
        return await aside(self._read, task_id, self.clock())

    def _read(self, task_id: str, now: datetime) -> Timeline:
        version = version_of([self.files.path_of(task_id, JOURNAL)])
        if known := self.kept.unchanged(task_id, version):
            return known.at(now)
        found = read_timeline(self.files, task_id, self.redact, now)
        self.kept.keep(task_id, version, found)
        return found


def read_timeline(files: TaskFiles, task_id: str, redact: Callable[[str], str], now: datetime) -> Timeline:
    """Return a task's timeline, with its labels masked. Blocks. Raises StoreError."""
    try:
        content, skipped = files.read_tail(task_id, JOURNAL, MOST_BYTES)
    except FileNotFoundError:
        raise StoreError(f"the journal of {task_id} is missing") from None
    lines = content.splitlines()[1 if skipped else 0 :]
    wanted = lines[-MOST_LINES:]
    decisions = (_decision(parsed(raw), task_id) for raw in wanted)
    found = timeline_of(decisions, now)
    masked = {label: redact(label) for label in {one.label for one in found.intervals}}
    intervals = tuple(replace(one, label=masked[one.label]) for one in found.intervals)
    return replace(found, intervals=intervals, is_cut=bool(skipped) or len(wanted) < len(lines))


def _decision(line: JsonObject | None, task_id: str) -> JsonObject | None:
    return line if line is not None and line.get("task_id") == task_id else None
