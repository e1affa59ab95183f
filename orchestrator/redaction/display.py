"""Make foreign text safe to show, and find its plainest form.

The plainest form has no invisible characters, every letter in its base form, and knows where each character stood in
the original. So a secret is found although a terminal coloured it, or somebody wrote it with full-width or zero-width
characters (Unicode 16: Default_Ignorable_Code_Point, combining marks, NFKC). Letters of other alphabets that merely
look Latin are left as they are.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, chain

LONGEST_LINE = 1000
"""Characters of a text that is shown as one line of Markdown."""
_CONTROLS = "".join(map(chr, (*range(0x09), *range(0x0E, 0x20), 0x7F)))
_IGNORED = (
    r"\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f\xad\u0300-\u036f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u20d0-\u20ff\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
_ESCAPE_SEQUENCE = r"\x1b\[[0-?]{0,32}[ -/]{0,4}[@-~]"
"""Colours and cursor movements of terminals (ECMA-48 §5.4)."""
_LONGEST_SEQUENCE = 39
_SECTION = 64 * 1024
"""Characters that one call looks at, so that no call holds the interpreter for long."""

_UNSEEN = re.compile(f"({_ESCAPE_SEQUENCE}|\x1b|[{_IGNORED}]++)")
_MISLEADING = re.compile(
    rf"{_ESCAPE_SEQUENCE}|[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\U000e0000-\U000e0fff]"
)

_COMPATIBLE = (
    *((0xA0, 0xA1), (0x2000, 0x2010), (0x2024, 0x2025), (0x202F, 0x2030), (0x205F, 0x2060), (0x2100, 0x2150)),
    *((0x2460, 0x2500), (0x3000, 0x3001), (0xFE30, 0xFE70), (0xFF00, 0xFF5F), (0x1D400, 0x1D800), (0x1F130, 0x1F14A)),
)
"""Where Unicode keeps other shapes of ASCII characters; first and one past the last."""

_PLAINEST = {
    code: plain
    for code in chain.from_iterable(range(first, end) for first, end in _COMPATIBLE)
    if len(plain := unicodedata.normalize("NFKC", chr(code))) == 1 and plain.isascii()
}
_SUSPECT = re.compile(f"[\x1b{_IGNORED}{''.join(map(chr, _PLAINEST))}]")


@dataclass(frozen=True, slots=True)
class CleanText:
    """A text in its plainest form; `cuts` are the positions in it where something invisible was left out, and `gaps`
    how many characters were left out up to each.
    """

    text: str
    cuts: tuple[int, ...]
    gaps: tuple[int, ...]

    def origin(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of the original text that a non-empty part of the plain one stands for."""
        return self._origin(start), self._origin(end - 1) + 1

    def _origin(self, index: int) -> int:
        passed = bisect_right(self.cuts, index)
        return index + (self.gaps[passed - 1] if passed else 0)


def clean_unicode(text: str) -> CleanText | None:
    """Return a text in its plainest form, None if it is that already."""
    if text.isascii() and not any(control in text for control in _CONTROLS):
        return None
    if not _SUSPECT.search("".join(set(text))):
        return None
    kept: list[str] = []
    widths: list[int] = []
    removed: list[int] = []
    for section in _sections(text):
        parts = _UNSEEN.split(section)
        kept.append("".join(parts[::2]).translate(_PLAINEST))
        widths += map(len, parts[::2])
        removed += map(len, parts[1::2])
        removed.append(0)
    return CleanText("".join(kept), tuple(accumulate(widths)), tuple(accumulate(removed)))


def _sections(text: str) -> Iterator[str]:
    """Yield the text in pieces; none ends within an escape sequence, because ESC never occurs inside one."""
    start = 0
    while start < len(text):
        end = start + _SECTION
        if end < len(text):
            escape = text.rfind("\x1b", end - _LONGEST_SEQUENCE, end)
            end = escape if escape > 0 else end
        yield text[start:end]
        start = end


def remove_disguise(text: str) -> str:
    """Return a text without characters that make it display differently from what it is: control characters except line
    ends and tabs, bidirectional controls, and zero-width characters except the joiners that scripts and emoji need.
    """
    return _MISLEADING.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def escape_text(text: str, limit: int = 200) -> str:
    """Return the text with control characters and broken encodings escaped, cut at `limit` characters."""
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
    return escaped if len(escaped) <= limit else escaped[: limit - 1] + "…"


def inert(text: str, limit: int = LONGEST_LINE) -> str:
    """Return the text as one line of Markdown in which no markup can hide anything."""
    return escape_text(" ".join(text.split()), limit).replace("<", "&lt;").replace("`", "'")


def as_code(text: str) -> str:
    """Return the text as one line of Markdown, as code."""
    line = escape_text(" ".join(text.split()), LONGEST_LINE)
    return f"`` {line} ``" if "`" in line else f"`{line}`"
