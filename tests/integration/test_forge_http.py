"""Failures between this program and a forge: each error says who can fix it, and whether and when to try again."""

import gzip
import socket
from collections.abc import Iterator

import pytest

from orchestrator.core.events.forge import PullRequestDraft
from orchestrator.formats.codec import JsonObject
from orchestrator.integrations.credentials import Credentials
from orchestrator.integrations.errors import (
    AccessDenied,
    AuthenticationFailed,
    Busy,
    NotFound,
    Refused,
    RemoteError,
    Unreachable,
)
from orchestrator.integrations.forges.client import ForgeClient
from orchestrator.integrations.forges.github import GitHub
from orchestrator.integrations.forges.remote import Remote
from orchestrator.integrations.http import LARGEST_ANSWER, Patience
from tests.fakes import github_api
from tests.fakes.forge_server import REPO, TOKEN, Answer, Asked, ForgeServer, Job

LOGIN = Credentials(host="forge.test", token=TOKEN)
REMOTE = Remote(host="forge.test", path=REPO)


@pytest.fixture
def server() -> Iterator[ForgeServer]:
    with ForgeServer(github_api.answer) as server:
        yield server


@pytest.fixture
def forge(server: ForgeServer) -> Iterator[GitHub]:
    forge = GitHub(REMOTE, LOGIN, server.api)
    yield forge
    forge.close()


@pytest.fixture
def api(server: ForgeServer) -> Iterator[ForgeClient]:
    api = ForgeClient(server.api, LOGIN)
    yield api
    api.close()


def listed(api: ForgeClient) -> list[JsonObject]:
    return list(api.pages(f"/repos/{REPO}/pulls", {"head": "team:feature/x", "state": "open"}))


def said(message: str) -> JsonObject:
    return {"message": message}


@pytest.mark.parametrize(
    ("answer", "kind", "again_after"),
    [
        (Answer(status=401, body=said("Bad credentials")), AuthenticationFailed, None),
        (Answer(status=403, body=said("Resource not accessible")), AccessDenied, None),
        (Answer(status=403, body=said("You have exceeded a secondary rate limit")), Busy, 60.0),
        (Answer(status=422, body=b'{"message":' + b"[" * 1000 + b"]" * 1000 + b"}"), Refused, None),
        (Answer(status=302, headers={"Location": "http://xn--/"}), Unreachable, 10.0),
        (Answer(body=b"[]", headers={"Link": '<http://[>; rel="next"'}), Refused, None),
        (Answer(status=403, body=said("wait"), headers={"Retry-After": "30"}), Busy, 30.0),
        (Answer(status=429, headers={"Retry-After": "5"}), Busy, 5.0),
        (Answer(status=429, headers={"Retry-After": "Sat, 21 Nov 2026 22:00:10 GMT"}), Busy, 1.0),
        (Answer(status=429, headers={"Retry-After": "99999999"}), Busy, 86_400.0),
        (Answer(status=404, body=said("Not Found")), NotFound, None),
        (Answer(status=500), Unreachable, 10.0),
        (Answer(status=502, body=b"<html>Bad gateway</html>"), Unreachable, 10.0),
        (Answer(status=503, headers={"Retry-After": "120"}), Busy, 120.0),
        (Answer(status=301, headers={"Location": "https://api.elsewhere.test/x"}), Refused, None),
        (Answer(status=422, body=said("Validation Failed")), Refused, None),
        (Answer(body=b"<html>Sign in</html>", headers={"Content-Type": "text/html"}), Refused, None),
        (Answer(body=b" " * (LARGEST_ANSWER + 1)), Refused, None),
        (Answer(body=gzip.compress(b"[]"), headers={"Content-Encoding": "gzip"}), Refused, None),
    ],
)
def test_every_refusal_has_a_kind_and_a_time_to_retry(
    server: ForgeServer, api: ForgeClient, answer: Answer, kind: type[RemoteError], again_after: float | None
) -> None:
    server.answer_next(answer)
    with pytest.raises(RemoteError) as refused:
        listed(api)
    assert isinstance(refused.value, kind)
    assert refused.value.again_after == again_after
    assert TOKEN not in str(refused.value)
    assert listed(api) == []


def test_a_rate_limit_is_waited_out_by_the_servers_own_clock(server: ForgeServer, api: ForgeClient) -> None:
    """The stand-in's Date is this machine's time, long past the reset or long before it."""
    limited = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}
    server.answer_next(Answer(status=403, headers=limited))
    with pytest.raises(Busy) as over:
        listed(api)
    assert over.value.again_after == 1.0
    server.answer_next(Answer(status=403, headers=limited | {"X-RateLimit-Reset": "99999999999"}))
    with pytest.raises(Busy) as far:
        listed(api)
    assert far.value.again_after == 86_400.0


def test_graphql_errors_with_status_200_are_errors(server: ForgeServer, forge: GitHub) -> None:
    server.push("feature/x")
    kinds: dict[str, type[RemoteError]] = {
        "RATE_LIMITED": Busy,
        "NOT_FOUND": NotFound,
        "FORBIDDEN": AccessDenied,
        "SERVICE_UNAVAILABLE": Refused,
    }
    for word, kind in kinds.items():
        server.answer_next(Answer(body={"errors": [{"type": word, "message": "No."}]}))
        with pytest.raises(kind, match="No"):
            forge.open_comments(1)
    server.answer_next(Answer(body={"errors": [{"message": "Something went wrong while executing your query."}]}))
    with pytest.raises(Unreachable) as passing:
        forge.open_comments(1)
    assert passing.value.again_after == 10.0


