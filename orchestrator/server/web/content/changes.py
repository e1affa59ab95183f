"""Changed lines as HTML: colours of the language, and which words of a line were changed; unified and side by side."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from time import monotonic

from markupsafe import Markup, escape

from orchestrator.formats.diffs.unified_diff import DiffLine, Hunk, LineKind
from orchestrator.server.web.content.highlight import Span, coloured, language_of
from orchestrator.server.web.content.visible import marked

MOST_COMPARED = 500
"""Pairs of lines of one hunk in which changed words are looked for."""
LONGEST_COMPARED, MOST_WORDS = 400, 60
"""Characters and words of a line in which changed words are looked for."""
LEAST_ALIKE = 0.4
MOST_EDITED = 40_000
"""Old lines times new lines of an edit, without those that are the same at both ends, up to which they are compared."""
LONGEST_TIME = 2.0
"""Seconds for the colours and changed words of one file; the rest of it has none."""

_WORDS = re.compile(r"\w+|\s+|[^\w\s]")
Part = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line with its numbers on both sides, and as HTML."""

    kind: LineKind
    old: int | None
    new: int | None
    html: Markup
    left_out: int
    has_end: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownHunk:
    """Rows as one column, and as pairs of old and new."""

    heading: str
    rows: tuple[Row, ...]
    pairs: tuple[tuple[Row | None, Row | None], ...]


def shown_hunks(path: str, hunks: Iterable[Hunk]) -> list[ShownHunk]:
    """Return hunks of a file as HTML; their texts must be masked already."""
    language, until = language_of(path), monotonic() + LONGEST_TIME
    return [_shown(language, hunk, until) for hunk in hunks]


def shown_edit(path: str, old: str, new: str, until: float) -> ShownHunk:
    """Return the change from one text to another as HTML, with colours until then. The lines have no numbers."""
    before, after = old.split("\n") if old else [], new.split("\n") if new else []
    lines = tuple(_edited(before, after))
    return _shown(language_of(path), Hunk(heading="", lines=lines, old_start=0, new_start=0, header=""), until)


def code_lines(name: str, text: str) -> list[Markup]:
    """Return the lines of a text in the colours of the language that its name stands for."""
    shown = marked(text)
    spans = coloured(language_of(name), shown)
    if spans is None:
        return [escape(line) for line in shown.split("\n")]
    return [_html(line, ()) for line in spans]


