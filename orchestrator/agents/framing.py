"""Bytes of a growing file or pipe → whole lines with exact offsets."""

import msgspec

LIMIT = 64 * 1024 * 1024


class Line(msgspec.Struct, frozen=True, gc=False):
    """One non-empty line without its newline; `end` is the offset of the byte after it."""

    body: bytes
    end: int


class Framer:
    """Cuts chunks at newlines and nothing else: JSON strings may hold every other separator (collected.md §1.0).

    `start` is the offset of the first byte that will be pushed. `offset` is where a reader must go on after a restart
    so that no line is lost and none is read twice: behind the last newline seen. A line longer than `limit` bytes is
    dropped and counted in `skipped`; never more than `limit` bytes of an unfinished line are kept.
    """

    def __init__(self, *, start: int = 0, limit: int = LIMIT) -> None:
        self.offset = start
        self.skipped = 0
        self._limit = limit
        self._half = bytearray()
        self._length = 0  # of the unfinished line, dropped bytes included

    def push(self, chunk: bytes) -> list[Line]:
        """The lines that `chunk` completes; a half line at its end is kept, an empty line only moves the offset."""
        pieces = chunk.split(b"\n")
        rest = pieces.pop()
        lines = []
        offset, held, limit = self.offset, self._length, self._limit
        for piece in pieces:
            length = held + len(piece)
            offset += length + 1
            if length > limit:
                self.skipped += 1
            elif body := (b"".join((self._half, piece)) if held else piece).removesuffix(b"\r"):
                lines.append(Line(body, offset))
            held = 0
        self.offset, self._length = offset, held
        self._keep(rest)
        return lines

    def _keep(self, rest: bytes) -> None:
        if not self._length:
            self._half.clear()
        self._length += len(rest)
        if self._length > self._limit:
            self._half.clear()
        else:
            self._half += rest
