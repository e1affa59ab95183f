"""What people are told of by the command that their settings name."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class NoticeKind(StrEnum):
    """What happened."""

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
    """Something to be told once; `key` never repeats within a task."""

    key: str
    kind: NoticeKind
    text: str
    at: datetime
