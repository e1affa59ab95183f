"""What is known of the daily backups, in `<data>/backups.json`, and what the night report says of them."""

import asyncio
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from orchestrator.formats.units import size as shown
from orchestrator.formats.versioned import read_versioned, write_versioned

FILE = "backups.json"
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DailyBackups:
    """When the newest backup was tried and the newest one made, and why the newest try failed, if it did.

    `daily_at` is when the newest daily one was tried: one that somebody asks for takes no daily one's place.
    """

    daily_at: datetime | None = None
    tried_at: datetime | None = None
    made_at: datetime | None = None
    file: str = ""
    bytes: int = 0
    failed_file: str = ""
    failure: str = ""


def read_daily_backups(data_dir: Path) -> DailyBackups:
    """Return what is known of the daily backups; nothing if there were none, or the file is damaged."""
    known = read_versioned(DailyBackups, data_dir / FILE, FORMAT) or DailyBackups()
    return known if known.daily_at else replace(known, daily_at=known.tried_at)


def write_daily_backups(data_dir: Path, known: DailyBackups) -> None:
    """Keep what is known of the daily backups. Raises OSError."""
    write_versioned(data_dir / FILE, known, FORMAT, indent=True)


def again_command(file: Path | str) -> str:
    """Return the command that makes a backup by hand."""
    return f"orchestrator backup {shlex.quote(str(file))}"


@dataclass(frozen=True, slots=True)
class BackupNotes:
    """What the night report says of the daily backups of a data folder."""

    data_dir: Path

    async def notes(self, since: datetime, until: datetime) -> Sequence[str]:
        """Return whether a backup was made in a span of time, and why one failed."""
        known = await asyncio.to_thread(read_daily_backups, self.data_dir)
        said = []
        if known.made_at is not None and since <= known.made_at <= until:
            said.append(f"backup made: {known.file}, {shown(known.bytes)}")
        if known.failure and known.tried_at is not None and since <= known.tried_at <= until:
            said.append(f"the backup failed: {known.failure}; try: {again_command(known.failed_file)}")
        return said
