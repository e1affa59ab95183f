"""What people ask of one task: look at it, pause, resume, retry, cancel, change, archive and delete it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog

from orchestrator.core.decide.transitions import allowed, require
from orchestrator.core.events.events import (
    ArchiveRequested,
    CancelRequested,
    CapsChanged,
    DraftSubmitted,
    Event,
    PauseRequested,
    PriorityChanged,
    ResumeRequested,
    RetryRequested,
    RoundRequested,
)
from orchestrator.core.schedule.why import Why
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.budget import Spending
from orchestrator.core.task.checkpoint import SavedWork
from orchestrator.core.task.task import Priority, Task, TaskStatus
from orchestrator.daemon.housekeeping.protection import Protection
from orchestrator.daemon.housekeeping.turns import RemovalTurns
from orchestrator.daemon.services.recovery import RecoveryService
from orchestrator.daemon.services.submissions import SubmissionService
from orchestrator.daemon.services.task_index import ListedTask, TaskIndex, task_age
from orchestrator.errors import InvalidTransition, NoSuchTask, OrchestratorError, WorkWouldBeLost
from orchestrator.storage.provided_secrets import ProvidedSecrets
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.protocols import Store
from orchestrator.supervisor.supervisor import Supervisor
from orchestrator.workspaces.checkpoints import Checkpoints
from orchestrator.workspaces.workspace import Workspace

log = structlog.get_logger()

LONGEST_END = 60.0
"""Seconds that an archival or a deletion waits for the processes of a task to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """Which tasks a list holds: those that fit everything that is given.

    Without statuses, archived tasks count only with `all`. Each word of `text` occurs in the title, the ticket's key or
    the id, in any case. `parent` is the id of the task whose children are meant, `cursor` the `next_cursor` of the page
    before.
    """

    text: str = ""
    status: tuple[TaskStatus, ...] = ()
    repo: Path | None = None
    pipeline: str | None = None
    stage: str | None = None
    ticket: str | None = None
    parent: str | None = None
    all: bool = False
    limit: int = 50
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskListing:
    """A page of tasks, newest first; `unreadable` says which folders hold no readable task."""

    tasks: tuple[ListedTask, ...]
    next_cursor: str | None
    unreadable: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskService:
    """The use cases of a single task; `name` is an id, a unique beginning of one, or a ticket key.

    Every method that takes one raises NoSuchTask and AmbiguousName; those that change the task raise
    InvalidTransition and NotCommitted too.
    """

    index: TaskIndex
    supervisor: Supervisor
    inbox: Inbox
    store: Store
    workspace: Workspace
    checkpoints: Checkpoints
    secrets: ProvidedSecrets
    recovery: RecoveryService
    submissions: SubmissionService
    protection: Protection
    turns: RemovalTurns
    clock: Callable[[], datetime]

    async def list(self, query: TaskQuery) -> TaskListing:
        """Return one page of tasks."""
        found = await asyncio.to_thread(select, await self.index.all_tasks(), query)
        page = tuple(found[: query.limit])
        return TaskListing(
            tasks=page,
            next_cursor=_cursor(page[-1]) if len(found) > query.limit else None,
            unreadable=self.index.unreadable,
        )

    async def find(self, name: str) -> Task:
        """Return one task."""
        return await self.index.find(name)

    def spent_by_all(self, task: Task) -> Spending:
        """Return what a task and all its children have used."""
        return self.supervisor.families.spent_by_all(task)

    async def why(self, name: str) -> tuple[Task, Why]:
        """Return a task, and what keeps it where it is."""
        task = await self.index.find(name)
        return task, self.supervisor.why(task)

    async def change(self, name: str, priority: Priority | None, caps: Mapping[str, Any] | None, by: str) -> Task:
        """Change a task's priority, its caps, or both; of the caps those that are named, None removes one.

        What else a submission has is changed by `submissions.change`, while the task is a draft.
        """
        task = await self.index.find(name)
        now = self.supervisor.tasks.get(task.id)
        if now is None:
            raise InvalidTransition("change", task.status, task.stage, allowed(task))
        if priority is not None:
            event = PriorityChanged(at=self.clock(), priority=priority, by=by)
            now = await self.inbox.request(task.id, event)
            await self._request_of_children(now, event)
        if caps is not None:
            changed = replace(now.policy.caps, **caps)
            now = await self.inbox.request(task.id, CapsChanged(at=self.clock(), caps=changed, by=by))
        return now

    async def submit_draft(self, name: str, by: str) -> Task:
        """Submit a draft; no error if it is already submitted."""
        async with self.submissions.one_at_a_time:  # not between the two writes of a change
            event = DraftSubmitted(at=self.clock(), by=by)
            return await self._request(name, "submit", event, lambda now: now.status is TaskStatus.PENDING)

    async def execute(self, name: str, by: str) -> Task:
        """Have a task go on, whatever keeps it: submit a draft, resume a paused task, retry a blocked one.

        No error if it waits for its turn, for an answer, or is at work.
        """
        task = await self.index.find(name)
        if task.status is TaskStatus.DRAFT:
            return await self.submit_draft(task.id, by)
        if task.status is TaskStatus.BLOCKED:
            return await self.retry(task.id, by)
        if task.id not in self.supervisor.tasks:
            raise InvalidTransition("execute", task.status, task.stage, allowed(task))
        return await self.resume(task.id, by) if task.is_paused else task

    async def retry(self, name: str, by: str) -> Task:
        """Try the stage of a blocked task again, with all retries restored; return a new task for a failed one."""
        task = await self.index.find(name)
        if task.status is TaskStatus.FAILED:
            async with self.turns.of(task.id):
                return await self.submissions.repeat(await self.index.task(task.id), by)
        return await self._request(name, "retry", RetryRequested(at=self.clock(), by=by), lambda _: False)

    async def pause(self, name: str, by: str) -> Task:
        """Pause a task until it is resumed; no error if a person paused it already."""
        event = PauseRequested(at=self.clock(), by=by)
        paused = await self._request(name, "pause", event, lambda now: now.agent.blocked_by is PauseReason.USER)
        await self._request_of_children(paused, event)
        return paused

    async def resume(self, name: str, by: str) -> Task:
        """Resume a paused task; no error if it is already in progress."""
        event = ResumeRequested(at=self.clock(), by=by)
        resumed = await self._request(name, "resume", event, lambda now: now.status is TaskStatus.IN_PROGRESS)
        await self._request_of_children(resumed, event)
        return resumed

    async def start(self, name: str, by: str) -> Task:
        """Let a task run now: before its start time, and outside its run windows until they close the next time."""
        event = ResumeRequested(at=self.clock(), by=by, at_once=True)
        started = await self._request(name, "resume", event, lambda _: False)
        await self._request_of_children(started, event)
        return started

    async def cancel(self, name: str, by: str) -> Task:
        """Cancel a task, also one whose files cannot be read; no error if it is already cancelled."""
        task = await self.index.find(name)
        if task.id in self.supervisor.unreadable:
            async with self.turns.of(task.id):
                return await self.recovery.cancel(await self.index.task(task.id), by)
        event = CancelRequested(at=self.clock(), by=by)
        return await self._request(name, "cancel", event, lambda now: now.status is TaskStatus.CANCELLED)

    async def review(self, name: str, by: str) -> Task:
        """Take up reviewers' comments on the task's pull request now."""
        task = await self.index.find(name)
        require("review", task)
        return await self.inbox.request(task.id, RoundRequested(at=self.clock(), by=by))

    async def archive(self, name: str, by: str) -> Task:
        """Archive an ended task and its children: lists leave it out, its worktree is removed, the rest is kept.

        What is in the worktree becomes a pinned checkpoint first. Raises NothingSaved if that is impossible; then this
        task stays as it is. A worktree that somebody changes meanwhile stays.
        """
        return await self.archive_task(await self.index.find_id(name), by)

    async def archive_task(self, task_id: str, by: str) -> Task:
        """Archive the task of exactly this id."""
        async with self.turns.of(task_id):
            return await self._archive(await self._ended(task_id, "archive"), by)

    async def _archive(self, task: Task, by: str) -> Task:
        for child in task.children:
            with suppress(InvalidTransition, NoSuchTask):
                await self.archive_task(child.task, by)
        saved = await self.checkpoints.save_ended(await self._opened(task.id))
        event = ArchiveRequested(at=self.clock(), by=by)
        archived = await self.inbox.request(task.id, event, ended=await self._opened(task.id))
        await asyncio.to_thread(self._remove_saved, archived, saved)
        return archived

    async def delete(self, name: str, by: str, *, force: bool = False) -> None:
        """Delete a draft or an ended task with all its files, and its children.

        Commits stay in the repository that they were delivered to; who asked is in the daemon's log. Raises
        WorkWouldBeLost if work of them exists nowhere else, unless with `force`; then all of them stay.
        """
        await self.delete_task(await self.index.find_id(name), by, force=force)

    async def delete_task(self, task_id: str, by: str, *, force: bool = False) -> None:
        """Delete the task of exactly this id."""
        async with self.turns.of(task_id):
            await self._delete(await self._ended(task_id, "delete"), by, force=force)

    async def _delete(self, task: Task, by: str, *, force: bool) -> None:
        lost = {} if force else {one.id: why async for one, why in self._lost_with(task)}
        if lost:
            raise WorkWouldBeLost(lost)
        for child in task.children:
            with suppress(InvalidTransition, NoSuchTask):
                await self.delete_task(child.task, by, force=True)
        async with self.submissions.one_at_a_time:  # a draft may be submitted or changed meanwhile
            require("delete", self.supervisor.tasks.get(task.id, task))
            self.supervisor.forget(task.id)
            await asyncio.to_thread(self._remove_worktree, task)
            await asyncio.to_thread(self.store.delete, task.id)
            self.index.forget(task.id)
        log.info("task_deleted", task=task.id, by=by, force=force)

    async def _ended(self, task_id: str, action: str) -> Task:
        """Return a task that allows the action, once its processes have ended. Raises InvalidTransition, NoSuchTask."""
        task = await self.index.task(task_id)
        require(action, self.supervisor.tasks.get(task.id, task))
        if task.status is TaskStatus.DRAFT:
            return task
        try:
            await asyncio.wait_for(self.index.wait_for_end(task.id), LONGEST_END)
        except TimeoutError:
            raise InvalidTransition(action, task.status, task.stage, (), "its processes have not ended yet") from None
        return await self.index.task(task.id)

    async def _lost_with(self, task: Task) -> AsyncIterator[tuple[Task, str]]:
        """Yield which work exists nowhere else, of a task and of all below it that are deleted with it."""
        if task.status is not TaskStatus.DRAFT and (why := await asyncio.to_thread(self.protection.of_task, task)):
            yield task, why
        for child in task.children:
            with suppress(NoSuchTask):
                below = await self.index.task(child.task)
                if "delete" in allowed(below):
                    async for found in self._lost_with(below):
                        yield found

    async def _opened(self, task_id: str) -> Task:
        """Return an ended task with its files open for one more decision."""
        loaded = await asyncio.to_thread(self.store.load, task_id, keep_open=True)
        return loaded.task

    async def _request(self, name: str, action: str, event: Event, is_done: Callable[[Task], bool]) -> Task:
        """Have the event decided; where it is refused, `is_done` tells whether the task already is as requested."""
        task = await self.index.find(name)
        try:
            if task.id not in self.supervisor.tasks:
                require(action, task)
            return await self.inbox.request(task.id, event)
        except InvalidTransition:
            task = self.supervisor.tasks.get(task.id, task)
            if not is_done(task):
                raise
            return task

    async def _request_of_children(self, parent: Task, event: Event) -> None:
        """Have the event decided for every live child too, and for theirs; one that cannot take it is left out."""
        for child in parent.children:
            if child.task in self.supervisor.tasks:
                with suppress(InvalidTransition, NoSuchTask):
                    await self._request_of_children(await self.inbox.request(child.task, event), event)

    def _remove_saved(self, task: Task, saved: SavedWork | None) -> None:
        """Do the same as `_remove_worktree`, where the worktree stays if it has more than was saved. Blocks."""
        reason = "it was changed while the task was archived"
        try:
            is_saved = saved is None or self.workspace.is_saved(task.id, saved.whole)
        except (OrchestratorError, OSError) as error:
            is_saved, reason = False, str(error)
        if is_saved:
            self._remove_worktree(task)
        else:
            log.warning("worktree_stays", task=task.id, reason=reason)
            self.secrets.forget(task.id)

    def _remove_worktree(self, task: Task) -> None:
        """Remove the worktree of an ended task and the secrets that people provided for it. Blocks."""
        self.workspace.remove(task.id)
        self.secrets.forget(task.id)


