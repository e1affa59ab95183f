"""What would stop an unattended night, as the daemon itself finds it."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from orchestrator.daemon.examination.examination import Examiner
from orchestrator.daemon.inspection.doctor_checks import DoctorFinding, Level
from orchestrator.formats.codec import stamp
from orchestrator.settings.environment import environment_with_secrets
from orchestrator.settings.settings import Settings

log = structlog.get_logger()

KEPT_FOR = timedelta(minutes=1)
"""How long findings are shown again instead of checking again."""
PATIENCE = 20.0
"""Seconds that a caller waits for slow checks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorResult:
    """What was found, and when; `ok` says that nothing would stop the night.

    It is not `whole` while a check still runs.
    """

    ok: bool
    whole: bool
    checked_at: datetime
    findings: tuple[DoctorFinding, ...]


@dataclass(slots=True)
class _Examination:
    """One run of all checks: what it has found so far."""

    began_at: datetime
    findings: list[DoctorFinding] = field(default_factory=list)
    is_done: bool = False


@dataclass(slots=True, kw_only=True)
class DoctorService:
    """The use case of the doctor: one examination at a time, in a thread."""

    settings: Callable[[], Settings]
    clock: Callable[[], datetime]
    troubles: Callable[[], Sequence[str]]
    """Why work does not come in, for each source that brings none."""
    examiner: Examiner = field(default_factory=Examiner)
    _newest: _Examination | None = None
    _work: "asyncio.Task[None] | None" = None

    def counts(self) -> Mapping[str, int]:
        """Return how many findings of each level the last examination that is done had; none before the first."""
        newest = self._newest
        if newest is None or not newest.is_done:
            return {}
        return dict.fromkeys(map(str, Level), 0) | Counter(str(one.level) for one in newest.findings)

    @property
    def newest(self) -> "DoctorResult | None":
        """What the last examination found that is done; None before the first."""
        return _result(self._newest) if self._newest is not None and self._newest.is_done else None

    def recall(self, checked_at: datetime, findings: Sequence[DoctorFinding]) -> None:
        """Take over what an examination found before the daemon's start."""
        self._newest = self._newest or _Examination(checked_at, list(findings), is_done=True)

    async def notes(self, since: datetime, until: datetime) -> Sequence[str]:
        """Return what the last examination in a span found that would stop a night, for its report."""
        newest = self.newest
        bad = [one.name for one in newest.findings if one.level is Level.BAD] if newest else []
        if newest is None or not bad or not since <= newest.checked_at <= until:
            return ()
        at = stamp(newest.checked_at)
        return (f"the doctor found what would stop a night, at {at}: {', '.join(dict.fromkeys(bad))}",)

    async def examine(self, *, anew: bool = False) -> DoctorResult:
        """Return the findings of an examination that began at most a minute ago, or begins now."""
        newest = self._newest
        if self._work is None and (anew or newest is None or newest.began_at + KEPT_FOR < self.clock()):
            newest = self._newest = _Examination(self.clock())
            self._work = asyncio.create_task(self._examine(newest))
        if self._work is not None:
            await asyncio.wait({self._work}, timeout=PATIENCE)
        return _result(newest or _Examination(self.clock()))

    async def _examine(self, examination: _Examination) -> None:
        try:
            await asyncio.to_thread(_check, self.examiner, self.settings(), examination)
        except Exception:
            log.exception("doctor_failed")
            text = "a check failed; the daemon's log has the details"
            examination.findings.append(DoctorFinding(name="doctor", level=Level.BAD, text=text))
        else:
            look = "orchestrator intake"
            waiting = [DoctorFinding(name="intake", level=Level.WARN, text=text, mend=look) for text in self.troubles()]
            examination.findings.extend(waiting)
        finally:
            examination.is_done = True
            self._work = None


def _result(found: _Examination) -> DoctorResult:
    findings = tuple(found.findings)
    return DoctorResult(
        ok=all(one.level is not Level.BAD for one in findings),
        whole=found.is_done,
        checked_at=found.began_at,
        findings=findings,
    )


def _check(examiner: Examiner, settings: Settings, examination: _Examination) -> None:
    for one in examiner.examine(settings, environment_with_secrets()):
        examination.findings.append(one)
