"""The morning report, told once for each day at its time, or late if nobody could send it then.

`<data>/notifications/report.json` says for which day the newest report was stored and until when it told what happened;
the next one goes on there. The report is stored under the day as its key, so a crash before that file is written
repeats nothing.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Protocol

import orjson
import structlog

from orchestrator.core.events.notice import MachineNoticeKind
from orchestrator.core.notices.report_time import DueReport, ReportMark, due_report, valid_mark
from orchestrator.core.notices.sentence import Sentence
from orchestrator.core.schedule.time_of_day import TimeOfDay
from orchestrator.daemon.notifications.announcer import Announcer
from orchestrator.daemon.reporting.night_report import NightReport, NightReportService
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import JsonObject, stamp, time_of
from orchestrator.formats.fields import text_of
from orchestrator.formats.files import make_private
from orchestrator.formats.versioned import read_versioned, write_versioned
from orchestrator.integrations.notices.documents import Composed, machine_announcement, subject
from orchestrator.integrations.notices.words import WORDS, say
from orchestrator.settings.sections.notify import NotifySettings, ReportFormat

log = structlog.get_logger()

FILE = "report.json"
FORMAT = 1
LOOK_EVERY = 20.0
LARGEST_DOCUMENT = 200 * 1024
"""Bytes of a report as JSON; a larger one is told as text only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenReport:
    """A report for people and for programs: in some words, as text, as a page if wanted, and as JSON."""

    headline: str
    text: str
    html: str
    document: JsonObject


class ReportWriter(Protocol):
    """Writes reports. Blocks."""

    def write(self, report: NightReport, wanted: ReportFormat, zone: tzinfo, language: str) -> WrittenReport:
        """Return a report in this format and language, its times in a zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MorningReport:
    """Looks at the clock, from `run` on; `settings` returns those in force."""

    announcer: Announcer
    reports: NightReportService
    writer: ReportWriter
    settings: Callable[[], NotifySettings]
    folder: Path

    async def run(self) -> None:
        """Tell each report at its time, until this is cancelled."""
        while True:
            try:
                await self.look()
            except (OSError, OrchestratorError) as error:  # tried again at the next look
                log.warning("morning_report_not_stored", reason=str(error))
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """Store the report that is due now, if any. Raises OSError."""
        times, now = self.settings().report_times(), self.announcer.clock()
        if times is None:
            await asyncio.to_thread((self.folder / FILE).unlink, missing_ok=True)
            return
        known = await asyncio.to_thread(self._mark)
        mark = valid_mark(known, times, now)
        if mark != known:
            await asyncio.to_thread(self._write, mark)
        if (found := due_report(mark, times, now)) is not None:
            until = await self._tell(found, times)
            await asyncio.to_thread(self._write, ReportMark(day=found.day, until=until))

    async def _tell(self, found: DueReport, times: TimeOfDay) -> datetime:
        """Store the report of a day unless it is stored; return until when it tells what happened."""
        key = f"report:{found.day.isoformat()}"
        if (stored := self.announcer.outbox.get(key)) is not None:
            return time_of(text_of(stored.document.get("until")))
        report = await self.reports.report(found.since, None)
        wanted, language = self.settings().report, self.settings().language
        written = await asyncio.to_thread(self.writer.write, report, wanted.format, times.zone, language)
        sentence = "This report is late: it was due at %(at)s, and nobody could send it."
        late = f"{say(Sentence(sentence, {'at': f'{times.at:%H:%M}'}), language)}\n\n" * found.is_late
        title = f"{WORDS[language]['morning_report']} {found.day.isoformat()}: {written.headline}"
        document = machine_announcement(key, MachineNoticeKind.MORNING_REPORT, title, report.until)
        document |= {"since": stamp(report.since), "until": stamp(report.until), "late": found.is_late}
        if len(orjson.dumps(written.document)) <= LARGEST_DOCUMENT:
            document["report"] = written.document
        composed = Composed(document=document, subject=subject(title), text=late + written.text)
        channels = wanted.channels or self.announcer.rules().channels_for(
            MachineNoticeKind.MORNING_REPORT.value, self.announcer.clock()
        )
        await self.announcer.announce_report(key, composed, written.html, channels)
        return report.until

    def _mark(self) -> ReportMark | None:
        """Return what is known of the newest report; a file that cannot be understood says nothing."""
        return read_versioned(ReportMark, self.folder / FILE, FORMAT)

    def _write(self, mark: ReportMark) -> None:
        write_versioned(make_private(self.folder) / FILE, mark, FORMAT)
