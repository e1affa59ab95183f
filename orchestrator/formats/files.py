"""Files that neither a power cut nor another hand can fool.

Writing leaves either the old content or the new. Reading takes plain files only and never waits. A sealed document ends
with a checksum of itself, so that a torn or edited one is known.
"""

import errno
import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

import orjson

from orchestrator.formats.codec import Json

LARGEST_DOCUMENT = 64 * 1024 * 1024
"""Bytes; nothing of ours grows so large, and a larger file is not read."""

_SEAL = b',\n  "checksum": "'
_END = b'"\n}\n'


def write_atomically(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Replace a file's content by rename, readable by its owner only; `durable` waits for the disk."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb", opener=_anew) as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


class NotRegularFile(OSError):
    """There is a link, a folder, a FIFO, a socket or a device where a regular file is expected."""


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


def sealed(document: dict[str, Json]) -> bytes:
    """A document as it is written, with a checksum at its end."""
    body = orjson.dumps(document, option=orjson.OPT_INDENT_2)[:-2]
    return body + _SEAL + hashlib.sha256(body).hexdigest().encode() + _END


def unsealed(content: bytes, *, before: str = "") -> dict[str, Json] | None:
    """The document that was sealed so, or None if one byte of it is another than was written.

    With `before` only what stands above that key: the whole is checked and its beginning decoded, in half the time.
    """
    body, _, seal = content.rpartition(_SEAL)
    if seal != hashlib.sha256(body).hexdigest().encode() + _END:
        return None
    if before:
        body = body.partition(f',\n  "{before}": '.encode())[0]
    return parsed(body + b"}")


def parsed(content: bytes) -> dict[str, Json] | None:
    """The JSON object that these bytes are, or None."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(folder: Path) -> Path:
    """Make a folder for its owner only, with its parents; an existing one is left as it is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _anew(path: str, flags: int) -> int:
    """A new file for its owner only; what lay there (a leftover, or a link that another hand laid) is taken away."""
    try:
        return os.open(path, flags | os.O_EXCL, 0o600)
    except FileExistsError:
        Path(path).unlink(missing_ok=True)
        return os.open(path, flags | os.O_EXCL, 0o600)
