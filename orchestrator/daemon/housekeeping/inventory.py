"""What takes space in the data folder: one item for each kind of files of each task, measured as du(1) does.

Files of an ended task change only by what the daemon itself does with it, so what was measured is kept until the task's
folder changes, or until `forget`. Worktrees and clones are measured again after a while.
"""

import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.core.retention.plan import Item
from orchestrator.core.retention.policy import Kind
from orchestrator.daemon.housekeeping.sizes import FolderSize, Measured, Sizes, SizesFile, TaskSizes
from orchestrator.daemon.reporting.summary import SUMMARY_FILE
from orchestrator.formats.disk.seekable import SUFFIX
from orchestrator.formats.disk.trees import NOTHING, Usage, usage_of
from orchestrator.storage.state_file import NAME as STATE_FILE
from orchestrator.storage.task_files import REMOVED
from orchestrator.workspaces.removal.unmerged import tasks_of_clones

MEASURE_AGAIN, MEASURE_ENDED_AGAIN = 600.0, 86_400.0
"""Seconds for which the size of a worktree or a clone counts, and that of the worktree of an ended task."""
OTHERS = ("checkouts", "trash", "folders", "callbacks", "idempotency", "events.idx", "removals.jsonl")
"""What else in the data folder takes space and is shown."""