def _edited(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    """Yield the lines of a change; where much differs everything is old and everything is new."""
    shortest = min(len(before), len(after))
    first = next((at for at in range(shortest) if before[at] != after[at]), shortest)
    left = shortest - first
    last = next((at for at in range(left) if before[-1 - at] != after[-1 - at]), left)
    yield from (DiffLine(kind=LineKind.CONTEXT, text=text) for text in before[:first])
    yield from _compared(before[first : len(before) - last], after[first : len(after) - last])
    yield from (DiffLine(kind=LineKind.CONTEXT, text=text) for text in before[len(before) - last :])


def _compared(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    if len(before) * len(after) > MOST_EDITED:
        moves: Iterable[tuple[str, int, int, int, int]] = [("replace", 0, len(before), 0, len(after))]
    else:
        moves = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for tag, old, old_end, new, new_end in moves:
        if tag == "equal":
            yield from (DiffLine(kind=LineKind.CONTEXT, text=text) for text in before[old:old_end])
            continue
        yield from (DiffLine(kind=LineKind.REMOVED, text=text) for text in before[old:old_end])
        yield from (DiffLine(kind=LineKind.ADDED, text=text) for text in after[new:new_end])


def _shown(language: str, hunk: Hunk, until: float) -> ShownHunk:
    lines = [marked(line.text) for line in hunk.lines]
    spans = _spans(language, hunk.lines, lines, until)
    pairs = _paired(hunk.lines)
    words = _changed_words(pairs, lines, until)
    rows = [_row(line, spans[at], words.get(at, ())) for at, line in enumerate(hunk.lines)]
    return ShownHunk(
        heading=marked(hunk.heading),
        rows=tuple(rows),
        pairs=tuple((None if old is None else rows[old], None if new is None else rows[new]) for old, new in pairs),
    )


def _spans(language: str, lines: Sequence[DiffLine], texts: Sequence[str], until: float) -> list[list[Span]]:
    """Return the spans of each line, coloured as its file has it on that side."""
    spans: list[list[Span]] = [[("", text)] for text in texts]
    for absent in (LineKind.ADDED, LineKind.REMOVED):
        side = [at for at, line in enumerate(lines) if line.kind is not absent]
        found = coloured(language, "\n".join(texts[at] for at in side), until) if side else None
        for at, line in zip(side, found or (), strict=False):
            spans[at] = line
    return spans


def _paired(lines: Sequence[DiffLine]) -> list[tuple[int | None, int | None]]:
    """Return which old line stands beside which new one."""
    pairs: list[tuple[int | None, int | None]] = []
    removed: list[int] = []
    added: list[int] = []

    def put() -> None:
        count = max(len(removed), len(added))
        pairs.extend(
            (removed[at] if at < len(removed) else None, added[at] if at < len(added) else None) for at in range(count)
        )
        removed.clear()
        added.clear()

    for at, line in enumerate(lines):
        if line.kind is LineKind.CONTEXT:
            put()
            pairs.append((at, at))
        elif line.kind is LineKind.REMOVED:
            if added:
                put()
            removed.append(at)
        else:
            added.append(at)
    put()
    return pairs


def _changed_words(
    pairs: Iterable[tuple[int | None, int | None]], texts: Sequence[str], until: float
) -> dict[int, tuple[Part, ...]]:
    """Return the parts of changed lines that differ from the line beside them."""
    found: dict[int, tuple[Part, ...]] = {}
    compared = 0
    for old, new in pairs:
        if old is None or new is None or old == new:
            continue
        if compared >= MOST_COMPARED or monotonic() > until:
            break
        compared += 1
        found[old], found[new] = _differences(texts[old], texts[new])
    return found


def _differences(old: str, new: str) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    if max(len(old), len(new)) > LONGEST_COMPARED:
        return (), ()
    olds, news = _WORDS.findall(old), _WORDS.findall(new)
    if max(len(olds), len(news)) > MOST_WORDS:
        return (), ()
    matcher = SequenceMatcher(None, olds, news, autojunk=False)
    if matcher.ratio() < LEAST_ALIKE:
        return (), ()
    moves = [move for move in matcher.get_opcodes() if move[0] != "equal"]
    return _parts(olds, [(move[1], move[2]) for move in moves]), _parts(news, [(move[3], move[4]) for move in moves])


def _parts(words: Sequence[str], ranges: Iterable[Part]) -> tuple[Part, ...]:
    """Return ranges of words as ranges of characters."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    return tuple((starts[first], starts[end]) for first, end in ranges if end > first)


def _row(line: DiffLine, spans: Sequence[Span], words: Sequence[Part]) -> Row:
    return Row(
        kind=line.kind,
        old=line.old,
        new=line.new,
        html=_html(spans, words),
        left_out=line.left_out,
        has_end=line.has_end,
    )


def _html(spans: Iterable[Span], words: Sequence[Part]) -> Markup:
    """Return spans as HTML, with the parts from one character to another marked."""
    pieces: list[str] = []
    at = 0
    for name, text in spans:
        for piece, is_marked in _cut(text, at, words):
            escaped = str(escape(piece))
            inner = f"<mark>{escaped}</mark>" if is_marked else escaped
            pieces.append(f'<span class="{name}">{inner}</span>' if name else inner)
        at += len(text)
    return Markup("".join(pieces))  # noqa: S704 - every text in it is escaped above


def _cut(text: str, start: int, words: Sequence[Part]) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a text that begins at `start`, and whether each lies in one of the parts."""
    at = 0
    for part in words:
        first, end = max(part[0] - start, at), min(part[1] - start, len(text))
        if first >= len(text) or end <= first:
            continue
        if first > at:
            yield text[at:first], False
        yield text[first:end], True
        at = end
    if at < len(text):
        yield text[at:], False
