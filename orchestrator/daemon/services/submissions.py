"""Submitting: a ticket is fetched if only its name was given, made into a task, and handed to the supervisor."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import orjson

from orchestrator.core.decide import machine, transitions
from orchestrator.core.events.events import DraftChanged, TaskSubmitted
from orchestrator.core.family.family import begin_as_submitted
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.ticket import LOCAL
from orchestrator.daemon.offline_state import LiveWorkspace, NoWorkspace, StandaloneWorkspace
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.daemon.task_factory import (
    TICKET_FILE,
    AlreadyActive,
    Submission,
    SubmissionRefused,
    TaskFactory,
)
from orchestrator.formats.files import read_file
from orchestrator.integrations.tickets.text.reference import JIRA_KEY, parse_query
from orchestrator.integrations.tickets.text.template import variant_of
from orchestrator.integrations.tickets.text.ticket import Requirement
from orchestrator.integrations.tickets.text.title import title_of
from orchestrator.integrations.tickets.trackers import Trackers
from orchestrator.pipelines.families.tickets.standalone_state import UnreadableState
from orchestrator.pipelines.families.tickets.takeover import continued
from orchestrator.storage.records import TaskSummary
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.supervisor import Supervisor
from orchestrator.workspaces.evaluation.resolve import SUBMITTER
from orchestrator.workspaces.git import GitError
from orchestrator.workspaces.repository import RepositoryError, inspect_branch, open_repository

TAKEN_OVER = ".taken-over"
"""A note in a workspace that was taken over: the id of the task that continues it."""


@dataclass(slots=True, kw_only=True)
class SubmissionService:
    """Accepts submissions. `with_forge` adds where the task's change will be published, and blocks.

    `trackers` and `factory` are replaced when settings change. `one_at_a_time` is held while a task is accepted, and
    while a draft is changed or submitted.
    """

    trackers: Trackers
    factory: TaskFactory
    with_forge: Callable[[Task], Task]
    index: TaskIndex
    supervisor: Supervisor
    inbox: Inbox
    clock: Callable[[], datetime]
    one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)
    _one_name: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def submit(
        self,
        submission: Submission,
        after: Sequence[str],
        by: str,
        *,
        made_by: str | None = None,
        on_created: Callable[[str], None] | None = None,
    ) -> Task:
        """Create a task and return it; `after` names tasks that must complete first.

        `made_by` marks the one task of a time of a schedule; such a task begins when those before it have ended,
        completed or not. `on_created` is given the task's id before it is committed, and may block.
        Raises SubmissionRefused and what trackers, the repository and the store refuse; then nothing is left of it.
        """
        submission, requirement = await self._completed(submission, after)
        async with self._naming(submission) as keys:
            submission = replace(submission, keys=keys)
            task = await asyncio.to_thread(self.factory.create, submission, requirement, self.clock())
            if made_by is not None:
                task = replace(task, schedule=replace(task.schedule, made_by=made_by, after_any_end=True))
            return await self._accept(task, submission, requirement, by, on_created)

    async def preview(self, submission: Submission, after: Sequence[str]) -> tuple[Task, Task | None]:
        """Return the task that `submit` would make, without an id, and the live task of the same ticket, if any.

        Nothing is written. Raises what `TaskFactory.preview` raises, and what trackers refuse.
        """
        submission, requirement = await self._completed(submission, after)
        async with self._naming(submission) as keys:
            submission = replace(submission, keys=keys)
            task = await asyncio.to_thread(self.factory.preview, submission, requirement, self.clock())
        return task, self._duplicate(task) if _is_named(submission, requirement) else None

    async def _completed(self, submission: Submission, after: Sequence[str]) -> tuple[Submission, Requirement]:
        """Return a submission with everything that its names stand for, and what is to be done."""
        self._refuse_past(submission.at)
        predecessors = tuple([await self.index.find_id(name) for name in after])
        requirement = await self.trackers.requirement(submission.text)
        return replace(submission, after=predecessors, files=await self._files(submission)), requirement

    async def _files(self, submission: Submission) -> Mapping[str, str]:
        """Return the files that come with a submission, with the list of the tickets that it names on a tracker."""
        if submission.tickets is None:
            return submission.files
        pipeline = self.factory.pipelines().get(submission.pipeline or "")
        name = pipeline.family.listing if pipeline else ""
        if not name:
            raise SubmissionRefused("only a pipeline for issues takes a list of tickets; name one with --pipeline")
        if name in submission.files:
            raise SubmissionRefused(f"give either {name} or the tickets of a repository, not both")
        asked = submission.tickets
        found = await self.trackers.listed(parse_query(asked.project, asked.labels, asked.query))
        return {**submission.files, name: b"".join(map(_line_of, found)).decode()}

    @asynccontextmanager
    async def _naming(self, submission: Submission) -> AsyncGenerator[tuple[str, ...]]:
        """Give the ticket keys of the repository's tasks where a family chooses the key, and keep other submissions
        waiting meanwhile, so that no two get the same.
        """
        pipeline = self.factory.pipelines().get(submission.pipeline or "")
        if pipeline is None or pipeline.family.begin is begin_as_submitted:
            yield ()
            return
        async with self._one_name:
            every = await self.index.all_tasks()
            yield await asyncio.to_thread(_keys_in, submission.repo, every)

    async def repeat(self, failed: Task, by: str) -> Task:
        """Create a task with the ticket and the options of a failed one and return it.

        A tracker's ticket is fetched again. Raises what `submit` raises, and AlreadyActive while the failed task was
        repeated by another one that has not ended.
        """
        requirement = await self._original(failed)
        if failed.ticket.source != LOCAL:
            requirement = await self.trackers.requirement(requirement.url)
        files = await asyncio.to_thread(self.factory.given_files, failed, failed.pipeline)
        submission = replace(_submission_of(failed), retry_of=failed.id, files=files)
        task = await asyncio.to_thread(self.factory.create, submission, requirement, self.clock())
        task = replace(task, policy=replace(task.policy, caps=failed.policy.caps))
        return await self._accept(task, submission, requirement, by)

    async def given(self, name: str) -> tuple[Task, Submission]:
        """Return a draft, and the submission that would make it; the text of a tracker's ticket is its address.

        Raises InvalidTransition if the task is no draft, and SubmissionRefused if its text is lost.
        """
        draft = await self.index.find(name)
        transitions.require("change", draft)
        original = await self._original(draft)
        return draft, replace(
            _submission_of(draft),
            text=original.url or original.text,
            after=draft.schedule.after,
            at=draft.schedule.start_at,
            usd=draft.policy.caps.usd,
        )

    async def change(self, name: str, changes: Mapping[str, Any], by: str) -> Task:
        """Change fields of a draft's submission, by their names, and return the draft: it is checked like a new one.

        A new text without a title gives a new title where the title was the text's; a new type without a pipeline the
        pipeline of that type where the pipeline was the type's. Raises what `submit` raises, and InvalidTransition if
        the task is no draft.
        """
        draft = await self.index.find(name)
        transitions.require("change", draft)
        self._refuse_past(changes.get("at"))
        if "after" in changes:
            changes = {**changes, "after": tuple([await self.index.find_id(one) for one in changes["after"]])}
        before = await self._original(draft)
        after = before
        if text := changes.get("text") or (draft.ticket.source != LOCAL and before.url):
            after = await self.trackers.requirement(text)
        wanted = self._changed(draft, changes, before)
        files = await asyncio.to_thread(self.factory.given_files, draft, wanted.pipeline)
        wanted = replace(wanted, files=files)
        async with self._naming(wanted) as keys, self.one_at_a_time:
            transitions.require("change", await self.index.task(draft.id))
            wanted = replace(wanted, keys=tuple(key for key in keys if key != draft.ticket.key))
            changed = await asyncio.to_thread(self._made_anew, draft, wanted, after)
            event = DraftChanged(at=self.clock(), task=changed, by=by)
            now = await self.inbox.request(draft.id, event)
            await asyncio.to_thread(self.factory.settle, now)
        return now

    async def _original(self, task: Task) -> Requirement:
        """Return what a task was made from. Raises SubmissionRefused if that is lost, NoSuchTask if it is gone."""
        try:
            return await asyncio.to_thread(self.factory.original, task)
        except SubmissionRefused:
            await self.index.task(task.id)
            raise

    def _changed(self, draft: Task, changes: Mapping[str, Any], before: Requirement) -> Submission:
        """Return the submission that a draft was made from, changed."""
        wanted = replace(_submission_of(draft), after=draft.schedule.after, at=draft.schedule.start_at, draft=True)
        if "text" in changes and draft.title == title_of("", replace(before, title="")):
            wanted = replace(wanted, title="")
        if "type" in changes and draft.pipeline == variant_of(draft.ticket.type).value:
            wanted = replace(wanted, pipeline=None)
        return replace(wanted, **changes)

    def _made_anew(self, draft: Task, wanted: Submission, requirement: Requirement) -> Task:
        """Return the draft as it would begin if this were submitted, with its files written. Blocks."""
        changed = self.factory.change(draft, wanted, requirement, self.clock())
        pipeline = self.factory.pipelines()[changed.pipeline]
        begun, _ = machine.begin(pipeline, TaskSubmitted(at=self.clock(), task=self.with_forge(changed), by=""))
        return begun

    def _refuse_past(self, at: datetime | None) -> None:
        """Refuse a start time that has passed."""
        if at is not None and at <= self.clock():
            raise SubmissionRefused(
                f"the start time {at.isoformat()} is in the past; give a later one, or leave `at` out to start at once"
            )

    async def take_over(self, folder: Path, base: str | None, by: str) -> Task:
        """Create a task that continues a workspace of the original system where it is, and return it.

        Nothing in the workspace or in its repository is changed, except for a note of the task. Raises what `submit`
        raises.
        """
        note = await asyncio.to_thread(read_file, folder / TAKEN_OVER)
        self._refuse_second_takeover(folder, note or b"")
        task, submission, requirement = await asyncio.to_thread(self._continued, folder, base, by)
        accepted = await self._accept(task, submission, requirement, by)
        with suppress(OSError):
            (folder / TAKEN_OVER).write_text(f"{accepted.id}\n")
        return accepted

    def _continued(self, folder: Path, base: str | None, by: str) -> tuple[Task, Submission, Requirement]:
        """Return the task that continues a workspace, with its folder written. Blocks."""
        pipelines = self.factory.pipelines()
        try:
            live = StandaloneWorkspace(folder, pipelines, self.clock, by).live()
        except (NoWorkspace, UnreadableState, GitError, OSError) as error:
            raise SubmissionRefused(f"{folder} cannot be taken over: {error}") from error
        _refuse_unfit(folder, live)
        old, policy = live.task, live.task.policy
        git, _ = open_repository(folder)
        begun = inspect_branch(git, live.branch, base) if live.branch else None
        text, title = (str(live.ticket.get(name) or "") for name in ("description", "summary"))
        requirement = Requirement(title=title, text=text or title)
        submission = Submission(
            text="",
            repo=git.folder,
            pipeline=live.pipeline.name,
            type=old.ticket.type,
            ticket=old.ticket.key if JIRA_KEY.fullmatch(old.ticket.key) else None,
            base=begun.base if begun else base,
            autonomy=policy.autonomy,
            on_blocked=policy.on_blocked,
            auto_merge=policy.auto_merge,
        )
        new = self.factory.create(submission, requirement, self.clock())
        try:
            left = [pattern for stage in live.pipeline.stages.values() for pattern in stage.artifacts]
            self.factory.adopt(
                new, folder, [name for name in live.evidence.files if any(fnmatchcase(name, one) for one in left)]
            )
        except OSError:
            self.factory.files.delete(new.id)
            raise
        if begun is not None:
            new = replace(new, source=replace(new.source, base_commit=begun.base_commit, head=begun.head))
        commits = begun.commits if begun else ()
        return continued(new, old, live.pipeline, live.evidence, commits), submission, requirement

    def _refuse_second_takeover(self, folder: Path, note: bytes) -> None:
        """Refuse a workspace that a live task continues already."""
        task = self.supervisor.tasks.get(note.decode("ascii", "replace").strip())
        if task is not None and not task.status.is_final:
            raise AlreadyActive(
                f"{folder} was taken over already: {task.id} ({task.status.value}); "
                f"look at it with `orchestrator show {task.id}`"
            )

    async def _accept(
        self,
        task: Task,
        submission: Submission,
        requirement: Requirement,
        by: str,
        on_created: Callable[[str], None] | None = None,
    ) -> Task:
        """Hand a new task to the supervisor; one that is refused leaves nothing behind."""
        try:
            if on_created is not None:
                await asyncio.to_thread(on_created, task.id)
            task = await asyncio.to_thread(self.with_forge, task)
            async with self.one_at_a_time:
                self._refuse_second_retry(task)
                if _is_named(submission, requirement) and not submission.again:
                    self._refuse_duplicate(requirement, task)
                task = await self.inbox.submit(TaskSubmitted(at=self.clock(), task=task, by=by))
        except Exception:
            with suppress(OSError):
                await asyncio.to_thread(self.factory.files.delete, task.id)
            raise
        return self.supervisor.tasks.get(task.id, task)

    def _refuse_second_retry(self, new: Task) -> None:
        """Refuse a second live task that repeats the same failed one."""
        for task in self.supervisor.tasks.values():
            if new.retry_of is not None and task.retry_of == new.retry_of and not task.status.is_final:
                raise AlreadyActive(
                    f"{new.retry_of} is being retried already: {task.id} ({task.status.value}); "
                    f"look at it with `orchestrator show {task.id}`"
                )

    def _refuse_duplicate(self, requirement: Requirement, new: Task) -> None:
        """Refuse a second live task of the same ticket."""
        if (task := self._duplicate(new)) is not None:
            ticket = requirement.url or new.ticket.key
            raise AlreadyActive(
                f"{ticket} already has a task in this repository: {task.id} ({task.status.value}); "
                f"look at it with `orchestrator show {task.id}`, or submit with --again for a second one"
            )

    def _duplicate(self, new: Task) -> Task | None:
        """Return a live task of the same ticket: from the same tracker, or a text under the ticket's key."""
        for task in self.supervisor.tasks.values():
            is_same = (task.ticket.key, task.source.repo) == (new.ticket.key, new.source.repo)
            sources = {task.ticket.source, new.ticket.source}
            if is_same and (len(sources) == 1 or LOCAL in sources) and not task.status.is_final:
                return task
        return None


