"""WORK-LIST.md: all works of a repository. It is edited line by line, so that what people wrote in it stays."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from orchestrator.pipelines.families.works.documents.language import Language
from orchestrator.pipelines.families.works.documents.markdown import bare, cell, cells
from orchestrator.pipelines.families.works.documents.names import LARGEST_NUMBER, work_id, work_number

LARGEST_LIST = 4 * 1024 * 1024
"""Characters of a list that is read; works are never removed from it while they are open."""

TOO_LARGE = LARGEST_NUMBER + 1
"""Stands for the number of any last work that has more digits than a work may have."""

_LAST = re.compile(
    r"(?P<before>[ \t>*-]{0,20}LAST_WORK_ID[*`]{0,4}[ \t]{0,10}[:：][ \t*`]{0,20})(?P<id>WORK-\d+)?(?P<after>.*)",
    re.IGNORECASE,
)
_HEADINGS = {
    Language.EN: ("WORK", "Title", "Status", "Created", "Completed"),
    Language.KO: ("WORK", "제목", "상태", "생성일", "완료일"),
    Language.JA: ("WORK", "タイトル", "ステータス", "作成日", "完了日"),
}


class WorkStatus(StrEnum):
    """How far a work is."""

    IN_PROGRESS = "IN_PROGRESS"
    DONE = "DONE"
    """Its last task is committed; nobody has pushed it."""
    COMPLETED = "COMPLETED"
    """It was pushed and archived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRow:
    """A work in the list; days are `YYYY-MM-DD`. `status` is None where the list names one that is not known."""

    work: str
    title: str
    status: WorkStatus | None
    created: str = ""
    completed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkList:
    """What a list says: the number of the last work that was begun, -1 if it names none, and the works."""

    last: int
    works: tuple[WorkRow, ...]

    def row(self, work: str) -> WorkRow | None:
        """Return a work of the list."""
        return next((row for row in self.works if row.work == work), None)


def read_work_list(text: str) -> WorkList:
    """Return what a WORK-LIST.md says. Raises ValueError if it is too large."""
    lines = _lines(text)
    last = max((_last(line) for line in lines), default=-1)
    return WorkList(last=last, works=tuple(row for line in lines if (row := _row(line)) is not None))


def next_number(works: WorkList, others: Iterable[str]) -> int:
    """Return the number of the next work: one more than the highest of the list and of these ids, 1 for the first.

    Ids of more than eight digits are ignored. Raises ValueError if the last work has more, or if no number is left.
    """
    if works.last == TOO_LARGE:
        raise ValueError("WORK-LIST.md: works have at most eight digits, but LAST_WORK_ID has more; correct that line")
    numbers = (work_number(one) for one in (*others, *(row.work for row in works.works)))
    free = max((0, works.last, *(one for one in numbers if one is not None and one <= LARGEST_NUMBER))) + 1
    if free > LARGEST_NUMBER:
        raise ValueError(f"works are numbered up to {work_id(LARGEST_NUMBER)}, which was begun; no number is left")
    return free


def with_work(text: str, row: WorkRow, language: Language = Language.EN) -> str:
    """Return the list with this work in it, in place of an older line of the same work.

    All other lines stay as they are. An empty text becomes a new list. Raises ValueError if the text is too large.
    """
    if not text.strip():
        return f"# WORK-LIST\n\nLAST_WORK_ID: {row.work}\n\n{_heading(language)}\n{_line(row)}\n"
    number = work_number(row.work)
    lines = [_with_last(line, -1 if number is None else number) for line in _lines(text)]
    rows = [at for at, line in enumerate(lines) if _row(line) is not None]
    same = [at for at in rows if (found := _row(lines[at])) is not None and found.work == row.work]
    if same:
        lines[same[0]] = _line(row)
    else:
        at = rows[-1] if rows else _end_of_table(lines)
        if at is None:
            lines += ["", *_heading(language).split("\n"), _line(row)]
        else:
            lines.insert(at + 1, _line(row))
    if not any(_LAST.fullmatch(line) for line in lines):
        title = 1 if lines[0].startswith("#") else 0
        lines[title:title] = ["", f"LAST_WORK_ID: {row.work}"] if title else [f"LAST_WORK_ID: {row.work}", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def done(works: WorkList, work: str, title: str, day: str) -> WorkRow:
    """Return the line of a work whose last task is committed; a day that stands there already stays."""
    row = works.row(work) or WorkRow(work=work, title=title, status=None, created=day)
    return replace(row, status=WorkStatus.DONE, completed=row.completed or day)


def _lines(text: str) -> list[str]:
    if len(text) > LARGEST_LIST:
        raise ValueError(f"WORK-LIST.md has {len(text)} characters; at most {LARGEST_LIST} are read")
    return text.removeprefix("\ufeff").replace("\r\n", "\n").rstrip("\n").split("\n")


def _last(line: str) -> int:
    found = _LAST.fullmatch(line)
    if not found or not found["id"]:
        return -1
    number = work_number(found["id"])
    return TOO_LARGE if number is None else min(number, TOO_LARGE)


def _with_last(line: str, number: int) -> str:
    found = _LAST.fullmatch(line)
    if found is None or _last(line) >= number:
        return line
    return (
        f"{found['before']}{'' if found['before'].endswith((' ', '*', '`')) else ' '}{work_id(number)}{found['after']}"
    )


def _row(line: str) -> WorkRow | None:
    """Return the work that a line of the table names, None for any other line."""
    if not line.lstrip().startswith("|"):
        return None
    work, title, status, created, completed = (*map(bare, cells(line)), "", "", "", "", "")[:5]
    number = work_number(work.strip("[]"))
    if number is None:
        return None
    word = status.upper().replace(" ", "_")
    return WorkRow(
        work=work_id(number),
        title=title,
        status=WorkStatus(word) if word in tuple(WorkStatus) else None,
        created="" if created == "-" else created,
        completed="" if completed == "-" else completed,
    )


def _line(row: WorkRow) -> str:
    shown = (row.work, cell(row.title), row.status or WorkStatus.IN_PROGRESS, cell(row.created), cell(row.completed))
    return f"| {' | '.join(one or '-' for one in shown)} |"


def _heading(language: Language) -> str:
    names = _HEADINGS[language]
    return f"| {' | '.join(names)} |\n|{'|'.join('---' for _ in names)}|"


def _end_of_table(lines: list[str]) -> int | None:
    """Return the number of the last line of the first table, None if there is none."""
    found = None
    for at, line in enumerate(lines):
        if line.lstrip().startswith("|"):
            found = at
        elif found is not None:
            break
    return found
