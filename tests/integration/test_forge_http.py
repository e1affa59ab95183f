"""Failures between this program and a forge: each error says who can fix it, and whether and when to try again."""

import gzip
import socket
from collections.abc import Iterator

import pytest

from orchestrator.core.events.forge import PullRequestDraft
from orchestrator.formats.codec import JsonObject
from orchestrator.integrations.forges import http
from orchestrator.integrations.forges.errors import (
    AccessDenied,
    AuthenticationFailed,
    ForgeBusy,
    ForgeError,
    ForgeRefused,
    ForgeUnreachable,
    NotThere,
)
from orchestrator.integrations.forges.github import GitHub
from orchestrator.integrations.forges.http import LARGEST_ANSWER, HttpClient
from orchestrator.integrations.forges.login import Credentials
from orchestrator.integrations.forges.remote import Remote
from tests.fakes import github_api
from tests.fakes.forge_server import REPO, TOKEN, Answer, Asked, ForgeServer, Job

REMOTE = Remote(host="forge.test", path=REPO)


@pytest.fixture
def server() -> Iterator[ForgeServer]:
    with ForgeServer(github_api.answer) as server:
        yield server


@pytest.fixture
def forge(server: ForgeServer) -> Iterator[GitHub]:
    forge = GitHub(REMOTE, Credentials(host="forge.test", token=TOKEN), server.api)
    yield forge
    forge.close()


@pytest.fixture
def api(server: ForgeServer) -> Iterator[HttpClient]:
    api = HttpClient(server.api, {"Authorization": f"Bearer {TOKEN}"}, "forge.test")
    yield api
    api.close()


def listed(api: HttpClient) -> list[JsonObject]:
    return list(api.pages(f"/repos/{REPO}/pulls", {"head": "team:feature/x", "state": "open"}))


def said(message: str) -> JsonObject:
    return {"message": message}


@pytest.mark.parametrize(
    ("answer", "kind", "again_after"),
    [
        (Answer(status=401, body=said("Bad credentials")), AuthenticationFailed, None),
        (Answer(status=403, body=said("Resource not accessible")), AccessDenied, None),
        (Answer(status=403, body=said("You have exceeded a secondary rate limit")), ForgeBusy, 60.0),
        (Answer(status=422, body=b'{"message":' + b"[" * 1000 + b"]" * 1000 + b"}"), ForgeRefused, None),
        (Answer(status=302, headers={"Location": "http://xn--/"}), ForgeUnreachable, 10.0),
        (Answer(body=b"[]", headers={"Link": '<http://[>; rel="next"'}), ForgeRefused, None),
        (Answer(status=403, body=said("wait"), headers={"Retry-After": "30"}), ForgeBusy, 31.0),
        (Answer(status=429, headers={"Retry-After": "5"}), ForgeBusy, 6.0),
        (Answer(status=429, headers={"Retry-After": "Sat, 21 Nov 2026 22:00:10 GMT"}), ForgeBusy, 60.0),
        (Answer(status=429, headers={"Retry-After": "99999999"}), ForgeBusy, 86_400.0),
        (Answer(status=404, body=said("Not Found")), NotThere, None),
        (Answer(status=500), ForgeUnreachable, 10.0),
        (Answer(status=502, body=b"<html>Bad gateway</html>"), ForgeUnreachable, 10.0),
        (Answer(status=503, headers={"Retry-After": "120"}), ForgeUnreachable, 121.0),
        (Answer(status=301, headers={"Location": "https://api.elsewhere.test/x"}), ForgeRefused, None),
        (Answer(status=422, body=said("Validation Failed")), ForgeRefused, None),
        (Answer(body=b"<html>Sign in</html>", headers={"Content-Type": "text/html"}), ForgeRefused, None),
        (Answer(body=b" " * (LARGEST_ANSWER + 1)), ForgeRefused, None),
        (Answer(body=gzip.compress(b"[]"), headers={"Content-Encoding": "gzip"}), ForgeRefused, None),
    ],
)
def test_every_refusal_has_a_kind_and_a_time_to_retry(
    server: ForgeServer, api: HttpClient, answer: Answer, kind: type[ForgeError], again_after: float | None
) -> None:
    server.answer_next(answer)
    with pytest.raises(ForgeError) as refused:
        listed(api)
    assert isinstance(refused.value, kind)
    assert refused.value.again_after == again_after
    assert TOKEN not in str(refused.value)
    assert listed(api) == []


def test_a_rate_limit_is_waited_out_by_the_servers_own_clock(server: ForgeServer, api: HttpClient) -> None:
    """The fake server's Date is this machine's time, long after the reset or long before it."""
    limited = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}
    server.answer_next(Answer(status=403, headers=limited))
    with pytest.raises(ForgeBusy) as over:
        listed(api)
    assert over.value.again_after == 1.0
    server.answer_next(Answer(status=403, headers=limited | {"X-RateLimit-Reset": "99999999999"}))
    with pytest.raises(ForgeBusy) as far:
        listed(api)
    assert far.value.again_after == 86_400.0


