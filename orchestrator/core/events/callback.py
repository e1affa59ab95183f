"""Callbacks: what another program is told about a task over HTTP, as the task's family words it."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from orchestrator.formats.codec import JsonObject

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}")


class CallbackKind(StrEnum):
    """What a callback is about: how the task is doing, of which the newest counts, or how it ended."""

    PROGRESS = "progress"
    TASK = "task"


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """A document that is owed since `at`; the same one always has the same `key`. Raises ValueError for a key that
    no HTTP header can hold: up to 200 letters, digits, dots, colons, dashes and underscores.
    """

    key: str
    kind: CallbackKind
    body: JsonObject
    at: datetime

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise ValueError(f"{self.key!r} cannot be the key of a callback")
