"""What makes the daily backups."""

from orchestrator import clock
from orchestrator.daemon.backup.schedule import BackupSchedule
from orchestrator.daemon.backup.service import BackupService
from orchestrator.settings.sections.windows import zone_of
from orchestrator.wiring.base import Base


def backup_service(base: Base) -> BackupService:
    """Return the use cases of backups, whose schedule makes one each day where the settings want that."""
    schedule = BackupSchedule(
        data_dir=base.store.data_dir,
        config=base.config,
        settings=lambda: base.settings.now.backup,
        clock=clock.now,
        zone=zone_of(""),
        announce=base.notifications.announcer.announce,
    )
    return BackupService(schedule)
