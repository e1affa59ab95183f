"""Carry out what a plan says, some items together, after a last look at each for work that must stay."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from orchestrator.core.retention.plan import Action, Item, Removal
from orchestrator.core.retention.policy import Kind
from orchestrator.daemon.housekeeping.background import Background
from orchestrator.daemon.housekeeping.protection import Protection
from orchestrator.daemon.housekeeping.removing import Remover
from orchestrator.daemon.services.tasks import TaskService
from orchestrator.errors import OrchestratorError

log = structlog.get_logger()

LOOK_AGAIN = 6 * 3600.0
"""Seconds for which housekeeping takes it that an item must stay."""
TOGETHER = 50
"""How many items go into the trash together at most: each time waits for the disk."""
LONGEST_LOOK = 2.0
"""Seconds after the first look at an item of a batch when the batch goes into the trash, however many they are."""
BY_POLICY = "retention"
"""Who asks when nobody does."""

BUSY = "it is being archived or deleted at this moment"

Outcome = str | int | None
"""Why an item stays, or how many bytes are free without it; None if it was gone already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruner:
    """Looks at items and removes them; used from one event loop, by one caller at a time.

    `forget` is told in the thread of housekeeping which items have changed.
    """

    tasks: TaskService
    background: Background
    protection: Protection
    remover: Remover
    forget: Callable[[Item], None]
    _stays: dict[tuple[Kind, str, str], tuple[float, str]] = field(default_factory=dict)

    async def reason(self, removal: Removal) -> str | int:
        """Return why an item must stay, or the bytes that would be free without it."""
        reason = await self.background.run(self.protection.reason, removal)
        if reason:
            return reason
        return removal.item.size if removal.action is Action.REMOVE else 0

    async def carry_out(self, pending: deque[Removal], most: int, by: str) -> list[tuple[Removal, Outcome]]:
        """Remove the first items of `pending`, a batch of at most `most`; return what became of each it took.

        They go in their order: a worktree before its task is archived.
        """
        outcomes: list[tuple[Removal, Outcome]] = []
        together: list[Removal] = []
        until, done = time.monotonic() + LONGEST_LOOK, 0
        while pending and done < min(most, TOGETHER) and time.monotonic() < until:
            if together and _goes_alone(pending[0]):
                break
            removal = pending.popleft()
            looked = await (self._known_reason(removal) if by == BY_POLICY else self.reason(removal))
            if isinstance(looked, str):
                outcomes.append((removal, looked))
                continue
            done += 1
            if _goes_alone(removal):
                outcomes.append((removal, await self._remove(removal, by)))
            else:
                together.append(removal)
        outcomes += await self._discard(together, by)
        await self.background.run(self._forget, [removal.item for removal, _ in outcomes])
        return outcomes

    async def _known_reason(self, removal: Removal) -> str | int:
        """Return the same as `reason`, where an item that had to stay is not looked at again for a while."""
        known, now = self._stays.get(removal.item.key), time.monotonic()
        if known is not None and now < known[0]:
            return known[1]
        looked = await self.reason(removal)
        if isinstance(looked, str):
            self._stays[removal.item.key] = now + LOOK_AGAIN, looked
        return looked

    async def _discard(self, together: Sequence[Removal], by: str) -> list[tuple[Removal, Outcome]]:
        """Remove items together; if that fails, each by itself, so that the others go."""
        if not together:
            return []
        with self.tasks.turns.of_free({one.item.task for one in together}) as free:
            mine = [one for one in together if one.item.task in free]
            return [*(await self._discard_held(mine, by)), *((one, BUSY) for one in together if one not in mine)]

    async def _discard_held(self, together: Sequence[Removal], by: str) -> list[tuple[Removal, Outcome]]:
        try:
            there = await self.background.run(self.remover.discard, together, by)
        except (OrchestratorError, OSError) as error:
            if len(together) > 1:
                return [outcome for one in together for outcome in await self._discard_held([one], by)]
            return [(together[0], _failed(together[0], error))]
        return [(one, one.item.size if was else None) for one, was in zip(together, there, strict=True)]

    async def _remove(self, removal: Removal, by: str) -> Outcome:
        """Archive or delete a task, compress a transcript, remove a clone or a source."""
        item = removal.item
        try:
            if removal.action is Action.ARCHIVE:
                await self.tasks.archive_task(item.task, by)
            elif item.kind is Kind.TASKS:
                await self.tasks.delete_task(item.task, by)
            else:
                async with self.tasks.turns.of(item.task):
                    return await self.background.run(self.remover.carry_out, removal, by, self._live)
            await self.background.run(self.remover.note, removal, by)
        except (OrchestratorError, OSError) as error:
            return _failed(removal, error)
        return item.size if removal.action is Action.REMOVE else 0

    def _forget(self, items: Sequence[Item]) -> None:
        for item in items:
            self.forget(item)

    def _live(self) -> dict[str, str]:
        return {task.id: task.source.repo for task in tuple(self.tasks.supervisor.tasks.values())}


def _goes_alone(removal: Removal) -> bool:
    return removal.action is not Action.REMOVE or removal.item.kind in {Kind.TASKS, Kind.CLONES, Kind.SOURCES}


def _failed(removal: Removal, error: Exception) -> str:
    log.warning("not_removed", kind=removal.item.kind, task=removal.item.task, error=str(error))
    return f"it could not be removed: {error}"
