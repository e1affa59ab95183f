"""The daily backup: made by a program of its own beside the daemon, checked, and the oldest removed after it.

`<data>/backups.json` says when the last one was tried and made, so a restart neither repeats nor forgets one: a backup
that was due while no daemon ran is made at the next start.
"""

import asyncio
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import structlog

from orchestrator.core.events.notice import MachineNoticeKind
from orchestrator.core.schedule.recurring import is_ahead
from orchestrator.daemon.backup.notes import DailyBackups, again_command, read_daily_backups, write_daily_backups
from orchestrator.formats.codec import stamp
from orchestrator.formats.files import make_private
from orchestrator.settings.sections.backup import BackupSettings

log = structlog.get_logger()

LOOK_EVERY = 60.0
"""Seconds between two looks at the clock and the settings."""
LONGEST_REASON = 500
_NAME = re.compile(r"orchestrator-[0-9]{8}T[0-9]{6}Z\.tar\.zst")
_PARTIAL = re.compile(r"\.orchestrator-[0-9]{8}T[0-9]{6}Z\.tar\.zst\.partial")


class Announce(Protocol):
    """Tells something that belongs to no decision of a task."""

    async def __call__(self, key: str, kind: MachineNoticeKind, text: str, *, command: str = "") -> object: ...


class BackupFailed(Exception):
    """The program that makes a backup failed; the message is what it said."""


def last_due(now: datetime, settings: BackupSettings) -> datetime:
    """Return the newest time at which a backup was due, on the clock of the time zone that `now` has."""
    today = now.replace(hour=settings.time.hour, minute=settings.time.minute, second=0, microsecond=0)
    return today if today <= now else today - timedelta(days=1)


@dataclass(slots=True, kw_only=True)
class BackupSchedule:
    """Makes the daily backups; `config` is the file given with --config. `clock` gives the time on the local clock.

    `announce` tells people once under a key what failed, and the command that mends it; it raises OSError.
    """

    data_dir: Path
    config: Path | None
    settings: Callable[[], BackupSettings]
    clock: Callable[[], datetime]
    announce: Announce
    every: float = LOOK_EVERY
    _known: DailyBackups = field(default_factory=DailyBackups)

    async def run(self) -> None:
        """Make every backup that is due, until this is cancelled."""
        self._known = await asyncio.to_thread(read_daily_backups, self.data_dir)
        while True:
            if (settings := self.settings()).folder is not None:
                await self._make_if_due(settings, settings.folder)
            await asyncio.sleep(self.every)

    async def _make_if_due(self, settings: BackupSettings, folder: Path) -> None:
        now = self.clock()
        if self._known.tried_at is not None and is_ahead(self._known.tried_at, now):
            log.warning("backup_mark_ahead", tried_at=stamp(self._known.tried_at), now=stamp(now))
            self._known = replace(self._known, tried_at=None)
        if self._known.tried_at is not None and self._known.tried_at >= last_due(now, settings):
            return
        file = folder / f"orchestrator-{stamp(now)[:19].replace('-', '').replace(':', '')}Z.tar.zst"
        try:
            await asyncio.to_thread(make_private, folder)
            await self._run("backup", str(file), *(word for part in settings.exclude for word in ("--exclude", part)))
            await self._run("backup", "verify", str(file))
            size = (await asyncio.to_thread(file.stat)).st_size
            await asyncio.to_thread(remove_oldest, folder, settings.keep)
        except (BackupFailed, OSError) as error:
            await self._fail(now, str(error)[-LONGEST_REASON:], file)
        else:
            self._note(DailyBackups(tried_at=now, made_at=now, file=str(file), bytes=size))
            log.info("backup_made", file=str(file), bytes=size)

    async def _fail(self, now: datetime, reason: str, file: Path) -> None:
        self._note(replace(self._known, tried_at=now, failed_file=str(file), failure=reason))
        log.warning("backup_failed", file=str(file), reason=reason)
        text = f"The daily backup to {file.parent} failed: {reason}"
        try:
            await self.announce(f"backup:{stamp(now)}", MachineNoticeKind.SERVICE, text, command=again_command(file))
        except OSError as error:
            log.warning("backup_failure_not_told", reason=str(error))

    async def _run(self, *arguments: str) -> None:
        """Run a command of this program. Raises BackupFailed."""
        config = () if self.config is None else ("--config", str(self.config))
        words = ("-m", "orchestrator", *config, "--data-dir", str(self.data_dir), *arguments)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            _, said = await process.communicate()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise
        if process.returncode:
            raise BackupFailed(said.decode("utf-8", "replace").strip() or f"exit code {process.returncode}")

    def _note(self, known: DailyBackups) -> None:
        self._known = known
        try:
            write_daily_backups(self.data_dir, known)
        except OSError as error:
            log.warning("backup_not_noted", reason=str(error))


def remove_oldest(folder: Path, keep: int) -> None:
    """Remove all but the newest daily backups in a folder, and what was left of some that were cut short."""
    names = sorted(path.name for path in folder.iterdir())
    made = [name for name in names if _NAME.fullmatch(name)]
    for name in (*made[:-keep], *(name for name in names if _PARTIAL.fullmatch(name))):
        (folder / name).unlink(missing_ok=True)
