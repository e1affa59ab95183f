"""The daily backup: made by a program of its own beside the daemon, checked, and the oldest removed after it.

`<data>/backups.json` says when the last one was tried and made, so a restart neither repeats nor forgets one: a backup
that was due while no daemon ran is made at the next start. The name of a backup has the beginning of the folder's id,
so that several data folders, and the copies of one, can share a place: each daemon removes its own alone. One that
somebody asked for has a name that says so; it counts among no daily ones, and nothing removes it by itself.
"""

import asyncio
import re
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Protocol

import structlog

from orchestrator.core.events.notice import MachineNoticeKind
from orchestrator.core.notices.sentence import Sentence
from orchestrator.core.schedule.recurring import is_ahead
from orchestrator.core.schedule.time_of_day import TimeOfDay
from orchestrator.daemon.backup.notes import DailyBackups, again_command, read_daily_backups, write_daily_backups
from orchestrator.formats.codec import stamp
from orchestrator.formats.fields import text_of
from orchestrator.settings.sections.backup import BackupSettings
from orchestrator.storage.folder.format import read_format
from orchestrator.storage.records import StoreError

log = structlog.get_logger()

LOOK_EVERY = 60.0
"""Seconds between two looks at the clock and the settings."""
ASKED = "-asked"
"""What the name of a backup ends with that somebody asked for."""
LONGEST_REASON = 500
LONGEST_RUN = 6 * 3600.0
"""Seconds after which making a backup, or checking it, is ended and counts as failed."""
LONGEST_END = 10.0
"""Seconds that a program has for its end before it is killed."""


class Announce(Protocol):
    """Tells something that belongs to no decision of a task."""

    async def __call__(self, key: str, kind: MachineNoticeKind, text: Sentence, *, command: str = "") -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What somebody asks for: a backup, or with a name of one to `check` it."""

    by: str
    check: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """When a backup was read whole, and what was wrong with it, if anything was."""

    at: datetime
    problem: str = ""


class BackupFailed(Exception):
    """The program that makes a backup failed; the message is what it said."""


@dataclass(slots=True, kw_only=True)
class BackupSchedule:
    """Makes the daily backups, by the clocks of a zone; `config` is the file given with --config.

    `asked` is what somebody asks for until it is done, `checked` which backups were read whole since the start.
    `announce` tells people once under a key what failed, and the command that mends it; it raises OSError.
    """

    data_dir: Path
    config: Path | None
    settings: Callable[[], BackupSettings]
    clock: Callable[[], datetime]
    zone: tzinfo
    announce: Announce
    every: float = LOOK_EVERY
    longest: float = LONGEST_RUN
    asked: Asked | None = None
    checked: dict[str, Checked] = field(default_factory=dict)
    _known: DailyBackups = field(default_factory=DailyBackups)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Make every backup that is due, and what is asked for, until this is cancelled."""
        self._known = await asyncio.to_thread(read_daily_backups, self.data_dir)
        while True:
            self._woken.clear()
            if (settings := self.settings()).folder is not None:
                if self.asked is not None:
                    await self._do_asked(settings, settings.folder, self.asked)
                await self._make_if_due(settings, settings.folder)
            with suppress(TimeoutError):
                async with asyncio.timeout(self.every):
                    await self._woken.wait()

    def ask(self, asked: Asked) -> None:
        """Do something as soon as the backup that is being made, if any, has ended; one thing at a time is asked."""
        self.asked = asked
        self._woken.set()

    async def _do_asked(self, settings: BackupSettings, folder: Path, asked: Asked) -> None:
        log.info("backup_asked", file=asked.check or "a new one", by=asked.by)
        try:
            if asked.check:
                await self._check(folder / asked.check)
            else:
                await self._make(settings, folder, self.clock(), ASKED)
        finally:
            self.asked = None

    async def _check(self, file: Path) -> None:
        """Read a backup whole and compare it with its digests."""
        try:
            await self._run("backup", "verify", str(file))
        except (BackupFailed, OSError) as error:
            self._remember(file, str(error)[-LONGEST_REASON:])
            log.warning("backup_damaged", file=str(file), reason=str(error)[-LONGEST_REASON:])
        else:
            self._remember(file)

    def _remember(self, file: Path, problem: str = "") -> None:
        self.checked[file.name] = Checked(at=self.clock(), problem=problem)

    async def _make_if_due(self, settings: BackupSettings, folder: Path) -> None:
        now = self.clock()
        if self._known.daily_at is not None and is_ahead(self._known.daily_at, now):
            log.warning("backup_mark_reset", daily_at=stamp(self._known.daily_at), to=stamp(now))
            self._note(replace(self._known, daily_at=now))
        due = TimeOfDay(at=settings.time, zone=self.zone).last(now)
        if self._known.daily_at is not None and self._known.daily_at >= due:
            return
        await self._make(settings, folder, now)

    async def _make(self, settings: BackupSettings, folder: Path, now: datetime, kind: str = "") -> None:
        """Make a backup, check it, and after a daily one remove the oldest of these."""
        daily_at = self._known.daily_at if kind else now
        time = f"{stamp(now)[:19].replace('-', '').replace(':', '')}Z{kind}"
        file = folder / f"orchestrator-{time}.tar.zst"
        try:
            await asyncio.to_thread(require_folder, folder)
            owner = await asyncio.to_thread(owner_of, self.data_dir)
            file = folder / f"orchestrator-{owner}-{time}.tar.zst"
            await self._run("backup", str(file), *(word for part in settings.exclude for word in ("--exclude", part)))
            await self._run("backup", "verify", str(file))
            size = (await asyncio.to_thread(file.stat)).st_size
            if not kind:
                await asyncio.to_thread(remove_oldest, file, owner, settings.keep)
        except (BackupFailed, StoreError, OSError) as error:
            self._note(
                replace(
                    self._known,
                    daily_at=daily_at,
                    tried_at=now,
                    failed_file=str(file),
                    failure=str(error)[-LONGEST_REASON:],
                )
            )
            await self._tell_failure(now, is_daily=not kind)
        else:
            self._note(DailyBackups(daily_at=daily_at, tried_at=now, made_at=now, file=str(file), bytes=size))
            self._remember(file)
            log.info("backup_made", file=str(file), bytes=size)

    async def _tell_failure(self, now: datetime, *, is_daily: bool) -> None:
        file, reason = Path(self._known.failed_file), self._known.failure
        log.warning("backup_failed", file=str(file), reason=reason)
        values = {"folder": file.parent, "reason": reason}
        text = Sentence("The backup to %(folder)s failed: %(reason)s", values)
        if is_daily:
            text = Sentence("The daily backup to %(folder)s failed: %(reason)s", values)
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
            async with asyncio.timeout(self.longest):
                _, said = await process.communicate()
        except TimeoutError:
            await _end(process)
            raise BackupFailed(f"it took longer than {self.longest / 3600:g} hours and was ended") from None
        except asyncio.CancelledError:
            await _end(process)
            raise
        if process.returncode:
            raise BackupFailed(said.decode("utf-8", "replace").strip() or f"exit code {process.returncode}")

    def _note(self, known: DailyBackups) -> None:
        self._known = known
        try:
            write_daily_backups(self.data_dir, known)
        except OSError as error:
            log.warning("backup_not_noted", reason=str(error))


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a program, by force if it does not end by itself."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            process.send_signal(number)
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_END):
                await process.wait()
            return


