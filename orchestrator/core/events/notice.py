"""Notices that are sent to people: a request needs an answer, or a task has ended."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")


class NoticeKind(StrEnum):
    """What a notice is about."""

    REVIEW_ASKED = "review_asked"
    QUESTION_ASKED = "question_asked"
    DEPENDENCY_ASKED = "dependency_asked"
    LIMIT_REACHED = "limit_reached"
    LOGIN_MISSING = "login_missing"
    INSTALLATION_BROKEN = "installation_broken"
    BLOCKED = "blocked"
    FAILED = "failed"
    COMPLETED = "completed"
    REMINDER = "reminder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A notice that is sent once; the same notice always has the same `key`. `text` may be sent as it is.

    Raises ValueError for a key that is no file name: up to 200 letters, digits, dots, colons, dashes and underscores.
    """

    key: str
    kind: NoticeKind
    text: str
    at: datetime

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise ValueError(f"{self.key!r} cannot be the key of a notice")
