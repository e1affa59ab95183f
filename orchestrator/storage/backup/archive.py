"""The file of a backup: a tar archive in zstd frames, written and read with bounded memory.

    backup.json       what this is: format, versions, host, time, the data folder
    data/…            the data folder
    settings/<n>/…    folders of settings, if they were asked for
    manifest.jsonl    the size and SHA-256 of every file above, one line each, and a last line that counts them

Each part of the folder, such as one task, is in frames of its own. So a part that changed while it was copied is cut
off the file again and copied anew, and nothing is ever kept in memory. `tar --zstd -xf` reads it too.
"""

import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import IO, NamedTuple

import orjson
import zstandard

from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.files import parsed

FORMAT = 1
"""The format of the archive that is written."""
HEADER, MANIFEST, DATA, SETTINGS = "backup.json", "manifest.jsonl", "data", "settings"
LEVEL = 3
PIECE = 1024 * 1024
"""Bytes that are read or written at once."""
WRITTEN_BACK = 8 * PIECE
"""Bytes after which is waited for the disk. Else it has to take hundreds of megabytes at some moment, for which every
program that stores something waits, such as the daemon with its decisions.
"""
LARGEST_READ = 4 * PIECE
"""Bytes; nothing that a reader asks for at once is larger, whatever the sizes in an archive claim."""
LARGEST_HEADER = 64 * 1024


class BackupError(OrchestratorError):
    """A backup cannot be made, read or restored."""


class DamagedBackup(BackupError):
    """A backup is not whole, was changed, or is none."""


class Mark(NamedTuple):
    """A place in a backup to which the writer can go back."""

    at: int
    manifest_at: int
    files: int
    size: int


class Source(NamedTuple):
    """A file to be written: its name in the archive, the open file, and how much of it belongs to the backup."""

    name: str
    file: int
    size: int
    mode: int
    mtime: int


class ArchiveWriter:
    """Writes a backup into an open file; `manifest` is a scratch file. `finish` makes it whole."""

    def __init__(self, file: IO[bytes], manifest: IO[bytes], header: JsonObject) -> None:
        self._file, self._manifest = file, manifest
        self._compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
        self._frame: zstandard.ZstdCompressionObj | None = None
        self._behind = 0
        self.files, self.size = 0, 0
        self.add_document(HEADER, header)

    def mark(self) -> Mark:
        """Return the present place, after closing the frame before it."""
        self._end_frame()
        return Mark(self._file.tell(), self._manifest.tell(), self.files, self.size)

    def rewind(self, mark: Mark) -> None:
        """Remove everything that was written since the mark."""
        self._frame = None
        for file, at in ((self._file, mark.at), (self._manifest, mark.manifest_at)):
            file.seek(at)
            file.truncate()
        self.files, self.size = mark.files, mark.size

    def add_folder(self, name: str, mode: int, mtime: int) -> None:
        """Add an empty folder; what it contains is added by itself."""
        self._write(_head(name, tarfile.DIRTYPE, mode=mode, mtime=mtime))

    def add_link(self, name: str, target: str, mtime: int) -> None:
        """Add a symbolic link, as it is."""
        self._write(_head(name, tarfile.SYMTYPE, mode=0o777, mtime=mtime, target=target))

    def add_document(self, name: str, document: JsonObject) -> None:
        """Add a JSON document as a file."""
        self.add_content(name, orjson.dumps(document, option=orjson.OPT_INDENT_2))

    def add_content(self, name: str, content: bytes) -> None:
        """Add a small file with this content."""
        self._write(_head(name, tarfile.REGTYPE, size=len(content)))
        self._write(content + _padding(len(content)))
        self._note(name, len(content), sha256(content).hexdigest())

    def add_file(self, source: Source) -> None:
        """Add the beginning of a file; one that got shorter meanwhile is filled up with zeros."""
        self._write(_head(source.name, tarfile.REGTYPE, size=source.size, mode=source.mode, mtime=source.mtime))
        digest, left, at = sha256(), source.size, 0
        while left:
            piece = os.pread(source.file, min(left, PIECE), at) or bytes(min(left, PIECE))
            digest.update(piece)
            self._write(piece)
            left, at = left - len(piece), at + len(piece)
        self._write(_padding(source.size))
        self._note(source.name, source.size, digest.hexdigest())

    def finish(self, summary: JsonObject) -> None:
        """Add the manifest and the end of the archive."""
        last = orjson.dumps({**summary, "files": self.files, "bytes": self.size}) + b"\n"
        self._manifest.write(last)
        size = self._manifest.tell()
        self._manifest.seek(0)
        self._write(_head(MANIFEST, tarfile.REGTYPE, size=size))
        while piece := self._manifest.read(PIECE):
            self._write(piece)
        self._write(_padding(size) + bytes(2 * tarfile.BLOCKSIZE))
        self._end_frame()
        self._file.flush()

    def _note(self, name: str, size: int, digest: str) -> None:
        self._manifest.write(manifest_line(name, size, digest))
        self.files, self.size = self.files + 1, self.size + size

    def _write(self, content: bytes) -> None:
        if self._frame is None:
            self._frame = self._compressor.compressobj()
        self._behind += self._file.write(self._frame.compress(content))
        if self._behind >= WRITTEN_BACK:
            self._file.flush()
            os.fdatasync(self._file.fileno())
            self._behind = 0

    def _end_frame(self) -> None:
        if self._frame is not None:
            self._file.write(self._frame.flush())
            self._frame = None


