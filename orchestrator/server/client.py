"""The daemon as a program on the same machine sees it: requests over its Unix socket, answers as views."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

import httpx
import orjson
from pydantic import SecretStr, ValidationError

from orchestrator.core.events.operations import FailureReport, OperationRefused, Refusal, StepUpdate, Transition
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import JsonObject
from orchestrator.pipelines.operation_parser import show_failure, show_step, show_transition
from orchestrator.server.schemas.base import View, to_view
from orchestrator.server.schemas.checkpoints import CheckpointList, CheckpointView, PinBody, RestoreBody, RestoredView
from orchestrator.server.schemas.daemon import StatusView
from orchestrator.server.schemas.events import EventView, GapView, OverviewView, StreamFilter
from orchestrator.server.schemas.limits import LimitsView
from orchestrator.server.schemas.records import AttemptList, TranscriptPage
from orchestrator.server.schemas.task_input import CapsBody, ChangeBody, SubmissionBody, TaskFilter
from orchestrator.server.schemas.tasks import ManyView, ProblemView, TaskPage, TaskView, WhyView
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

V = TypeVar("V", bound=View)


Heard = tuple[int, EventView | GapView | None]
"""Behind which number to go on, and what was heard; nothing at the beginning of a stream."""

Params = Mapping[str, str | int | bool | Sequence[str]]

PATIENCE = httpx.Timeout(30.0, connect=5.0)
"""Seconds."""
WRITING = httpx.Timeout(150.0, connect=5.0)
"""Seconds: a submission may wait for a slow tracker, and looks at a repository, which may be large."""


class DaemonUnreachable(OrchestratorError):
    """Nobody answers on the socket."""


class RequestRefused(OrchestratorError):
    """The daemon said no; `problem` says why."""

    def __init__(self, problem: ProblemView) -> None:
        self.problem = problem
        super().__init__(problem.detail)

    @property
    def kind(self) -> str:
        """The last word of the problem's type, such as `no-such-task`."""
        return self.problem.type.rpartition(":")[2]


