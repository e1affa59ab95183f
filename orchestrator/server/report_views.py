"""Night reports and statistics as views: every text of an agent redacted."""

from orchestrator.daemon.reporting.night_report import NightReport, ReportedIncident, ReportedTask, Share
from orchestrator.daemon.reporting.statistics import Statistics, Tally
from orchestrator.server.rendering import spent_view
from orchestrator.server.schemas.base import Redact, compose_view
from orchestrator.server.schemas.oversight.reports import (
    CheckVerdictView,
    ClosedWindowView,
    DivisionView,
    IncidentView,
    MachineView,
    PatternView,
    ReportedTaskView,
    ReportView,
    ShareView,
    StatisticsView,
    StopView,
    TallyView,
    WaitingView,
)


def report_view(report: NightReport, redact: Redact) -> ReportView:
    """Return a night report. Scans all its texts."""
    limits = (
        ClosedWindowView.model_validate({"window": n, "until": u}, context=redact) for n, u in report.machine.limits
    )
    return compose_view(
        ReportView,
        redact,
        report,
        finished=tuple(_task(one, redact) for one in report.finished),
        problems=tuple(_task(one, redact) for one in report.problems),
        waiting=tuple(compose_view(WaitingView, redact, one) for one in report.waiting),
        spent=spent_view(report.spent),
        shares={kind: tuple(_share(one, redact) for one in shares) for kind, shares in report.shares.items()},
        limits_met=tuple(_incident(one, redact) for one in report.limits_met),
        incidents=tuple(_incident(one, redact) for one in report.incidents),
        stops=tuple(compose_view(StopView, redact, one) for one in report.stops),
        machine=compose_view(MachineView, redact, report.machine, limits=tuple(limits)),
    )


def statistics_view(found: Statistics, redact: Redact) -> StatisticsView:
    """Return statistics."""
    return compose_view(
        StatisticsView,
        redact,
        found,
        total=_tally(found.total),
        by_day={day: _tally(one) for day, one in found.by_day.items()},
        divisions={
            dimension: tuple(
                compose_view(
                    DivisionView,
                    redact,
                    one,
                    total=_tally(one.total),
                    by_day={day: _tally(tally) for day, tally in one.by_day.items()},
                )
                for one in divisions
            )
            for dimension, divisions in found.divisions.items()
        },
    )


def _task(one: ReportedTask, redact: Redact) -> ReportedTaskView:
    checks = tuple(
        compose_view(CheckVerdictView, redact, name=name, verdict=verdict) for name, verdict in one.task.checks
    )
    patterns = tuple(
        compose_view(PatternView, redact, pattern=name, occurrences=count) for name, count in one.task.patterns
    )
    spent = spent_view(one.spent)
    return compose_view(ReportedTaskView, redact, one, one.task, checks=checks, patterns=patterns, spent=spent)


def _incident(one: ReportedIncident, redact: Redact) -> IncidentView:
    return compose_view(IncidentView, redact, one, one.incident, until=one.incident.until or None)


def _share(one: Share, redact: Redact) -> ShareView:
    return compose_view(ShareView, redact, one, spent=spent_view(one.spent))


def _tally(one: Tally) -> TallyView:
    return compose_view(TallyView, str, one, spent=spent_view(one.spent))
