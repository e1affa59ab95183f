"""Housekeeping by itself: empty the trash, follow the policy, and notice little free space before agents freeze."""

import asyncio
import time
from shutil import disk_usage

import structlog

from orchestrator.core.retention.plan import Action
from orchestrator.core.retention.policy import Kind
from orchestrator.daemon.housekeeping.pruner import BY_POLICY
from orchestrator.daemon.housekeeping.service import NEAR, DiskService, Pruned, PruneQuery
from orchestrator.errors import OrchestratorError

log = structlog.get_logger()

FIRST_AFTER = 120.0
"""Seconds after the start before files are looked at."""
LOOK_EVERY = 10.0
"""Seconds between two looks at the trash and the free space."""
NEAR_EVERY = 600.0
"""Seconds between two such runs."""
MOST_AT_ONCE, MOST_NEAR = 1_000, 100
"""How many items are removed before the trash is emptied and what is due is planned again; while space is scarce."""

Removed = tuple[Action, tuple[Kind, str, str]]


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
            await self._follow(PruneQuery(compress_now=True), MOST_NEAR)
        elif now >= self._due:
            self._due = now + settings.retention.every
            await self._follow(PruneQuery(), MOST_AT_ONCE)

    async def _follow(self, query: PruneQuery, most: int) -> None:
        """Do everything that the policy says, until nothing more is due or all that was done is due again."""
        began, done, freed = time.monotonic(), set[Removed](), 0
        while True:
            found: Pruned = await self._disk.prune(query, BY_POLICY, most)
            before = len(done)
            done |= {(one.action, one.item.key) for one in found.done}
            freed += found.freed
            await self._disk.empty_trash()
            if not found.more or len(done) == before:
                break
        if done:
            took = round(time.monotonic() - began, 1)
            log.info("retention_followed", items=len(done), freed_bytes=freed, kept=len(found.kept), seconds=took)
