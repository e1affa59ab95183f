"""Children of tasks: made from their parent's plan, followed until they end, and brought home to their parent's branch.

What a parent is told comes from two sides: from every decision that ends a child while this daemon runs, and from one
look at each child that may have ended before it started.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import structlog

from orchestrator.core.decide.work.following import child_id, end_of
from orchestrator.core.events.child_events import ChildEnded, ChildrenSubmitted
from orchestrator.core.events.commands import CancelChildren, FollowChildren, JoinParent, SubmitChildren
from orchestrator.core.events.events import BranchDelivered, CancelRequested, Event, TaskSubmitted, WorkspaceReady
from orchestrator.core.events.publish_events import BranchReplayed
from orchestrator.core.task.children import MOST_CHILDREN, Child, ChildDraft, ChildStatus
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.publication import Publish
from orchestrator.core.task.task import NextAction, Task
from orchestrator.daemon.task_factory import SubmissionRefused, TaskFactory
from orchestrator.errors import NoSuchTask, OrchestratorError
from orchestrator.storage import journal
from orchestrator.storage.records import StoreError
from orchestrator.storage.task_files import TaskFiles
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.protocols import Store
from orchestrator.workspaces.evaluation.gates import reading_as
from orchestrator.workspaces.outbox import read_text
from orchestrator.workspaces.parent_branch import ParentBranch
from orchestrator.workspaces.workspace import Workspace

log = structlog.get_logger()

AT_ONCE = 25
"""How many children are submitted together."""
LARGEST_PLAN = 2 * 1024 * 1024
"""Bytes."""


@dataclass(slots=True, kw_only=True)
class ChildTasks:
    """Executes what tasks owe their children; `factory` returns the one of the present settings."""

    files: TaskFiles
    store: Store
    inbox: Inbox
    workspace: Workspace
    factory: Callable[[], TaskFactory]
    pipeline_of: Callable[[Task], Pipeline]
    clock: Callable[[], datetime]
    _looked_at: set[str] = field(default_factory=set)
    _joining: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def submit(self, parent: Task, command: SubmitChildren) -> None:
        """Make these children tasks, except those that are. Raises SubmissionRefused, NotCommitted and OSError.

        While some are being accepted, the files of the next ones are written.
        """
        await asyncio.to_thread(ParentBranch(self.workspace, parent.id).begin)
        drafts = await asyncio.to_thread(self._drafts, parent, command.plan)
        accepted: list[tuple[Task, asyncio.Future[Task]]] = []
        for first in range(0, len(command.children), AT_ONCE):
            some = command.children[first : first + AT_ONCE]
            made = await asyncio.to_thread(self._make, parent, command.plan, some, drafts)
            if not await self._all_accepted(accepted):
                await asyncio.to_thread(self._delete, made)
                return
            accepted = [(task, self.inbox.send(task.id, self._submission(task, parent))) for task in made]
        if await self._all_accepted(accepted):
            made_now = tuple(child.task for child in command.children)
            self.inbox.post(parent.id, ChildrenSubmitted(at=self.clock(), tasks=made_now))

    def _make(self, parent: Task, plan: str, children: Sequence[Child], drafts: Mapping[str, ChildDraft]) -> list[Task]:
        """Return these children as tasks, with their folders written, except those that are tasks. Blocks."""
        stage, factory, made = self.pipeline_of(parent).stage(parent.stage), self.factory(), list[Task]()
        for child in children:
            if self._is_task(child.task):
                continue
            draft = drafts.get(child.plan.key)
            if draft is None:
                raise SubmissionRefused(f"{parent.display_path(plan)} no longer names {child.plan.key}")
            made.append(factory.create_child(parent, stage, child, draft, self.clock()))
        return made

    def _submission(self, task: Task, parent: Task) -> TaskSubmitted:
        return TaskSubmitted(at=self.clock(), task=task, by=parent.id)

    async def _all_accepted(self, sent: Sequence[tuple[Task, asyncio.Future[Task]]]) -> bool:
        """Return whether all these children are tasks now, and not their parent ended or was moved on meanwhile.

        Raises what refused one of them.
        """
        answers = await asyncio.gather(*(answer for _, answer in sent), return_exceptions=True)
        refused = [task for (task, _), answer in zip(sent, answers, strict=True) if isinstance(answer, NoSuchTask)]
        await asyncio.to_thread(self._delete, refused)
        self._looked_at.update(answer.id for answer in answers if isinstance(answer, Task))
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, NoSuchTask):
                raise answer
        return not refused

    def _delete(self, tasks: Sequence[Task]) -> None:
        """Delete the folders of children that have not become tasks. Blocks."""
        for task in tasks:
            self.files.delete(task.id)

    async def follow(self, parent: Task, command: FollowChildren) -> None:
        """Report the children that ended before they were first looked at; `on_decision` reports the others."""
        new = [name for name in command.tasks if name not in self._looked_at]
        self._looked_at.update(new)
        ended = [end for end in await asyncio.to_thread(lambda: [self._end(name) for name in new]) if end is not None]
        if parent.next_action is NextAction.CHILDREN:
            with suppress(OrchestratorError):  # its gate tries again, and says why
                await self._take_back(parent, {end.commit: end.task for end in ended if end.completed and end.commit})
        for end in ended:
            self.inbox.post(parent.id, end)

    def cancel(self, parent: Task, command: CancelChildren) -> None:
        """Cancel these children; one that has ended ignores that."""
        for name in command.tasks:
            self.inbox.post(name, CancelRequested(at=self.clock(), by=parent.id, reason="its parent does not need it"))

    def on_decision(self, task: Task, event: Event) -> None:
        """Tell the parent of a task that has ended."""
        del event
        if task.parent is not None and task.is_over:
            self.inbox.post(task.parent, end_of(task, task.id, self.clock()))

    async def join(self, child: Task, command: JoinParent) -> None:
        """Put a child's work on its parent's branch, one child of a parent at a time."""
        branch = ParentBranch(self.workspace, command.parent)
        async with self._joining[command.parent]:
            joined = await asyncio.to_thread(branch.join, child, command)
        event: Event
        if joined.is_home:
            event = BranchDelivered(at=self.clock(), branch=child.source.branch, commit=command.commit)
        else:
            event = BranchReplayed(
                at=self.clock(), onto=joined.onto, commit=joined.commit, conflicts=joined.conflicts[:MOST_CHILDREN]
            )
        self.inbox.post(child.id, event)

    async def bring_home(self, parent: Task) -> None:
        """Have the parent's worktree follow its branch, with the work of every child that completed in this visit.

        Raises WorkspaceError and GitError.
        """
        branch, visit = ParentBranch(self.workspace, parent.id), parent.stages[parent.stage].visits
        await asyncio.to_thread(branch.bring_home, parent)
        completed = {
            child.commit: child.task
            for child in parent.children
            if child.status is ChildStatus.COMPLETED and child.commit
            if child.task == child_id(parent, child.plan.key, visit)
        }
        if await self._take_back(parent, completed):
            await asyncio.to_thread(branch.bring_home, parent)

    async def _take_back(self, parent: Task, completed: Mapping[str, str]) -> bool:
        """Put the commits of completed children on their parent's branch that a restored copy of it lacks.

        `completed` has the task of each commit. Raises WorkspaceError and GitError.
        """
        branch = ParentBranch(self.workspace, parent.id)

        def take_back() -> tuple[str, ...]:
            return branch.take_back([one for one in branch.lacking(completed) if self._joins_parent(completed[one])])

        async with self._joining[parent.id]:
            taken = await asyncio.to_thread(take_back) if completed else ()
        for commit in taken:
            child, source = completed[commit], parent.source
            log.warning("child_brought_home_again", task=parent.id, child=child, commit=commit)
            again = WorkspaceReady(
                at=self.clock(),
                worktree=source.worktree or "",
                branch=source.branch,
                head=source.commit,
                restored_from=f"{commit}, the work of {child}, which it lacked",
            )
            self.inbox.post(parent.id, again)
        return bool(taken)

    def _joins_parent(self, name: str) -> bool:
        """Return whether the work of a child belongs on its parent's branch. Blocks."""
        try:
            stages = self.pipeline_of(self.store.load(name).task).stages
        except (OrchestratorError, OSError):
            return True
        return any(stage.publish is Publish.PARENT for stage in stages.values())

    def _drafts(self, parent: Task, plan: str) -> dict[str, ChildDraft]:
        """Return every child that the plan names, by its key. Raises SubmissionRefused."""
        content = read_text(Path(parent.folder), plan, LARGEST_PLAN)
        files, family = self.workspace.files(parent.id, Path(parent.folder)), self.pipeline_of(parent).family
        with reading_as(family):
            try:
                drafts = family.read_children(content or "", files)
            except ValueError as error:
                raise SubmissionRefused(f"{parent.display_path(plan)} cannot be read: {error}") from error
        return {draft.key: draft for draft in drafts}

    def _is_task(self, name: str) -> bool:
        """Return whether a child was accepted; a crash may have left the files of one that was not."""
        return self.files.path_of(name, journal.NAME).exists()

    def _end(self, name: str) -> ChildEnded | None:
        """Return what became of a child that has ended; None while it has not. Blocks."""
        if not self._is_task(name):
            return end_of(None, name, self.clock())
        try:
            task = self.store.load(name).task
        except (OSError, StoreError) as error:
            return ChildEnded(at=self.clock(), task=name, completed=False, reason=str(error))
        return end_of(task, name, self.clock()) if task.is_over else None
