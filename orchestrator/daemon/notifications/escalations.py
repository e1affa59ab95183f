"""Telling elsewhere what has waited for a person for too long."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import structlog

from orchestrator.core.events.notice import MachineNoticeKind
from orchestrator.core.notices.sentence import Sentence
from orchestrator.core.task.user_requests import how_to_answer
from orchestrator.daemon.inspection.attention import Attention, AttentionService
from orchestrator.daemon.notifications.announcer import Announcer
from orchestrator.formats.codec import stamp

log = structlog.get_logger()

LOOK_EVERY = 15.0
LATEST = 3 * 86_400.0
"""Seconds after its time that an escalation is still told by a daemon that was away; notices are kept for longer."""
LONGEST_TEXT = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalations:
    """Looks at what waits, from `run` on."""

    announcer: Announcer
    attention: AttentionService

    async def run(self) -> None:
        """Tell what has become too old, until this is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """Tell what is too old now and was not told before."""
        rules = self.announcer.rules()
        if not rules.escalations:
            return
        now = self.announcer.clock()
        for one in self.attention.list():
            for escalation in rules.escalations:
                if escalation.is_due(_kind(one), one.since, now, LATEST):
                    channels = [name for name in rules.channels if name in escalation.channels]
                    await self._tell(one, escalation.after, channels)

    async def _tell(self, one: Attention, after: float, channels: list[str]) -> None:
        key = f"escalation:{after:.0f}:{one.task.id}:{_which(one)}"
        if self.announcer.outbox.get(key):
            return
        minutes = (self.announcer.clock() - one.since).total_seconds() / 60
        text = Sentence(
            "Nobody has answered for %(minutes)s minutes.\n%(about)s",
            {"minutes": f"{minutes:.0f}", "about": "\n".join(_lines(one))},
        )
        try:
            await self.announcer.announce(
                key, MachineNoticeKind.ESCALATION, text, command=_command(one), channels=channels
            )
        except OSError as error:  # tried again at the next look
            log.warning("notice_not_stored", key=key, reason=str(error))


def _kind(one: Attention) -> str:
    """Return the kind of notice that told what waits."""
    return f"{one.request.kind.value}_asked" if one.request else "blocked"


def _which(one: Attention) -> str:
    return str(one.request.number) if one.request else f"blocked-{stamp(one.since)}"


def _lines(one: Attention) -> Iterator[str]:
    yield f"{one.task.id}: {one.task.title}"
    yield (one.request.draft.text if one.request else one.task.block_reason or "")[:LONGEST_TEXT]


def _command(one: Attention) -> str:
    if one.request is None:
        return f"orchestrator logs {one.task.id}"
    draft, several = one.request.draft, len(one.task.pending_requests) > 1
    which = f" --ask {one.request.number}" if several else ""
    return how_to_answer(one.task.id, one.request.kind, draft.subject, draft.name, which)