def manifest_line(name: str, size: int, digest: str) -> bytes:
    """Return the line of the manifest for one file."""
    shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return orjson.dumps({"name": shown, "size": size, "sha256": digest}) + b"\n"


@dataclass(frozen=True, slots=True)
class Member:
    """An entry of a backup; `read` yields the content of a file, once and before the next entry is asked for."""

    info: tarfile.TarInfo
    archive: tarfile.TarFile

    def read(self) -> Iterator[bytes]:
        """Yield the content of a file piece by piece. Raises DamagedBackup if it ends too early."""
        left, content = self.info.size, self.archive.extractfile(self.info)
        while left and content is not None:
            piece = content.read(min(left, PIECE))
            if not piece:
                raise DamagedBackup(f"the backup ends in the middle of {self.info.name!r}; it was cut off")
            left -= len(piece)
            yield piece


def read_members(file: IO[bytes]) -> Iterator[Member]:
    """Yield the entries of an archive in their order. Raises DamagedBackup and OSError."""
    try:
        stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True, closefd=False)
        archive = tarfile.open(fileobj=_Forward(stream), mode="r:", errorlevel=2)  # noqa: SIM115
        while (info := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # else it keeps every entry in memory
            yield Member(info, archive)
        if len(stream.read(LARGEST_READ)) == LARGEST_READ:  # the end of the archive, and the last frame's checksum
            raise DamagedBackup("the backup has more than its manifest names; it is refused")
    except (tarfile.TarError, zstandard.ZstdError, EOFError, ValueError) as error:
        said = "it is cut off" if str(error) == "empty file" else str(error)
        raise DamagedBackup(f"this is no whole backup: {said}; take another one, or copy it again") from error


def read_header(member: Member) -> tuple[JsonObject, bytes]:
    """Return what the first entry says of a backup, and as which bytes. Raises BackupError."""
    if member.info.name != HEADER or not member.info.isreg() or member.info.size > LARGEST_HEADER:
        raise DamagedBackup("this archive was not made by `orchestrator backup`")
    content = b"".join(member.read())
    header = parsed(content)
    number = (header or {}).get("format")
    if header is None or not isinstance(number, int):
        raise DamagedBackup("this archive was not made by `orchestrator backup`")
    if number > FORMAT:
        raise BackupError(
            f"the backup has format {number}, which orchestrator {header.get('program')} wrote; this program reads"
            f" {FORMAT}; install that version"
        )
    return header, content


class _Forward(io.RawIOBase):
    """A stream that can only be read on, as a file for tarfile; it knows its last byte, and skips by reading."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._at, self._last, self._again = stream, 0, b"", False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at - self._again

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence != os.SEEK_SET or not self._at - len(self._last) <= offset:
            raise DamagedBackup("the backup's entries are not in their order")
        self._again = offset < self._at
        while self._at < offset and self.read(min(PIECE, offset - self._at)):
            pass
        return self.tell()

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= LARGEST_READ:
            raise DamagedBackup(f"an entry of the backup has a name or attributes of {size} bytes; it is refused")
        found = [self._last] if self._again and size else []
        self._again, left = self._again and not size, size - len(found)
        try:
            while left and (piece := self._stream.read(left)):
                found.append(piece)
                self._at, self._last, left = self._at + len(piece), piece[-1:], left - len(piece)
        except zstandard.ZstdError as error:
            raise DamagedBackup(f"the backup is damaged: {error}; take another one, or copy it again") from error
        return b"".join(found)


def _head(  # noqa: PLR0913 - what a tar header has
    name: str, kind: bytes, *, size: int = 0, mode: int = 0o600, mtime: int = 0, target: str = ""
) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode, info.mtime, info.linkname = kind, size, mode & 0o777, mtime, target
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)