def test_a_host_without_a_response_is_unreachable() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and listens to nobody
        api = ForgeClient(f"http://127.0.0.1:{deaf.getsockname()[1]}", Credentials(host="forge.test"))
        with pytest.raises(Unreachable, match=r"forge\.test cannot be reached \(ConnectError"):
            api.request("GET", "/user")
        with pytest.raises(Unreachable):
            api.tail("/log", 10)
        api.close()


@pytest.mark.parametrize("where", ["an answer", "a log"])
def test_a_response_whose_headers_come_byte_by_byte_is_abandoned(
    server: ForgeServer, api: ForgeClient, where: str
) -> None:
    server.answer_next(Answer(drips=True))
    hasty = ForgeClient(server.api, LOGIN, patience=Patience(request=0.3, tries=1))
    if where == "a log":
        assert hasty.tail("/log", 10) == ""
    else:
        with pytest.raises(Unreachable, match=r"did not answer GET .*/user in time \(0\.3 s\)") as slow:
            hasty.request("GET", "/user")
        assert slow.value.again_after == 10.0
    hasty.close()
    server.answer_next(Answer(body=[1]))
    assert api.request("GET", "/user") == [1]


def test_a_login_is_sent_without_tls_only_to_this_machine() -> None:
    for api in ("http://forge.test/api", "ftp://forge.test", "forge.test"):
        with pytest.raises(Refused, match="not sent in the clear"):
            ForgeClient(api, LOGIN)
    ForgeClient("http://localhost:1/api", LOGIN).close()


def test_a_next_page_on_another_server_is_not_fetched(server: ForgeServer, api: ForgeClient) -> None:
    server.answer_next(Answer(body=b"[]", headers={"Link": '<http://127.0.0.1:1/pulls?page=2>; rel="next"'}))
    with pytest.raises(Refused, match="another server"):
        listed(api)


def test_a_log_on_another_server_is_fetched_without_the_login() -> None:
    seen: list[tuple[str, str]] = []

    class Watched(ForgeServer):
        def answer(self, asked: Asked, authorization: str) -> Answer | None:
            seen.append((asked.path, authorization))
            return super().answer(asked, authorization)

    with Watched(github_api.answer) as server:
        server.push("feature/x")
        api = ForgeClient(server.api, LOGIN)
        server.jobs.append(Job(id=5, name="actions/x", commit="c", status="FAILURE", log="the end"))
        assert api.tail(f"/repos/{REPO}/actions/jobs/5/logs", 3) == "end"
        assert api.tail(f"/repos/{REPO}/nothing", 3) == ""
        api.close()
    assert seen[:2] == [(f"/repos/{REPO}/actions/jobs/5/logs", f"Bearer {TOKEN}"), ("/blobs/5", "")]


@pytest.mark.parametrize(
    "location",
    ["http://169.254.169.254/latest/meta-data/", "https://127.0.0.1:1/", "http://a..b/", "file:///etc/passwd"],
)
def test_a_log_is_not_fetched_from_addresses_of_this_machine(location: str) -> None:
    def hands_on(_: ForgeServer, asked: Asked) -> Answer:
        return Answer(status=302, headers={"Location": location})

    with ForgeServer(hands_on) as server:
        api = ForgeClient(server.api, LOGIN)
        assert api.tail("/log", 10) == ""
        assert [asked.path for asked in server.asked] == ["/log"]
        api.close()


def test_endless_graphql_pages_are_abandoned() -> None:
    def endless(_: ForgeServer, asked: Asked) -> Answer:
        threads: JsonObject = {"nodes": [], "pageInfo": {"hasNextPage": True, "endCursor": "x"}}
        return Answer(body={"data": {"repository": {"pullRequest": {"reviewThreads": threads}}}})

    with ForgeServer(endless) as server:
        forge = GitHub(REMOTE, LOGIN, server.api)
        with pytest.raises(Refused, match="more than"):
            forge.open_comments(1)
        forge.close()


def test_an_endless_list_is_abandoned() -> None:
    def endless(server: ForgeServer, asked: Asked) -> Answer:
        return Answer(body=b"[{}]", headers={"Link": f'<{server.url}/more>; rel="next"'})

    with ForgeServer(endless) as server:
        api = ForgeClient(server.api, LOGIN)
        with pytest.raises(Refused, match="more than"):
            list(api.pages("/more"))
        assert len(server.asked) == 50
        api.close()


def test_a_malformed_response_is_refused(server: ForgeServer, forge: GitHub) -> None:
    server.push("feature/x")
    draft = PullRequestDraft(key="k", head="feature/x", base="main", title="A", body="B")
    for body in (b"[1]", b'[{"number": "7"}]', b'{"a": 1}', b"null", b""):
        for _ in ("open", "closed"):
            server.answer_next(Answer(body=body))
        assert forge.open(draft).number == 1
        server.answer_next(Answer(body=body))
        with pytest.raises(Refused, match="no pull request"):
            forge.state(1)
