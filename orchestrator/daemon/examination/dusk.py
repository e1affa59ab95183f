"""The daemon's own examination before the night, and telling people what it found.

What was due and found is on disk before anybody is told, so a daemon that is killed in between tells it after its
restart, and one that was away at the time examines then. The notice's key follows from the time at which it was due.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import structlog

from orchestrator.core.schedule.recurring import is_ahead
from orchestrator.daemon.examination.canary import make_canary_turn
from orchestrator.daemon.examination.due import last_due
from orchestrator.daemon.examination.records import ExaminationRecord, read_record, write_record
from orchestrator.daemon.inspection.doctor import DoctorService
from orchestrator.daemon.inspection.doctor_checks import DoctorFinding, Level
from orchestrator.settings.environment import environment_with_secrets
from orchestrator.settings.sections.windows import zone_of
from orchestrator.settings.settings import Settings

log = structlog.get_logger()

LOOK_SECONDS = 20.0
LATE = timedelta(hours=6)
"""An examination that was missed for longer is left out: that night is over."""
MOST_TOLD = 20


class Tell(Protocol):
    """Tells people something of the daemon as a whole; the same key is told once. Raises OSError."""

    def __call__(self, key: str, text: str) -> Awaitable[object]: ...


@dataclass(slots=True, kw_only=True)
class DuskExamination:
    """Examines when it is due; `opening` returns when the next run window opens, None without any."""

    doctor: DoctorService
    settings: Callable[[], Settings]
    opening: Callable[[datetime], datetime | None]
    tell: Tell
    folder: Path
    clock: Callable[[], datetime]
    _record: ExaminationRecord | None = field(default=None, init=False)
    _since: datetime | None = field(default=None, init=False)

    async def run(self) -> None:
        """Look again and again whether an examination is due."""
        while True:
            try:
                await self.look()
            except OSError as error:
                log.warning("doctor_not_recorded", error=str(error))
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Examine if it is due, and tell what is untold. Raises OSError."""
        if self._since is None:
            self._since = self.clock()
            self._record = await asyncio.to_thread(read_record, self.folder)
            if self._record is not None:
                self.doctor.recall(self._record.checked_at, self._record.findings)
        due, now = self._due(), self.clock()
        before = self._record.due if self._record else self._since
        if is_ahead(before, now):
            log.warning("doctor_mark_ahead", due=before.isoformat(), now=now.isoformat())
            self._since = before = now
            self._record = replace(self._record, due=now) if self._record else None
        if due is not None and due > before and now - due < LATE:
            await self._examine(due)
        if self._record is not None and not self._record.is_told:
            await self._tell(self._record)

    def _due(self) -> datetime | None:
        settings, now = self.settings().doctor, self.clock()
        ahead = timedelta(seconds=settings.before_window)
        opens = self.opening(now) if ahead else None
        return last_due(now, settings.time, zone_of(""), opens - ahead if opens else None)

    async def _examine(self, due: datetime) -> None:
        result = await self.doctor.examine(anew=True)
        findings = result.findings
        if self.settings().doctor.canary:
            findings = (*findings, *await asyncio.to_thread(self._canary))
        known = self._record.known if self._record else ()
        self._record = ExaminationRecord(due=due, checked_at=result.checked_at, findings=findings, known=known)
        await asyncio.to_thread(write_record, self.folder, self._record)
        counts = {level.value: sum(one.level is level for one in findings) for level in Level}
        log.info("doctor_examined", due=due.isoformat(), **counts)

    def _canary(self) -> tuple[DoctorFinding, ...]:
        return tuple(make_canary_turn(self.settings(), environment_with_secrets()))

    async def _tell(self, record: ExaminationRecord) -> None:
        """Tell of what would stop the night, and once of what is worth knowing; note that it was told."""
        worse = [one for one in record.findings if one.level is not Level.OK]
        names = tuple(sorted({one.name for one in worse}))
        if any(one.level is Level.BAD for one in worse) or set(names) - set(record.known):
            await self.tell(f"doctor-{record.due:%Y%m%dT%H%M}", describe(worse))
        self._record = replace(record, is_told=True, known=names)
        await asyncio.to_thread(write_record, self.folder, self._record)


def describe(findings: Iterable[DoctorFinding]) -> str:
    """Return findings as a text for people, the bad ones first."""
    found = sorted(findings, key=lambda one: one.level is not Level.BAD)
    bad = sum(one.level is Level.BAD for one in found)
    said = f"{bad} of {len(found)} would stop the night" if bad else "none of it would stop the night"
    lines = [f"{one.name}: {one.text}" + (f"\n  {one.mend}" if one.mend else "") for one in found[:MOST_TOLD]]
    more = [f"and {len(found) - MOST_TOLD} more: orchestrator doctor"] if len(found) > MOST_TOLD else []
    return "\n".join([f"orchestrator's doctor found {len(found)} problems; {said}.", *lines, *more])
