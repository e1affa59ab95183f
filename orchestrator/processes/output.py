"""Read a run's output by logical offset, across the files that its holder has rotated.

A file of a run that ended long ago may be compressed: then it has the suffix `.zst` and the same offsets.
"""

import os
from itertools import zip_longest
from pathlib import Path

from orchestrator.formats.disk.seekable import SUFFIX, SeekableFile
from orchestrator.processes.files import GONE, STDERR, STDOUT, open_plain

TRIES = 10  # a rotation between two looks at the folder is seen and the look repeated
_BEHIND_ALL = 1 << 62

__all__ = ["STDERR", "STDOUT", "RunOutput", "end_of", "output_files", "read_lines_from"]


class RunOutput:
    """One stream of a run, for a reader that reads repeatedly: it remembers the current file and seldom searches."""

    def __init__(self, folder: Path, stream: tuple[str, str] = STDOUT) -> None:
        """Opens nothing yet, and keeps nothing open."""
        self._folder, self._stream = folder, stream
        self._present = str(folder / "".join(stream))
        self._inode: int | None = None
        self._start = 0

    def lines_from(self, offset: int, limit: int = 1 << 20) -> tuple[bytes, int]:
        """Return whole lines from a logical offset on, and the offset after them; b"" if there is no whole line yet.

        At most `limit` bytes. Only a line longer than that is returned in pieces, so that no reader has to hold it.
        """
        chunk = self._read(offset, limit)
        line_end = chunk.rfind(b"\n") + 1
        if line_end == 0 and len(chunk) < limit:
            return b"", offset
        whole = chunk[:line_end] if line_end else chunk
        return whole, offset + len(whole)

    def _read(self, offset: int, limit: int) -> bytes:
        if self._inode is not None and offset >= self._start:
            chunk, inode = _pread(self._present, offset - self._start, limit)
            if inode == self._inode:
                return chunk
        for _ in range(TRIES):
            before = _segments(self._folder, self._stream)
            start, path = _file_at(self._folder, offset, self._stream, before)
            chunk, inode = _pread(path, offset - start, limit)
            if inode is not None and _segments(self._folder, self._stream) == before:
                if path == self._present:
                    self._inode, self._start = inode, start
                return chunk
        return b""


def read_lines_from(folder: Path, offset: int, limit: int = 1 << 20) -> tuple[bytes, int]:
    """Return what `RunOutput.lines_from` returns, for a reader that reads once."""
    return RunOutput(folder).lines_from(offset, limit)


def end_of(folder: Path, stream: tuple[str, str] = STDOUT) -> int:
    """Return the logical offset behind everything that was written so far; 0 before anything was."""
    start, path = _file_at(folder, _BEHIND_ALL, stream, _segments(folder, stream))
    return start + _size_of(path)


def output_files(folder: Path) -> list[Path]:
    """Return the regular files of the standard output, compressed ones too, in no particular order."""
    stem, suffix = STDOUT
    found = (path for path in folder.glob(f"{stem}*") if path.name.removesuffix(SUFFIX).endswith(suffix))
    return [path for path in found if path.is_file() and not path.is_symlink()]


def _pread(path: str, position: int, limit: int) -> tuple[bytes, int | None]:
    """Return bytes of a regular file and the identity of that file, None if there is none at the moment."""
    try:
        descriptor = open_plain(path)
    except GONE:
        return _read_compressed(path, position, limit)
    try:
        return os.pread(descriptor, limit, position), os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)


def _read_compressed(path: str, position: int, limit: int) -> tuple[bytes, int | None]:
    try:
        descriptor = open_plain(path + SUFFIX)
    except GONE:
        return b"", None
    try:
        return SeekableFile(descriptor).read(position, limit), os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)


def _size_of(path: str) -> int:
    """Return how many bytes of output a file holds, compressed or not; 0 if there is none."""
    try:
        return os.stat(path, follow_symlinks=False).st_size  # noqa: PTH116 - a path as text
    except GONE:
        pass
    try:
        descriptor = open_plain(path + SUFFIX)
    except GONE:
        return 0
    try:
        return SeekableFile(descriptor).size
    finally:
        os.close(descriptor)


def _segments(folder: Path, stream: tuple[str, str]) -> list[int]:
    """Return the start offsets of the rotated files, in ascending order."""
    stem, suffix = stream
    try:
        there = os.listdir(folder)  # noqa: PTH208 - read again and again, and quicker so
    except GONE:
        return []
    plain = {name.removesuffix(SUFFIX) for name in there if name.startswith(f"{stem}.")}
    names = (name[len(stem) + 1 : -len(suffix)] for name in plain if name.endswith(suffix))
    return sorted(int(name) for name in names if name.isdecimal())


def _file_at(folder: Path, offset: int, stream: tuple[str, str], starts: list[int]) -> tuple[int, str]:
    """Return which file holds an offset, and where it starts: the current one where the last rotated one ends."""
    stem, suffix = stream
    for start, after in zip_longest(starts, starts[1:]):
        path = folder / f"{stem}.{start}{suffix}"
        end = start + _size_of(str(path)) if after is None else after
        if offset < end:
            return start, str(path)
    return end if starts else 0, str(folder / f"{stem}{suffix}")
