"""Taking a backup of a data folder under a living daemon, which is neither asked nor stopped.

Theory of operation. The journal of a task is the truth, and everything that a line of it refers to was there before
that line: output that was read, commits, refs, checkpoints, files that were imported. Nothing of it is removed again
without another line. So **whatever refers is copied before what it refers to**: the task's journal up to its last whole
line, then the files of its folder, what its agents said and their sessions, its worktree, and at the very end the
objects of all repositories. Copied in the other order, a journal would name commits that the copy lacks.

Two things belong to several tasks: a journal says what became of the task's children and of those that it waited for,
and a parent's branch has the commits of its children. So the journals of a family and the refs of all its tasks are
those of one instant (`instant.py`), wherever in the archive they come.

What is copied after the instant may be ahead of it. As long as the task made no decision meanwhile, it is ahead by what
the agent does by itself and by commands under way: exactly what a `kill -9` at the instant leaves, which every command
survives because it first looks for its effect. So when the journal has grown while the rest was copied, or the worktree
was made anew, the family is cut off the archive again and copied at another instant. A task that decides all the time
is at last taken with what its journal cannot know left out: its state.json (which follows from the journal), later
checkpoints and later attempts.

What concerns all tasks (the account, schedules, outboxes, idempotency keys, the order of events) refers to tasks, and
is copied before them. A child that is not a task yet is left out: its parent makes it.

Agents write in their worktrees and sessions while they are copied, with another user's sight: so no link below the
data folder is followed (`tree.py`), and what cannot be read is left out with a note, not a reason to end.
"""

import errno
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.formats.files import NotRegularFile, open_regular
from orchestrator.storage.backup.archive import DATA, SETTINGS, ArchiveWriter, Source
from orchestrator.storage.backup.contents import (
    DEEPEST,
    REPOS,
    SESSIONS,
    TASKS,
    VAULT_KEY,
    WORKTREES,
    Part,
    is_left_out,
    may_lead,
    part_of,
)
from orchestrator.storage.backup.cut import Cut, cut_of, end_of_last_line, is_ahead
from orchestrator.storage.backup.instant import Instant, Refs, families_of, instant_of
from orchestrator.storage.backup.tree import open_folder, opened_folder
from orchestrator.storage.journal import NAME as JOURNAL

TRIES = 6
"""How often a family is copied whose journals grow meanwhile."""
PAUSE = 0.05
"""Seconds before the second try; doubled for each further one."""
NOT_FOR_US = frozenset({errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR})
"""Why a file may be left out: an agent can make such ones, and none of the daemon's is."""
LARGEST_HOLES = 4 * 1024**3
"""Bytes that are not on disk in the sparse files of one task; each is read as a zero, which takes its time too."""
MOST_NOTED = 1000
LONGEST_NOTED = 500
"""How many of the files that are left out are named, and with how many characters."""


