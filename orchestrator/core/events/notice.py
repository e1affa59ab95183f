"""Notices that are sent to people: a request needs an answer, or a task has ended."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from hashlib import sha256

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


class MachineNoticeKind(StrEnum):
    """What a notice is about that belongs to no decision of a task: the channels themselves, and the whole night."""

    ESCALATION = "escalation"
    CHANNEL_FAILED = "channel_failed"
    CHANNEL_RECOVERED = "channel_recovered"
    DISK_LOW = "disk_low"
    DISK_RECOVERED = "disk_recovered"
    SERVICE = "service"
    SCHEDULE = "schedule"
    DIGEST = "digest"
    MORNING_REPORT = "morning_report"
    TEST = "test"


NOTICE_KINDS = (*NoticeKind, *MachineNoticeKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A notice of a task that is sent once; the same notice always has the same `key`. `text` may be sent as it is.

    Raises ValueError for a key that is no file name: up to 200 letters, digits, dots, colons, dashes and underscores.
    """

    key: str
    kind: NoticeKind
    text: str
    at: datetime

    def __post_init__(self) -> None:
        check_key(self.key)


def key_of_task(task_id: str, key: str) -> str:
    """Return the key of a task's notice among those of all tasks."""
    whole = f"{task_id}:{key}"
    return whole if _KEY.fullmatch(whole) else f"notice:{sha256(whole.encode('utf-8', 'replace')).hexdigest()}"


def check_key(key: str) -> None:
    """Raise ValueError for a key that is no file name."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} cannot be the key of a notice")
