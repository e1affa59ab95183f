"""The use cases of the daily backups: which there are, making one now, and checking one."""

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.core.schedule.time_of_day import TimeOfDay
from orchestrator.daemon.backup.notes import DailyBackups, read_daily_backups
from orchestrator.daemon.backup.schedule import (
    Asked,
    BackupFailed,
    BackupSchedule,
    Checked,
    backup_name,
    owner_of,
    require_folder,
)
from orchestrator.errors import NotPossibleNow, OrchestratorError
from orchestrator.settings.sections.backup import BackupSettings
from orchestrator.storage.records import StoreError

MOST_LISTED = 1000


class NoSuchBackup(OrchestratorError):
    """The folder has no backup of that name."""


class BackupBusy(NotPossibleNow):
    """A backup is being made or checked; try again when that is done."""


class NoBackups(NotPossibleNow):
    """The settings have no folder for backups; set [backup] folder."""

    def __init__(self) -> None:
        super().__init__(self.__doc__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFile:
    """A backup of this data folder: its name, when it was made, its bytes, and when it was read whole last.

    One that somebody asked for `is_asked`: it stays until somebody removes it.
    """

    name: str
    at: datetime
    is_asked: bool
    size: int
    checked: Checked | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """The daily backups: how they are set, the newest try, and those that there are, newest first.

    Without a `folder` none is made. `trouble` says why the folder cannot be looked at, `asked` what is being done.
    """

    settings: BackupSettings
    next_at: datetime | None
    known: DailyBackups
    files: tuple[BackupFile, ...] = ()
    trouble: str = ""
    asked: Asked | None = None


@dataclass(frozen=True, slots=True)
class BackupService:
    """The use cases of backups; `schedule` makes them."""

    schedule: BackupSchedule

    async def report(self) -> BackupReport:
        """Return the backups that there are."""
        schedule, settings = self.schedule, self.schedule.settings()
        known = await asyncio.to_thread(read_daily_backups, schedule.data_dir)
        if settings.folder is None:
            return BackupReport(settings=settings, next_at=None, known=known)
        files, trouble = await asyncio.to_thread(self._files, settings.folder)
        next_at = TimeOfDay(at=settings.time, zone=schedule.zone).next(schedule.clock())
        return BackupReport(
            settings=settings, next_at=next_at, known=known, files=files, trouble=trouble, asked=schedule.asked
        )

    @property
    def is_making(self) -> bool:
        """Whether a backup is being made because somebody asked for one."""
        return self.schedule.asked is not None and not self.schedule.asked.check

    async def make(self, by: str) -> None:
        """Have a backup made now, beside the daemon. Raises NoBackups and BackupBusy."""
        self._require_free()
        self.schedule.ask(Asked(by=by))

    async def check(self, name: str, by: str) -> None:
        """Have a backup read whole and compared with its digests. Raises NoBackups, BackupBusy and NoSuchBackup."""
        folder = self._require_free()
        files, _ = await asyncio.to_thread(self._files, folder)
        if name not in {one.name for one in files}:
            raise NoSuchBackup(f"there is no backup {name!r:.80} of this data folder in {folder}")
        self._require_free()
        self.schedule.ask(Asked(by=by, check=name))

    def _require_free(self) -> Path:
        folder = self.schedule.settings().folder
        if folder is None:
            raise NoBackups
        if self.schedule.asked is not None:
            raise BackupBusy(BackupBusy.__doc__)
        return folder

    def _files(self, folder: Path) -> tuple[tuple[BackupFile, ...], str]:
        """Return the backups of this data folder, and why they cannot be looked at."""
        try:
            require_folder(folder)
            pattern = backup_name(owner_of(self.schedule.data_dir))
            found = [(one, match) for one in folder.iterdir() if (match := pattern.fullmatch(one.name))]
        except (BackupFailed, StoreError, OSError) as error:
            return (), str(error)
        newest = sorted(found, key=lambda one: one[1][1], reverse=True)[:MOST_LISTED]
        return tuple(filter(None, (self._file(path, match) for path, match in newest))), ""

    def _file(self, path: Path, match: re.Match[str]) -> BackupFile | None:
        with suppress(OSError, ValueError):
            return BackupFile(
                name=path.name,
                at=datetime.strptime(match[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC),
                is_asked=bool(match[2]),
                size=path.stat().st_size,
                checked=self.schedule.checked.get(path.name),
            )
        return None
