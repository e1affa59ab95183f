"""Mask provided values in what flows through a holder, before it is written anywhere.

A value may be split anywhere by the chunks it arrives in. No pattern contains a newline, so whole lines are final at
once; of an unfinished line, as much is held back as could be the beginning of a value.
"""

from __future__ import annotations

BACKSLASH = b"\\"
UNICODE_DIGITS = 4
"""The digits after `\\u`."""


class Mask:
    """Replaces patterns in a stream of bytes; earlier patterns take precedence."""

    def __init__(self, pairs: list[list[str]], *, is_json: bool) -> None:
        """In JSON no pattern may begin within an escape sequence, whose letters stand for something else."""
        self._pairs = [(pattern.encode(), word.encode()) for pattern, word in pairs]
        self._longest = max([len(pattern) for pattern, _ in self._pairs])
        self._is_json = is_json
        self._held = b""

    def push(self, chunk: bytes) -> bytes:
        """Return what is final now, masked."""
        text = self._held + chunk
        line_end = text.rfind(b"\n") + 1
        cut = len(text) - self._longest + 1
        if cut > line_end:
            cut = self._whole(text, cut, line_end)
        cut = max(cut, line_end)
        self._held = text[cut:]
        return self._masked(text[:cut])

    def flush(self) -> bytes:
        """Return what was held back, masked, because no more input will come."""
        rest, self._held = self._held, b""
        return self._masked(rest)

    def _whole(self, text: bytes, cut: int, line_end: int) -> int:
        """Return the nearest position before a cut that splits neither a pattern nor an escape sequence."""
        before = -1
        while cut != before:
            before = cut
            for pattern, _ in self._pairs:
                at = text.rfind(pattern, max(line_end, cut - len(pattern) + 1), cut + len(pattern) - 1)
                cut = cut if at < 0 else at
            cut = _escape_around(text, cut) if self._is_json else cut
        return cut

    def _masked(self, text: bytes) -> bytes:
        for pattern, word in self._pairs:
            if pattern in text:
                text = self._replaced(text, pattern, word)
        return text

    def _replaced(self, text: bytes, pattern: bytes, word: bytes) -> bytes:
        if not self._is_json:
            return text.replace(pattern, word)
        parts, begin, at = [], 0, text.find(pattern)
        while at >= 0:
            escaped = _escape_around(text, at) < at
            if not escaped:
                parts += [text[begin:at], word]
                begin = at + len(pattern)
            at = text.find(pattern, at + 1 if escaped else begin)
        return b"".join([*parts, text[begin:]])


def _escape_around(text: bytes, at: int) -> int:
    """Return where the JSON escape sequence around this position begins; the position itself if there is none."""
    letters = [
        at,
        *(at - back for back in range(1, UNICODE_DIGITS + 1) if text[max(at - back, 0) : at - back + 1] == b"u"),
    ]
    return next((letter - 1 for letter in letters if _is_after_a_backslash(text, letter)), at)


def _is_after_a_backslash(text: bytes, at: int) -> bool:
    """Return whether an odd number of backslashes stands directly before this position."""
    start = at
    while start > 0 and text[start - 1 : start] == BACKSLASH:
        start -= 1
    return (at - start) % 2 == 1
