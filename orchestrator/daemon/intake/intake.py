"""The use case of what comes in by itself: what came in, how its sources are, and what an operator should know."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from orchestrator.daemon.intake.hooks import Hooks
from orchestrator.daemon.intake.inbox import Inbox, InboxState
from orchestrator.daemon.intake.once import OnceSubmitter
from orchestrator.daemon.intake.queries import Queries, QueryStatus
from orchestrator.daemon.intake.query import QueryParts
from orchestrator.daemon.intake.records import IntakeKind, IntakeRecord, IntakeRecords
from orchestrator.daemon.intake.share import WaitingTasks
from orchestrator.daemon.services.submissions import SubmissionService
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.daemon.services.tasks import TaskService
from orchestrator.settings.environment import environment_with_secrets
from orchestrator.settings.settings import Settings
from orchestrator.storage.store import FolderStore
from orchestrator.supervisor.supervisor import Supervisor

FOLDER = "intake"
"""In the data folder, which no agent sees."""
NOTED = frozenset({IntakeKind.REFUSED, IntakeKind.CLOSED})
MOST_NOTED = 10
"""Refused files and tickets that a report names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookStatus:
    """A webhook's address, which query it wakes, and why it admits nothing, "" if it does."""

    name: str
    path: str
    query: str
    trouble: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeStatus:
    """The sources of work, and what came in, newest first."""

    inbox: InboxState
    queries: tuple[QueryStatus, ...]
    hooks: tuple[HookStatus, ...]
    records: tuple[IntakeRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeService:
    """What came in by itself, and its sources; `run_inbox` and `run_queries` take it in until cancelled."""

    settings: Callable[[], Settings]
    records: IntakeRecords
    inbox: Inbox
    queries: Queries
    hooks: Hooks

    async def status(self, limit: int, *, refused: bool = False) -> IntakeStatus:
        """Return how the sources are, and the newest records, or those alone of what was refused."""
        found = await asyncio.to_thread(self.records.newest, 20 * limit if refused else limit)
        wanted = [one for one in _each_once(found) if not refused or one.kind is IntakeKind.REFUSED]
        counts = await self.inbox.tasks_waiting()
        return IntakeStatus(
            inbox=self.inbox.status(counts),
            queries=self.queries.statuses(counts),
            hooks=await asyncio.to_thread(self._hooks),
            records=tuple(wanted[:limit]),
        )

    def troubles(self) -> tuple[str, ...]:
        """Return why sources of work bring none now."""
        waiting = [f"inbox: {self.inbox.state.trouble}"] if self.inbox.state.trouble else []
        return (*waiting, *self.queries.troubles())

    async def notes(self, since: datetime, until: datetime) -> tuple[str, ...]:
        """Return what a report on a span should say about work that did not come in."""
        found = await asyncio.to_thread(self.records.newest, 1000, since)
        refused = [one for one in _each_once(found) if one.kind in NOTED and one.at <= until]
        lines = [f"{one.source}: {one.name} {_verb(one)}: {one.reason}" for one in refused[:MOST_NOTED]]
        if len(refused) > MOST_NOTED:
            lines.append(f"{len(refused) - MOST_NOTED} more were refused; see `orchestrator intake --refused`")
        return (*(f"work does not come in from {one}" for one in self.troubles()), *lines)

    def hurry(self) -> None:
        """Try everything again now, because the settings have changed."""
        self.inbox.hurry()
        self.queries.hurry()

    async def run_inbox(self) -> None:
        """Take files until cancelled."""
        await self.inbox.run()

    async def run_queries(self) -> None:
        """Poll trackers until cancelled."""
        await self.queries.run()

    def _hooks(self) -> tuple[HookStatus, ...]:
        settings = self.settings()
        known = environment_with_secrets() if settings.hooks else {}
        return tuple(
            HookStatus(
                name=name,
                path=f"/hooks/{hook.kind}/{name}",
                query=hook.query,
                trouble=hook_trouble(hook.secret_env, known.get(hook.secret_env, ""), settings.listen),
            )
            for name, hook in settings.hooks.items()
        )


def hook_trouble(variable: str, secret: str, listen: str) -> str:
    """Return why a webhook admits nothing, "" if it does."""
    if not secret:
        return f"the variable {variable} is not set, so every webhook is refused"
    return "" if listen else "the daemon does not listen on TCP, so that no webhook reaches it; set `listen`"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeParts:
    """What is built on: the services that submit and cancel, and what knows the tasks."""

    settings: Callable[[], Settings]
    store: FolderStore
    supervisor: Supervisor
    index: TaskIndex
    submissions: SubmissionService
    tasks: TaskService
    redact: Callable[[str], str]
    clock: Callable[[], datetime]


def build_intake(parts: IntakeParts) -> IntakeService:
    """Return the service, which takes nothing in before its loops run."""
    folder: Path = parts.store.data_dir / FOLDER
    records = IntakeRecords(folder)
    once = OnceSubmitter(
        folder=folder / "pending", submissions=parts.submissions, index=parts.index, files=parts.store.files
    )

    waiting = WaitingTasks(parts.store.files)

    async def tasks_waiting() -> Mapping[str, int]:
        return await asyncio.to_thread(waiting.count, parts.supervisor.snapshot())

    def pipelines() -> Collection[str]:
        return parts.submissions.factory.pipelines()  # of the factory that the newest settings made

    inbox = Inbox(
        settings=lambda: parts.settings().inbox,
        once=once,
        records=records,
        tasks_waiting=tasks_waiting,
        redact=parts.redact,
        clock=parts.clock,
    )
    queries = Queries(
        settings=lambda: parts.settings().queries,
        parts=QueryParts(
            folder=folder / "queries",
            once=once,
            records=records,
            trackers=lambda: parts.submissions.trackers,
            pipelines=pipelines,
            task_of=parts.supervisor.tasks.get,
            tasks_waiting=tasks_waiting,
            cancel=parts.tasks.cancel,
            redact=parts.redact,
            clock=parts.clock,
        ),
    )
    hooks = Hooks(
        folder=folder / "hooks",
        settings=lambda: parts.settings().hooks,
        secret_of=lambda name: environment_with_secrets().get(name, ""),
        wake=queries.wake,
        clock=parts.clock,
    )
    return IntakeService(settings=parts.settings, records=records, inbox=inbox, queries=queries, hooks=hooks)


def _each_once(records: list[IntakeRecord]) -> list[IntakeRecord]:
    """Return records without those that a crash made twice."""
    found = {(one.source, one.kind, one.name, one.task, one.evidence or one.at): one for one in records}
    return sorted(found.values(), key=lambda one: one.at, reverse=True)


def _verb(record: IntakeRecord) -> str:
    return "was refused" if record.kind is IntakeKind.REFUSED else "was closed"
