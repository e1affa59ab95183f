"""The tools: functions over the use cases, and the table that says what each may do.

A tool takes who asks and its arguments, and returns a view; its input and output schemas are those of the two, and its
description is its docstring. It refuses as the API's routes do, whose functions most of them are.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import orjson
from fastapi import Response

from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.core.task.user_requests import RequestKind
from orchestrator.daemon.callers import Caller
from orchestrator.daemon.service import Service
from orchestrator.server.idempotency import IdempotencyKeys, key_of
from orchestrator.server.mcp.arguments import (
    Approval,
    Arguments,
    Changes,
    NoArguments,
    OneTask,
    QuestionAnswer,
    Stretch,
    TaskListing,
    Ticket,
)
from orchestrator.server.mcp.transcripts import transcript
from orchestrator.server.mcp.views import TaskSummary
from orchestrator.server.rendering import request_view, task_line
from orchestrator.server.routes import daemon as daemon_routes
from orchestrator.server.routes import limits as limit_routes
from orchestrator.server.routes import tasks as task_routes
from orchestrator.server.routes import user_requests as request_routes
from orchestrator.server.schemas.base import View, to_view
from orchestrator.server.schemas.daemon import StatusView
from orchestrator.server.schemas.limits import LimitsView
from orchestrator.server.schemas.records import TranscriptPage
from orchestrator.server.schemas.task_input import SubmissionBody, TaskFilter
from orchestrator.server.schemas.tasks import TaskLine, TaskPage, WhyView
from orchestrator.server.schemas.user_requests import (
    AnswerBody,
    ChangesBody,
    DigestBody,
    RequestList,
    RequestView,
)

A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Who asks, and what a tool works with."""

    service: Service
    keys: IdempotencyKeys
    caller: Caller

    @property
    def by(self) -> str:
        """The caller, as it is recorded."""
        return str(self.caller)


async def submit(asked: Asked, given: Ticket) -> TaskSummary:
    """Submit a ticket: a pipeline of coding agents works on it in its own branch, for minutes to hours.

    Look at it with `why` and `show` from time to time; agents may ask questions that a person answers.
    """
    body = SubmissionBody(
        **given.model_dump(exclude={"interactive", "key"}),
        autonomy=Autonomy.INTERACTIVE if given.interactive else None,
    )

    async def take() -> str:
        made = await task_routes.submit(body, Response(), asked.service, asked.by)
        return to_view(TaskSummary, made, str).model_dump_json(by_alias=True)

    if given.key is None:
        made = await take()
    else:
        key = key_of(asked.caller, "mcp", given.key)
        made = await asked.keys.once(key, orjson.dumps(given.model_dump(mode="json")), take)
    return TaskSummary.model_validate_json(made, context=str)


async def list_(asked: Asked, given: TaskListing) -> TaskPage:
    """List tasks, newest first: their status, stage and repository."""
    wanted = TaskFilter(
        status=given.status, repo=given.repo, all=given.archived, limit=given.limit, cursor=given.cursor
    )
    return await task_routes.tasks(asked.service, wanted)


async def show(asked: Asked, given: OneTask) -> TaskSummary:
    """Show one task: its steps with their commits, checks, failures, cost, and what waits for a person."""
    return to_view(TaskSummary, await task_routes.task(given.task, asked.service), str)


async def why(asked: Asked, given: OneTask) -> WhyView:
    """Say what keeps a task where it is, and what would move it."""
    return await task_routes.why(given.task, asked.service)


async def waiting(asked: Asked, _: NoArguments) -> RequestList:
    """List everything that waits for a person, of all tasks: questions, reviews, and things that agents need.

    What an agent needs (kind `dependency`) is provided with `orchestrator provide`, so that no secret passes through
    a conversation.
    """
    service = asked.service
    found = [one for kind in RequestKind for one in await service.requests.list(kind, None, answered=False)]
    found.sort(key=lambda one: one.request.asked_at)
    return RequestList(requests=tuple(request_view(one.task, one.request, service.redact) for one in found))


