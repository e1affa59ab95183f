"""What people are asked for, and their answers: questions, dependencies and reviews of all tasks.

A first answer counts. Whoever gives another one is told the first.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import structlog
from fastapi import APIRouter, Depends, Query, Request

from orchestrator import clock
from orchestrator.core.decide.transitions import require
from orchestrator.core.events.events import AskAnswered
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.user_requests import (
    DECIDE_YOURSELF,
    IS_SECRET,
    BadAnswer,
    RequestKind,
    RequestStatus,
    UserRequest,
    must_not_be_set,
    validate_answer,
    variable_of,
)
from orchestrator.errors import AnswerRefused, OrchestratorError
from orchestrator.redaction.masking import why_unmasked
from orchestrator.server.backend import Backend
from orchestrator.server.idempotency import SECRET, KeyedRoute
from orchestrator.server.problems import AnsweredBefore, NoSuchAsk
from orchestrator.server.routes.tasks import By, TheBackend, TheRegister, register_of
from orchestrator.server.schemas.task_views import ask_view
from orchestrator.server.schemas.user_requests import (
    AnswerBody,
    AskFilter,
    AskList,
    ChangesBody,
    DigestBody,
    ProvideBody,
    ProvidedView,
    RejectBody,
    ReviewView,
)
from orchestrator.server.schemas.views import AskView, to_view
from orchestrator.server.task_index import TaskIndex
from orchestrator.workspaces.workspace import DiffStat

log = structlog.get_logger()

router = APIRouter(prefix="/api", tags=["people"], route_class=KeyedRoute)

WHERE = {RequestKind.QUESTION: "questions", RequestKind.DEPENDENCY: "dependencies", RequestKind.REVIEW: "reviews"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An ask and the task that it belongs to."""

    task: Task
    ask: UserRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRoute:
    """Who answers, and to whom."""

    backend: Backend
    by: str


async def question_named(name: str, request: Request) -> Found:
    """The question that a path means."""
    return await _found(register_of(request), name, RequestKind.QUESTION)


async def dependency_named(name: str, request: Request) -> Found:
    """The dependency that a path means."""
    return await _found(register_of(request), name, RequestKind.DEPENDENCY)


async def review_named(name: str, request: Request) -> Found:
    """The review that a path means."""
    return await _found(register_of(request), name, RequestKind.REVIEW)


def answering(backend: TheBackend, by: By) -> RequestRoute:
    """Who answers."""
    return RequestRoute(backend=backend, by=by)


TheQuestion = Annotated[Found, Depends(question_named)]
TheDependency = Annotated[Found, Depends(dependency_named)]
TheReview = Annotated[Found, Depends(review_named)]
Who = Annotated[RequestRoute, Depends(answering)]
Wanted = Annotated[AskFilter, Query()]


@router.get("/questions")
async def questions(backend: TheBackend, register: TheRegister, wanted: Wanted) -> AskList:
    """Questions that agents ask, permissions among them."""
    return await _listed(backend, register, wanted, RequestKind.QUESTION)


@router.get("/dependencies")
async def dependencies(backend: TheBackend, register: TheRegister, wanted: Wanted) -> AskList:
    """What agents need and only a person can provide."""
    return await _listed(backend, register, wanted, RequestKind.DEPENDENCY)


@router.get("/reviews")
async def reviews(backend: TheBackend, register: TheRegister, wanted: Wanted) -> AskList:
    """Stages and plans that are to be approved."""
    return await _listed(backend, register, wanted, RequestKind.REVIEW)


@router.get("/questions/{name}")
async def question(found: TheQuestion, backend: TheBackend) -> AskView:
    """One question."""
    return ask_view(found.task, found.ask, backend.redact)


@router.get("/dependencies/{name}")
async def dependency(found: TheDependency, backend: TheBackend) -> AskView:
    """One dependency."""
    return ask_view(found.task, found.ask, backend.redact)


