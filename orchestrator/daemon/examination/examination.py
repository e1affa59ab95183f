"""Running every check of the doctor at the same time, so that one that hangs keeps nobody from the others' results.

Each check runs in a thread of its own. One that does not end in time is given up and reported; its thread is left
behind, and no second one of the same check is started before it has ended.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import structlog

from orchestrator.daemon.examination import clock, host, logins, night_disk, service_unit, telling
from orchestrator.daemon.inspection import doctor_checks as basic
from orchestrator.daemon.inspection.doctor_checks import DoctorFinding, Environment, Level
from orchestrator.settings.settings import Settings

log = structlog.get_logger()

PATIENCE = 15.0
"""Seconds that all checks together may take."""
AGAIN = "orchestrator doctor    # once more; if it stays so, look whether the network or a disk hangs"


@dataclass(frozen=True, slots=True)
class Check:
    """A check and its name, which is also that of the finding that it gave no answer."""

    name: str
    find: Callable[[Settings, Environment], Iterable[DoctorFinding]]


CHECKS: tuple[Check, ...] = (
    Check("claude", basic.agent),
    Check("git", basic.git),
    Check("data folder", lambda settings, _: [basic.data_folder(settings)]),
    Check("disk", lambda settings, _: [basic.free_space(settings)]),
    Check("night's disk", lambda settings, _: night_disk.check_space_for_night(settings)),
    Check("time zone", lambda _, variables: [basic.time_zone(variables)]),
    Check("clock", lambda *_: clock.check_clock()),
    Check("processes", lambda *_: [basic.processes()]),
    Check("memory", lambda settings, _: [host.check_memory(settings)]),
    Check("file watches", lambda *_: host.check_watches()),
    Check("sleep", lambda *_: host.check_sleep()),
    Check("isolation", lambda settings, variables: [basic.isolation(settings, variables)]),
    Check("unit", lambda _, variables: service_unit.check_unit(variables)),
    Check("money", lambda settings, _: [basic.money(settings)]),
    Check("notices", telling.check_telling),
    Check("traces", lambda settings, _: telling.check_traces(settings)),
    Check("channels", basic.channels),
    Check("intake", basic.intake),
    Check("logins", logins.check_logins),
)
"""Every check, in the order in which one would fix the problems."""


@dataclass(slots=True)
class Examiner:
    """Examines the machine; one for a process, as it knows which checks still hang."""

    checks: Sequence[Check] = CHECKS
    patience: float = PATIENCE
    _running: dict[str, threading.Thread] = field(default_factory=dict)

    def examine(self, settings: Settings, variables: Environment) -> Iterator[DoctorFinding]:
        """Run every check and yield what they find, in their order. Blocks, no longer than the patience."""
        deadline = time.monotonic() + self.patience
        started = [self._start(check, settings, variables) for check in self.checks]
        for check, found in zip(self.checks, started, strict=True):
            thread = self._running[check.name]
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                text = f"this check gave no answer within {self.patience:g} s"
                yield DoctorFinding(name=check.name, level=Level.WARN, text=text, mend=AGAIN)
            else:
                yield from found

    def _start(self, check: Check, settings: Settings, variables: Environment) -> list[DoctorFinding]:
        """Start a check unless it still runs; return the list that its findings are added to."""
        found: list[DoctorFinding] = []
        known = self._running.get(check.name)
        if known is None or not known.is_alive():
            arguments = (check, settings, variables, found)
            self._running[check.name] = threading.Thread(target=_run, args=arguments, daemon=True, name=check.name)
            self._running[check.name].start()
        return found


def _run(check: Check, settings: Settings, variables: Environment, found: list[DoctorFinding]) -> None:
    try:
        found.extend(check.find(settings, variables))
    except Exception as error:
        log.exception("doctor_check_failed", check=check.name)
        text = f"this check failed: {error!r:.200}"
        found.append(DoctorFinding(name=check.name, level=Level.WARN, text=text, mend=AGAIN))
