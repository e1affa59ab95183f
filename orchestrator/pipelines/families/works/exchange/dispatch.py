"""A dispatch: what an agent of a work is given to do, as XML."""

from dataclasses import dataclass
from xml.etree.ElementTree import Element

from orchestrator.pipelines.families.works.documents.names import Mode
from orchestrator.pipelines.families.works.exchange.elements import (
    attribute,
    child_text,
    find_elements,
    leaf,
    said,
    tag,
)
from orchestrator.pipelines.families.works.exchange.handoff import Detail, Handoff

AGENTS = ("builder", "verifier", "committer", "planner", "scheduler", "specifier")
ACTIONS = ("implement", "verify", "commit", "plan", "route")
_KNOWN = frozenset(
    (
        *("dispatch", "references-dir", "context", "project", "language", "plan-file", "task-spec", "file", "title"),
        *("action", "description", "previous-results", "result", "context-handoff", "what", "why", "caution"),
        *("incomplete", "cache-hint", "ref-cache", "ref"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierResult:
    """What became of an earlier task: PASS, FAIL or SKIP."""

    task: str
    status: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """What an agent is given to do; empty fields are left out."""

    to: str
    work: str
    task: str = ""
    mode: Mode = Mode.FULL
    references: str = ""
    project: str = ""
    language: str = ""
    plan_file: str = ""
    file: str = ""
    title: str = ""
    action: str = ""
    description: str = ""
    results: tuple[EarlierResult, ...] = ()
    handoffs: tuple[Handoff, ...] = ()


def read_dispatches(text: str) -> tuple[Dispatch, ...]:
    """Return the dispatches in the text of an agent.

    Raises ValueError, with words for its author, if it is too large or one of them names no agent or no work.
    """
    return tuple(_dispatch(element) for element in find_elements(text, "dispatch", _KNOWN))


def write_dispatch(dispatch: Dispatch) -> str:
    """Return a dispatch as XML; every text in it is escaped."""
    context = (("project", dispatch.project), ("language", dispatch.language), ("plan-file", dispatch.plan_file))
    spec = (
        ("file", dispatch.file),
        ("title", dispatch.title),
        ("action", dispatch.action),
        ("description", dispatch.description),
    )
    earlier = [
        *(leaf("result", result.text, task=result.task, status=result.status) for result in dispatch.results),
        *map(write_handoff, dispatch.handoffs),
    ]
    parts = [
        leaf("references-dir", dispatch.references) if dispatch.references else "",
        _group("context", [leaf(name, value) for name, value in context if value]),
        _group("task-spec", [leaf(name, value) for name, value in spec if value]),
        _group("previous-results", earlier),
    ]
    attributes = {
        "to": dispatch.to,
        "work": dispatch.work,
        "task": dispatch.task,
        "execution_mode": dispatch.mode.value,
    }
    return tag("dispatch", "\n" + "\n".join(filter(None, parts)) + "\n", **attributes) + "\n"


def write_handoff(handoff: Handoff) -> str:
    """Return a handoff as XML."""
    parts = {"what": handoff.what, "why": handoff.why, "caution": handoff.caution, "incomplete": handoff.incomplete}
    content = "".join(f"\n    {leaf(name, text)}" for name, text in parts.items() if text)
    attributes = {"from": handoff.source, "task": handoff.task, "detail_level": handoff.detail.value}
    return tag("context-handoff", f"{content}\n  " if content else "", **attributes)


def read_handoff(element: Element) -> Handoff:
    """Return the handoff in an element; its text counts as `what` if it has no such part."""
    detail = attribute(element, "detail-level").upper()
    what = child_text(element, "what") or ("" if len(element) else said(element))
    return Handoff(
        source=attribute(element, "from"),
        task=attribute(element, "task"),
        what=what,
        why=child_text(element, "why"),
        caution=child_text(element, "caution"),
        incomplete=child_text(element, "incomplete"),
        detail=Detail(detail) if detail in tuple(Detail) else Detail.FULL,
    )


def _dispatch(element: Element) -> Dispatch:
    to, work = attribute(element, "to").casefold(), attribute(element, "work")
    if to not in AGENTS:
        raise ValueError(f'<dispatch to="{to:.40}"> must name one of {", ".join(AGENTS)}')
    if not work:
        raise ValueError('<dispatch> must say which work it belongs to: work="WORK-NN"')
    empty = Element("none")
    found = {name: element.find(name) for name in ("context", "task-spec", "previous-results")}
    context, spec, earlier = (empty if one is None else one for one in found.values())
    mode = attribute(element, "execution-mode").casefold()
    return Dispatch(
        to=to,
        work=work,
        task=attribute(element, "task"),
        mode=Mode(mode) if mode in tuple(Mode) else Mode.FULL,
        references=child_text(element, "references-dir"),
        project=child_text(context, "project"),
        language=child_text(context, "language"),
        plan_file=child_text(context, "plan-file"),
        file=child_text(spec, "file"),
        title=child_text(spec, "title"),
        action=child_text(spec, "action").casefold(),
        description=child_text(spec, "description"),
        results=tuple(
            EarlierResult(task=attribute(one, "task"), status=attribute(one, "status").upper(), text=said(one))
            for one in earlier.findall("result")
        ),
        handoffs=tuple(map(read_handoff, earlier.iter("context-handoff"))),
    )


def _group(name: str, parts: list[str]) -> str:
    return tag(name, "".join(f"\n  {part}" for part in parts) + "\n") if parts else ""