@router.get("/reviews/{name}")
async def review(found: TheReview, backend: TheBackend) -> ReviewView:
    """One review, and what is to be looked at."""
    task, stage = found.task, found.task.stages.get(found.ask.stage)
    shown = {
        **ask_view(task, found.ask, backend.redact).model_dump(),
        "files": tuple(task.display_path(name) for name in (stage.artifacts if stage else ())),
        "worktree": task.source.worktree,
        "base_commit": task.source.base_commit,
        "head": task.source.head,
        "change": await asyncio.to_thread(_change, backend, task),
    }
    return to_view(ReviewView, shown, backend.redact)


@router.post("/questions/{name}/answer")
async def answer(found: TheQuestion, who: Who, body: AnswerBody) -> AskView:
    """Answer a question; of options one is taken in whatever case it is written."""
    said = _fit(who, body.answer)
    text = validate_answer(found.ask.draft, said) if found.ask.is_pending else said
    return await _answered(who, found, _event(who, found, RequestStatus.ANSWERED, text, body.digest))


@router.post("/questions/{name}/skip")
async def skip(found: TheQuestion, who: Who, body: DigestBody | None = None) -> AskView:
    """Leave a question that need not be answered to its default, or to the agent."""
    text = found.ask.draft.default or DECIDE_YOURSELF
    return await _answered(who, found, _event(who, found, RequestStatus.SKIPPED, text, body.digest if body else None))


@router.post("/reviews/{name}/approve")
async def approve(found: TheReview, who: Who, body: DigestBody | None = None) -> AskView:
    """Let the task go on to what follows."""
    return await _answered(who, found, _event(who, found, RequestStatus.APPROVED, "", body.digest if body else None))


@router.post("/reviews/{name}/request-changes")
async def request_changes(found: TheReview, who: Who, body: ChangesBody) -> AskView:
    """Say what has to be different before the task goes on."""
    event = _event(who, found, RequestStatus.CHANGES_REQUESTED, _fit(who, body.text), body.digest)
    return await _answered(who, found, event)


@router.post("/dependencies/{name}/provide", openapi_extra=SECRET)
async def provide(found: TheDependency, who: Who, request: Request, body: ProvideBody | None = None) -> ProvidedView:
    """Provide what is missing. A value is kept encrypted before the task hears of it, and shown nowhere.

    What was provided for a task that is blocked may be provided anew, for it may be lost; `retry` goes on with it.
    """
    value = body.value.get_secret_value() if body and body.value is not None else None
    lock: asyncio.Lock = request.app.state.providing
    async with lock:
        view = await _provided(found, who, value)
    unmasked = None if value is None else why_unmasked(value) or None
    return to_view(ProvidedView, {**view.model_dump(), "unmasked": unmasked}, who.backend.redact)


@router.post("/dependencies/{name}/reject")
async def reject(found: TheDependency, who: Who, body: RejectBody | None = None) -> AskView:
    """Say that it will not be provided; the agent has to do without."""
    reason = _fit(who, body.reason) if body else ""
    return await _answered(who, found, _event(who, found, RequestStatus.REJECTED, reason))


def _change(backend: Backend, task: Task) -> DiffStat | None:
    if task.source.head is None or task.source.head == task.source.base_commit:
        return None
    try:
        return backend.workspace.diff_stat(task.id, task.source.base_commit, task.source.head)
    except OrchestratorError as error:
        log.warning("change_not_measured", task=task.id, error=str(error))
        return None


async def _found(register: TaskIndex, name: str, kind: RequestKind) -> Found:
    """The ask `<task>.<number>`; the task is named as everywhere. Raises NoSuchTask, Ambiguous, NoSuchAsk."""
    task_name, _, number = name.rpartition(".")
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise NoSuchAsk(f"{name!r:.80} is the id of no {kind}; it is written TASK.NUMBER")
    task = await register.find(task_name)
    ask = next((ask for ask in task.requests if ask.number == int(number)), None)
    if ask is None:
        raise NoSuchAsk(f"task {task.id} asked nothing under the number {int(number)}")
    if ask.kind is not kind:
        raise NoSuchAsk(f"{task.id}.{ask.number} is no {kind} but a {ask.kind}; see /api/{WHERE[ask.kind]}")
    return Found(task=task, ask=ask)