def require_folder(folder: Path) -> None:
    """Refuse a folder that is not there: its disk may not be mounted. Raises BackupFailed."""
    if not folder.is_dir():
        raise BackupFailed(
            f"there is no folder {folder}; mount its disk, or create the folder on it:"
            f" mkdir -m 700 {shlex.quote(str(folder))}"
        )


def owner_of(data_dir: Path) -> str:
    """Return what the names of a data folder's backups have of its id. Raises StoreError and OSError."""
    return re.sub("[^0-9A-Za-z]", "", text_of(read_format(data_dir).get("id")))[:12] or "folder"


def backup_name(owner: str) -> re.Pattern[str]:
    """Return the names that a data folder's backups have; groups: when it was made, in UTC, and ASKED or nothing."""
    return re.compile(rf"orchestrator-{owner}-([0-9]{{8}}T[0-9]{{6}}Z)({ASKED})?\.tar\.zst")


def remove_oldest(made: Path, owner: str, keep: int) -> None:
    """Remove all but the newest daily backups of a data folder beside the one just made, which stays in any case.

    What was left of backups that were cut short is removed too; what somebody asked for stays, and does not count.
    """
    name = backup_name(owner)
    partial = re.compile(rf"\.{name.pattern}\.partial")
    names = sorted(path.name for path in made.parent.iterdir() if path.name != made.name)
    daily = [one for one in names if (match := name.fullmatch(one)) and not match[2]]
    for one in (*daily[: max(0, len(daily) - keep + 1)], *(one for one in names if partial.fullmatch(one))):
        (made.parent / one).unlink(missing_ok=True)