_WRITTEN_LATER = frozenset({REMOVED, SUMMARY_FILE, STATE_FILE})
"""Files that the daemon may write anew long after the end of a task, and that say nothing of its age."""
_OF_TASK = {"logs": Kind.LOGS, "claude": Kind.SESSIONS, "checkpoints": Kind.CHECKPOINTS}
_NAMES = {
    Kind.TRANSCRIPTS: "agents",
    Kind.LOGS: "logs",
    Kind.SESSIONS: "claude",
    Kind.CHECKPOINTS: "checkpoints",
    Kind.FOREIGN_EDITS: "*.foreign-*",
    Kind.TASKS: ".",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFacts:
    """A task as far as its files are concerned; `ended` since when nothing is left to do for it, None if it is live.

    An archived task's time is that of the archival, which says little of its files.
    """

    id: str
    title: str
    ended: datetime | None
    archived: bool = False
    parent: str | None = None
    repo: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """All items, what else takes space by its name in the data folder, and which places hold more than was counted.

    No worktree and no repository was measured before `measured_at`; what a task's folder has is as of `at`.
    """

    items: tuple[Item, ...]
    others: tuple[tuple[str, int], ...]
    incomplete: tuple[str, ...]
    at: datetime
    measured_at: datetime


class Scanner:
    """Measures one data folder; for one thread at a time, which `pause` is called in after each folder.

    What was measured is kept in a file, because reading all that is there anew may take minutes.
    """

    def __init__(self, data_dir: Path, pause: Callable[[], None]) -> None:
        self._data = data_dir
        self._pause = pause
        self._file = SizesFile(data_dir)
        self._sizes: Sizes | None = None
        self._now, self._used = 0.0, dict[str, float]()
        self._incomplete: set[str] = set()

    def forget(self, item: Item) -> None:
        """Measure the files of an item again next time."""
        self._known.tasks.pop(item.task, None)
        self._known.folders.pop(item.name, None)

    def scan(self, tasks: Sequence[TaskFacts], named: Mapping[str, str], now: datetime) -> Inventory:
        """Return everything that takes space now. Blocks; raises OSError if the data folder cannot be listed.

        `named` says by the path of a repository what names it beside tasks, such as a schedule.
        """
        self._incomplete.clear()
        self._used.clear()
        self._now = now.timestamp()
        known = {task.id: task for task in tasks}
        items = [
            *(item for task in tasks for item in self._of_task(task, known, now)),
            *self._worktrees(known, now),
            *self._clones(known, now),
            *self._sources(known, named, now),
            *self._quarantine(now),
        ]
        others = tuple((name, self._folder(name).size) for name in OTHERS)
        self._known.keep_only(known, self._used)
        self._file.save(self._known, self._now)
        return Inventory(
            items=tuple(items),
            others=others,
            incomplete=tuple(sorted(self._incomplete)),
            at=now,
            measured_at=datetime.fromtimestamp(min(self._used.values(), default=self._now), UTC),
        )

    @property
    def _known(self) -> Sizes:
        if self._sizes is None:
            self._sizes = self._file.load()
        return self._sizes

    def _of_task(self, task: TaskFacts, known: dict[str, TaskFacts], now: datetime) -> Iterator[Item]:
        folder = f"{self._data}/tasks/{task.id}"
        try:
            version = os.lstat(folder).st_mtime_ns
        except OSError:
            return
        before = self._known.tasks.get(task.id)
        if before is not None and before.version == version and task.ended is not None:
            measured = before.kinds
        else:
            measured = _measured(folder)
            self._pause()
            self._known.tasks[task.id] = TaskSizes(version, measured)
        for kind, found in measured.items():
            if not found.usage.complete:
                self._incomplete.add(f"tasks/{task.id}/{_NAMES[kind]}")
            yield Item(
                kind=kind,
                name=_NAMES[kind],
                task=task.id,
                size=found.usage.size,
                since=_since(task, known, found.usage, now),
                protection=_living(task, known),
                plain_size=found.plain,
            )

    def _worktrees(self, known: dict[str, TaskFacts], now: datetime) -> Iterator[Item]:
        for name in _listed(self._data / "worktrees"):
            task = known.get(name)
            ended = task is not None and task.ended is not None
            usage = self._folder(f"worktrees/{name}", MEASURE_ENDED_AGAIN if ended else MEASURE_AGAIN)
            unknown = "no task of this name is known; look at it, then remove it by hand"
            yield Item(
                kind=Kind.WORKTREES,
                name=f"worktrees/{name}",
                task=name if task else "",
                size=usage.size,
                since=_since(task, known, usage, now) if task else _time(usage, now),
                protection=_living(task, known) if task else unknown,
            )

    def _clones(self, known: dict[str, TaskFacts], now: datetime) -> Iterator[Item]:
        users = tasks_of_clones(self._data)
        for name in _listed(self._data / "repos"):
            if name in {"tasks", "indexes"}:
                continue
            usage = self._folder(f"repos/{name}")
            tasks = [known[one] for one in users.get(name, ()) if one in known]
            times = [_since(task, known, usage, now) for task in tasks]
            live = sum(1 for task in tasks if _living(task, known))
            yield Item(
                kind=Kind.CLONES,
                name=f"repos/{name}",
                task="",
                size=usage.size,
                since=max(times, default=_time(usage, now)),
                protection=f"{live} tasks that have not ended use it" if live else "",
            )

    def _sources(self, known: dict[str, TaskFacts], named: Mapping[str, str], now: datetime) -> Iterator[Item]:
        for name in _listed(self._data / "sources"):
            path, usage = str(self._data / "sources" / name), self._folder(f"sources/{name}")
            tasks = [task for task in known.values() if task.repo == path]
            live = sum(1 for task in tasks if _living(task, known))
            in_use = f"{live} tasks that have not ended use it" if live else ""
            yield Item(
                kind=Kind.SOURCES,
                name=f"sources/{name}",
                task="",
                size=usage.size,
                since=max((_since(task, known, usage, now) for task in tasks), default=_time(usage, now)),
                protection=in_use or (f"{named[path]} names it" if path in named else ""),
            )

    def _quarantine(self, now: datetime) -> Iterator[Item]:
        for name in _listed(self._data / "quarantine"):
            if name.endswith(".txt"):
                usage = usage_of(self._data / "quarantine" / name)
                usage += usage_of(self._data / "quarantine" / f"{name.removesuffix('.txt')}.json")
                since = _time(usage, now)
                yield Item(kind=Kind.QUARANTINE, name=f"quarantine/{name}", task="", size=usage.size, since=since)

    def _folder(self, name: str, lasts: float = MEASURE_AGAIN) -> Usage:
        before = self._known.folders.get(name)
        if before is not None and 0 <= self._now - before.at < lasts:
            usage = before.usage
        else:
            usage = usage_of(self._data / name)
            self._pause()
            self._known.folders[name] = before = FolderSize(self._now, usage)
        self._used[name] = before.at
        if not usage.complete:
            self._incomplete.add(name)
        return usage


def _measured(folder: str) -> dict[Kind, Measured]:
    """Return what each kind of files in a task's folder takes."""
    found: dict[Kind, Measured] = defaultdict(Measured)
    for entry in _entries(folder):
        if entry.name == "agents" and entry.is_dir(follow_symlinks=False):
            found[Kind.TASKS] = _with(found[Kind.TASKS], _alone(entry))
            for run in _entries(entry.path):
                _add_run(found, run)
            continue
        kind = _OF_TASK.get(entry.name, Kind.TASKS)
        if ".foreign-" in entry.name or ".damaged-" in entry.name:
            kind = Kind.FOREIGN_EDITS
        found[kind] = _with(found[kind], _usage(entry))
    own = _with(found[Kind.TASKS], NOTHING)
    return {**found, Kind.TASKS: own}


def _add_run(found: dict[Kind, Measured], run: "os.DirEntry[str]") -> None:
    """Add the files of an agent: its output, its errors, and the rest, which belongs to the task."""
    if not run.is_dir(follow_symlinks=False):
        return
    found[Kind.TASKS] = _with(found[Kind.TASKS], _alone(run))
    for entry in _entries(run.path):
        kind, plain = kind_of_run_file(entry.name), 0
        usage = _usage(entry)
        if kind is Kind.TRANSCRIPTS and is_plain_output(entry.name):
            plain = usage.size
        found[kind] = _with(found[kind], usage, plain)


def kind_of_run_file(name: str) -> Kind:
    """Return what a file in the folder of an agent's run is."""
    if name.startswith(("stdout.", "stdin.jsonl")):
        return Kind.TRANSCRIPTS
    return Kind.LOGS if name.startswith("stderr.") else Kind.TASKS


def is_plain_output(name: str) -> bool:
    """Return whether a file of an agent's run is output that can be compressed."""
    return name.startswith("stdout.") and name.endswith(".jsonl") and not name.endswith(SUFFIX)


def _with(measured: Measured, usage: Usage, plain: int = 0) -> Measured:
    return replace(measured, usage=measured.usage + usage, plain=measured.plain + plain)


def _usage(entry: "os.DirEntry[str]") -> Usage:
    usage = usage_of(entry.path)
    return replace(usage, newest=0.0) if entry.name in _WRITTEN_LATER else usage


def _alone(entry: "os.DirEntry[str]") -> Usage:
    """Return what a folder takes without what is in it."""
    return Usage(size=entry.stat(follow_symlinks=False).st_blocks * 512, files=1)


def _since(task: TaskFacts, known: dict[str, TaskFacts], usage: Usage, now: datetime) -> datetime:
    """Return when files of a task were used last: now, while it or a task above it is live."""
    if task.ended is None or _living(task, known):
        return now
    if not 0 < usage.newest <= now.timestamp():  # whoever wrote the files may have given them any time
        return task.ended
    return _time(usage, now) if task.archived else max(task.ended, _time(usage, now))


def _living(task: TaskFacts, known: dict[str, TaskFacts]) -> str:
    """Return why the files of a task are in use; empty if they are not."""
    if task.ended is None:
        return "the task has not ended"
    above, seen = task.parent, {task.id}
    while above is not None and above not in seen:
        seen.add(above)
        parent = known.get(above)
        if parent is None:
            return ""
        if parent.ended is None:
            return f"its parent {parent.id} has not ended"
        above = parent.parent
    return ""


def _time(usage: Usage, now: datetime) -> datetime:
    return datetime.fromtimestamp(usage.newest, UTC) if 0 <= usage.newest <= now.timestamp() else now


def _listed(folder: Path) -> Iterable[str]:
    try:
        found = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    with found:
        return sorted(entry.name for entry in found if not entry.name.startswith("."))


def _entries(folder: str) -> Iterable["os.DirEntry[str]"]:
    try:
        if not stat.S_ISDIR(os.lstat(folder).st_mode):
            return ()
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return ()
