"""What a person is told when nobody looks: that something is asked of them, or how a task went."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from orchestrator.core.codec import Json, stamp
from orchestrator.core.model import Task

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")


class NoticeKind(StrEnum):
    """What there is to be told."""

    REVIEW_ASKED = "review_asked"
    QUESTION_ASKED = "question_asked"
    DEPENDENCY_ASKED = "dependency_asked"
    LIMIT_REACHED = "limit_reached"
    BLOCKED = "blocked"
    FAILED = "failed"
    COMPLETED = "completed"
    REMINDER = "reminder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing to be told once; `key` is the same whenever it is asked for again, `text` may leave as it is.

    ValueError for a key that is no file name: up to 200 letters, digits, dots, colons, dashes and underscores.
    """

    key: str
    kind: NoticeKind
    text: str
    at: datetime

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise ValueError(f"{self.key!r} cannot be the key of a notice")


def told(task: Task, notice: Notice) -> dict[str, Json]:
    """A notice as programs read it, with the task that it is about and the command line that a person may want next."""
    return {
        "key": notice.key,
        "event": notice.kind.value,
        "task_id": task.id,
        "title": task.title,
        "status": task.status.value,
        "stage": task.stage,
        "text": notice.text,
        "at": stamp(notice.at),
        "what_to_do": what_to_do(notice.kind, task.id),
    }


def what_to_do(kind: NoticeKind, task_id: str) -> str:
    """The command line that shows what it is about, or answers it; none of them decides anything by itself."""
    match kind:
        case NoticeKind.REVIEW_ASKED | NoticeKind.COMPLETED:
            return f"orchestrator show {task_id}"
        case NoticeKind.QUESTION_ASKED:
            return f"orchestrator answer {task_id}"
        case NoticeKind.DEPENDENCY_ASKED | NoticeKind.LIMIT_REACHED | NoticeKind.REMINDER:
            return f"orchestrator why {task_id}"
        case NoticeKind.BLOCKED | NoticeKind.FAILED:
            return f"orchestrator logs {task_id}"
        case _:
            assert_never(kind)
