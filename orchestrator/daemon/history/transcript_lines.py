"""The lines of an agent's output around an offset, forward and backward, however long the output is.

An offset may lie anywhere: reading begins at the next line. A line that is longer than a piece is passed over and
reported without its content.
"""

from collections.abc import Iterator
from typing import NamedTuple

from orchestrator.processes.output import RunOutput

PIECE = 1024 * 1024
"""Bytes that are read at once; a longer line is left out."""
_PROBE = 64 * 1024


class OutputLine(NamedTuple):
    """A line and where it begins and ends; None for one that is too long."""

    start: int
    body: bytes | None
    end: int


def lines_after(output: RunOutput, offset: int) -> Iterator[OutputLine]:
    """Yield whole lines from an offset on, as far as the output goes now."""
    offset = _next_line(output, offset)
    long_since: int | None = None
    while True:
        chunk, after = output.lines_from(offset, PIECE)
        if not chunk:
            return
        if not chunk.endswith(b"\n"):
            long_since = offset if long_since is None else long_since
            yield OutputLine(long_since, None, after)
            offset = after
            continue
        at = offset
        for body in chunk.split(b"\n")[:-1]:
            end = at + len(body) + 1
            if long_since is not None:
                long_since = None
            elif body:
                yield OutputLine(at, body, end)
            at = end
        offset = after


def lines_before(output: RunOutput, end: int, most: int) -> Iterator[OutputLine]:
    """Yield the whole lines that begin before an offset, the last one first, of about `most` bytes before it."""
    last, size = max(0, end - most), PIECE
    while end > last:
        start = max(last, end - size)
        found = _between(output, start, end)
        if not found and start > last:
            size *= 2
            continue
        yield from reversed(found)
        end, size = (found[0].start if found and start else start), PIECE


def _between(output: RunOutput, start: int, end: int) -> list[OutputLine]:
    found: list[OutputLine] = []
    for line in lines_after(output, start):
        if line.start >= end:
            break
        if found and found[-1].start == line.start:
            found.pop()  # more of the same long line
        found.append(line)
        if line.end >= end:
            break
    return found


def _next_line(output: RunOutput, offset: int) -> int:
    """Return the offset if a line begins there, or else where the next one does."""
    if offset <= 0:
        return 0
    at = offset - 1
    while True:
        chunk, after = output.lines_from(at, _PROBE)
        if not chunk:
            return offset
        if (line_end := chunk.find(b"\n")) >= 0:
            return at + line_end + 1
        at = after
