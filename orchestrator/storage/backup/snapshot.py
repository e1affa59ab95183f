"""Taking a backup of a data folder under a living daemon, which is neither asked nor stopped.

Theory of operation. The journal of a task is the truth, and everything that a line of it refers to was there before
that line: output that was read, commits, refs, checkpoints, files that were imported. Nothing of it is removed again
without another line. So **whatever refers is copied before what it refers to**: the task's journal up to its last whole
line, then the files of its folder, what its agents said and their sessions, its refs and its worktree, and at the very
end the objects of all repositories. Copied in the other order, a journal would name commits that the copy lacks.

What is copied after the journal may be ahead of it. As long as no decision was made meanwhile, it is ahead by what the
agent does by itself and by commands under way: exactly what a `kill -9` at the moment of the cut leaves, which every
command survives because it first looks for its effect. So when the journal has grown while the rest was copied, this
task is cut off the archive again and copied anew. A task that decides all the time is at last taken with what its
journal cannot know left out: its state.json (which follows from the journal), later checkpoints and later attempts.

What concerns all tasks (the account, schedules, outboxes, idempotency keys, the order of events) refers to tasks, and
is copied before them. A task that is made after its family was listed is taken only if its parent's journal names it.
"""

import errno
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from orchestrator.core.task.task import TaskStatus
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.files import open_regular, parsed, read_file
from orchestrator.storage.backup.archive import DATA, SETTINGS, ArchiveWriter, Source
from orchestrator.storage.backup.contents import (
    DEEPEST,
    REPOS,
    SESSIONS,
    TASKS,
    WORKTREES,
    Part,
    is_left_out,
    may_lead,
    part_of,
)
from orchestrator.storage.journal import CHECKPOINTS
from orchestrator.storage.journal import NAME as JOURNAL
from orchestrator.storage.state_file import NAME as STATE

TRIES = 6
"""How often a task is copied whose journal grows meanwhile."""
PAUSE = 0.05
"""Seconds before the second try; doubled for each further one."""
NOT_FOR_US = frozenset({errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP})
"""Why a file may be left out: an agent can make such ones, and none of the daemon's is."""
TAIL = 64 * 1024
"""Bytes at the end of a file in which a line's end is looked for."""
ENDED = frozenset(status.value for status in TaskStatus if status.is_final)


@dataclass(frozen=True, slots=True)
class _Cut:
    """A journal's size up to its last whole line, and that line."""

    size: int = 0
    last: JsonObject = field(default_factory=dict)

    @property
    def attempt(self) -> int:
        metadata = self.last.get("metadata")
        found = metadata.get("attempt") if isinstance(metadata, dict) else None
        return found if isinstance(found, int) else 0

    @property
    def is_ended(self) -> bool:
        metadata = self.last.get("metadata")
        return isinstance(metadata, dict) and metadata.get("status") in ENDED