@dataclass(slots=True, kw_only=True)
class Snapshot:
    """Copies one data folder into an archive; `tell` is called now and then with the files and bytes so far.

    `unsettled` are the tasks whose journals never rested, `unreadable` the files that were left out, as they could not
    be read or must not be: each is named once, as printable text.
    """

    data_dir: Path
    writer: ArchiveWriter
    exclude: frozenset[Part] = frozenset()
    tell: Callable[[int, int], None] = lambda _files, _size: None
    unsettled: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    _key: tuple[int, int] | None = None
    _holes: int = 0

    def take(self, settings: Sequence[Path] = ()) -> None:
        """Copy everything that belongs to a backup, with these folders of settings. Raises OSError."""
        with suppress(FileNotFoundError):
            self._key = _identity((self.data_dir / VAULT_KEY).stat())
        above = sorted(entry.name for entry in os.scandir(self.data_dir))
        for name in above:
            if name not in {TASKS, WORKTREES, REPOS}:
                self._add(name)
        for family, tasks in families_of(self.data_dir).items():
            self._take_family(family, tasks)
        self._take_repositories()
        for number, folder in enumerate(settings):
            with opened_folder(folder.parent) as parent:
                name = f"{SETTINGS}/{number}"
                self._walk(parent, folder.name, name, lambda name: name.split("/")[2:3] == ["credentials"])

    def _take_family(self, family: str, tasks: Sequence[str]) -> None:
        """Copy a task with all its children as they were at one instant, so that the files of each fit its journal."""
        begin, instant = self.writer.mark(), instant_of(self.data_dir, family, tasks)
        kept = self._take_ended(instant)
        if instant.is_whole and kept.keys() == instant.cuts.keys():
            return
        mark = self.writer.mark()
        for number in range(TRIES):
            instant, is_last = instant_of(self.data_dir, family, tasks), number == TRIES - 1
            if any(instant.cuts.get(task) != cut for task, cut in kept.items()):  # one was begun again
                kept, mark = {}, begin
            self.writer.rewind(mark)
            rest = [task for task in instant.cuts if task not in kept]
            moved = [task for task in rest if not self._take_task(task, instant, is_settled=not is_last)]
            if instant.is_whole and not moved:
                return
            if not is_last:
                time.sleep(PAUSE * 2**number)
        self.unsettled += moved or [family]

    def _take_ended(self, instant: Instant) -> dict[str, Cut]:
        """Copy the tasks of a family that have ended, once; return how far."""
        kept = dict[str, Cut]()
        for task, cut in instant.cuts.items():
            mark = self.writer.mark()
            if cut.is_ended and self._take_task(task, instant, is_settled=True):
                kept[task] = cut
            else:
                self.writer.rewind(mark)
        return kept

    def _take_task(self, task_id: str, instant: Instant, *, is_settled: bool) -> bool:
        """Copy a task; return whether neither its journal nor the place of its worktree changed meanwhile."""
        folder, worktree = self.data_dir / TASKS / task_id, self.data_dir / WORKTREES / task_id
        cut, self._holes = instant.cuts[task_id], 0
        place = _place(worktree)
        self._copy_task(task_id, instant, is_settled=is_settled)
        return cut_of(folder) == cut and _place(worktree) == place

    def _copy_task(self, task_id: str, instant: Instant, *, is_settled: bool) -> None:
        folder, name = self.data_dir / TASKS / task_id, f"{TASKS}/{task_id}"
        cut = instant.cuts[task_id]
        self._add_alone(name)
        if cut.size:
            with self._noting(f"{name}/{JOURNAL}"), self._folder(name) as opened:
                self._add_file(opened, JOURNAL, f"{DATA}/{name}/{JOURNAL}", cut.size)

        def is_skipped(entry: str) -> bool:
            within = entry.removeprefix(f"{name}/")
            return (
                within == JOURNAL
                or (cut.is_ended and part_of(entry) in self.exclude)
                or (not is_settled and is_ahead(folder, within, cut))
            )

        for entry in sorted(self._names(name), key=lambda one: (one == SESSIONS, one)):
            self._add(f"{name}/{entry}", is_skipped)
        self._write_refs(task_id, instant.refs[task_id])
        if Part.WORKTREES not in self.exclude:
            self._copy_worktree(f"{WORKTREES}/{task_id}")

    def _write_refs(self, task_id: str, refs: Refs) -> None:
        """Write the link to the clone that a task uses, and the task's refs there."""
        if refs.clone:
            self._add(f"{REPOS}/{TASKS}/{task_id}")
        for name in refs.folders:
            self.writer.add_folder(f"{DATA}/{name}", 0o700, 0)
        for name, content in refs.files.items():
            self.writer.add_content(f"{DATA}/{name}", content)

    def _copy_worktree(self, name: str) -> None:
        """Copy an agent's repository: what names commits, then the commits, then the files."""
        self._add_alone(name)
        inside = self._names(name)
        if ".git" in inside:
            self._copy_repository(f"{name}/.git", lambda _name: False)
        for entry in inside:
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
        self._add_alone(name)
        inside, objects = self._names(name), f"{name}/objects"
        for entry in sorted(inside, key=lambda one: (one != "refs", one)):
            if entry != "objects":
                self._add(f"{name}/{entry}", is_skipped)
        if "objects" in inside:
            self._add_alone(objects)
            for entry in self._names(objects):
                if entry != "pack":
                    self._add(f"{objects}/{entry}")
            self._copy_packs(f"{objects}/pack")

    def _copy_packs(self, name: str) -> None:
        """Copy packs with all that belongs to each, also if one is written, or replaces others, meanwhile."""
        done = set[str]()
        for _ in range(2):
            found = set(self._names(name))
            if not done and found:
                self._add_alone(name)
            whole = {one.removesuffix(".idx") + ".pack" for one in found if one.endswith(".idx")}
            for entry in sorted((found | whole) - done):
                self._add(f"{name}/{entry}")
            done |= found | whole

    def _folder(self, name: str) -> AbstractContextManager[int]:
        """Open a folder of the data folder; only the entries at its top may be links, which no agent can make."""
        top, _, below = name.partition("/")
        return opened_folder(self.data_dir / top, below)

    def _names(self, name: str) -> list[str]:
        """Return what is in a folder of the data folder; nothing if it is missing or cannot be read."""
        inside: list[str] = []
        with self._noting(name), self._folder(name) as folder:
            inside.extend(sorted(os.listdir(folder)))  # noqa: PTH208 - of a descriptor
        return inside

    def _add_alone(self, name: str) -> None:
        """Copy a folder of the data folder without what is in it."""
        with self._noting(name), self._folder(name) as folder:
            self._add_folder(folder, f"{DATA}/{name}")

    @contextmanager
    def _noting(self, name: str) -> Iterator[None]:
        """Note what an agent made unreadable, and pass over what was removed a moment ago: nothing refers to it."""
        try:
            yield
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in NOT_FOR_US and not isinstance(error, NotRegularFile):
                raise
            self._note(name)

    def _note(self, name: str) -> None:
        shown = name if name.isprintable() else name.encode("unicode_escape", "backslashreplace").decode()
        shown = shown[:LONGEST_NOTED]
        if len(self.unreadable) < MOST_NOTED and shown not in self.unreadable:
            self.unreadable.append(shown)

    def _add(self, name: str, is_skipped: Callable[[str], bool] = lambda _name: False) -> None:
        """Copy an entry of the data folder with all below it."""
        if not is_left_out(name) and not is_skipped(name):
            above, _, entry = name.rpartition("/")
            with self._noting(name), self._folder(above) as folder:
                self._walk(folder, entry, f"{DATA}/{name}", lambda one: self._leaves_out(one, is_skipped))

    @staticmethod
    def _leaves_out(name: str, is_skipped: Callable[[str], bool]) -> bool:
        within = name.removeprefix(f"{DATA}/")
        return is_left_out(within) or is_skipped(within)

    def _walk(self, above: int, entry: str, name: str, leaves_out: Callable[[str], bool]) -> None:
        """Copy an entry of an open folder with all below it."""
        with self._noting(name.removeprefix(f"{DATA}/")):
            found = os.stat(entry, dir_fd=above, follow_symlinks=False)
            if name.count("/") >= DEEPEST:
                self._note(name.removeprefix(f"{DATA}/"))
            elif stat.S_ISLNK(found.st_mode):
                self._add_link(os.readlink(entry, dir_fd=above), name, int(found.st_mtime))
            elif stat.S_ISREG(found.st_mode):
                self._add_file(above, entry, name)
            elif stat.S_ISDIR(found.st_mode):
                self._walk_folder(above, entry, name, leaves_out)

    def _walk_folder(self, above: int, entry: str, name: str, leaves_out: Callable[[str], bool]) -> None:
        folder = open_folder(entry, above)
        try:
            self._add_folder(folder, name)
            for inner in sorted(os.listdir(folder)):  # noqa: PTH208 - of a descriptor
                if not leaves_out(f"{name}/{inner}"):
                    self._walk(folder, inner, f"{name}/{inner}", leaves_out)
        finally:
            os.close(folder)

    def _add_link(self, target: str, name: str, mtime: int) -> None:
        if may_lead(name.removeprefix(f"{DATA}/"), target):
            self.writer.add_link(name, target, mtime)

    def _add_folder(self, folder: int, name: str) -> None:
        found = os.fstat(folder)
        self.writer.add_folder(name, found.st_mode, int(found.st_mtime))

    def _add_file(self, above: int, entry: str, name: str, size: int | None = None) -> None:
        file = open_regular(entry, dir_fd=above)
        try:
            found = os.fstat(file)
            if _identity(found) == self._key or self._has_too_many_holes(found):
                self._note(name.removeprefix(f"{DATA}/"))
                return
            size = found.st_size if size is None else size
            if name.startswith(f"{DATA}/{TASKS}/") and name.endswith(".jsonl"):
                size = end_of_last_line(file, size) or size
            self.writer.add_file(Source(name, file, size, found.st_mode, int(found.st_mtime)))
        finally:
            os.close(file)
        self.tell(self.writer.files, self.writer.size)

    def _has_too_many_holes(self, found: os.stat_result) -> bool:
        """Return whether a file is sparse beyond what one task may have, so that it would take hours to read."""
        if self._holes + (holes := _holes_of(found)) > LARGEST_HOLES:
            return True
        self._holes += holes
        return False


def _holes_of(found: os.stat_result) -> int:
    return max(0, found.st_size - found.st_blocks * 512)


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


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def free_space(folder: Path) -> int:
    """Return the free bytes on the disk of a folder. Raises OSError."""
    return shutil.disk_usage(folder).free


def _place(folder: Path) -> tuple[int, int] | None:
    """Return what tells a folder from another that takes its name; None if there is none."""
    try:
        return _identity(folder.lstat())
    except OSError:
        return None