def _is_named(submission: Submission, requirement: Requirement) -> bool:
    """Whether the ticket has a key of its own, so that a second live task of it would be a mistake."""
    return bool(requirement.tracker is not None or submission.ticket or requirement.key)


def _submission_of(task: Task) -> Submission:
    """Return the options that a task was submitted with; its text is in its ticket."""
    policy = task.policy
    return Submission(
        text="",
        repo=Path(task.source.plain_folder or task.source.repo),
        no_git=bool(task.source.plain_folder),
        title=task.title,
        pipeline=task.pipeline,
        type=task.ticket.type,
        ticket=task.ticket.key if task.ticket.key != task.id else None,
        base=task.source.base_branch,
        priority=task.schedule.priority,
        checks={check.name: check.command for check in task.evaluation.checks if check.source == SUBMITTER},
        autonomy=policy.autonomy,
        on_blocked=policy.on_blocked,
        auto_merge=policy.auto_merge,
    )


def _line_of(ticket: Requirement) -> bytes:
    """Return a ticket as a line of a list."""
    line = {"id": ticket.key, "title": ticket.title, "description": ticket.text, "tags": ticket.labels}
    return orjson.dumps({**line, "url": ticket.url}, option=orjson.OPT_APPEND_NEWLINE)


def _keys_in(repo: Path, every: Sequence[Task | TaskSummary]) -> tuple[str, ...]:
    """Return the ticket keys of the tasks of a repository, or of a folder without one. Blocks."""
    try:
        place = open_repository(repo)[0].folder.resolve()
    except RepositoryError:
        place = repo.resolve()
    found = []
    for one in every:
        where = one.repo if isinstance(one, TaskSummary) else one.source.plain_folder or one.source.repo
        if Path(where).resolve() == place:
            found.append(one.ticket if isinstance(one, TaskSummary) else one.ticket.key)
    return tuple(found)


def _refuse_unfit(folder: Path, live: LiveWorkspace) -> None:
    """Refuse a workspace that no task can continue, or whose work would not be complete in the task."""
    if live.task.status is TaskStatus.COMPLETED:
        raise SubmissionRefused(f"{folder} is completed; nothing is left to take over")
    if live.pr_url:
        raise SubmissionRefused(f"{folder} has proposed its change already, as {live.pr_url}; finish it there")
    if not (live.ticket.get("description") or live.ticket.get("summary")):
        raise SubmissionRefused(f"{folder}/{TICKET_FILE} does not say what is to be done; submit the ticket instead")
    if live.dirty:
        files = ", ".join(live.dirty[:10]) + (", …" if len(live.dirty) > 10 else "")
        raise SubmissionRefused(
            f"the repository around {folder} has uncommitted changes, which a task would not have: {files}; "
            "commit or stash them, then import it again"
        )
