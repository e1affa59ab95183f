"""Regular expressions whose time is linear in the text's length, whatever the expression and the text: RE2.

A text is searched in overlapping windows, so that a match of an expression costs no more than one window even if the
expression reads far beyond it, and so that no single call holds the interpreter for long.
"""

import re
from collections.abc import Iterator

import re2

WINDOW, OVERLAP = 32 * 1024, 8 * 1024
"""Bytes searched in one call; a match that needs at most `OVERLAP` bytes to be recognised is found wherever it is."""
_MEMORY = 2 * 1024 * 1024
"""Bytes that one compiled expression may use while it searches."""
_MOST_INSTRUCTIONS = 4000
"""Of one compiled expression: repeats of hundreds of times, {0,900}, make a search slow."""
_LINE_END = re.compile(r"[ \t]*\n[ \t]*")

Span = tuple[int, int]


class Expression:
    """A compiled expression, to be used on bytes in UTF-8. Raises ValueError if RE2 does not understand it.

    It may be written over several lines: line ends and the blank space around them do not count.
    """

    def __init__(self, text: str) -> None:
        options = re2.Options()
        options.max_mem = _MEMORY
        options.log_errors = False
        try:
            self._compiled = re2.compile(_LINE_END.sub("", text), options)
        except re2.error as error:
            reason = error.args[0] if error.args else ""
            raise ValueError(reason.decode() if isinstance(reason, bytes) else str(reason)) from None
        if self._compiled.programsize > _MOST_INSTRUCTIONS:
            raise ValueError("it is too large: write + or * instead of counts of hundreds")

    def is_empty(self) -> bool:
        """Return whether the expression matches the empty text, and so everywhere."""
        return self._compiled.match(b"") is not None

    def matches(self, part: bytes) -> bool:
        """Return whether the expression matches all of a text."""
        return self._compiled.fullmatch(part) is not None

    def matches_at(self, content: bytes, start: int) -> bool:
        """Return whether the expression matches at a place of a text, within one window."""
        return self._compiled.match(content, start, min(start + WINDOW, len(content))) is not None

    def find(self, content: bytes) -> Iterator[tuple[int, Span]]:
        """Yield where each match begins, and where the first of its groups is that took part, or else all of it.

        The search goes on behind that group.
        """
        at, size = 0, len(content)
        while at < size:
            end = min(at + WINDOW, size)
            match = self._compiled.search(content, at, end)
            if match is None:
                at = size if end == size else end - OVERLAP
                continue
            while match.end() == end < size:
                end = min(end + (end - at), size)
                match = self._compiled.search(content, match.start(), end) or match
            span = next((match.span(group) for group in range(1, match.re.groups + 1) if match[group]), match.span())
            yield match.start(), span
            at = max(span[1], match.start() + 1)
