"""A tracker on loopback over real HTTP: what the three kinds have in common, and their possible failures.

    with GitHubServer(issues={"acme/app#12": Issue(title="Fix it", body="…")}) as server:
        server.mishaps = [Status(429, retry_after="0")]
        requirement = await Trackers([server.account]).requirement("acme/app#12")
    assert len(server.asked) == 2

Each mishap affects one request; afterwards the tracker responds normally.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http import HTTPStatus
from types import MappingProxyType
from typing import TypeAlias, assert_never
from urllib.parse import parse_qs, urlsplit

import orjson

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import object_of
from tests.fakes.loopback_server import Handler, LoopbackServer

DAY = datetime(2026, 5, 28, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A comment on an issue; `apart` is one that only some may read."""

    author: str
    text: Json
    apart: bool = False
    role: str = "MEMBER"
    system: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """An issue as a tracker stores it."""

    title: str
    body: Json = None
    kind: str = ""
    labels: tuple[str, ...] = ()
    priority: str = ""
    files: tuple[str, ...] = ()
    comments: tuple[Said, ...] = ()
    is_pull: bool = False
    is_closed: bool = False
    updated: str = "2026-05-28T12:00:00Z"


@dataclass(frozen=True, slots=True)
class Status:
    """A status and headers instead of an answer."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Silent:
    """The start of a response, and then nothing until the server closes."""


@dataclass(frozen=True, slots=True)
class Dripping:
    """The headers of a response, byte by byte, until the server closes."""


@dataclass(frozen=True, slots=True)
class Flood:
    """A response of this many bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class Raw:
    """Any body with status 200."""

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Mishap: TypeAlias = Status | Silent | Dripping | Flood | Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request that was received."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    method: str = "GET"
    body: JsonObject = field(default_factory=dict)

    def number(self, name: str, otherwise: int) -> int:
        """Return a number of the query."""
        return int(self.query.get(name, otherwise))


class TrackerServer(LoopbackServer):
    """`asked` records every request so far."""

    def __init__(self, issues: Mapping[str, Issue], token: str = "") -> None:
        super().__init__(_Handler)
        self.issues, self.token = dict(issues), token
        self.asked: list[Asked] = []
        self.objections: list[str] = []
        """What the tracker's published description does not allow in the requests so far."""
        self.mishaps: list[Mishap] = []
        self.gives_etags = False
        """Whether answers have an ETag, and one that the client knows is 304."""

    def verify(self) -> None:
        """Refuse a conversation that the published description does not allow."""
        assert not self.objections, self.objections

    def change(self, name: str, **changes: object) -> None:
        """Change an issue as somebody on the tracker does."""
        self.issues[name] = replace(self.issues[name], **changes)  # type: ignore[arg-type]  # fields by their names

    def take(self, name: str, text: str) -> Json:
        """Store a comment on an issue."""
        issue = self.issues[name]
        self.issues[name] = replace(issue, comments=(*issue.comments, Said(author="robot", text=text)))
        return {"id": len(issue.comments)}

    def status_of(self, asked: Asked) -> int:
        """Return the status of an answer that is not a failure."""
        return 201 if asked.method == "POST" else 200

    def authorization(self) -> str:
        """Return the header of a valid login."""
        return f"Bearer {self.token}"

    def answer(self, asked: Asked) -> Json:
        """Return the response of the tracker; None is 404."""
        raise NotImplementedError


def at(number: int) -> str:
    """Return when the comment of this number was created."""
    return (DAY + timedelta(minutes=number)).isoformat()


class _Handler(Handler[TrackerServer]):
    def do_GET(self) -> None:
        """Respond, or use the next mishap."""
        content = self.read()
        split = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = object_of(orjson.loads(content)) if content else {}
        asked = Asked(path=split.path, query=query, headers=headers, method=self.command, body=body)
        self.stand_in.asked.append(asked)
        if self.stand_in.mishaps:
            self._fail(self.stand_in.mishaps.pop(0))
        elif self.stand_in.token and headers.get("authorization") != self.stand_in.authorization():
            self._send(401, {"message": "Bad credentials"})
        else:
            answer = self.stand_in.answer(asked)
            status = 404 if answer is None else self.stand_in.status_of(asked)
            self._send(status, {"message": "Not Found"} if answer is None else answer, headers)

    do_POST = do_GET

    def _fail(self, mishap: Mishap) -> None:
        match mishap:
            case Status(status, headers):
                self.send(status, b"{}", headers)
            case Silent():
                self.begin(200, 1000)
                self.wfile.write(b"{")
                self.stand_in.closing.wait()
            case Dripping():
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Endless: ")
                while not self.stand_in.closing.wait(0.01):
                    self.wfile.write(b"x")
            case Flood(size):
                self.begin(200, size)
                for _ in range(0, size, 65536):
                    self.wfile.write(b" " * 65536)
            case Raw(body, headers):
                self.send(200, body, headers)
            case _:
                assert_never(mishap)

    def _send(self, status: int, body: Json, asked: Mapping[str, str] = MappingProxyType({})) -> None:
        content = b"" if status == HTTPStatus.NO_CONTENT else orjson.dumps(body)
        headers = {"Content-Type": "application/json"}
        if self.stand_in.gives_etags and status == HTTPStatus.OK:
            headers["ETag"] = f'W/"{sha256(content).hexdigest()}"'
            if asked.get("if-none-match") == headers["ETag"]:
                status, content = HTTPStatus.NOT_MODIFIED, b""
        self.send(status, content, headers)


def named(name: str) -> JsonObject | None:
    """Return an object with only a name, or nothing."""
    return {"name": name} if name else None
