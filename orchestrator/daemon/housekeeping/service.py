"""The use cases of disk space: what takes it, what would be removed and why, and removing it."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from shutil import disk_usage

import structlog

from orchestrator.core.retention.plan import Kept, Plan, Removal, plan, tasks_to_archive
from orchestrator.core.retention.policy import Kind, Limits, Policy
from orchestrator.core.task.task import Task
from orchestrator.daemon.housekeeping.background import Background, Stopped
from orchestrator.daemon.housekeeping.inventory import Inventory, Scanner, TaskFacts
from orchestrator.daemon.housekeeping.protection import Protection
from orchestrator.daemon.housekeeping.pruner import BY_POLICY, Outcome, Pruner
from orchestrator.daemon.housekeeping.removing import Remover
from orchestrator.daemon.services.task_index import ListedTask, TaskIndex
from orchestrator.daemon.services.tasks import TaskService
from orchestrator.daemon.sources.in_use import SourcesInUse
from orchestrator.formats.codec import JsonObject, time_of
from orchestrator.formats.fields import text_of
from orchestrator.settings.settings import Settings
from orchestrator.storage.removal.trash import Trash
from orchestrator.storage.store import FolderStore
from orchestrator.workspaces.workspace import Workspace

log = structlog.get_logger()

MOST_REMOVALS = 200
"""How many items one request removes; whoever asked may ask again."""
PATIENCE = 0.5
"""Seconds that a reader waits for the first measurement, which small folders need no longer for."""
LASTS = timedelta(seconds=60)
"""For how long an inventory is shown, unless something was removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneQuery:
    """What may go: of these kinds and tasks, all if none is named; by the settings, or whatever is older than an age.

    An age without kinds leaves quarantine and whole tasks alone: they must be named. With `compress_now`, the
    transcripts of all ended tasks are compressed, however lately those ended.
    """

    older_than: timedelta | None = None
    kinds: frozenset[Kind] = frozenset()
    tasks: tuple[str, ...] = ()
    compress_now: bool = False

    @property
    def is_selective(self) -> bool:
        """Whether a person said what may go, so that nothing is archived beside it."""
        return self.older_than is not None or bool(self.kinds)

    def policy(self, configured: Policy) -> Policy:
        """Return the policy that is to be followed."""
        if self.compress_now:
            configured = replace(configured, compress_after=timedelta(0))
        if self.older_than is None:
            return configured
        named = self.kinds or frozenset(Kind) - {Kind.QUARANTINE, Kind.TASKS}
        limits = Limits(age=self.older_than)
        return replace(configured, limits=dict.fromkeys(named, limits), least_age=timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was done, what is due but stays, how many bytes are free after it, and whether more is due."""

    done: tuple[Removal, ...]
    kept: tuple[Kept, ...]
    freed: int
    more: bool = False


@dataclass(slots=True)
class _Tally:
    """What became of items so far."""

    kept: list[Kept]
    done: list[Removal] = field(default_factory=list)
    freed: int = 0

    def add(self, removal: Removal, outcome: Outcome) -> None:
        if isinstance(outcome, str):
            self.kept.append(Kept(item=removal.item, rule=removal.rule, reason=outcome))
        elif outcome is not None:
            self.done.append(removal)
            self.freed += outcome

    def pruned(self, *, more: bool) -> Pruned:
        return Pruned(done=tuple(self.done), kept=tuple(self.kept), freed=self.freed, more=more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A line of the log of removals: what was done with which files, by which rule, and who asked."""

    at: datetime
    action: str
    kind: str
    name: str
    task: str
    size: int
    rule: str
    by: str


def removed_of(line: JsonObject) -> Removed | None:
    """Return what a line of the log says; None if it is damaged."""
    size = line.get("bytes")
    try:
        return Removed(
            **{name: text_of(line.get(name)) for name in ("action", "kind", "name", "task", "rule", "by")},
            at=time_of(text_of(line.get("at"))),
            size=size if isinstance(size, int) else 0,
        )
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpace:
    """Bytes of the disk: below the floor agents are frozen."""

    free: int
    total: int
    floor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskReport:
    """What takes space; `plan` is what would go now by the policy, before it is looked at for work that must stay.

    `free`, `total` and `floor` are bytes of the disk: below the floor agents are frozen.
    """

    inventory: Inventory
    titles: dict[str, str]
    policy: Policy
    plan: Plan
    automatic: bool
    free: int
    total: int
    floor: int


@dataclass(kw_only=True)
class DiskService:
    """The use cases of disk space; used from the supervisor's event loop."""

    settings: Callable[[], Settings]
    index: TaskIndex
    tasks: TaskService
    store: FolderStore
    workspace: Workspace
    protection: Protection
    sources: SourcesInUse
    repositories: Callable[[], Awaitable[Mapping[str, str]]]
    """What names a repository beside tasks, such as a schedule, by the repository's path."""
    clock: Callable[[], datetime]
    trash: Trash = field(init=False)
    background: Background = field(default_factory=Background)
    _removing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _measuring: asyncio.Lock = field(default_factory=asyncio.Lock)
    _measured: tuple[list[TaskFacts], Inventory] | None = None
    _measurement: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.trash = Trash(self.store.data_dir)
        self._scanner = Scanner(self.store.data_dir, self.background.rest)
        self._pruner = Pruner(
            tasks=self.tasks,
            background=self.background,
            protection=self.protection,
            remover=Remover(
                store=self.store,
                workspace=self.workspace,
                trash=self.trash,
                sources=self.sources,
                clock=self.clock,
            ),
            forget=self._scanner.forget,
        )

    async def report(self) -> DiskReport:
        """Return what takes space, as it was measured at most LASTS seconds ago. Raises OSError."""
        measured = self._measured
        if measured is None or self._is_old(measured[1]):
            measured = await self._inventory()
        made = await self.background.run(plan, measured[1].items, self._policy(), self.clock())
        return await self._reported(*measured, made)

    async def known_report(self) -> DiskReport | None:
        """Return what was measured last, and begin to measure if that is old; None while nothing is known.

        It waits for nothing that housekeeping's thread does. Raises OSError.
        """
        if self._measured is None or self._is_old(self._measured[1]):
            if self._measurement is None or self._measurement.done():
                self._measurement = asyncio.get_running_loop().create_task(self._measure())
            if self._measured is None:
                await asyncio.wait([self._measurement], timeout=PATIENCE)
        if (measured := self._measured) is None:
            return None
        made = await asyncio.to_thread(plan, measured[1].items, self._policy(), self.clock())
        return await self._reported(*measured, made)

    async def space(self) -> DiskSpace:
        """Return how much of the disk is free. Raises OSError."""
        disk = await asyncio.to_thread(disk_usage, self.store.data_dir)
        return DiskSpace(free=disk.free, total=disk.total, floor=int(self.settings().free_space_floor))

    async def _reported(self, facts: list[TaskFacts], inventory: Inventory, made: Plan) -> DiskReport:
        settings, space = self.settings(), await self.space()
        return DiskReport(
            inventory=inventory,
            titles={task.id: task.title for task in facts},
            policy=self._policy(),
            plan=made,
            automatic=settings.retention.automatic,
            free=space.free,
            total=space.total,
            floor=space.floor,
        )

    def _is_old(self, inventory: Inventory) -> bool:
        return self.clock() - inventory.at > LASTS

    async def preview(self, query: PruneQuery) -> Pruned:
        """Return what `prune` would do. Raises NoSuchTask, AmbiguousName and OSError."""
        due = await self._due(query)
        tally, pending = _Tally(list(due.kept)), deque(due.removals)
        while pending and len(tally.done) < MOST_REMOVALS:
            removal = pending.popleft()
            tally.add(removal, await self._pruner.reason(removal))
        return tally.pruned(more=bool(pending))

    async def prune(self, query: PruneQuery, by: str) -> Pruned:
        """Remove what may go, some items at a time, and say what stays; space is free once the trash is empty.

        Raises NoSuchTask, AmbiguousName and OSError.
        """
        due = await self._due(query)
        tally, pending = _Tally(list(due.kept)), deque(due.removals)
        await self._carry_out(pending, tally, MOST_REMOVALS, by)
        return tally.pruned(more=bool(pending))

    async def follow(self, query: PruneQuery, empty_every: int) -> Pruned:
        """Do all that is due by the policy, and empty the trash after so many items; `more` if the policy changes.

        It is planned once: of 10,000 tasks that takes longer than to remove a thousand items. Raises OSError.
        """
        retention = self.settings().retention
        due = await self._due(query)
        tally, pending = _Tally(list(due.kept)), deque(due.removals)
        while pending and self.settings().retention == retention:
            await self._carry_out(pending, tally, len(tally.done) + empty_every, BY_POLICY)
            await self.empty_trash()
        return tally.pruned(more=bool(pending))

    async def _carry_out(self, pending: deque[Removal], tally: "_Tally", most: int, by: str) -> None:
        """Remove items until so many are done. Whoever else removes gets a turn in between."""
        while pending and len(tally.done) < most:
            async with self._removing:
                self._measured = None
                for removal, outcome in await self._pruner.carry_out(pending, most - len(tally.done), by):
                    tally.add(removal, outcome)

    async def newest_removals(self, count: int) -> list[Removed]:
        """Return what retention and people removed last, the newest first."""
        lines = await asyncio.to_thread(self.trash.removals.newest, count)
        return [found for line in lines if (found := removed_of(line)) is not None]

    async def empty_trash(self) -> None:
        """Remove for good what is in the trash."""
        await self.background.spread(self.trash.emptying())

    async def _due(self, query: PruneQuery) -> Plan:
        """Return what is due, before it is looked at for work that must stay."""
        names = {await self.index.find_id(name) for name in query.tasks}
        facts, inventory = await self._inventory()
        policy, now = query.policy(self._policy()), self.clock()
        return await self.background.run(_planned, query, names, facts, inventory, policy, now)

    async def _inventory(self) -> tuple[list[TaskFacts], Inventory]:
        async with self._measuring:
            tasks = await self.index.all_tasks()
            facts = await self.background.run(lambda: list(map(_facts, tasks)))
            named = await self.repositories()
            self._measured = facts, await self.background.run(self._scanner.scan, facts, named, self.clock())
            return self._measured

    async def _measure(self) -> None:
        try:
            await self._inventory()
        except (OSError, Stopped) as error:
            log.warning("disk_not_measured", error=str(error))

    def _policy(self) -> Policy:
        return self.settings().retention.policy()


def _planned(  # noqa: PLR0913, PLR0917 - all that a plan depends on
    query: PruneQuery,
    names: Collection[str],
    facts: Sequence[TaskFacts],
    inventory: Inventory,
    policy: Policy,
    now: datetime,
) -> Plan:
    """Return what is due of these tasks, of all if none is named."""
    archived_before = {one.id for one in facts if one.archived}
    found = [one for one in inventory.items if not names or one.task in names]
    found = [one for one in found if not query.kinds or one.kind in query.kinds]
    made = plan(found, policy, now)
    if query.is_selective:
        return made
    whole = [one for one in found if one.kind is Kind.TASKS and one.task not in archived_before]
    gone = {one.item.task for one in made.removals if one.item.kind is Kind.TASKS}
    archived = [one for one in tasks_to_archive(whole, policy, now) if one.item.task not in gone]
    return replace(made, removals=(*made.removals, *archived))


def _facts(one: ListedTask) -> TaskFacts:
    if isinstance(one, Task):
        return TaskFacts(id=one.id, title=one.title, ended=None, parent=one.parent, repo=one.source.repo)
    return TaskFacts(
        id=one.id,
        title=one.title,
        ended=time_of(one.updated_at) if one.ended else None,
        archived=one.status.value == "archived",
        parent=one.parent,
        repo=one.repo,
    )
