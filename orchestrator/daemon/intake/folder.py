"""The inbox folder and its three folders below: files are taken, done with, or refused, always by rename within it.

    NAME  ──►  taking/NAME  ──►  done/NAME     with done/NAME.task.json
                            └─►  refused/NAME  with refused/NAME.reason.txt

Other users may be able to write in the folder, so everything is done relative to open folders: no link is followed, and
nothing outside can be reached by exchanging a folder for a link. The three folders belong to the daemon's user alone.

Who has a file open for writing is asked of the kernel by a lease, for files of our own; others' files are whole when
they have not changed for a while.
"""

import errno
import fcntl
import grp
import heapq
import os
import pwd
import signal
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from orchestrator.daemon.intake.ticket_file import LARGEST
from orchestrator.errors import OrchestratorError
from orchestrator.formats.files import make_private, open_regular
from orchestrator.redaction.display import escape_text

TAKING, DONE, REFUSED = "taking", "done", "refused"
OURS = frozenset({TAKING, DONE, REFUSED})
TASK_SUFFIX, REASON_SUFFIX = ".task.json", ".reason.txt"
UNFINISHED = ("~", ".part", ".partial", ".tmp", ".swp", ".swx", ".crdownload", ".download", ".filepart")
"""How names end that editors and downloads give to files that they have not finished."""
LONGEST_NAME = 200
"""Bytes of a name, so that there is room for what is written beside the file."""
MOST_FILES = 100_000
"""How many names of the folder are looked at."""


class InboxRefused(OrchestratorError):
    """The folder cannot be an inbox; the message says why and how to mend it."""


class NotYet(OrchestratorError):
    """A file is still being written."""


class Unreadable(OrchestratorError):
    """A file cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """Something in the folder: its name, what changes with each write, its owner and its mode."""

    name: str
    version: tuple[int, int, int, int]
    changed_at: float
    uid: int
    mode: int
    links: int

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, which stays where it is."""
        return stat.S_ISDIR(self.mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What stands in the folder but hidden and unfinished files: the oldest files, how many there are, and folders."""

    oldest: list[FoundFile]
    count: int
    folders: list[FoundFile]


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The open folders of an inbox; all methods block and raise OSError."""

    path: Path
    here: int
    taking: int
    done: int
    refused: int

    def listing(self, most: int) -> "Listing":
        """Return what stands in the folder, at most so many files and folders."""
        names = [name for name in _names(self.here) if not is_unfinished(name) and name not in OURS]
        folders: list[FoundFile] = []
        count = 0

        def files() -> Iterator[FoundFile]:
            nonlocal count
            for one in filter(None, (_look(name, self.here) for name in names)):
                if not one.is_folder:
                    count += 1
                    yield one
                elif len(folders) < most:
                    folders.append(one)

        oldest = heapq.nsmallest(most, files(), key=_age)
        return Listing(oldest=oldest, count=count, folders=folders)

    def begun(self) -> list[FoundFile]:
        """Return the files that are being taken, oldest first."""
        found = (_look(name, self.taking) for name in _names(self.taking))
        return sorted(filter(None, found), key=_age)

    def is_open_for_writing(self, file: FoundFile) -> bool:
        """Return whether somebody has the file open for writing, as far as the kernel tells us."""
        if not stat.S_ISREG(file.mode):
            return False
        try:
            opened = open_regular(file.name, dir_fd=self.here)
        except OSError:
            return False
        try:
            fcntl.fcntl(opened, fcntl.F_SETSIG, signal.SIGURG)  # what is sent to us if somebody opens it now is ignored
            fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(opened, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError as error:
            return error.errno == errno.EAGAIN
        finally:
            os.close(opened)
        return False

    def take(self, file: FoundFile) -> FoundFile:
        """Move a file among those that are being taken and return it there, under a name that is free."""
        name = _free_name(self.taking, file.name)
        os.rename(file.name, name, src_dir_fd=self.here, dst_dir_fd=self.taking)
        os.fsync(self.taking)
        moved = _look(name, self.taking)
        if moved is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        return moved

    def content(self, file: FoundFile) -> bytes:
        """Return what a file that is being taken holds, at most a byte more than it may.

        Raises NotYet while it is being written, and Unreadable.
        """
        try:
            opened = open_regular(file.name, dir_fd=self.taking)
        except OSError as error:
            raise Unreadable(f"it cannot be read ({error.strerror}); run `chmod u+r` on it") from error
        try:
            before = _version(os.fstat(opened))
            pieces, left = [], LARGEST + 1
            while left and (piece := os.read(opened, left)):
                pieces.append(piece)
                left -= len(piece)
            if _version(os.fstat(opened)) != before:
                raise NotYet(f"{escape_text(file.name)} is being written")
        finally:
            os.close(opened)
        return b"".join(pieces)

    def finish(self, file: FoundFile, note: bytes) -> str:
        """Move a file to those that are done, with a note beside it; return its name there.

        The note is written first: a crash in between leaves a note that the next try replaces.
        """
        return self._settle(file, self.done, TASK_SUFFIX, note)

    def refuse(self, file: FoundFile, reason: str) -> str:
        """Move a file to those that are refused, with the reason beside it; return its name there."""
        return self._settle(file, self.refused, REASON_SUFFIX, f"{reason}\n".encode())

    def _settle(self, file: FoundFile, into: int, suffix: str, note: bytes) -> str:
        name = _free_name(into, file.name)
        _write(f"{name}{suffix}", note, into)
        os.rename(file.name, name, src_dir_fd=self.taking, dst_dir_fd=into)
        os.fsync(into)
        os.fsync(self.taking)
        return name


@contextmanager
def opened(path: Path) -> Iterator[Folder]:
    """Give the open folder, with the three below it created. Blocks. Raises InboxRefused and OSError."""
    try:
        make_private(path)
    except OSError as error:
        raise InboxRefused(f"{path} cannot be used: {error.strerror}; set [inbox] folder to another one") from error
    require_safe(path)
    with ExitStack() as stack:
        here = _opened(stack, path, None)
        below = {name: _opened_own(stack, name, here) for name in (TAKING, DONE, REFUSED)}
        yield Folder(path=path, here=here, **below)


def require_safe(path: Path) -> None:
    """Refuse a folder in which somebody unknown may write; a missing one is fine. Blocks. Raises InboxRefused."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise InboxRefused(f"{path} cannot be used: {error.strerror}; set [inbox] folder to another one") from error
    if not stat.S_ISDIR(found.st_mode):
        raise InboxRefused(f"{path} is no folder; set [inbox] folder to one")
    if found.st_uid not in {os.geteuid(), 0}:
        raise InboxRefused(f"{path} belongs to another user; run `chown` on it, or set [inbox] folder to your own")
    if found.st_mode & stat.S_IWOTH:
        raise InboxRefused(
            f"every user of this machine can write in {path}; run `chmod o-w {path}`, and list those who may put "
            "files there as [inbox] users or groups"
        )
    for parent in path.resolve().parents:
        above = parent.stat()
        if above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX:
            raise InboxRefused(f"every user of this machine can exchange {path}, because {parent} is open to all")


def objection_to(file: FoundFile, users: Sequence[str], groups: Sequence[str]) -> str:
    """Return why a file may not become a task, whatever it holds; "" if it may. Blocks."""
    if kind := _kind(file.mode):
        return f"it is {kind}; only regular files are taken"
    if not file.name.isprintable() or any("\ud800" <= letter <= "\udfff" for letter in file.name):
        return "its name has control characters or is not UTF-8; rename it"
    if len(os.fsencode(file.name)) > LONGEST_NAME:
        return f"its name is longer than {LONGEST_NAME} bytes; rename it"
    if file.links > 1:
        return "it has a second name somewhere (a hard link); copy it here instead"
    if not is_known(file.uid, users, groups):
        return f"it belongs to {_user(file.uid)}, who is not among [inbox] users or groups"
    if file.version[1] > LARGEST:
        return f"it is larger than {LARGEST >> 20} MiB; put long material into the repository"
    return ""


def is_known(uid: int, users: Sequence[str], groups: Sequence[str]) -> bool:
    """Return whether files of a user may become tasks: our own, root's, and those of listed users and members."""
    if uid in {os.geteuid(), 0}:
        return True
    try:
        person = pwd.getpwuid(uid)
        of = os.getgrouplist(person.pw_name, person.pw_gid)
    except (KeyError, OSError):
        return False
    return person.pw_name in users or any(_gid(group) in of for group in groups)


def is_unfinished(name: str) -> bool:
    """Return whether a name says that somebody is still at work at the file."""
    return name.startswith((".", "#", "~")) or name.lower().endswith(UNFINISHED)


def safe_name(name: str) -> str:
    """Return a name with everything escaped that a terminal or a reader could stumble over, within its limit.

    It is never the name of a note of ours.
    """
    safe = escape_text(name, limit=10_000).replace("\\", "_").replace("/", "_")
    while len(safe.encode()) > LONGEST_NAME:
        safe = safe[:-1]
    safe = safe.lstrip(".") or "unnamed"
    return f"{safe}_" if safe.endswith((TASK_SUFFIX, REASON_SUFFIX)) else safe


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFREG: "",
        stat.S_IFLNK: "a link",
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
    }
    return kinds.get(stat.S_IFMT(mode), "a device")


def _age(file: FoundFile) -> tuple[float, str]:
    return file.changed_at, file.name


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry, _ in zip(entries, range(MOST_FILES), strict=False)]


