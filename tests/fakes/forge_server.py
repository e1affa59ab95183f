"""A forge on loopback that stores what it receives: a fake of GitHub (github_api.py) and GitLab (gitlab_api.py).

    with ForgeServer(github_api.answer) as forge:
        forge.push("feature/x")
        GitHub(remote, login, api=forge.api).open(draft)
        forge.lose_next_answer("POST")          # it takes effect, but its response is lost
    assert len(forge.pulls) == 1

Responses have the format of the real ones as far as they are read. Lists come in pages, with a Link header.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha1
from itertools import count
from urllib.parse import parse_qs, unquote, urlsplit

import orjson

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import object_of
from tests.fakes.loopback_server import Handler, LoopbackServer

TOKEN = "forge-token-of-the-tests"
REPO = "team/tool"
FIRST_ID = 3_000_000_000
"""Ids exceed 32 bits, as on the real forges."""


DRIPPING = 0.01
"""Seconds between two bytes of a slow response."""


class NoSuchPull(Exception):
    """There is no pull request of this number."""


@dataclass(kw_only=True)
class Said:
    """A comment anywhere; `root` is the first of its thread, `place` its location."""

    id: int
    author: str
    body: str
    at: str
    root: int | None = None
    place: tuple[str, int | None] | None = None
    outdated: bool = False
    resolved: bool = False


@dataclass(kw_only=True)
class Opinion:
    """A review."""

    id: int
    author: str
    state: str
    commit: str
    at: str
    body: str = ""


@dataclass(kw_only=True)
class Job:
    """A check on a commit; `log` is its output, `workflow` the number of its workflow."""

    id: int
    name: str
    commit: str
    status: str
    log: str = ""
    workflow: int = 1


@dataclass(kw_only=True)
class Pull:
    """A pull request as the forge has it; `rule` names a rule that is not met."""

    number: int
    head: str
    base: str
    title: str
    body: str
    draft: bool
    head_sha: str
    author: str
    status: str = "open"
    merge_commit: str | None = None
    labels: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    conversation: list[Said] = field(default_factory=list)
    threads: list[Said] = field(default_factory=list)
    opinions: list[Opinion] = field(default_factory=list)
    conflict: bool = False
    checking: bool = False
    rule: str = ""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request that was received."""

    method: str
    path: str
    query: Mapping[str, str]
    body: JsonObject


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A response; a list is split into pages, bytes are sent unchanged.

    A slow one sends its headers byte by byte until the client gives up.
    """

    status: int = 200
    body: "Json | bytes" = None
    headers: Mapping[str, str] = field(default_factory=dict)
    drips: bool = False


class ForgeServer(LoopbackServer):
    """Its content may be inspected and changed between requests."""

    def __init__(self, dialect: Callable[["ForgeServer", Asked], Answer], prefix: str = "") -> None:
        super().__init__(_Handler)
        self.viewer, self.token = "robot", TOKEN
        self.users = {"robot": "admin", "alice": "write", "bob": "admin", "mallory": "read"}
        self.branches = {"main": sha_of("main")}
        self.pulls: list[Pull] = []
        self.jobs: list[Job] = []
        self.trial_at = ""
        self.asked: list[Asked] = []
        self.objections: list[str] = []
        """What the forge's published description does not allow in the requests so far."""
        self.merge_messages: list[str] = []
        self.labels_refused = self.out_of_order = False
        self._ids = count(FIRST_ID)
        self._clock = count(0)
        self._dialect, self._prefix = dialect, prefix
        self._lost: deque[str] = deque()
        self._instead: deque[Answer] = deque()

    @property
    def api(self) -> str:
        """Return the base URL of its API."""
        return self.url + self._prefix

    def verify(self) -> None:
        """Refuse a conversation that the published description does not allow."""
        assert not self.objections, self.objections

    @property
    def written(self) -> list[tuple[str, str]]:
        """Return every request so far that changes something, without GraphQL queries."""
        return [(one.method, one.path) for one in self.asked if one.method != "GET" and "graphql" not in one.path]

    def pull(self, number: Json) -> Pull:
        """Return one pull request. Raises NoSuchPull."""
        found = [pull for pull in self.pulls if str(pull.number) == str(number)]
        if not found:
            raise NoSuchPull
        return found[0]

    def push(self, branch: str, name: str = "") -> str:
        """Add a commit to a branch, and so to its open pull requests; return the commit's hash."""
        self.branches[branch] = sha_of(name or f"{branch} {next(self._ids)}")
        for pull in self.pulls:
            if pull.head == branch and pull.status == "open":
                pull.head_sha = self.branches[branch]
        self.now()
        return self.branches[branch]

    def now(self) -> str:
        """Return a time; each is a second later than the one before."""
        second = next(self._clock)
        return f"2026-11-21T22:{second // 60:02}:{second % 60:02}Z"

    def id(self) -> int:
        """Return an unused number."""
        return next(self._ids)

    def says(
        self, author: str, body: str, place: tuple[str, int | None] | None = None, root: int | None = None
    ) -> Said:
        """Add a comment on the newest pull request: in the conversation, at a location, or in a thread."""
        said = Said(id=self.id(), author=author, body=body, at=self.now(), place=place, root=root)
        (self.pulls[-1].threads if place or root else self.pulls[-1].conversation).append(said)
        return said

    def reviews(self, author: str, state: str, body: str = "") -> Opinion:
        """Add a review of the newest pull request in its current state."""
        pull = self.pulls[-1]
        opinion = Opinion(id=self.id(), author=author, state=state, commit=pull.head_sha, at=self.now(), body=body)
        pull.opinions.append(opinion)
        return opinion

    def runs(self, name: str, status: str, log: str = "", commit: str = "", workflow: int = 1) -> Job:
        """Add a check of the newest pull request's head, or of another commit."""
        on = commit or self.pulls[-1].head_sha
        job = Job(id=self.id(), name=name, commit=on, status=status, log=log, workflow=workflow)
        self.jobs.append(job)
        return job

    def lose_next_answer(self, method: str) -> None:
        """Carry out the next request of this method, and close the connection before the response."""
        self._lost.append(method)

    def answer_next(self, answer: Answer) -> None:
        """Send this response to the next request, without carrying it out."""
        self._instead.append(answer)

    def answer(self, asked: Asked, authorization: str) -> Answer | None:
        """Return the response to a request; None if it is lost."""
        self.asked.append(asked)
        if self.out_of_order:
            return Answer(status=503, body={"message": "Service Unavailable"})
        if self._instead:
            return self._instead.popleft()
        if authorization != f"Bearer {self.token}" and not asked.path.startswith("/blobs/"):
            return Answer(status=401, body={"message": "Bad credentials"})
        try:
            answer = self._dialect(self, asked)
        except NoSuchPull:
            return Answer(status=404, body={"message": "Not Found"})
        if self._lost and self._lost[0] == asked.method and "graphql" not in asked.path:
            self._lost.popleft()
            return None
        return self._paged(asked, answer)

    def _paged(self, asked: Asked, answer: Answer) -> Answer:
        if not isinstance(answer.body, list):
            return answer
        size, page = int(asked.query.get("per_page", "30")), int(asked.query.get("page", "1"))
        rows = answer.body[(page - 1) * size : page * size]
        if page * size >= len(answer.body):
            return Answer(body=rows)
        others = "&".join(f"{name}={value}" for name, value in asked.query.items() if name != "page")
        following = f"{self.url}{self._prefix}{asked.path}?{others}&page={page + 1}"
        return Answer(body=rows, headers={"Link": f'<{following}>; rel="next"'})


class _Handler(Handler[ForgeServer]):
    def _take(self) -> None:
        parts = urlsplit(self.path)
        content = self.read()
        prefix = self.stand_in.api.removeprefix(self.stand_in.url)
        asked = Asked(
            method=self.command,
            path=unquote(parts.path).removeprefix(prefix),
            query={name: values[0] for name, values in parse_qs(parts.query).items()},
            body=object_of(orjson.loads(content)) if content else {},
        )
        answer = self.stand_in.answer(asked, self.headers.get("Authorization", ""))
        if answer is None:
            self.close_connection = True
            return
        if answer.drips:
            self._drip()
        body = (
            answer.body if isinstance(answer.body, bytes) else b"" if answer.body is None else orjson.dumps(answer.body)
        )
        self.send(answer.status, body, {"Content-Type": "application/json", **answer.headers})

    def _drip(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Endless: ")
        while not self.stand_in.closing.wait(DRIPPING):
            self.wfile.write(b"x")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _take


def sha_of(name: str) -> str:
    """Return a commit's hash."""
    return sha1(name.encode(), usedforsecurity=False).hexdigest()
