"""Housekeeping by itself: empty the trash, follow the policy, and notice little free space before agents freeze."""

import asyncio
import time
from shutil import disk_usage

import structlog

from orchestrator.core.schedule.disk_level import NEAR
from orchestrator.daemon.housekeeping.service import DiskService, PruneQuery
from orchestrator.errors import OrchestratorError

log = structlog.get_logger()

FIRST_AFTER = 120.0
"""Seconds after the start before files are looked at."""
LOOK_EVERY = 10.0
"""Seconds between two looks at the trash and the free space."""
NEAR_EVERY = 600.0
"""Seconds between two such runs."""
EMPTY_EVERY, EMPTY_EVERY_NEAR = 1_000, 100
"""How many items are removed before the trash is emptied; the same while space is scarce."""


class Housekeeper:
    """Runs for the daemon's whole life."""

    def __init__(self, disk: DiskService, first_after: float = FIRST_AFTER) -> None:
        self._disk = disk
        self._due = time.monotonic() + first_after
        self._near_due = 0.0
        self._is_near = False

    async def run(self) -> None:
        """Look again and again; what fails is logged and tried again."""
        try:
            while True:
                try:
                    await self._disk.background.run(self._disk.trash.prepare)
                    await self.look()
                except (OrchestratorError, OSError) as error:
                    log.warning("housekeeping_failed", error=str(error))
                await asyncio.sleep(LOOK_EVERY)
        except asyncio.CancelledError:
            self._disk.background.close()
            raise

    async def look(self) -> None:
        """Do what is due now. Raises OSError when the data folder is gone."""
        await self._disk.empty_trash()
        settings, now = self._disk.settings(), time.monotonic()
        free = (await self._disk.background.run(disk_usage, settings.data_dir)).free
        near = free < settings.free_space_floor * NEAR
        if near and not self._is_near:
            log.warning(
                "disk_nearly_full",
                free_bytes=free,
                floor_bytes=int(settings.free_space_floor),
                what="below the floor every agent is frozen; `orchestrator disk` shows what takes space",
            )
        self._is_near = near
        if not settings.retention.automatic:
            return
        if near and now >= self._near_due:
            self._near_due = now + NEAR_EVERY
            await self._follow(PruneQuery(compress_now=True), EMPTY_EVERY_NEAR)
        elif now >= self._due:
            self._due = now + settings.retention.every
            await self._follow(PruneQuery(), EMPTY_EVERY)

    async def _follow(self, query: PruneQuery, empty_every: int) -> None:
        """Do everything that the policy says; if that is changed meanwhile, what it says then."""
        began, items, freed, kept = time.monotonic(), 0, 0, 0
        while self._disk.settings().retention.automatic:
            found = await self._disk.follow(query, empty_every)
            items, freed, kept = items + len(found.done), freed + found.freed, len(found.kept)
            if not found.more:
                break
        if items:
            took = round(time.monotonic() - began, 1)
            log.info("retention_followed", items=items, freed_bytes=freed, kept=kept, seconds=took)