def _look(name: str, folder: int) -> FoundFile | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return FoundFile(
        name=name,
        version=_version(found),
        changed_at=found.st_mtime,
        uid=found.st_uid,
        mode=found.st_mode,
        links=found.st_nlink,
    )


def _version(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_dev


def _free_name(folder: int, wanted: str) -> str:
    """Return a name that is free in a folder of ours, where nobody else creates any, and safe to look at."""
    name, number = safe_name(wanted), 1
    candidate = name
    while _exists(candidate, folder):
        number += 1
        stem, dot, ending = name.rpartition(".")
        candidate = f"{stem}-{number}.{ending}" if dot and stem else f"{name}-{number}"
    return candidate


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _write(name: str, content: bytes, folder: int) -> None:
    """Write a new file and wait for the disk; a leftover of a crash was seen by nobody and is replaced."""
    draft = f".{name}.partial"
    with suppress(FileNotFoundError):
        os.unlink(draft, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(draft, flags, 0o600, dir_fd=folder)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)


def _opened(stack: ExitStack, path: Path | str, folder: int | None) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (os.O_NOFOLLOW if folder is not None else 0)
    descriptor = os.open(path, flags, dir_fd=folder)
    stack.callback(os.close, descriptor)
    return descriptor


def _opened_own(stack: ExitStack, name: str, folder: int) -> int:
    """Open one of the three folders. Raises InboxRefused if it is not ours alone."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
    try:
        descriptor = _opened(stack, name, folder)
    except OSError as error:
        raise InboxRefused(f"{name} in the inbox is no folder of its own; move it away") from error
    found, above = os.fstat(descriptor), os.fstat(folder)
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWOTH | stat.S_IWGRP) or found.st_dev != above.st_dev:
        raise InboxRefused(f"{name} in the inbox must belong to the daemon's user alone; move it away")
    return descriptor


def _gid(group: str) -> int | None:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        return None


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"the user #{uid}"