@dataclass(slots=True, kw_only=True)
class Snapshot:
    """Copies one data folder into an archive; `tell` is called now and then with the files and bytes so far.

    `unsettled` are the tasks whose journals never rested, `unreadable` the files that this user may not read.
    """

    data_dir: Path
    writer: ArchiveWriter
    exclude: frozenset[Part] = frozenset()
    tell: Callable[[int, int], None] = lambda _files, _size: None
    unsettled: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    _cuts: dict[str, _Cut] = field(default_factory=dict)

    def take(self, settings: Sequence[Path] = ()) -> None:
        """Copy everything that belongs to a backup, with these folders of settings. Raises OSError."""
        above = sorted(entry.name for entry in os.scandir(self.data_dir))
        for name in above:
            if name not in {TASKS, WORKTREES, REPOS}:
                self._add(name)
        for task_id in self._listed():
            self._take_task(task_id)
        for task_id in self._listed():
            if task_id not in self._cuts and self._is_named(task_id):
                self._take_task(task_id)
        self._take_repositories()
        for number, folder in enumerate(settings):
            self._walk(folder, f"{SETTINGS}/{number}", lambda name: name.split("/")[2:3] == ["credentials"])

    def _listed(self) -> list[str]:
        """Return the ids of all tasks, parents before their children."""
        try:
            return sorted(entry.name for entry in os.scandir(self.data_dir / TASKS) if entry.is_dir())
        except FileNotFoundError:
            return []

    def _is_named(self, task_id: str) -> bool:
        """Return whether a task that is newer than the list of tasks was made by one that is in the backup."""
        parent = task_id
        while parent := parent.rpartition(".")[0]:
            if (cut := self._cuts.get(parent)) is not None:
                with (self.data_dir / TASKS / parent / JOURNAL).open("rb") as journal:
                    known, name = 0, f'"{task_id}"'.encode()
                    for line in journal:
                        known += len(line)
                        if known <= cut.size and name in line:
                            return True
        return False

    def _take_task(self, task_id: str) -> None:
        """Copy a task so that its files fit its journal."""
        folder, mark = self.data_dir / TASKS / task_id, self.writer.mark()
        for number in range(TRIES):
            self.writer.rewind(mark)
            self._cuts[task_id] = cut = _cut_of(folder)
            is_last = number == TRIES - 1
            self._copy_task(task_id, cut, is_settled=not is_last)
            if _cut_of(folder) == cut:
                return
            if not is_last:
                time.sleep(PAUSE * 2**number)
        self.unsettled.append(task_id)

    def _copy_task(self, task_id: str, cut: _Cut, *, is_settled: bool) -> None:
        folder, name = self.data_dir / TASKS / task_id, f"{TASKS}/{task_id}"
        if not folder.is_dir():
            return  # deleted a moment ago
        self._add_folder(folder, f"{DATA}/{name}")
        if cut.size:
            self._add_file(folder / JOURNAL, f"{DATA}/{name}/{JOURNAL}", cut.size)

        def is_skipped(entry: str) -> bool:
            within = entry.removeprefix(f"{name}/")
            return (
                within == JOURNAL
                or (cut.is_ended and part_of(entry) in self.exclude)
                or (not is_settled and _is_ahead(folder, within, cut))
            )

        inside = sorted(entry.name for entry in os.scandir(folder))
        for entry in sorted(inside, key=lambda one: (one == SESSIONS, one)):
            self._add(f"{name}/{entry}", is_skipped)
        self._copy_refs(task_id)
        if Part.WORKTREES not in self.exclude:
            self._copy_worktree(f"{WORKTREES}/{task_id}")

    def _copy_refs(self, task_id: str) -> None:
        """Copy the link to the clone that a task uses, and the task's refs there."""
        link = f"{REPOS}/{TASKS}/{task_id}"
        try:
            clone = (self.data_dir / link).readlink().name
        except OSError:
            return
        self._add(link)
        self._add(f"{REPOS}/{clone}/{_refs(task_id)}")

    def _copy_worktree(self, name: str) -> None:
        """Copy an agent's repository: what names commits, then the commits, then the files."""
        place = self.data_dir / name
        if not place.is_dir() or place.is_symlink():
            return
        self._add_folder(place, f"{DATA}/{name}")
        if (place / ".git").is_dir():
            self._copy_repository(f"{name}/.git", lambda _name: False)
        for entry in sorted(one.name for one in os.scandir(place)):
            if entry != ".git":
                self._add(f"{name}/{entry}")

    def _take_repositories(self) -> None:
        for entry in sorted(os.scandir(self.data_dir / REPOS), key=lambda one: one.name) if self._has_repos() else ():
            if entry.name not in {TASKS, "indexes"} and entry.is_dir(follow_symlinks=False):
                own = f"{REPOS}/{entry.name}/refs/orchestrator"
                self._copy_repository(f"{REPOS}/{entry.name}", lambda name, own=own: name == own)  # type: ignore[misc]

    def _has_repos(self) -> bool:
        return (self.data_dir / REPOS).is_dir()

    def _copy_repository(self, name: str, is_skipped: Callable[[str], bool]) -> None:
        """Copy a bare repository: loose refs before packed ones, refs before objects, loose objects before packs."""
        place = self.data_dir / name
        self._add_folder(place, f"{DATA}/{name}")
        entries = sorted(one.name for one in os.scandir(place))
        for entry in sorted(entries, key=lambda one: (one == "objects", one != "refs", one)):
            if entry != "objects":
                self._add(f"{name}/{entry}", is_skipped)
        objects = place / "objects"
        if objects.is_dir():
            self._add_folder(objects, f"{DATA}/{name}/objects")
            inside = sorted(one.name for one in os.scandir(objects))
            for entry in sorted(inside, key=lambda one: (one == "pack", one)):
                self._add(f"{name}/objects/{entry}", lambda one: one.endswith("/pack"))
            self._copy_packs(f"{name}/objects/pack")

    def _copy_packs(self, name: str) -> None:
        """Copy packs with all that belongs to each, also if one is written, or replaces others, meanwhile."""
        place, done = self.data_dir / name, set[str]()
        for _ in range(2):
            found = {one.name for one in os.scandir(place)} if place.is_dir() else set[str]()
            if not done and found:
                self._add_folder(place, f"{DATA}/{name}")
            whole = {one.removesuffix(".idx") + ".pack" for one in found if one.endswith(".idx")}
            for entry in sorted((found | whole) - done):
                self._add(f"{name}/{entry}")
            done |= found | whole

    def _add(self, name: str, is_skipped: Callable[[str], bool] = lambda _name: False) -> None:
        """Copy an entry of the data folder with all below it."""
        if not is_left_out(name) and not is_skipped(name):
            self._walk(self.data_dir / name, f"{DATA}/{name}", lambda one: self._leaves_out(one, is_skipped))

    @staticmethod
    def _leaves_out(name: str, is_skipped: Callable[[str], bool]) -> bool:
        within = name.removeprefix(f"{DATA}/")
        return is_left_out(within) or is_skipped(within)

    def _walk(self, path: Path, name: str, leaves_out: Callable[[str], bool]) -> None:
        try:
            found = path.lstat()
            if name.count("/") >= DEEPEST:
                self.unreadable.append(name)
            elif stat.S_ISLNK(found.st_mode):
                self._add_link(path, name, int(found.st_mtime))
            elif stat.S_ISREG(found.st_mode):
                self._add_file(path, name)
            elif stat.S_ISDIR(found.st_mode):
                self._add_folder(path, name)
                for entry in sorted(os.listdir(path)):  # noqa: PTH208 - names alone
                    if not leaves_out(f"{name}/{entry}"):
                        self._walk(path / entry, f"{name}/{entry}", leaves_out)
        except FileNotFoundError:
            return  # it was removed a moment ago, so nothing refers to it
        except OSError as error:
            if error.errno not in NOT_FOR_US:
                raise
            self.unreadable.append(name)

    def _add_link(self, path: Path, name: str, mtime: int) -> None:
        target = os.fspath(path.readlink())
        if may_lead(name.removeprefix(f"{DATA}/"), target):
            self.writer.add_link(name, target, mtime)

    def _add_folder(self, path: Path, name: str) -> None:
        found = path.stat()
        self.writer.add_folder(name, found.st_mode, int(found.st_mtime))

    def _add_file(self, path: Path, name: str, size: int | None = None) -> None:
        file = open_regular(path)
        try:
            found = os.fstat(file)
            size = found.st_size if size is None else size
            if name.startswith(f"{DATA}/{TASKS}/") and name.endswith(".jsonl"):
                size = _end_of_last_line(file, size) or size
            self.writer.add_file(Source(name, file, size, found.st_mode, int(found.st_mtime)))
        finally:
            os.close(file)
        self.tell(self.writer.files, self.writer.size)