def select(tasks: Iterable[ListedTask], query: TaskQuery) -> list[ListedTask]:
    """Return the tasks that a query means, in the same order; neither its limit nor a letter's case counts."""
    words = query.text.casefold().split()
    wanted = {
        name: str(value)
        for name in ("repo", "pipeline", "stage", "ticket", "parent")
        if (value := getattr(query, name)) is not None
    }
    return [one for one in tasks if _fits(one, query) and _has(one, wanted) and _speaks_of(one, words)]


def _fits(one: ListedTask, query: TaskQuery) -> bool:
    if query.cursor is not None and _cursor(one) >= query.cursor:
        return False
    if query.status:
        return one.status in query.status
    return query.all or one.status is not TaskStatus.ARCHIVED


def _has(one: ListedTask, wanted: Mapping[str, str]) -> bool:
    """Whether the task has these values: of its repository, pipeline, stage, ticket or parent."""
    if not wanted:
        return True
    facts = {"pipeline": one.pipeline, "stage": one.stage, "parent": one.parent}
    if isinstance(one, Task):
        facts |= {"repo": one.source.repo, "ticket": one.ticket.key}
    else:
        facts |= {"repo": one.repo, "ticket": one.ticket}
    return all(facts[name] == value for name, value in wanted.items())


def _speaks_of(one: ListedTask, words: Sequence[str]) -> bool:
    if not words:
        return True
    key = one.ticket.key if isinstance(one, Task) else one.ticket
    text = f"{one.title}\n{key}\n{one.id}".casefold()
    return all(word in text for word in words)


def _cursor(one: ListedTask) -> str:
    return "_".join(task_age(one))
