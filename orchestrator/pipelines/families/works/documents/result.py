"""TASK-NN_result.md: what a finished task changed, how that was verified, and what later tasks must know."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.pipelines.families.works.documents.language import (
    Heading,
    Label,
    Language,
    heading_of,
    is_none,
    nothing_in,
    title_of,
)
from orchestrator.pipelines.families.works.documents.markdown import (
    Document,
    bare,
    bullets,
    field,
    items,
    one_line,
    prose,
    read_document,
)
from orchestrator.pipelines.families.works.documents.names import Mode, work_id, work_number
from orchestrator.pipelines.families.works.documents.plan import action_of
from orchestrator.pipelines.families.works.documents.progress import ChangedFile

DONE = "DONE"
_TITLES = {"CREATE": "Created", "MODIFY": "Modified", "DELETE": "Deleted"}
_WORD = re.compile(r"[A-Za-z_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """A result file. `builder` and `verifier` are handoffs as text; `mode` is DIRECT or another one."""

    task: str
    title: str
    work: str
    completed: str
    """Minutes, as `YYYY-MM-DD HH:MM`."""
    status: str = DONE
    mode: Mode = Mode.FULL
    summary: str = ""
    checklist: tuple[str, ...] = ()
    verification: tuple[str, ...] = ()
    files: tuple[ChangedFile, ...] = ()
    issues: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    builder: str = ""
    verifier: str = ""

    @property
    def is_done(self) -> bool:
        """Whether the file says that its task is done."""
        return self.status == DONE


def read_result(text: str, key: str) -> TaskReport:
    """Return what the result of a task says. Raises ValueError, with words for its author, if it is too large."""
    document = read_document(text, f"{key}_result.md")
    head = document.head
    number = work_number(bare(field(head, Label.WORK) or ""))
    status = _WORD.search(bare(field(head, Label.STATUS) or ""))
    mode = bare(field(head, Label.MODE) or "").casefold()
    checks = document.body(Heading.VERIFICATION) or document.body(Heading.VERIFY)
    return TaskReport(
        task=key,
        title=document.title.partition(":")[2].strip(),
        work=work_id(number) if number is not None else "",
        completed=bare(field(head, Label.COMPLETED) or ""),
        status=status[0].upper() if status else "",
        mode=Mode(mode) if mode in tuple(Mode) else Mode.FULL,
        summary=prose(document.body(Heading.SUMMARY)),
        checklist=_listed(document, Heading.CHECKLIST),
        verification=tuple(item.text for item in items(checks)),
        files=tuple(_files(document)),
        issues=_listed(document, Heading.ISSUES),
        notes=_listed(document, Heading.NOTES),
        builder=_handoff(document, "builder"),
        verifier=_handoff(document, "verifier"),
    )


def problems_of_result(text: str, key: str, work: str) -> tuple[str, ...]:
    """Return what a result file lacks, in words for its author."""
    try:
        report = read_result(text, key)
    except ValueError as error:
        return (str(error),)
    problems = []
    if report.work != work:
        problems.append(f"'> WORK: {work}' is missing below its first heading")
    if not report.completed:
        problems.append("'> Completed: YYYY-MM-DD HH:MM' is missing below its first heading")
    if not report.is_done:
        problems.append("'> Status: **DONE**' is missing below its first heading")
    wanted = {"Summary": report.summary, "Files Changed": report.files, "Verification": report.verification}
    problems += [f"'## {name}' is missing or empty" for name, found in wanted.items() if not found]
    return tuple(problems)


def write_result(report: TaskReport, language: Language) -> str:
    """Return a report as a result file; one of a direct work is short. It holds no commit hash, because the commit that
    contains it cannot name itself.
    """
    nothing = nothing_in(language)
    is_direct = report.mode is Mode.DIRECT
    head = [("WORK", report.work), ("Completed", report.completed)]
    head += [("Execution-Mode", report.mode.value)] if is_direct else []
    head.append(("Status", f"**{report.status}**"))
    parts = [(Heading.SUMMARY, one_line(report.summary) if is_direct else report.summary or nothing)]
    verification = (Heading.VERIFICATION, bullets(report.verification, nothing))
    files = (Heading.FILES_CHANGED, _files_text(report.files, nothing))
    if is_direct:
        parts += [files, verification]
    else:
        checklist = "\n".join(f"- [x] {one_line(text)}" for text in report.checklist) or nothing
        handoffs = (("Builder (SUMMARY)", report.builder), ("Verifier (FULL)", report.verifier))
        parts += [
            (Heading.CHECKLIST, checklist),
            verification,
            files,
            (Heading.ISSUES, bullets(report.issues, nothing)),
            (Heading.NOTES, bullets(report.notes, nothing)),
            (Heading.HANDOFF, "\n\n".join(f"### {name}\n{text or nothing}" for name, text in handoffs)),
        ]
    fields = "\n".join(f"> {name}: {one_line(value)}" for name, value in head)
    body = "\n\n".join(f"## {title_of(heading, language)}\n{text}" for heading, text in parts)
    return f"# {report.task} Result: {one_line(report.title)}\n\n{fields}\n\n{body}\n"


def _listed(document: Document, heading: Heading) -> tuple[str, ...]:
    return tuple(item.text for item in items(document.body(heading)) if not is_none(item.text))


def _files(document: Document) -> Iterable[ChangedFile]:
    """Yield the changed files, listed below a heading for each action or with the action beside each path."""
    for section in document.under(Heading.FILES_CHANGED):
        below = action_of(section.title) if heading_of(section.title) is None else None
        for item in items(section.lines):
            path, _, rest = item.text.partition(" — ") if " — " in item.text else item.text.partition(" - ")
            if not is_none(path):
                action = below or action_of(rest) or "MODIFY"
                yield ChangedFile(path=bare(path.split("`")[1] if path.count("`") > 1 else path), action=action)


def _files_text(files: Sequence[ChangedFile], nothing: str) -> str:
    grouped: Mapping[str, list[str]] = {action: [] for action in _TITLES}
    for one in files:
        grouped[one.action if one.action in grouped else "MODIFY"].append(f"- `{one_line(one.path)}`")
    parts = ["\n".join((f"### {_TITLES[action]}", *paths)) for action, paths in grouped.items() if paths]
    return "\n\n".join(parts) or nothing


def _handoff(document: Document, name: str) -> str:
    """Return the handoff of an agent: what stands below the heading that names it."""
    for section in document.under(Heading.HANDOFF):
        if section.title.casefold().startswith(name):
            text = prose(section.lines)
            return "" if is_none(text) else text
    return ""
