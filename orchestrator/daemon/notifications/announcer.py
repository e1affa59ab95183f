"""Telling a notice is storing it, for each channel that the rules name; the courier sends it from there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from orchestrator.core.events.notice import MachineNoticeKind, Notice, check_key, key_of_task
from orchestrator.core.notices.rules import Rules
from orchestrator.core.notices.sentence import Sentence
from orchestrator.core.task.task import Task
from orchestrator.daemon.services.records import masked_object
from orchestrator.formats.codec import JsonObject
from orchestrator.integrations.notices.documents import (
    LONGEST_HTML,
    LONGEST_TEXT,
    Composed,
    announcement,
    compose,
    machine_announcement,
)
from orchestrator.integrations.notices.entries import Delivery, Entry
from orchestrator.integrations.notices.outbox import NoticeOutbox
from orchestrator.integrations.notices.words import say
from orchestrator.storage.task_files import TaskFiles

log = structlog.get_logger()

SENT_BEFORE = "notices"
"""The folder of a task in which older versions noted what they had sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcer:
    """Stores what is to be told; `rules` and `language` return those in force, `redact` masks secrets."""

    outbox: NoticeOutbox
    rules: Callable[[], Rules]
    language: Callable[[], str]
    files: TaskFiles
    redact: Callable[[str], str]
    clock: Callable[[], datetime]

    async def tell(self, task: Task, notice: Notice) -> str | None:
        """Store a notice of a task unless it was told before; return "" then, None without any channel.

        Raises OSError if it cannot be stored.
        """
        if not self.rules().channels:
            return None
        key = key_of_task(task.id, notice.key)
        if self.outbox.get(key) or self.files.has(task.id, f"{SENT_BEFORE}/{notice.key}"):
            return ""
        channels = self.rules().channels_for(notice.kind.value, self.clock())
        await self._store(key, notice.kind.value, self._composed(announcement(task, notice)), channels)
        return ""

    async def announce(
        self,
        key: str,
        kind: MachineNoticeKind,
        text: Sentence | str,
        *,
        command: str = "",
        channels: Sequence[str] | None = None,
    ) -> bool:
        """Tell something that belongs to no decision of a task; return whether the key was new.

        It goes to the channels that the rules name for its kind unless others are given. Raises OSError, and ValueError
        for a key that cannot be one.
        """
        at = self.clock()
        check_key(key)
        wanted = self.rules().channels_for(kind.value, at) if channels is None else channels
        document = machine_announcement(key, kind, say(text, self.language()), at, command)
        return await self._store(key, kind.value, self._composed(document), wanted)

    async def announce_report(self, key: str, report: Composed, html: str, channels: Sequence[str]) -> bool:
        """Tell a morning report that was composed already; return whether the key was new. Raises OSError."""
        return await self._store(key, MachineNoticeKind.MORNING_REPORT.value, report, channels, html)

    def _composed(self, document: JsonObject) -> Composed:
        return compose(masked_object(document, self.redact), self.language())

    async def _store(self, key: str, kind: str, composed: Composed, channels: Sequence[str], html: str = "") -> bool:
        entry = Entry(
            key=key,
            kind=kind,
            at=self.clock(),
            subject=composed.subject,
            text=composed.text[:LONGEST_TEXT],
            document=composed.document,
            deliveries=tuple(Delivery(channel=name) for name in channels),
            html=html if len(html) <= LONGEST_HTML else "",
        )
        is_new = await self.outbox.store(entry)
        if is_new:
            log.info("notice_stored", key=key, kind=kind, channels=list(channels))
        return is_new
