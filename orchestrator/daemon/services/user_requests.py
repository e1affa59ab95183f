"""What agents ask people for, and the answers: questions, dependencies and reviews of all tasks.

The first answer counts. Whoever gives a later one gets to see the first.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from orchestrator.core.decide.transitions import allowed, require
from orchestrator.core.events.events import AskAnswered
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.user_requests import (
    DECIDE_YOURSELF,
    IS_SECRET,
    BadAnswer,
    RequestKind,
    RequestStatus,
    Subject,
    UserRequest,
    must_not_be_set,
    validate_answer,
    variable_of,
)
from orchestrator.daemon.services.errors import AlreadyAnswered, NoSuchRequest
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.errors import AnswerRefused, InvalidTransition, OrchestratorError
from orchestrator.redaction.masking import why_unmasked
from orchestrator.storage.provided_secrets import ProvidedSecrets
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.supervisor import Supervisor
from orchestrator.workspaces.workspace import DiffStat, Workspace

log = structlog.get_logger()

_VERBS = {RequestKind.QUESTION: "answer", RequestKind.DEPENDENCY: "provide", RequestKind.REVIEW: "approve"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRequest:
    """A request and the task that it belongs to."""

    task: Task
    request: UserRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRequestService:
    """The use cases of requests; `name` is `<task>.<number>`, the task named as everywhere.

    Every method that takes one raises NoSuchTask, AmbiguousName and NoSuchRequest; those that answer raise
    AlreadyAnswered, AnswerRefused, BadAnswer, InvalidTransition and NotCommitted too.
    """

    index: TaskIndex
    supervisor: Supervisor
    inbox: Inbox
    secrets: ProvidedSecrets
    workspace: Workspace
    redact: Callable[[str], str]
    clock: Callable[[], datetime]
    _providing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def list(self, kind: RequestKind, task: str | None, *, answered: bool) -> list[TaskRequest]:
        """Return the pending requests of live tasks or of one task, oldest first; with `answered` all of them."""
        tasks = [await self.index.find(task)] if task else self.supervisor.tasks.values()
        found = _matching(tasks, kind, answered)
        return sorted(found, key=lambda one: (one.request.asked_at, one.task.id, one.request.number))

    async def find(self, kind: RequestKind, name: str) -> TaskRequest:
        """Return one request."""
        task_name, _, number = name.rpartition(".")
        if not (number.isascii() and number.isdigit() and len(number) < 10):
            raise NoSuchRequest(f"{name!r:.80} is not the id of a {kind}; ids are written TASK.NUMBER")
        task = await self.index.find(task_name)
        request = next((one for one in task.requests if one.number == int(number)), None)
        if request is None:
            raise NoSuchRequest(f"task {task.id} has no request {int(number)}")
        if request.kind is not kind:
            raise NoSuchRequest(f"{task.id}.{request.number} is a {request.kind}, not a {kind}")
        return TaskRequest(task=task, request=request)

    async def find_review(self, name: str) -> tuple[TaskRequest, DiffStat | None]:
        """Return a review and how much changed since the task began; None where nothing did or it is unknown."""
        found = await self.find(RequestKind.REVIEW, name)
        return found, await asyncio.to_thread(self._change_of, found.task)

    async def answer(self, name: str, text: str, digest: str | None, by: str) -> TaskRequest:
        """Answer a question; an option may be written in any case."""
        found = await self.find(RequestKind.QUESTION, name)
        words = await self._without_secrets(text)
        answer = validate_answer(found.request.draft, words) if found.request.is_pending else words
        return await self._record(found, RequestStatus.ANSWERED, by, answer, digest)

    async def skip(self, name: str, digest: str | None, by: str) -> TaskRequest:
        """Leave a question that is not required to its default, or to the agent."""
        found = await self.find(RequestKind.QUESTION, name)
        return await self._record(
            found, RequestStatus.SKIPPED, by, found.request.draft.default or DECIDE_YOURSELF, digest
        )

    async def approve(self, name: str, digest: str | None, by: str) -> TaskRequest:
        """Approve a review, so that the task continues."""
        return await self._record(await self.find(RequestKind.REVIEW, name), RequestStatus.APPROVED, by, digest=digest)

    async def approve_all(self, name: str, by: str) -> Task:
        """Approve every review that a task waits for. Raises InvalidTransition if there is none."""
        task = await self.index.find(name)
        require("approve", task)
        for request in task.pending_requests:
            if request.kind is RequestKind.REVIEW:
                task = (await self.approve(f"{task.id}.{request.number}", None, by)).task
        return task

    async def merge(self, name: str, by: str) -> Task:
        """Approve the merge of a task's pull request. Raises InvalidTransition if it waits for none."""
        task = await self.index.find(name)
        merges = (request for request in task.pending_requests if request.draft.subject is Subject.MERGE)
        request = next(merges, None)
        if request is None:
            hindrances = "; ".join(self.redact(one) for one in task.publication.hindrances)
            raise InvalidTransition("merge", task.status, task.stage, allowed(task), hindrances)
        return (await self.approve(f"{task.id}.{request.number}", request.digest, by)).task

    async def request_changes(self, name: str, text: str, digest: str | None, by: str) -> TaskRequest:
        """Say what has to be different before the task continues."""
        found = await self.find(RequestKind.REVIEW, name)
        return await self._record(found, RequestStatus.CHANGES_REQUESTED, by, await self._without_secrets(text), digest)

    async def provide(self, name: str, value: str | None, by: str) -> tuple[TaskRequest, str | None]:
        """Provide a dependency; return it, and why its value will not be masked, or None.

        A value is stored encrypted before the task learns of it, and is shown nowhere. For a blocked task it may be
        provided again, because it may have been lost. Raises VaultError too.
        """
        async with self._providing:
            found = await self._provide(await self.find(RequestKind.DEPENDENCY, name), value, by)
        return found, None if value is None else why_unmasked(value) or None

    async def reject(self, name: str, reason: str, by: str) -> TaskRequest:
        """Say that a dependency will not be provided; the agent has to do without it."""
        found = await self.find(RequestKind.DEPENDENCY, name)
        return await self._record(found, RequestStatus.REJECTED, by, await self._without_secrets(reason))

    def _change_of(self, task: Task) -> DiffStat | None:
        if task.source.head is None or task.source.head == task.source.base_commit:
            return None
        try:
            return self.workspace.diff_stat(task.id, task.source.base_commit, task.source.head)
        except OrchestratorError as error:
            log.warning("change_not_measured", task=task.id, error=str(error))
            return None

    async def _without_secrets(self, text: str) -> str:
        """Return a person's words as they may be recorded. Raises BadAnswer."""
        if await asyncio.to_thread(self.redact, text) != text:
            raise BadAnswer(
                "the answer seems to contain a secret, and answers are recorded; leave it out, and give secrets only "
                "to `orchestrator provide`, when an agent asks for them by name"
            )
        return text.strip()

    def _refreshed(self, found: TaskRequest) -> TaskRequest:
        task = self.supervisor.tasks.get(found.task.id, found.task)
        return TaskRequest(task=task, request=task.requests[found.request.number - 1])

    async def _provide(self, found: TaskRequest, value: str | None, by: str) -> TaskRequest:
        found = self._refreshed(found)
        if found.task.status is TaskStatus.BLOCKED and found.request.status is RequestStatus.PROVIDED:
            await self._keep(found, value)
            return found
        if found.request.is_pending:
            require("provide", found.task)
            await self._keep(found, value)
        try:
            return await self._record(found, RequestStatus.PROVIDED, by)
        finally:
            if found.task.id not in self.supervisor.tasks:  # it ended meanwhile, and nobody needs the value
                await asyncio.to_thread(self.secrets.forget, found.task.id)

    async def _keep(self, found: TaskRequest, value: str | None) -> None:
        """Store a value where only the task's agents find it. Raises BadAnswer and VaultError."""
        draft = found.request.draft
        if draft.type not in IS_SECRET:
            if value is not None:
                raise BadAnswer(f"the {draft.type} {draft.name} takes no value; provide it without one")
            return
        variable = variable_of(draft.name)
        if must_not_be_set(variable):
            raise BadAnswer(f"the variable {variable} decides what runs and is never set for an agent; reject this one")
        if value is None:
            raise BadAnswer(f"{draft.name} needs a value; give one")
        await asyncio.to_thread(self.secrets.keep, found.task, draft.name, value)

    async def _record(
        self, found: TaskRequest, status: RequestStatus, by: str, text: str = "", digest: str | None = None
    ) -> TaskRequest:
        """Have the answer decided and return the request after it."""
        number = found.request.number
        event = AskAnswered(at=self.clock(), number=number, status=status, answer=text, digest=digest, by=by)
        try:
            task = await self._request(found, event)
        except AnswerRefused as error:
            now = self._refreshed(found)
            if now.request.is_pending:
                raise
            raise AlreadyAnswered(self.redact(str(error)), now.task, now.request) from error
        return TaskRequest(task=task, request=task.requests[number - 1])

    async def _request(self, found: TaskRequest, event: AskAnswered) -> Task:
        """Return the task after an answer; one that has ended takes none."""
        if found.task.id in self.supervisor.tasks:
            return await self.inbox.request(found.task.id, event)
        if found.request.is_pending:
            require(_VERBS[found.request.kind], found.task)
        raise AnswerRefused("it was answered before; the first answer counts")


def _matching(tasks: Iterable[Task], kind: RequestKind, answered: bool) -> Iterator[TaskRequest]:
    for task in tasks:
        for request in task.requests:
            if request.kind is kind and (answered or (request.is_pending and task.is_active)):
                yield TaskRequest(task=task, request=request)