async def status(asked: Asked, _: NoArguments) -> StatusView:
    """Show the daemon: its health, its slots, which tasks run and which wait."""
    return await daemon_routes.status(asked.service)


async def limits(asked: Asked, _: NoArguments) -> LimitsView:
    """Show the account's usage windows, the day's budget, and the tasks that these keep waiting."""
    return await limit_routes.limits(asked.service)


async def read_transcript(asked: Asked, given: Stretch) -> TranscriptPage:
    """Read what one of a task's agents said and did: the newest entries, or those from an offset on."""
    return await transcript(asked.service, given)


async def answer(asked: Asked, given: QuestionAnswer) -> RequestView:
    """Answer an agent's question. Only what the person you work for has decided: the first answer counts."""
    body = AnswerBody(answer=given.answer, digest=given.digest)
    return await request_routes.answer(given.request, asked.service, asked.by, body)


async def approve(asked: Asked, given: Approval) -> RequestView:
    """Approve work under review, so that the task continues. Only if the person you work for says so."""
    return await request_routes.approve(given.request, asked.service, asked.by, DigestBody(digest=given.digest))


async def request_changes(asked: Asked, given: Changes) -> RequestView:
    """Send work under review back to its agent, with what has to change."""
    body = ChangesBody(text=given.text, digest=given.digest)
    return await request_routes.request_changes(given.request, asked.service, asked.by, body)


async def pause(asked: Asked, given: OneTask) -> TaskLine:
    """Pause a task: its processes are frozen in place until it is resumed."""
    return _line(asked, await asked.service.tasks.pause(given.task, asked.by))


async def resume(asked: Asked, given: OneTask) -> TaskLine:
    """Resume a paused task."""
    return _line(asked, await asked.service.tasks.resume(given.task, asked.by))


async def retry(asked: Asked, given: OneTask) -> TaskLine:
    """Try the stage of a blocked task again; of a failed task a new one is made."""
    return _line(asked, await asked.service.tasks.retry(given.task, asked.by))


async def cancel(asked: Asked, given: OneTask) -> TaskLine:
    """Cancel a task for good; its commits stay on its branch."""
    return _line(asked, await asked.service.tasks.cancel(given.task, asked.by))


def _line(asked: Asked, task: Task) -> TaskLine:
    return task_line(task, asked.service.redact)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool of the table.

    `is_destructive` also marks what a client should never do without asking its person, `is_idempotent` what changes
    nothing the second time.
    """

    name: str
    call: Callable[[Asked, Arguments], Awaitable[View]]
    description: str
    takes: type[Arguments]
    returns: type[View]
    reads_only: bool = False
    is_destructive: bool = False
    is_idempotent: bool = False


def _tool(
    function: Callable[[Asked, A], Awaitable[View]],
    name: str = "",
    *,
    reads: bool = False,
    destroys: bool = False,
    repeats: bool = False,
) -> Tool:
    """Return the entry of a function, of whose annotations its schemas are made."""
    _, takes, returns = function.__annotations__.values()

    async def call(asked: Asked, given: Arguments) -> View:
        assert isinstance(given, takes)  # noqa: S101 - it was parsed as that
        return await function(asked, given)

    return Tool(
        name=name or function.__name__,
        call=call,
        description=" ".join((function.__doc__ or "").split()),
        takes=takes,
        returns=returns,
        reads_only=reads,
        is_destructive=destroys,
        is_idempotent=reads or repeats,
    )


TOOLS: Sequence[Tool] = (
    _tool(submit),
    _tool(list_, "list", reads=True),
    _tool(show, reads=True),
    _tool(why, reads=True),
    _tool(waiting, reads=True),
    _tool(status, reads=True),
    _tool(limits, reads=True),
    _tool(read_transcript, "transcript", reads=True),
    _tool(answer),
    _tool(approve, destroys=True),
    _tool(request_changes),
    _tool(pause, repeats=True),
    _tool(resume, repeats=True),
    _tool(retry),
    _tool(cancel, destroys=True, repeats=True),
)
"""Every tool, those first that are needed most."""
