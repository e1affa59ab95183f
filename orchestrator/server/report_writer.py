"""Morning reports as they are told: the same texts as those of `orchestrator report`."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import tzinfo

from orchestrator.daemon.notifications.morning_report import WrittenReport
from orchestrator.daemon.reporting.night_report import NightReport
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.files import parsed
from orchestrator.server.report_texts import ReportFormat, as_text, headline
from orchestrator.server.report_views import report_view


@dataclass(frozen=True, slots=True)
class MorningReportWriter:
    """Writes reports with every text of an agent redacted."""

    redact: Callable[[str], str]

    def write(self, report: NightReport, wanted: str, zone: tzinfo, language: str) -> WrittenReport:
        """Return a report in a language; a page has a plain text beside it."""
        view = report_view(report, self.redact)
        plain = ReportFormat.MARKDOWN if wanted == ReportFormat.MARKDOWN else ReportFormat.TEXT
        document: JsonObject = parsed(as_text(view, ReportFormat.JSON).encode()) or {}
        return WrittenReport(
            headline=headline(view, language),
            text=as_text(view, plain, zone, language),
            html=as_text(view, ReportFormat.HTML, zone, language) if wanted == ReportFormat.HTML else "",
            document=document,
        )
