"""What an operator reads about the whole: the services of reports, of metrics, and of how the daemon is set up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orchestrator.daemon.inspection.attention import AttentionService
from orchestrator.daemon.inspection.audit import AuditService
from orchestrator.daemon.inspection.definitions import DefinitionService
from orchestrator.daemon.inspection.doctor import DoctorService
from orchestrator.daemon.inspection.settings import SettingsService
from orchestrator.daemon.intake.intake import IntakeService
from orchestrator.daemon.reporting.histories import Histories
from orchestrator.daemon.reporting.metrics import MetricsService
from orchestrator.daemon.reporting.night_report import NightReportService, NoteSource
from orchestrator.daemon.reporting.statistics import StatisticsService
from orchestrator.daemon.services.limits import LimitService
from orchestrator.daemon.services.status import StatusService
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.supervisor.protocols import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Oversight:
    """The services of an operator."""

    audit: AuditService
    definitions: DefinitionService
    doctor: DoctorService
    metrics: MetricsService
    report: NightReportService
    settings: SettingsService
    statistics: StatisticsService


@dataclass(frozen=True, slots=True, kw_only=True)
class OversightParts:
    """What these services work with."""

    index: TaskIndex
    store: Store
    status: StatusService
    limits: LimitService
    attention: AttentionService
    intake: IntakeService
    redact: Callable[[str], str]
    note_sources: Sequence[NoteSource]


def build_oversight(parts: OversightParts) -> Oversight:
    """Return the services of an operator; the metrics must be told each decision. Raises UnfitIndex."""
    histories = Histories(index=parts.index, store=parts.store)
    settings, clock = parts.status.settings, parts.status.clock
    doctor = DoctorService(settings=settings, clock=clock, troubles=parts.intake.troubles)
    return Oversight(
        audit=AuditService(events=parts.store.events),
        definitions=DefinitionService(settings=settings),
        doctor=doctor,
        metrics=MetricsService(
            status=parts.status, limits=parts.limits, attention=parts.attention, doctor=doctor, redact=parts.redact
        ),
        report=NightReportService(
            histories=histories,
            attention=parts.attention,
            limits=parts.limits,
            settings=settings,
            dead_channels=parts.status.dead_channels,
            started_at=parts.status.started_at,
            clock=clock,
            note_sources=(*parts.note_sources, doctor.notes),
        ),
        settings=SettingsService(settings=settings),
        statistics=StatisticsService(histories=histories, clock=clock),
    )
