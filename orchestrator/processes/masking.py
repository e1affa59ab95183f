"""Provided values taken out of what flows through a holder, before it is written anywhere.

A value may be cut anywhere by the chunks it comes in. No pattern has a newline in it, so whole lines are settled at
once; of the line that is not finished as much is held back as could be the beginning of a value.
"""

from __future__ import annotations

BACKSLASH = b"\\"
UNICODE_DIGITS = 4
"""What follows `\\u`."""


class Mask:
    """Replaces patterns in a stream of bytes, the first ones first."""

    def __init__(self, pairs: list[list[str]], *, is_json: bool) -> None:
        """In JSON no pattern may begin within an escape, whose letters are not what they seem."""
        self._pairs = [(pattern.encode(), word.encode()) for pattern, word in pairs]
        self._longest = max([len(pattern) for pattern, _ in self._pairs])
        self._is_json = is_json
        self._held = b""

    def push(self, chunk: bytes) -> bytes:
        """What is settled now, masked."""
        text = self._held + chunk
        line_end = text.rfind(b"\n") + 1
        cut = len(text) - self._longest + 1
        if cut > line_end:
            cut = self._whole(text, cut, line_end)
        cut = max(cut, line_end)
        self._held = text[cut:]
        return self._masked(text[:cut])

    def flush(self) -> bytes:
        """What was held back, masked: there is no more to come."""
        rest, self._held = self._held, b""
        return self._masked(rest)

    def _whole(self, text: bytes, cut: int, line_end: int) -> int:
        """The nearest place before a cut that parts neither a pattern nor an escape."""
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
    """Where the escape of JSON begins that this place lies within; the place itself, if in none."""
    letters = [
        at,
        *(at - back for back in range(1, UNICODE_DIGITS + 1) if text[max(at - back, 0) : at - back + 1] == b"u"),
    ]
    return next((letter - 1 for letter in letters if _is_after_a_backslash(text, letter)), at)


def _is_after_a_backslash(text: bytes, at: int) -> bool:
    """Whether an odd number of backslashes stands just before this place."""
    start = at
    while start > 0 and text[start - 1 : start] == BACKSLASH:
        start -= 1
    return (at - start) % 2 == 1
