"""Writing the files that show tasks to other programs: below `records/`, after decisions, and never in their way.

A decision only notes that files are behind. They are composed and written in a thread: at most once a second for one
task however many decisions there are, and at once where somebody waits for it, which every start of an agent does. So
what the files say of a task is on disk before an agent acts on it.

The files follow from the state. Those of live tasks are written again at each start. A task that ends leaves a mark in
its folder until its last files are written, so that a crash before that is made up for at the next start.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b

import structlog

from orchestrator.core.events.events import Event
from orchestrator.core.records.projection import RECORDS, Projected, Projection
from orchestrator.core.task.children import ChildStatus
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.formats.table import DefinitionError
from orchestrator.redaction.documents import mask_document
from orchestrator.storage.records import StoreError
from orchestrator.storage.store import FolderStore

log = structlog.get_logger()

BEHIND = "records-behind"
"""A mark in a task's folder: its projections do not show its end yet."""
WRITE_EVERY = 1.0
"""Seconds between two writes of one task that nobody waits for."""


@dataclass(slots=True)
class _Shown:
    """What is known of a task whose files are written: `changed` are the tasks that were decided about since.

    `asked` and `done` count decisions: files on disk cover the first `done` of them. `written` has their digests.
    """

    projection: Projection
    task: Task
    changed: dict[str, Task] = field(default_factory=dict)
    facts: dict[str, object] = field(default_factory=dict)
    written: dict[str, bytes] = field(default_factory=dict)
    asked: int = 0
    done: int = 0
    is_marked: bool = False
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    progress: asyncio.Condition = field(default_factory=asyncio.Condition)


class ProjectionWriter:
    """Keeps the projections of tasks up to date; `masked` masks the secrets in a text."""

    def __init__(
        self, store: FolderStore, pipeline_of: Callable[[Task], Pipeline], masked: Callable[[str], str]
    ) -> None:
        self._store, self._pipeline_of, self._masked = store, pipeline_of, masked
        self._files = store.files
        self._shown: dict[str, _Shown] = {}
        self._writing: dict[str, asyncio.Task[None]] = {}

    def on_decision(self, task: Task, event: Event) -> None:
        """Note that the files of a task, or of its parent, are behind."""
        del event
        if task.status is not TaskStatus.ARCHIVED:  # its files show its end
            self.catch_up(task)

    def catch_up(self, task: Task) -> None:
        """Write the files that show this task, if there are any. A child is shown by its parent only."""
        if task.parent is not None:
            shown = self._shown.get(task.parent)
        else:
            shown = self._shown.get(task.id) or self._first(task)
        if shown is None:
            return
        if task.parent is None:
            shown.task = task
        shown.changed[task.id] = task
        shown.asked += 1
        if shown.task.status.is_final or shown.task.status is TaskStatus.BLOCKED:
            shown.hurry.set()  # people look at it now
        if shown.task.id not in self._writing:
            self._writing[shown.task.id] = asyncio.get_running_loop().create_task(self._keep_up(shown))

    async def written(self, task: Task) -> None:
        """Wait until the files show every decision so far about a task; one that the disk refuses is not waited for."""
        shown = self._shown.get(task.parent or task.id)
        if shown is None:
            return
        wanted = shown.asked
        shown.hurry.set()
        async with shown.progress:
            while shown.done < wanted:
                await shown.progress.wait()

    async def close(self) -> None:
        """Write nothing more; what is behind is written at the next start."""
        for writing in list(self._writing.values()):
            writing.cancel()
        await asyncio.gather(*self._writing.values(), return_exceptions=True)

    def _first(self, task: Task) -> _Shown | None:
        """Return what is known of a task that is seen for the first time; None if nothing shows it."""
        try:
            projection = self._pipeline_of(task).family.projection
        except DefinitionError:  # the task is shown as blocked for that
            return None
        if projection is None:
            return None
        self._shown[task.id] = _Shown(projection, task)
        return self._shown[task.id]

    async def _keep_up(self, shown: _Shown) -> None:
        """Write the files of a task until they show its last decision."""
        try:
            while shown.done < shown.asked:
                covered, changed, shown.changed = shown.asked, shown.changed, {}
                shown.hurry.clear()
                await asyncio.to_thread(self._write, shown, shown.task, changed)
                async with shown.progress:
                    shown.done = covered
                    shown.progress.notify_all()
                with suppress(TimeoutError):
                    async with asyncio.timeout(WRITE_EVERY):
                        await shown.hurry.wait()
        finally:
            self._writing.pop(shown.task.id, None)
            if _has_ended(shown.task) and shown.done >= shown.asked:
                self._shown.pop(shown.task.id, None)

    def _write(self, shown: _Shown, task: Task, changed: Mapping[str, Task]) -> None:
        """Compose and write the files of a task. Blocks. A failure is logged; the next decision tries again."""
        try:
            if not shown.is_marked:
                self._files.write(task.id, BEHIND, b"")
                shown.is_marked = True
            self._update_facts(shown, task, changed)
            projected = Projected(
                task=self._safe(task),
                children=shown.facts,
                artifact=partial(self._artifact, task.id),
                record=lambda name: self._files.read_text(task.id, f"{RECORDS}/{name}"),
            )
            for name, text in shown.projection.files(projected).items():
                content = text.encode("utf-8", "replace")
                digest = blake2b(content).digest()
                if shown.written.get(name) != digest:
                    self._files.write(task.id, f"{RECORDS}/{name}", content)
                    shown.written[name] = digest
            if _has_ended(task):
                self._files.path_of(task.id, BEHIND).unlink(missing_ok=True)
                shown.is_marked = False
        except OSError as error:
            log.warning("records_not_written", task=task.id, error=str(error))
        except Exception:
            log.exception("records_not_composed", task=task.id)  # what only shows a task must not stop its work

    def _update_facts(self, shown: _Shown, task: Task, changed: Mapping[str, Task]) -> None:
        """Compute again what the files say of the children that were decided about, or were never looked at.

        Of a child whose facts cannot be computed they say nothing; the next decision tries again.
        """
        wanted = dict(changed)
        for child in task.children:
            if child.task not in wanted and child.task not in shown.facts and child.status is not ChildStatus.PLANNED:
                found = self._loaded(child.task)
                if found is not None:
                    wanted[child.task] = found
        wanted.pop(task.id, None)
        for name, found in wanted.items():
            try:
                shown.facts[name] = shown.projection.facts(self._safe(found), partial(self._artifact, name))
            except Exception:
                log.exception("facts_not_composed", task=task.id, child=name)
                shown.facts.pop(name, None)

    def _loaded(self, name: str) -> Task | None:
        try:
            return self._store.load(name).task
        except (OSError, StoreError):
            return None

    def _artifact(self, task_id: str, name: str) -> str:
        """Return a file of a task with its secrets masked."""
        return mask_document(self._files.read_text(task_id, name), self._masked)

    def _safe(self, task: Task) -> Task:
        """Return a task whose reasons, which may be words of an agent, have their secrets masked."""
        children = tuple(
            replace(child, reason=self._masked(child.reason)) if child.reason else child for child in task.children
        )
        reason = self._masked(task.block_reason) if task.block_reason else task.block_reason
        return replace(task, block_reason=reason, children=children)


def _has_ended(task: Task) -> bool:
    return task.status.is_final and not task.has_open_children
