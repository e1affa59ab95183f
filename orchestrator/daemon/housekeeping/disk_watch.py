"""Telling people that the disk runs low, that work stops for lack of room, and that this is over; each once.

`<data>/disk-low.json` has since when the disk is low before anybody is told, and the notices' keys follow from that
time: a daemon that is killed in between tells nothing twice, and says it is over if it ended while none ran.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import structlog

from orchestrator.core.events.notice import MachineNoticeKind
from orchestrator.core.notices.sentence import Sentence
from orchestrator.core.schedule.disk_level import DiskLevel, disk_level
from orchestrator.formats.codec import stamp
from orchestrator.formats.units import size
from orchestrator.formats.versioned import read_versioned, write_versioned

log = structlog.get_logger()

FILE, FORMAT = "disk-low.json", 1
LOOK_EVERY = 10.0
"""Seconds between two looks at the free space."""
PATIENCE = timedelta(minutes=10)
"""How long the disk is low before that is told: old files may be removed first."""


class Tell(Protocol):
    """Tells people something once; `command` shows more of it. Raises OSError."""

    async def __call__(self, key: str, kind: MachineNoticeKind, text: Sentence, *, command: str = "") -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LowDisk:
    """Since when the disk is low, if it is, and the worst level that people were told."""

    since: datetime | None = None
    told: DiskLevel = DiskLevel.ENOUGH


@dataclass(slots=True, kw_only=True)
class DiskWatch:
    """Compares `free` bytes with the `floor`; `free` blocks, and raises OSError when the folder is gone."""

    data_dir: Path
    free: Callable[[], int]
    floor: Callable[[], int]
    tell: Tell
    clock: Callable[[], datetime]
    patience: timedelta = PATIENCE
    _level: DiskLevel = field(default=DiskLevel.ENOUGH, init=False)
    _low_since: datetime | None = field(default=None, init=False)
    _known: LowDisk | None = field(default=None, init=False)

    async def run(self) -> None:
        """Look again and again; what cannot be told or noted now is tried at the next look."""
        while True:
            try:
                await self.look()
            except OSError as error:
                log.warning("low_disk_not_told", reason=str(error))
            await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """Look once, and tell what is to be told. Raises OSError."""
        if self._known is None:
            read = await asyncio.to_thread(read_versioned, LowDisk, self.data_dir / FILE, FORMAT)
            self._known = read or LowDisk()
            self._level = self._known.told
        now, known = self.clock(), self._known
        free, floor = await asyncio.to_thread(self.free), self.floor()
        self._level = disk_level(free, floor, self._level)
        if self._level is DiskLevel.ENOUGH:
            self._low_since = None
            await self._tell_end(known, free)
            return
        self._low_since = min(self._low_since or now, now)
        is_time = self._level is DiskLevel.FULL or now - self._low_since >= self.patience
        if is_time and self._level.is_worse_than(known.told):
            await self._tell_level(replace(known, since=known.since or self._low_since), self._level, free, floor)

    async def _tell_level(self, known: LowDisk, level: DiskLevel, free: int, floor: int) -> None:
        await self._note(known)
        values = {"free": size(free), "floor": size(floor)}
        text = Sentence(
            "The disk of the data folder runs low: %(free)s are free. "
            "Below %(floor)s, the setting free_space_floor, no task goes on.",
            values,
        )
        if level is DiskLevel.FULL:
            text = Sentence(
                "No task goes on: the disk of the data folder has only %(free)s free, and free_space_floor is "
                "%(floor)s. Work continues by itself when more is free.",
                values,
            )
        log.warning("low_disk_told", level=level.value, free_bytes=free, floor_bytes=floor)
        await self._tell(MachineNoticeKind.DISK_LOW, known, text, f":{level.value}")
        await self._note(replace(known, told=level))

    async def _tell_end(self, known: LowDisk, free: int) -> None:
        if known.since is None:
            return
        if known.told is not DiskLevel.ENOUGH:
            text = Sentence(
                "The disk of the data folder has room again: %(free)s are free. It had been low since %(since)s.",
                {"free": size(free), "since": stamp(known.since)},
            )
            await self._tell(MachineNoticeKind.DISK_RECOVERED, known, text)
        log.info("low_disk_over", free_bytes=free)
        await self._note(LowDisk())

    async def _tell(self, kind: MachineNoticeKind, known: LowDisk, text: Sentence, more: str = "") -> None:
        since = stamp(known.since) if known.since else ""
        await self.tell(f"{kind.value}:{since}{more}", kind, text, command="orchestrator disk")

    async def _note(self, known: LowDisk) -> None:
        await asyncio.to_thread(write_versioned, self.data_dir / FILE, known, FORMAT)
        self._known = known
