"""What watches the daemon for others: metrics, the doctor that examines before the night, the disk, traces."""

from datetime import datetime
from functools import partial
from shutil import disk_usage

from orchestrator import clock
from orchestrator.core.events.notice import MachineNoticeKind
from orchestrator.core.schedule.run_windows import openings_near
from orchestrator.daemon.examination.dusk import DuskExamination
from orchestrator.daemon.housekeeping.disk_watch import DiskWatch
from orchestrator.daemon.service import Service
from orchestrator.daemon.side_loops import Loop
from orchestrator.daemon.traces.exporter import TraceExporter, TraceParts
from orchestrator.supervisor.supervisor import Supervisor
from orchestrator.wiring.base import Base


def monitoring_loops(base: Base, supervisor: Supervisor, service: Service) -> dict[str, Loop]:
    """Return the loops of these parts, by name."""
    dusk = DuskExamination(
        doctor=service.oversight.doctor,
        settings=lambda: base.settings.now,
        opening=partial(_next_opening, base),
        tell=partial(_tell, base),
        folder=base.store.data_dir,
        clock=clock.now,
    )
    watch = DiskWatch(
        data_dir=base.store.data_dir,
        free=lambda: disk_usage(base.store.data_dir).free,
        floor=lambda: int(base.settings.now.free_space_floor),
        tell=base.notifications.announcer.announce,
        clock=clock.now,
    )
    return {
        "disk watch": watch.run,
        "loop lag": service.oversight.metrics.lag.run,
        "doctor": dusk.run,
        "traces": _trace_exporter(base, supervisor).run,
    }


def _trace_exporter(base: Base, supervisor: Supervisor) -> TraceExporter:
    parts = TraceParts(
        address=lambda: base.settings.now.telemetry.traces,
        system=lambda: "anthropic" if base.settings.now.agent.driver == "claude" else "",
        files=base.files,
        redact=base.redactor.masked,
        clock=clock.now,
    )
    exporter = TraceExporter(parts)
    supervisor.listen(exporter.on_decision)
    base.settings.on_change(lambda _: exporter.adopt())
    return exporter


def _next_opening(base: Base, now: datetime) -> datetime | None:
    """Return when the next run window opens; None without any."""
    openings = openings_near(base.settings.now.capacity().windows, now.date())
    return next((one.start for one in openings if one.start > now), None)


async def _tell(base: Base, key: str, text: str) -> None:
    announcer = base.notifications.announcer
    await announcer.announce(key, MachineNoticeKind.SERVICE, text, command="orchestrator doctor")
