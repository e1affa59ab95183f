"""Unified diffs as git prints them: read line by line into hunks with line numbers, masked, and written again.

Lines are counted by the headers of hunks, so that no line of a file can be mistaken for a header. A hunk of many lines
is read as several, so that nobody has to hold it whole.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

LONGEST_LINE = 4_000
"""Characters of a line that are kept."""
MOST_LINES, MOST_LETTERS = 2_000, 200_000
"""Lines of one hunk, and characters in them, after which another one begins."""

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)", re.DOTALL)
_HIDDEN = "[REDACTED]"


class ChangeKind(StrEnum):
    """What became of a file."""

    ADDED = "added"
    REMOVED = "removed"
    MODIFIED = "modified"
    RENAMED = "renamed"
    RETYPED = "retyped"
    """A file became a link, or the like."""


class FileKind(StrEnum):
    """What a file is."""

    FILE = "file"
    LINK = "link"
    SUBMODULE = "submodule"


class LineKind(StrEnum):
    """What became of a line."""

    CONTEXT = "context"
    ADDED = "added"
    REMOVED = "removed"


SIGNS = {LineKind.CONTEXT: " ", LineKind.ADDED: "+", LineKind.REMOVED: "-"}
_KINDS = {sign: kind for kind, sign in SIGNS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """One line; `old` and `new` are its numbers from 1, None on the side that does not have it.

    `left_out` counts the characters beyond LONGEST_LINE; `has_end` is False for a last line without a line end.
    """

    kind: LineKind
    text: str
    old: int | None = None
    new: int | None = None
    left_out: int = 0
    has_end: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Lines that belong together; `heading` is what git says of their place, such as the function around them.

    The starts are the numbers of the first lines, `header` says how many lines of each side there are, and is empty
    where the hunk before goes on.
    """

    heading: str
    lines: tuple[DiffLine, ...]
    old_start: int
    new_start: int
    header: str

    def text(self) -> str:
        """Return the hunk as a patch has it."""
        rows = [f"{self.header} {self.heading}".rstrip()] if self.header else []
        for line in self.lines:
            rows.append(f"{SIGNS[line.kind]}{line.text}{f'… [{line.left_out} more]' if line.left_out else ''}")
            rows += [] if line.has_end else ["\\ No newline at end of file"]
        return "\n".join(rows) + "\n"


def read_sections(lines: Iterable[tuple[str, int]]) -> Iterator[str | Hunk]:
    """Yield what a diff consists of: header lines as texts, and hunks.

    Lines come without their ends, each with the number of characters that were cut from it.
    """
    rows = _Rows(iter(lines))
    for text, _ in rows:
        if match := _HUNK.match(text):
            old, olds, new, news = (int(match[group] or 1) for group in (1, 2, 3, 4))
            place = _Place(old=old + (olds == 0), new=new + (news == 0), olds=olds, news=news)
            yield from _hunks(rows, place, text.removesuffix(match[5]).rstrip(), match[5][:200])
        else:
            yield text


def masked(hunk: Hunk, redact: Callable[[str], str]) -> Hunk:
    """Return the hunk with secrets masked; both of its sides are looked at as they stand in their files."""
    texts = {number: line.text for number, line in enumerate(hunk.lines)}
    for absent in (LineKind.REMOVED, LineKind.ADDED):
        side = [number for number, line in enumerate(hunk.lines) if line.kind is not absent]
        texts |= _masked_lines({number: texts[number] for number in side}, redact)
    lines = tuple(replace(line, text=texts[number]) for number, line in enumerate(hunk.lines))
    return replace(hunk, lines=lines, heading=redact(hunk.heading))


class _Rows:
    """Lines with one of them put back."""

    def __init__(self, lines: Iterator[tuple[str, int]]) -> None:
        self._lines = lines
        self._back: list[tuple[str, int]] = []

    def __iter__(self) -> Iterator[tuple[str, int]]:
        while True:
            row = self._back.pop() if self._back else next(self._lines, None)
            if row is None:
                return
            yield row

    def put_back(self, row: tuple[str, int]) -> None:
        self._back.append(row)


@dataclass(slots=True)
class _Place:
    """The next line on both sides, and how many are still to come on each."""

    old: int
    new: int
    olds: int
    news: int


def _hunks(rows: _Rows, place: _Place, header: str, heading: str) -> Iterator[Hunk]:
    found: list[DiffLine] = []
    start, letters = (place.old, place.new), 0
    for text, left_out in rows:
        kind = _KINDS.get(text[:1])
        if text.startswith("\\") and found:
            found[-1] = replace(found[-1], has_end=False)
            continue
        if kind is None or not _is_due(kind, place):
            rows.put_back((text, left_out))
            break
        if len(found) >= MOST_LINES or letters > MOST_LETTERS:
            yield Hunk(heading=heading, lines=tuple(found), old_start=start[0], new_start=start[1], header=header)
            found, start, letters, header = [], (place.old, place.new), 0, ""
        found.append(_line(kind, text[1:], left_out, place))
        letters += len(text)
    if found:
        yield Hunk(heading=heading, lines=tuple(found), old_start=start[0], new_start=start[1], header=header)


def _is_due(kind: LineKind, place: _Place) -> bool:
    return (kind is LineKind.ADDED or place.olds > 0) and (kind is LineKind.REMOVED or place.news > 0)


def _line(kind: LineKind, text: str, left_out: int, place: _Place) -> DiffLine:
    """Return a line with its numbers, and move the place behind it."""
    old = None if kind is LineKind.ADDED else place.old
    new = None if kind is LineKind.REMOVED else place.new
    place.old, place.olds = place.old + (old is not None), place.olds - (old is not None)
    place.new, place.news = place.new + (new is not None), place.news - (new is not None)
    return DiffLine(kind=kind, text=text, old=old, new=new, left_out=left_out)


def _masked_lines(texts: dict[int, str], redact: Callable[[str], str]) -> dict[int, str]:
    """Return the same lines masked. A mask over several lines hides all that lie between the first and last change."""
    before = list(texts.values())
    joined = "\n".join(before)
    said = redact(joined)
    if said == joined:
        return texts
    after = said.split("\n")
    if len(after) != len(before):
        most = min(len(before), len(after)) - 1
        first = next((at for at in range(most) if before[at] != after[at]), most)
        last = next((at for at in range(most - first) if before[-1 - at] != after[-1 - at]), most - first)
        middle = after[first : len(after) - last]
        hidden = len(before) - first - last
        shown = [" ".join(middle)[:LONGEST_LINE] or _HIDDEN]
        after = after[:first] + shown + [_HIDDEN] * (hidden - 1) + (after[len(after) - last :] if last else [])
    return dict(zip(texts, after, strict=True))
