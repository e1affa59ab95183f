"""Import the allowed files that an agent left in its outbox, before guards judge them.

An untrusted agent put everything there and may still be writing while we read. So each file is opened first, without
following links and without blocking on a FIFO, and its kind, links and size are read from the open descriptor. If a
file grows while it is read, no more than the limit is read.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.formats.files import make_private, write_atomically
from orchestrator.redaction.display import escape_text, remove_disguise

MAX_BYTES = 2 * 1024 * 1024
MAX_ENTRIES = 1000
_MAX_NAME = 200
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class OutboxError(OrchestratorError):
    """An outbox as a whole, or an artifact already imported, cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """An imported file: `size` in bytes, `sha256` in hex, `new` if the task did not have this content before."""

    name: str
    size: int
    sha256: str
    new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedFile:
    """An entry that was not imported, and why; control characters of its name are escaped."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The content of an outbox, sorted by name."""

    files: tuple[Artifact, ...]
    refused: tuple[RefusedFile, ...]


@dataclass(frozen=True, slots=True)
class OutboxLimits:
    """What an artifact may be: at most `size` bytes, with no `objection` to its content."""

    size: int = MAX_BYTES
    objection: Callable[[bytes], str] = lambda _body: ""


class _RefusedError(Exception):
    """The reason why an entry is not imported."""


def import_files(outbox: Path, allowed: Sequence[str], into: Path, limits: OutboxLimits | None = None) -> Imported:
    """Copy the files that `allowed` admits (names, and patterns with `*`) to `into`.

    Accepts only regular files with a single link, in UTF-8, within the limits. The copies are written atomically with
    mode 0600, without control characters (see `remove_disguise`), so that no terminal obeys them. A file that is there
    with the same content is not written again. A missing outbox counts as empty. Raises OutboxError if the outbox is a
    link or not a folder.
    """
    try:
        folder = os.open(outbox, _FOLDER)
    except FileNotFoundError:
        return Imported(files=(), refused=())
    except OSError as error:
        raise OutboxError(
            f"{escape_text(str(outbox))} is not the folder that was made for the agent: {error.strerror}"
        ) from error
    files: list[Artifact] = []
    refused: list[RefusedFile] = []
    try:
        names, more = _names(folder)
        if more:
            refused.append(RefusedFile(name="…", reason=f"more than {MAX_ENTRIES} entries; the rest was not looked at"))
        for name in names:
            try:
                files.append(_take(folder, name, allowed, into, limits or OutboxLimits()))
            except _RefusedError as reason:
                refused.append(RefusedFile(name=escape_text(name), reason=str(reason)))
    finally:
        os.close(folder)
    return Imported(files=tuple(files), refused=tuple(refused))


def read_text(folder: Path, name: str, limit: int = MAX_BYTES) -> str | None:
    """Return the text of an imported artifact; None if there is none of that name.

    Raises OutboxError if it is not a regular UTF-8 file of at most `limit` bytes any more.
    """
    try:
        where = os.open(folder, _FOLDER)
    except FileNotFoundError:
        return None
    try:
        return _read(where, name, limit).decode("utf-8")
    except FileNotFoundError:
        return None
    except _RefusedError as reason:
        raise OutboxError(f"{escape_text(name)} in {escape_text(str(folder))} cannot be read: {reason}") from reason
    finally:
        os.close(where)


def _names(folder: int) -> tuple[list[str], bool]:
    """Return the names in a folder, sorted, at most MAX_ENTRIES, and whether there are more."""
    with os.scandir(folder) as entries:
        found = [entry.name for entry in islice(entries, MAX_ENTRIES + 1)]
    return sorted(found[:MAX_ENTRIES]), len(found) > MAX_ENTRIES


def _take(folder: int, name: str, allowed: Sequence[str], into: Path, limits: OutboxLimits) -> Artifact:
    if name.startswith(".") or not any(fnmatchcase(name, pattern) for pattern in allowed):
        raise _RefusedError(f"no file of this name is expected; expected: {', '.join(allowed) or 'none'}")
    if not name.isprintable():
        raise _RefusedError("its name has unprintable characters")
    if len(name.encode()) > _MAX_NAME:
        raise _RefusedError(f"its name is longer than {_MAX_NAME} bytes")
    try:
        body = _read(folder, name, limits.size)
    except FileNotFoundError:
        raise _RefusedError("it was removed while it was read") from None
    body = remove_disguise(body.decode()).encode()
    objection = limits.objection(body)
    if objection:
        raise _RefusedError(objection)
    new = _differs(into, name, body)
    if new:
        write_atomically(make_private(into) / name, body)
    return Artifact(name=name, size=len(body), sha256=hashlib.sha256(body).hexdigest(), new=new)


def _read(folder: int, name: str, limit: int) -> bytes:
    """Return the bytes of a UTF-8 file in an open folder."""
    try:
        descriptor = os.open(name, _FILE, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _RefusedError(_why_not_opened(folder, name, error)) from error
    try:
        _must_be_plain(os.fstat(descriptor), limit)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            body = file.read(limit + 1)
    finally:
        os.close(descriptor)
    if len(body) > limit:
        raise _RefusedError(f"it is larger than {limit} bytes")
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _RefusedError(f"it is not UTF-8: byte {error.start}") from error
    return body


def _must_be_plain(found: os.stat_result, limit: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _RefusedError("it is not a regular file")
    if found.st_nlink > 1:
        raise _RefusedError("it has more than one name (a hard link); copy it instead")
    if found.st_size > limit:
        raise _RefusedError(f"it is larger than {limit} bytes")


def _why_not_opened(folder: int, name: str, error: OSError) -> str:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return f"it cannot be opened: {error.strerror}"
    kind = "a link" if stat.S_ISLNK(found.st_mode) else "not a regular file"
    return f"it cannot be opened: {error.strerror}" if stat.S_ISREG(found.st_mode) else f"it is {kind}"


def _differs(into: Path, name: str, body: bytes) -> bool:
    try:
        where = os.open(into, _FOLDER)
    except FileNotFoundError:
        return True
    try:
        return _read(where, name, len(body)) != body
    except (FileNotFoundError, _RefusedError):
        return True
    finally:
        os.close(where)
