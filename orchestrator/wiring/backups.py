"""The loop that makes the daily backup."""

from orchestrator import clock
from orchestrator.daemon.backup.schedule import BackupSchedule
from orchestrator.daemon.side_loops import Loop
from orchestrator.settings.sections.windows import zone_of
from orchestrator.wiring.base import Base


def backup_loop(base: Base) -> Loop:
    """Return the loop that makes the daily backup where the settings want one."""
    schedule = BackupSchedule(
        data_dir=base.store.data_dir,
        config=base.config,
        settings=lambda: base.settings.now.backup,
        clock=clock.now,
        zone=zone_of(""),
        announce=base.notifications.announcer.announce,
    )
    return schedule.run