async def _listed(backend: Backend, register: TaskIndex, wanted: AskFilter, kind: RequestKind) -> AskList:
    """Of the tasks at work; those of an ended task only if it is named."""
    of = [await register.find(wanted.task)] if wanted.task else backend.supervisor.tasks.values()
    asks = sorted(_wanted(of, wanted, kind), key=lambda found: (found.ask.asked_at, found.task.id, found.ask.number))
    return AskList(asks=tuple(ask_view(found.task, found.ask, backend.redact) for found in asks))


def _wanted(tasks: Iterable[Task], wanted: AskFilter, kind: RequestKind) -> Iterable[Found]:
    for task in tasks:
        for ask in task.requests:
            if ask.kind is kind and (wanted.status == "all" or (ask.is_pending and task.is_active)):
                yield Found(task=task, ask=ask)


def _event(
    who: RequestRoute, found: Found, status: RequestStatus, text: str = "", digest: str | None = None
) -> AskAnswered:
    return AskAnswered(at=clock.now(), number=found.ask.number, status=status, answer=text, digest=digest, by=who.by)


def _fit(who: RequestRoute, text: str) -> str:
    """A person's words as they may be put on record. Raises BadAnswer."""
    if who.backend.redact(text) != text:
        raise BadAnswer(
            "the answer holds what looks like a secret, and answers are put on record; leave it out, "
            "and give secrets only to `orchestrator provide`, when an agent asks for them by name"
        )
    return text.strip()


def _now(backend: Backend, found: Found) -> Found:
    """The same as it stands now."""
    task = backend.supervisor.tasks.get(found.task.id, found.task)
    return Found(task=task, ask=task.requests[found.ask.number - 1])


async def _provided(found: Found, who: RequestRoute, value: str | None) -> AskView:
    """The ask with its value kept. Raises as `_keep` and `_answered` do."""
    found = _now(who.backend, found)
    event = _event(who, found, RequestStatus.PROVIDED)
    if found.task.status is TaskStatus.BLOCKED and found.ask.status is RequestStatus.PROVIDED:
        await _keep(who.backend, found, value)
        return ask_view(found.task, found.ask, who.backend.redact)
    if found.ask.is_pending:
        require("provide", found.task)
        await _keep(who.backend, found, value)
    try:
        return await _answered(who, found, event)
    finally:
        if found.task.id not in who.backend.supervisor.tasks:  # it ended meanwhile, and nobody needs the value
            await asyncio.to_thread(who.backend.provisions.forget, found.task.id)


async def _keep(backend: Backend, found: Found, value: str | None) -> None:
    """Put a value where only the task's agents find it. Raises BadAnswer, VaultError."""
    asking = found.ask.draft
    if asking.type not in IS_SECRET:
        if value is not None:
            raise BadAnswer(f"the {asking.type} {asking.name} has no value; provide it without one, once it is given")
        return
    variable = variable_of(asking.name)
    if must_not_be_set(variable):
        raise BadAnswer(f"the variable {variable} decides what runs, and is never set for an agent; reject this one")
    if value is None:
        raise BadAnswer(f"{asking.name} is provided as a value; give one")
    await asyncio.to_thread(backend.provisions.keep, found.task, asking.name, value)


async def _answered(who: RequestRoute, found: Found, event: AskAnswered) -> AskView:
    """The ask after an answer. Raises AnsweredBefore, AnswerRefused, BadAnswer, InvalidTransition, NotCommitted."""
    redact = who.backend.redact
    try:
        task = await _asked(who.backend, found, event)
    except AnswerRefused as error:
        now = _now(who.backend, found)
        if now.ask.is_pending:
            raise
        raise AnsweredBefore(redact(str(error)), ask_view(now.task, now.ask, redact)) from error
    return ask_view(task, task.requests[found.ask.number - 1], redact)


async def _asked(backend: Backend, found: Found, event: AskAnswered) -> Task:
    """The task after an answer; one that has ended takes none. Raises as `_answered` does."""
    if found.task.id in backend.supervisor.tasks:
        return await backend.supervisor.request(found.task.id, event)
    if found.ask.is_pending:
        require(_VERBS[found.ask.kind], found.task)
    raise AnswerRefused("it was answered before; the first answer counts")


_VERBS = {RequestKind.QUESTION: "answer", RequestKind.DEPENDENCY: "provide", RequestKind.REVIEW: "approve"}
