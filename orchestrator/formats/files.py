"""Read and write files so that neither a power cut nor another program leaves us with half of one.

A write leaves either the old content or the new. A read accepts only regular files and never blocks on a FIFO. A sealed
document ends with a checksum of itself, so that a torn or edited one is recognised.
"""

import errno
import hashlib
import os
import stat
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from grp import getgrgid
from hmac import compare_digest
from itertools import count
from pathlib import Path
from pwd import getpwuid
from threading import Lock
from typing import Generic, TypeVar

import orjson

from orchestrator.formats.codec import Json

LARGEST_DOCUMENT = 64 * 1024 * 1024
"""Bytes; none of our files grows so large, and a larger file is not read."""

T = TypeVar("T")

Version = tuple[tuple[int, ...], ...] | None
"""What changes when anybody writes the files; None if one is missing, so that nothing is kept."""

_SEAL = b',\n  "checksum": "'
_TOP_SEAL_KEY = "checksum_of_top"
_TOP_SEAL = f',\n  "{_TOP_SEAL_KEY}": "'.encode()
_END = b'"\n}\n'


def write_atomically(path: Path, content: bytes, *, durable: bool = True, sync_name: bool = True) -> os.stat_result:
    """Replace a file's content by rename, readable by its owner only; `durable` waits for the disk. Raises OSError.

    Without `sync_name` the caller syncs the folder later, so that the file's name is durable too. Return what the
    written file's inode says: after the rename, another program's file may already be at the path.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb", opener=_anew) as file:
            file.write(content)
            file.flush()
            written = os.fstat(file.fileno())
            if durable:
                os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    if durable and sync_name:
        sync_folder(path.parent)
    return written


def free_name(folder: Path, wanted: str) -> str:
    """Return a name that nothing in the folder has: the wanted one, or else it with the first free number from 2 on."""
    names = (wanted if number == 1 else f"{wanted}-{number}" for number in count(1))
    return next(name for name in names if not os.path.lexists(folder / name))


class NotRegularFile(OSError):
    """A link, a folder, a FIFO, a socket or a device stands where a regular file is expected."""


def open_regular(path: Path | str, *, dir_fd: int | None = None) -> int:
    """Open a regular file for reading, relative to the open folder `dir_fd` if given, and return the descriptor.

    Follows no link and never waits for the other end of a FIFO. Raises OSError, among it NotRegularFile.
    """
    try:
        descriptor = os.open(
            path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=dir_fd
        )
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket, or a device without a driver
            raise NotRegularFile(error.errno, error.strerror, str(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegularFile(errno.EINVAL, "Not a regular file", str(path))
    return descriptor


def read_file(path: Path) -> bytes | None:
    """Return a file's content: empty if it is missing, None if it is not a regular file or larger than 64 MiB."""
    try:
        descriptor = open_regular(path)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except NotRegularFile:
        return None
    try:
        size = os.fstat(descriptor).st_size
        return os.read(descriptor, size) if size <= LARGEST_DOCUMENT else None
    finally:
        os.close(descriptor)


def read_beginning(path: str, size: int) -> bytes:
    """Return the first bytes of a file; empty if it is missing or not a regular file."""
    try:
        descriptor = open_regular(path)
    except OSError:
        return b""
    try:
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)


def sealed(document: dict[str, Json], *, below: str = "", key: bytes = b"") -> bytes:
    """Return a document as it is written, with a checksum at its end; with a `key`, only who has it can make that.

    With `below`, the part above that key gets a checksum of its own, just before the key.
    """
    body = orjson.dumps(document, option=orjson.OPT_INDENT_2)[:-2]
    top, name, rest = body.partition(_name(below)) if below else (body, b"", b"")
    if name:
        body = top + _TOP_SEAL + _checksum(top, key) + b'"' + name + rest
    return body + _SEAL + _checksum(body, key) + _END


def unsealed(content: bytes, *, before: str = "", key: bytes = b"") -> dict[str, Json] | None:
    """Return a document that `sealed` wrote with the same key, or None if a single byte of it differs.

    With `before`, return only the part above that key: the checksum covers the whole, but only the part is decoded,
    which takes half the time.
    """
    body, _, seal = content.rpartition(_SEAL)
    if not compare_digest(seal, _checksum(body, key) + _END):
        return None
    if before:
        body = body.partition(_name(before))[0]
    document = parsed(body + b"}")
    if document is not None:
        document.pop(_TOP_SEAL_KEY, None)
    return document


def unsealed_top(beginning: bytes, *, below: str, key: bytes = b"") -> dict[str, Json] | None:
    """Return the part above a name, from the beginning of a document that was sealed with `below` and this key.

    None if a byte of it differs from what was written, it has no such checksum, or the key is further down.
    """
    top, _, _ = beginning.partition(_name(below))
    top, _, seal = top.rpartition(_TOP_SEAL)
    return parsed(top + b"}") if compare_digest(seal, _checksum(top, key) + b'"') else None


def _name(name: str) -> bytes:
    """Return how a key of a document begins; only one at the top has so few spaces before it."""
    return f',\n  "{name}": '.encode()


def _checksum(content: bytes, key: bytes) -> bytes:
    found = hashlib.blake2b(content, key=key, digest_size=32) if key else hashlib.sha256(content)
    return found.hexdigest().encode()


def parsed(content: bytes) -> dict[str, Json] | None:
    """Return the JSON object that these bytes encode, or None."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def owned_by_another(path: Path) -> str | None:
    """Return the other user who owns a file, or the folder that hides it; None if it is this user's, or missing."""
    for place in (path, *path.parents):
        try:
            uid = place.stat().st_uid
        except PermissionError:
            continue
        except OSError:
            return None
        if uid == os.geteuid():
            return None
        try:
            return getpwuid(uid).pw_name
        except KeyError:
            return f"#{uid}"
    return None


def group_let_in(path: Path) -> str | None:
    """Return the group whose members may write to a file, or may pass through the folder that hides it; else None."""
    for place, needed, everybody in ((path, stat.S_IWGRP, stat.S_IWOTH), (path.parent, stat.S_IXGRP, stat.S_IXOTH)):
        try:
            found = place.stat()
            return getgrgid(found.st_gid).gr_name if found.st_mode & (needed | everybody) == needed else None
        except (OSError, KeyError):
            continue
    return None


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(folder: Path) -> Path:
    """Create a folder for its owner only, with its parents; leave an existing one as it is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _anew(path: str, flags: int) -> int:
    """Create a new file for its owner only, after removing a leftover or a link that another program put there."""
    try:
        return os.open(path, flags | os.O_EXCL, 0o600)
    except FileExistsError:
        Path(path).unlink(missing_ok=True)
        return os.open(path, flags | os.O_EXCL, 0o600)


def version_of(paths: Sequence[Path]) -> Version:
    """Return the version of some files: inodes, sizes, and times of which a program cannot set the last."""
    try:
        found = [path.lstat() for path in paths]
    except OSError:
        return None
    return tuple((one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in found)


class Kept(Generic[T]):
    """At most `most` values by name, those that were made last; used from any thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[str, tuple[Version, T]] = OrderedDict()
        self._lock = Lock()

    def unchanged(self, name: str, version: Version) -> T | None:
        """Return the value that was made from files of this version, if there is one."""
        with self._lock:
            found = self._values.get(name)
            return found[1] if found is not None and version is not None and found[0] == version else None

    def keep(self, name: str, version: Version, value: T) -> None:
        """Keep a value that was made from files of this version."""
        if version is None:
            return
        with self._lock:
            self._values[name] = version, value
            self._values.move_to_end(name)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
