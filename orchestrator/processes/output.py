"""What a run has said, read by logical offset over the files that its holder has rotated."""

import os
from itertools import zip_longest
from pathlib import Path

from orchestrator.processes.files import STDERR, STDOUT

TRIES = 10  # a rotation between two looks at the folder is seen and the look repeated

__all__ = ["STDERR", "STDOUT", "read_lines_from"]


def read_lines_from(
    folder: Path, offset: int, limit: int = 1 << 20, stream: tuple[str, str] = STDOUT
) -> tuple[bytes, int]:
    """Whole lines from a logical offset on and the offset after them; b"" when there is no whole line yet.

    At most `limit` bytes. Only a line longer than that comes in pieces, as no reader can be asked to hold it.
    """
    chunk = _read(folder, offset, limit, stream)
    line_end = chunk.rfind(b"\n") + 1
    if line_end == 0 and len(chunk) < limit:
        return b"", offset
    whole = chunk[:line_end] if line_end else chunk
    return whole, offset + len(whole)


def _read(folder: Path, offset: int, limit: int, stream: tuple[str, str]) -> bytes:
    for _ in range(TRIES):
        before = _segments(folder, stream)
        start, path = _file_at(folder, offset, stream, before)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            if _segments(folder, stream) == before:
                return os.pread(descriptor, limit, offset - start)
        finally:
            os.close(descriptor)
    return b""


def _segments(folder: Path, stream: tuple[str, str]) -> list[int]:
    """The start offsets of the rotated files, ascending."""
    stem, suffix = stream
    names = (name[len(stem) + 1 : -len(suffix)] for name in os.listdir(folder) if name.startswith(f"{stem}."))  # noqa: PTH208
    return sorted(int(name) for name in names if name.isdecimal())


def _file_at(folder: Path, offset: int, stream: tuple[str, str], starts: list[int]) -> tuple[int, Path]:
    """Which file holds an offset and where that file starts; the current one starts where the last rotated one ends."""
    stem, suffix = stream
    for start, after in zip_longest(starts, starts[1:]):
        path = folder / f"{stem}.{start}{suffix}"
        end = start + path.stat().st_size if after is None else after
        if offset < end:
            return start, path
    return end if starts else 0, folder / f"{stem}{suffix}"