class Client:
    """Speaks to one daemon; every method raises DaemonUnreachable and RequestRefused."""

    def __init__(self, socket: Path, token: str = "") -> None:
        self.socket = socket
        transport = httpx.HTTPTransport(uds=str(socket))
        self._http = httpx.Client(transport=transport, base_url="http://orchestrator", timeout=PATIENCE)
        if token:
            self._http.headers["Authorization"] = f"Bearer {token}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def status(self) -> StatusView:
        """How the daemon is."""
        return self._get(StatusView, "/api/status")

    def tasks(self, wanted: TaskFilter, *, every: bool = False) -> TaskPage:
        """The newest tasks that fit, or `every` one, however many pages that are."""
        page = self._get(TaskPage, "/api/tasks", _params(wanted))
        tasks = list(page.tasks)
        while every and page.next_cursor:
            wanted = wanted.model_copy(update={"cursor": page.next_cursor})
            page = self._get(TaskPage, "/api/tasks", _params(wanted))
            tasks += page.tasks
        return page.model_copy(update={"tasks": tuple(tasks)})

    def submit(self, body: SubmissionBody, key: str) -> TaskView:
        """A new task, or the one that was made under the same key."""
        content = body.model_dump_json(by_alias=True).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        return _view(TaskView, self._sent("POST", "/api/tasks", content=content, headers=headers))

    def task(self, name: str) -> TaskView:
        """One task, whole."""
        return self._get(TaskView, _path(name))

    def why(self, name: str) -> WhyView:
        """What keeps a task where it is."""
        return self._get(WhyView, f"{_path(name)}/why")

    def agents(self, name: str) -> AttemptList:
        """Every agent of a task, first ones first."""
        return self._get(AttemptList, f"{_path(name)}/agents")

    def transcript(self, name: str, attempt: int, offset: int = 0, *, raw: bool = False) -> TranscriptPage:
        """What an agent said and did from an offset on."""
        return self._get(TranscriptPage, f"{_path(name)}/agents/{attempt}/transcript", {"offset": offset, "raw": raw})

    def checkpoints(self, name: str) -> CheckpointList:
        """Every checkpoint of a task, newest first."""
        return self._get(CheckpointList, f"{_path(name)}/checkpoints")

    def checkpoint(self, name: str, number: int) -> CheckpointView:
        """One of them."""
        return self._get(CheckpointView, f"{_path(name)}/checkpoints/{number}")

    def restore(self, name: str, number: int, body: RestoreBody) -> RestoredView:
        """Bring back what a checkpoint saved."""
        return _view(RestoredView, self._posted(f"{_path(name)}/checkpoints/{number}/restore", body))

    def pin(self, name: str, number: int, *, pinned: bool) -> CheckpointView:
        """Keep a checkpoint for good, or no longer than others."""
        path = f"{_path(name)}/checkpoints/{number}/pin"
        return _view(CheckpointView, self._posted(path, PinBody(pinned=pinned)))

    def overview(self, limit: int) -> OverviewView:
        """Everything at a glance, so many tasks one by one."""
        return self._get(OverviewView, "/api/overview", {"limit": limit})

    def events(self, wanted: StreamFilter, task: str, last: int | None) -> Iterator[Heard]:
        """What happens to a task, or to all without one, behind the number that was heard last, if there is one."""
        path = f"{_path(task)}/stream" if task else "/api/events"
        headers = {} if last is None else {"Last-Event-ID": str(last)}
        params = httpx.QueryParams(dict(_params(wanted)))
        with self._reached(), self._http.stream("GET", path, params=params, headers=headers) as response:
            if response.is_error:
                response.read()
                raise RequestRefused(_problem(response))
            yield from _heard(response.iter_raw())

    def ask(self, name: str, action: str) -> TaskView:
        """Ask something of a task: pause, resume, cancel, retry, submit, review or archive."""
        return _view(TaskView, self._sent("POST", f"{_path(name)}/{action}"))

    def delete(self, name: str) -> None:
        """Remove an ended task for good."""
        self._sent("DELETE", _path(name))

    def ask_all(self, action: str) -> ManyView:
        """Ask something of all tasks: pause, resume or drain."""
        return _view(ManyView, self._sent("POST", f"/api/{action}"))

    def change_caps(self, name: str, caps: CapsBody) -> TaskView:
        """Let a task cost more or less; what the caps do not name stays."""
        content = ChangeBody(caps=caps).model_dump_json(by_alias=True, exclude_unset=True).encode()
        headers = {"Content-Type": "application/json"}
        return _view(TaskView, self._sent("PATCH", _path(name), content=content, headers=headers))

    def limits(self) -> LimitsView:
        """What limits work now."""
        return self._get(LimitsView, "/api/limits")

    def forget_limits(self, window: str | None) -> LimitsView:
        """Believe no more that a window, or any, is used up; what limits work then."""
        params = {} if window is None else {"window": window}
        return _view(LimitsView, self._sent("DELETE", "/api/limits", params=params))

    def review(self, ask: RequestView) -> ReviewView:
        """A review, and what is to be looked at."""
        return self._get(ReviewView, f"/api/reviews/{quote(ask.id, safe='')}")

    def answer(self, ask: RequestView, text: str) -> RequestView:
        """Answer a question as it was seen."""
        return self._decided("questions", ask, "answer", AnswerBody(answer=text, digest=ask.digest))

    def skip(self, ask: RequestView) -> RequestView:
        """Leave a question to its default, or to the agent."""
        return self._decided("questions", ask, "skip", DigestBody(digest=ask.digest))

    def approve(self, ask: RequestView) -> RequestView:
        """Approve what is under review as it was seen."""
        return self._decided("reviews", ask, "approve", DigestBody(digest=ask.digest))

    def request_changes(self, ask: RequestView, text: str) -> RequestView:
        """Say what of a thing under review has to be different."""
        return self._decided("reviews", ask, "request-changes", ChangesBody(text=text, digest=ask.digest))

    def provide(self, ask: RequestView, value: str | None) -> ProvidedView:
        """Provide a dependency; None for one that has no value."""
        secret = None if value is None else SecretStr(value)
        path = f"/api/dependencies/{quote(ask.id, safe='')}/provide"
        return _view(ProvidedView, self._posted(path, ProvideBody(value=secret)))

    def reject(self, ask: RequestView, reason: str) -> RequestView:
        """Say that a dependency will not be provided."""
        return self._decided("dependencies", ask, "reject", RejectBody(reason=reason))

    def _decided(self, kind: str, ask: RequestView, action: str, body: View) -> RequestView:
        return _view(RequestView, self._posted(f"/api/{kind}/{quote(ask.id, safe='')}/{action}", body))

    def state_of(self, name: str) -> "TaskState":
        """The state of a task, for the operations of seed 000."""
        return TaskState(self, name)

    def force(self, name: str, stage: str, reason: str) -> JsonObject:
        """Bring a task to a stage, whatever its guards miss; who did it and why is put on record."""
        return self.told("POST", f"{_path(name)}/transition", {"stage": stage, "reason": reason})

    def told(self, method: str, path: str, document: JsonObject | None = None) -> JsonObject:
        """A JSON object of a task's, in names of its own. Raises OperationRefused too."""
        content = None if document is None else orjson.dumps(document)
        headers = {"Content-Type": "application/json"} if content else {}
        found: JsonObject = self._sent(method, path, content=content, headers=headers).json()
        return found

    def _get(self, kind: type[V], path: str, params: Params | None = None) -> V:
        return _view(kind, self._sent("GET", path, params=params or {}))

    def _posted(self, path: str, body: View) -> httpx.Response:
        content = body.model_dump_json(by_alias=True).encode()
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
        with self._reached():
            response = self._http.request(
                method,
                path,
                params=httpx.QueryParams(dict(params or {})),
                content=content,
                headers=headers,
                timeout=PATIENCE if method == "GET" else WRITING,
            )
        if response.is_error:
            raise _refusal(response)
        return response

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Say in words of ours how the daemon cannot be reached."""
        if not _is_there(self.socket):
            raise self._nobody()
        try:
            yield
        except httpx.ConnectError as error:
            raise self._nobody() from error
        except httpx.TransportError as error:
            raise DaemonUnreachable(
                f"the daemon on {self.socket} broke off ({type(error).__name__}); look at its log, then try again"
            ) from error

    def _nobody(self) -> DaemonUnreachable:
        return DaemonUnreachable(
            f"no daemon answers on {self.socket}; start it with `orchestrator serve`, "
            "or say where it is with --socket or --data-dir"
        )


class TaskState:
    """The state of one task of the daemon's; every method raises OperationRefused, and what the client raises."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._path = client, _path(name)

    def get(self) -> JsonObject:
        """Where it stands."""
        return self._client.told("GET", f"{self._path}/state/current")

    def resume_point(self) -> JsonObject:
        """Where to go on."""
        return self._client.told("GET", f"{self._path}/resume-point")

    def transition(self, move: Transition) -> JsonObject:
        """Go from one state to another."""
        return self._client.told("POST", f"{self._path}/state/transition", show_transition(move))

    def step(self, update: StepUpdate) -> JsonObject:
        """Take in news of a step."""
        return self._client.told("POST", f"{self._path}/state/step", show_step(update))

    def fail(self, report: FailureReport) -> JsonObject:
        """Put a failure on record."""
        return self._client.told("POST", f"{self._path}/state/fail", show_failure(report))


def _is_there(socket: Path) -> bool:
    """Whether it is worth trying: httpcore leaves a descriptor open for each connection that it cannot make."""
    try:
        return socket.is_socket()
    except OSError:
        return False


def _path(name: str) -> str:
    if name in {"", ".", ".."} or "/" in name:  # these would be other places, not other tasks
        detail = f"{name!r:.60} is neither a task's id nor a ticket's key; `orchestrator tasks` lists all"
        kind = "urn:orchestrator:problem:no-such-task"
        raise RequestRefused(ProblemView(type=kind, title="There is no such task", status=404, detail=detail))
    return f"/api/tasks/{quote(name, safe='')}"


def _params(wanted: View) -> Params:
    params: Params = wanted.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return params


def _view(kind: type[V], response: httpx.Response) -> V:
    """The answer as a view; its words were masked by the daemon."""
    return to_view(kind, response.json(), str)


def _heard(pieces: Iterable[bytes]) -> Iterator[Heard]:
    """The events of a stream, however it is cut in pieces; signs of life are left out."""
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
        said = f"the daemon answered {response.status_code} and no reason"
        return ProblemView(type="about:blank", title="No reason", status=response.status_code, detail=said)