def test_graphql_errors_with_status_200_are_errors(server: ForgeServer, forge: GitHub) -> None:
    server.push("feature/x")
    kinds: dict[str, type[ForgeError]] = {
        "RATE_LIMITED": ForgeBusy,
        "NOT_FOUND": NotThere,
        "FORBIDDEN": AccessDenied,
        "SERVICE_UNAVAILABLE": ForgeRefused,
    }
    for word, kind in kinds.items():
        server.answer_next(Answer(body={"errors": [{"type": word, "message": "No."}]}))
        with pytest.raises(kind, match="No"):
            forge.open_comments(1)
    server.answer_next(Answer(body={"errors": [{"message": "Something went wrong while executing your query."}]}))
    with pytest.raises(ForgeUnreachable, match="broke off") as passing:
        forge.open_comments(1)
    assert passing.value.again_after == 10.0


def test_a_host_without_a_response_is_unreachable() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and does not listen
        api = HttpClient(f"http://127.0.0.1:{deaf.getsockname()[1]}", {}, "forge.test")
        with pytest.raises(ForgeUnreachable, match=r"forge\.test did not answer"):
            api.ask("GET", "/user")
        with pytest.raises(ForgeUnreachable):
            api.tail("/log", 10)
        api.close()


@pytest.mark.parametrize("where", ["an answer", "a log"])
def test_a_response_whose_headers_come_byte_by_byte_is_abandoned(
    server: ForgeServer, api: HttpClient, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    server.answer_next(Answer(drips=True))
    with monkeypatch.context() as hurried:
        hurried.setattr(http, "LONGEST_READING", 0.3)
        if where == "a log":
            assert api.tail("/log", 10) == ""
        else:
            with pytest.raises(ForgeUnreachable, match=r"did not end its answer at /user within 0\.3 s") as slow:
                api.ask("GET", "/user")
            assert slow.value.again_after == 60.0
    server.answer_next(Answer(body=[1]))
    assert api.ask("GET", "/user") == [1]


def test_a_login_is_sent_without_tls_only_to_this_machine() -> None:
    for api in ("http://forge.test/api", "ftp://forge.test", "forge.test"):
        with pytest.raises(ForgeRefused, match="not sent in the clear"):
            HttpClient(api, {"Authorization": "Bearer x"}, "forge.test")
    HttpClient("http://localhost:1/api", {}, "forge.test").close()


def test_a_next_page_on_another_server_is_not_fetched(server: ForgeServer, api: HttpClient) -> None:
    server.answer_next(Answer(body=b"[]", headers={"Link": '<http://127.0.0.1:1/pulls?page=2>; rel="next"'}))
    with pytest.raises(ForgeRefused, match="another server"):
        listed(api)


def test_a_log_on_another_server_is_fetched_without_the_login() -> None:
    seen: list[tuple[str, str]] = []

    class Watched(ForgeServer):
        def answer(self, asked: Asked, authorization: str) -> Answer | None:
            seen.append((asked.path, authorization))
            return super().answer(asked, authorization)

    with Watched(github_api.answer) as server:
        server.push("feature/x")
        api = HttpClient(server.api, {"Authorization": f"Bearer {TOKEN}"}, "forge.test")
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
        api = HttpClient(server.api, {"Authorization": f"Bearer {TOKEN}"}, "forge.test")
        assert api.tail("/log", 10) == ""
        assert [asked.path for asked in server.asked] == ["/log"]
        api.close()


def test_endless_graphql_pages_are_abandoned() -> None:
    def endless(_: ForgeServer, asked: Asked) -> Answer:
        threads: JsonObject = {"nodes": [], "pageInfo": {"hasNextPage": True, "endCursor": "x"}}
        return Answer(body={"data": {"repository": {"pullRequest": {"reviewThreads": threads}}}})

    with ForgeServer(endless) as server:
        forge = GitHub(REMOTE, Credentials(host="forge.test", token=TOKEN), server.api)
        with pytest.raises(ForgeRefused, match="more than"):
            forge.open_comments(1)
        forge.close()


def test_an_endless_list_is_abandoned() -> None:
    def endless(server: ForgeServer, asked: Asked) -> Answer:
        return Answer(body=b"[{}]", headers={"Link": f'<{server.url}/more>; rel="next"'})

    with ForgeServer(endless) as server:
        api = HttpClient(server.api, {"Authorization": f"Bearer {TOKEN}"}, "forge.test")
        with pytest.raises(ForgeRefused, match="more than"):
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
        with pytest.raises(ForgeRefused, match="no pull request"):
            forge.state(1)
