"""Entries of a transcript as a page shows them: calls with results, edits as changes, words as Markdown."""

from collections.abc import Iterable
from dataclasses import dataclass
from time import monotonic

from markupsafe import Markup

from orchestrator.server.schemas.texts import EditView, EntryView
from orchestrator.server.web.content.changes import ShownHunk, shown_edit
from orchestrator.server.web.content.markdown import markdown
from orchestrator.server.web.content.visible import marked, plain

LONGEST_MARKDOWN = 20_000
"""Characters of an agent's words that are read as Markdown."""
LONGEST_TIME = 3.0
"""Seconds for Markdown and colours of one page; the rest of it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEdit:
    """A change that a tool was asked to make."""

    path: str
    hunk: ShownHunk
    cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownResult:
    """What a tool returned."""

    text: str
    ok: bool
    cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEntry:
    """One entry; `anchor` is its id on the page. A call has its result, if that is on the same page."""

    offset: int
    anchor: str
    kind: str
    text: str
    html: Markup | None = None
    is_tool: bool = False
    given: str = ""
    edits: tuple[ShownEdit, ...] = ()
    result: ShownResult | None = None


def shown_entries(entries: Iterable[EntryView]) -> list[ShownEntry]:
    """Return the entries in their order, each result with its call."""
    listed = list(entries)
    calls = {one.tool for one in listed if one.kind == "tool" and one.tool}
    results = {one.tool: one for one in reversed(listed) if _is_result(one) and one.tool in calls}
    shown: list[ShownEntry] = []
    until = monotonic() + LONGEST_TIME
    seen: dict[int, int] = {}
    for one in listed:
        if _is_result(one) and results.get(one.tool) is one:
            continue
        number = seen[one.offset] = seen.get(one.offset, 0) + 1
        anchor = f"o-{one.offset}" if number == 1 else f"o-{one.offset}-{number}"
        shown.append(_shown(one, anchor, results.get(one.tool) if one.kind == "tool" else None, until))
    return shown


def _is_result(one: EntryView) -> bool:
    return one.result is not None or one.kind == "result"


def _shown(one: EntryView, anchor: str, result: EntryView | None, until: float) -> ShownEntry:
    call = one.call
    found = one if _is_result(one) else result
    is_markdown = one.kind == "text" and len(one.text) <= LONGEST_MARKDOWN and monotonic() < until
    return ShownEntry(
        offset=one.offset,
        anchor=anchor,
        kind="error" if found is not None and found.kind == "error" else one.kind,
        text=plain(one.text),
        html=markdown(one.text) if is_markdown else None,
        is_tool=one.kind == "tool" or _is_result(one),
        given="" if call is None else marked(call.input),
        edits=() if call is None else tuple(_edit(edit, until) for edit in call.edits),
        result=None if found is None else _result(found),
    )


def _edit(edit: EditView, until: float) -> ShownEdit:
    return ShownEdit(path=marked(edit.path), hunk=shown_edit(edit.path, edit.old, edit.new, until), cut=edit.cut)


def _result(one: EntryView) -> ShownResult:
    if one.result is None:
        return ShownResult(text=plain(one.text), ok=one.kind != "error", cut=False)
    return ShownResult(text=plain(one.result.text), ok=one.result.ok, cut=one.result.cut)