def estimate(data_dir: Path, exclude: frozenset[Part]) -> tuple[int, int]:
    """Return how many files and bytes of a data folder a backup would read, at most."""
    files = size = 0
    for folder, folders, names in os.walk(data_dir):
        within = os.path.relpath(folder, data_dir)
        prefix = "" if within == "." else f"{within}/"
        folders[:] = [name for name in folders if not is_left_out(prefix + name)]
        if Part.WORKTREES in exclude and not prefix:
            folders[:] = [name for name in folders if name != WORKTREES]
        for path in (os.path.join(folder, name) for name in names if not is_left_out(prefix + name)):  # noqa: PTH118
            try:
                found = os.lstat(path)
            except OSError:
                continue
            files, size = (
                files + 1,
                size + (min(found.st_size, found.st_blocks * 512) if stat.S_ISREG(found.st_mode) else 0),
            )
    return files, size


def free_space(folder: Path) -> int:
    """Return the free bytes on the disk of a folder. Raises OSError."""
    return shutil.disk_usage(folder).free


def _refs(task_id: str) -> str:
    return f"refs/orchestrator/{task_id}"


def _is_ahead(folder: Path, within: str, cut: _Cut) -> bool:
    """Return whether a file of a task shows decisions after the cut of its journal."""
    parts = within.split("/")
    if within == STATE:
        return True
    if parts[0] == "agents" and len(parts) == 2 and parts[1].isdecimal():
        return int(parts[1]) > cut.attempt
    if parts[0] == CHECKPOINTS and len(parts) == 2:
        covered = (parsed(read_file(folder / within) or b"") or {}).get("journal_bytes")
        return isinstance(covered, int) and covered > cut.size
    return False


def _cut_of(folder: Path) -> _Cut:
    """Return how far a journal can be copied now; zero if there is none."""
    try:
        file = open_regular(folder / JOURNAL)
    except OSError:
        return _Cut()
    try:
        end = _end_of_last_line(file, os.fstat(file).st_size)
        begin = _end_of_last_line(file, end - 1) if end else 0
        return _Cut(end, cast(JsonObject, parsed(os.pread(file, end - begin, begin)) or {}))
    finally:
        os.close(file)


def _end_of_last_line(file: int, size: int) -> int:
    """Return where the last whole line before a byte ends; zero if there is none."""
    for begin in _blocks_from_end(size):
        found = os.pread(file, min(TAIL, size - begin), begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
    return 0


def _blocks_from_end(size: int) -> Iterator[int]:
    while size > 0:
        size = max(0, size - TAIL)
        yield size
