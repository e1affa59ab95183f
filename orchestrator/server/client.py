"""The daemon as a program on the same machine sees it: requests over its Unix socket, answers as views."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypeVar
from urllib.parse import quote

import httpx
import orjson
from pydantic import SecretStr, ValidationError

from orchestrator.core.events.operations import FailureReport, OperationRefused, Refusal, StepUpdate, Transition
from orchestrator.daemon.access.verbs import MOST_NAMES, Verb
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import JsonObject
from orchestrator.pipelines.operation_parser import show_failure, show_step, show_transition
from orchestrator.server.connection import READ_TIMEOUT, WRITE_TIMEOUT, Connection
from orchestrator.server.errors import DaemonUnreachable, RequestRefused
from orchestrator.server.schemas.base import View, to_view
from orchestrator.server.schemas.checkpoints import (
    CheckpointList,
    CheckpointView,
    PinBody,
    RecoveredView,
    RestoreBody,
    RestoredView,
)
from orchestrator.server.schemas.daemon import StatusView
from orchestrator.server.schemas.events import EventView, GapView, OverviewView, StreamFilter
from orchestrator.server.schemas.intake.intake import IntakeFilter, IntakeView
from orchestrator.server.schemas.limits import LimitsView
from orchestrator.server.schemas.records import AttemptList, JournalPage, TranscriptPage
from orchestrator.server.schemas.task_input import (
    BatchBody,
    CapsBody,
    ChangeBody,
    ImportBody,
    SourceBody,
    SourceView,
    SubmissionBody,
    TaskFilter,
)
from orchestrator.server.schemas.tasks import BatchView, ManyView, ProblemView, TaskPage, TaskView, WhyView
from orchestrator.server.schemas.user_requests import (
    AnswerBody,
    ChangesBody,
    DigestBody,
    ProvideBody,
    ProvidedView,
    RejectBody,
    RequestView,
    ReviewView,
)
from orchestrator.server.versions import VERSION

__all__ = ["WRITE_TIMEOUT", "Client", "DaemonUnreachable", "ReceivedEvent", "RequestRefused", "TaskState"]

V = TypeVar("V", bound=View)


ReceivedEvent = tuple[int, EventView | GapView | None]
"""The number to continue after, and what was received; None at the beginning of a stream."""

Params = Mapping[str, str | int | bool | Sequence[str]]


class Client:
    """Speaks to one daemon; every method raises DaemonUnreachable and RequestRefused."""

    def __init__(self, socket: Path, token: str = "", *, within: float | None = None) -> None:
        self.socket, self._within = socket, within
        self._connection = Connection(socket, token, within)
        self._http = self._connection.http

    def on_answer(self, hear: Callable[[str], None]) -> None:
        """Call `hear` with the daemon's version at every answer; empty if the daemon is too old to say it."""
        self._http.event_hooks = {"response": [lambda answer: hear(answer.headers.get(VERSION, ""))]}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def status(self) -> StatusView:
        """Return the daemon's status."""
        return self._get(StatusView, "/api/status")

    def tasks(self, wanted: TaskFilter, *, every: bool = False) -> TaskPage:
        """Return the newest matching tasks, or `every` one, however many pages that takes."""
        page = self._get(TaskPage, "/api/tasks", _params(wanted))
        tasks = list(page.tasks)
        while every and page.next_cursor:
            wanted = wanted.model_copy(update={"cursor": page.next_cursor})
            page = self._get(TaskPage, "/api/tasks", _params(wanted))
            tasks += page.tasks
        return page.model_copy(update={"tasks": tuple(tasks)})

    def submit(self, body: SubmissionBody, key: str) -> TaskView:
        """Submit a task; return it, or the one that was submitted with the same key."""
        content = body.model_dump_json(by_alias=True).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        return _view(TaskView, self._sent("POST", "/api/tasks", content=content, headers=headers))

    def take_over(self, body: ImportBody, key: str) -> TaskView:
        """Continue a workspace as a task; return it, or the one that was made with the same key."""
        content = body.model_dump_json(by_alias=True).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        return _view(TaskView, self._sent("POST", "/api/tasks/import", content=content, headers=headers))

    def fetch_source(self, address: str) -> SourceView:
        """Return the daemon's copy of a repository elsewhere, which is brought up to date while this is repeated."""
        return _view(SourceView, self._posted("/api/sources", SourceBody(address=address)))

    def task(self, name: str) -> TaskView:
        """Return one task, whole."""
        return self._get(TaskView, _path(name))

    def why(self, name: str) -> WhyView:
        """Return what keeps a task where it is."""
        return self._get(WhyView, f"{_path(name)}/why")

    def journal(self, name: str, since: int, limit: int) -> JournalPage:
        """Return decisions about a task after the one of that number."""
        return self._get(JournalPage, f"{_path(name)}/journal", {"since": since, "limit": limit})

    def agents(self, name: str) -> AttemptList:
        """Return every agent of a task, oldest first."""
        return self._get(AttemptList, f"{_path(name)}/agents")

    def transcript(self, name: str, attempt: int, offset: int = 0, *, raw: bool = False) -> TranscriptPage:
        """Return what an agent said and did from an offset on."""
        return self._get(TranscriptPage, f"{_path(name)}/agents/{attempt}/transcript", {"offset": offset, "raw": raw})

    def deliverables(self, name: str, into: IO[bytes]) -> None:
        """Write a ZIP archive of what the task made into an open file."""
        with (
            self._connection.reached(),
            self._http.stream("GET", f"{_path(name)}/deliverables", timeout=READ_TIMEOUT) as response,
        ):
            if response.is_error:
                response.read()
                raise _refusal(response)
            for piece in response.iter_bytes():
                into.write(piece)

    def intake(self, wanted: IntakeFilter) -> IntakeView:
        """Return what came in by itself, and how its sources are."""
        return self._get(IntakeView, "/api/intake", _params(wanted))

    def checkpoints(self, name: str) -> CheckpointList:
        """Return every checkpoint of a task, newest first."""
        return self._get(CheckpointList, f"{_path(name)}/checkpoints")

    def checkpoint(self, name: str, number: int) -> CheckpointView:
        """Return one checkpoint."""
        return self._get(CheckpointView, f"{_path(name)}/checkpoints/{number}")

    def restore(self, name: str, number: int, body: RestoreBody) -> RestoredView:
        """Restore what a checkpoint saved."""
        return _view(RestoredView, self._posted(f"{_path(name)}/checkpoints/{number}/restore", body))

    def pin(self, name: str, number: int, *, pinned: bool) -> CheckpointView:
        """Keep a checkpoint permanently, or no longer than others."""
        path = f"{_path(name)}/checkpoints/{number}/pin"
        return _view(CheckpointView, self._posted(path, PinBody(pinned=pinned)))

    def recover(self, name: str) -> RecoveredView:
        """Restore a task whose files cannot be read."""
        return _view(RecoveredView, self._sent("POST", f"{_path(name)}/checkpoints/recover"))

    def overview(self, limit: int) -> OverviewView:
        """Return everything at a glance, with at most `limit` tasks."""
        return self._get(OverviewView, "/api/overview", {"limit": limit})

    def events(self, wanted: StreamFilter, task: str, last: int | None) -> Iterator[ReceivedEvent]:
        """Yield what happens to a task, or to all, after the number that was received last, if any."""
        path = f"{_path(task)}/stream" if task else "/api/events"
        headers = {} if last is None else {"Last-Event-ID": str(last)}
        params = httpx.QueryParams(dict(_params(wanted)))
        with self._connection.reached(), self._http.stream("GET", path, params=params, headers=headers) as response:
            if response.is_error:
                response.read()
                raise RequestRefused(_problem(response))
            yield from _received(response.iter_raw())

    def request(self, name: str, action: str) -> TaskView:
        """Do something with a task: pause, resume, start, cancel, retry, submit, review or archive it."""
        return _view(TaskView, self._sent("POST", f"{_path(name)}/{action}"))

    def batch(
        self, verb: Verb, names: Sequence[str], caps: CapsBody | None = None, *, force: bool = False
    ) -> BatchView:
        """Do the same with several tasks, however many; each is answered for itself.

        `caps` are for `change`, `force` is for `delete`.
        """
        parts = [names[at : at + MOST_NAMES] for at in range(0, len(names), MOST_NAMES)]
        bodies = [BatchBody(verb=verb, tasks=tuple(part), caps=caps, force=force) for part in parts]
        views = [_view(BatchView, self._posted("/api/tasks/batch", body)) for body in bodies]
        results = tuple(one for view in views for one in view.results)
        refused = sum(view.refused for view in views)
        return BatchView(results=results, done=len(results) - refused, refused=refused)

    def delete(self, name: str, *, force: bool = False) -> None:
        """Delete an ended task with all its files, with `force` also work that exists nowhere else."""
        self._sent("DELETE", f"{_path(name)}?force=true" if force else _path(name))

    def request_all(self, action: str) -> ManyView:
        """Do something with all tasks: pause, resume or drain."""
        return _view(ManyView, self._sent("POST", f"/api/{action}"))

    def change(self, name: str, body: ChangeBody) -> TaskView:
        """Change what the body names."""
        content = body.model_dump_json(by_alias=True, exclude_unset=True).encode()
        headers = {"Content-Type": "application/json"}
        return _view(TaskView, self._sent("PATCH", _path(name), content=content, headers=headers))

    def metrics(self) -> str:
        """Return the daemon's metrics in Prometheus' text format."""
        return self._sent("GET", "/metrics").text

    def limits(self) -> LimitsView:
        """Return what limits work now."""
        return self._get(LimitsView, "/api/limits")

    def forget_limits(self, window: str | None) -> LimitsView:
        """Forget that a window, or any, is used up; return what limits work then."""
        params = {} if window is None else {"window": window}
        return _view(LimitsView, self._sent("DELETE", "/api/limits", params=params))

    def review(self, request: RequestView) -> ReviewView:
        """Return a review, and what is to be looked at."""
        return self._get(ReviewView, f"/api/reviews/{quote(request.id, safe='')}")

    def answer(self, request: RequestView, text: str) -> RequestView:
        """Answer a question as it was shown."""
        return self._decided("questions", request, "answer", AnswerBody(answer=text, digest=request.digest))

    def skip(self, request: RequestView) -> RequestView:
        """Leave a question to its default, or to the agent."""
        return self._decided("questions", request, "skip", DigestBody(digest=request.digest))

    def approve(self, request: RequestView) -> RequestView:
        """Approve what is under review as it was shown."""
        return self._decided("reviews", request, "approve", DigestBody(digest=request.digest))

    def request_changes(self, request: RequestView, text: str) -> RequestView:
        """Request changes to what is under review."""
        return self._decided("reviews", request, "request-changes", ChangesBody(text=text, digest=request.digest))

    def provide(self, request: RequestView, value: str | None) -> ProvidedView:
        """Provide a dependency; None for one that takes no value."""
        secret = None if value is None else SecretStr(value)
        path = f"/api/dependencies/{quote(request.id, safe='')}/provide"
        return _view(ProvidedView, self._posted(path, ProvideBody(value=secret)))

    def reject(self, request: RequestView, reason: str) -> RequestView:
        """Say that a dependency will not be provided."""
        return self._decided("dependencies", request, "reject", RejectBody(reason=reason))

    def _decided(self, kind: str, request: RequestView, action: str, body: View) -> RequestView:
        return _view(RequestView, self._posted(f"/api/{kind}/{quote(request.id, safe='')}/{action}", body))

    def state_of(self, name: str) -> "TaskState":
        """Return the state of a task, for the state operations."""
        return TaskState(self, name)

    def force(self, name: str, stage: str, reason: str) -> JsonObject:
        """Move a task to a stage, whatever its guards miss; who did it and why is recorded."""
        return self.exchange("POST", f"{_path(name)}/transition", {"stage": stage, "reason": reason})

    def exchange(self, method: str, path: str, document: JsonObject | None = None) -> JsonObject:
        """Send a JSON object and return the one that answers it. Raises OperationRefused too."""
        content = None if document is None else orjson.dumps(document)
        headers = {"Content-Type": "application/json"} if content else {}
        found: JsonObject = self._sent(method, path, content=content, headers=headers).json()
        return found

    def _get(self, kind: type[V], path: str, params: Params | None = None) -> V:
        return _view(kind, self._sent("GET", path, params=params or {}))

    def _posted(self, path: str, body: View) -> httpx.Response:
        content = body.model_dump_json(by_alias=True, exclude_unset=True).encode()
        return self._sent("POST", path, content=content, headers={"Content-Type": "application/json"})

    def _sent(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        with self._connection.reached():
            response = self._http.request(
                method,
                path,
                params=httpx.QueryParams(dict(params)) if params else None,  # none must not drop those of the path
                content=content,
                headers=headers,
                timeout=self._within or (READ_TIMEOUT if method == "GET" else WRITE_TIMEOUT),
            )
        if response.is_error:
            raise _refusal(response)
        return response


class TaskState:
    """The state of one task; every method raises OperationRefused, and what the client raises."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._path = client, _path(name)

    def get(self) -> JsonObject:
        """Return the current state."""
        return self._client.exchange("GET", f"{self._path}/state/current")

    def resume_point(self) -> JsonObject:
        """Return where work continues."""
        return self._client.exchange("GET", f"{self._path}/resume-point")

    def transition(self, move: Transition) -> JsonObject:
        """Move from one state to another."""
        return self._client.exchange("POST", f"{self._path}/state/transition", show_transition(move))

    def step(self, update: StepUpdate) -> JsonObject:
        """Record news of a step."""
        return self._client.exchange("POST", f"{self._path}/state/step", show_step(update))

    def fail(self, report: FailureReport) -> JsonObject:
        """Record a failure."""
        return self._client.exchange("POST", f"{self._path}/state/fail", show_failure(report))


def _path(name: str) -> str:
    if name in {"", ".", ".."} or "/" in name:  # these would name other routes, not tasks
        detail = f"{name!r:.60} is neither a task id nor a ticket key; `orchestrator tasks` lists all"
        kind = "urn:orchestrator:problem:no-such-task"
        raise RequestRefused(ProblemView(type=kind, title="There is no such task", status=404, detail=detail))
    return f"/api/tasks/{quote(name, safe='')}"


def _params(wanted: View) -> Params:
    params: Params = wanted.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return params


def _view(kind: type[V], response: httpx.Response) -> V:
    """Return the answer as a view; the daemon has redacted its words."""
    return to_view(kind, response.json(), str)


def _received(pieces: Iterable[bytes]) -> Iterator[ReceivedEvent]:
    """Yield the events of a stream, however it is cut in pieces; heartbeats are left out."""
    begun = b""
    for piece in pieces:
        *blocks, begun = (begun + piece).split(b"\n\n")
        for block in blocks:
            fields = dict(line.partition(b": ")[::2] for line in block.split(b"\n"))
            if b"id" in fields:
                kind = GapView if fields.get(b"event") == b"gap" else EventView
                data = fields.get(b"data")
                yield int(fields[b"id"]), None if data is None else kind.model_validate_json(data, context=str)


def _refusal(response: httpx.Response) -> OrchestratorError:
    problem = _problem(response)
    try:
        refusal = Refusal(response.json().pop("error"))
    except (ValueError, KeyError, AttributeError):
        return RequestRefused(problem)
    members = {"type", "title", "status", "detail", "error"}
    return OperationRefused(
        refusal, {name: value for name, value in response.json().items() if name not in members}, problem.detail
    )


def _problem(response: httpx.Response) -> ProblemView:
    try:
        return ProblemView.model_validate_json(response.content, context=str)
    except ValidationError:
        detail = f"the daemon answered {response.status_code} without a reason"
        return ProblemView(type="about:blank", title="No reason", status=response.status_code, detail=detail)
