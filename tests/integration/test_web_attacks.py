"""What a hostile web site in the user's browser, and a hostile program on the machine, try over TCP.

Each row of ATTACKS is one attempt with the answers that are right. The victim is logged in as admin in a browser; the
attempts that a site makes carry its cookie, as a browser that does not know `SameSite` would. Whatever the answer, the
daemon must not have done what was asked, and must still answer.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import NamedTuple

import httpx
import pytest
import pytest_asyncio
from limits import RateLimitItemPerMinute

from orchestrator.server.access import rates
from orchestrator.server.peer_auth import Bounds, PeerProtocol
from tests.fakes.in_process_daemon import PATIENCE, InProcessDaemon, create_daemon, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON, FORM, PLAIN = "application/json", "application/x-www-form-urlencoded", "text/plain"
EVIL = "http://evil.example"


@dataclass
class Victim:
    """A daemon, and what its users have: a cookie, tokens, links."""

    daemon: InProcessDaemon
    host: str
    port: int
    cookie: str
    """Of a session with the scope admin."""
    viewer: str
    """A token with the scope view."""
    operator: str
    """A token with the scope operate."""
    expired: str
    revoked: str
    used_link: str
    """The code of a link that logged somebody in."""

    @property
    def own(self) -> str:
        """The Host header, and the origin without its scheme."""
        return f"{self.host}:{self.port}"


def request(victim: Victim, line: str, *headers: str, body: str = "", host: str = "") -> bytes:
    """Return a request with the victim's cookie, written by hand: nothing corrects what is wrong in it."""
    lines = [f"{line} HTTP/1.1", f"Host: {host or victim.own}", "Connection: close", *headers]
    if body:
        lines.append(f"Content-Length: {len(body.encode())}")
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode("latin-1")


def with_cookie(victim: Victim, line: str, *headers: str, body: str = "", host: str = "") -> bytes:
    """Return a request that a browser sends with the cookie of its user."""
    return request(victim, line, f"Cookie: orchestrator_session={victim.cookie}", *headers, body=body, host=host)


def with_token(victim: Victim, token: str, line: str, *headers: str, body: str = "") -> bytes:
    """Return a request with a token."""
    return request(victim, line, f"Authorization: Bearer {token}", *headers, body=body)


def login(victim: Victim, code: str, *headers: str) -> bytes:
    """Return a form that begins a session."""
    origin = f"Origin: http://{victim.own}"
    return request(victim, "POST /login", origin, f"Content-Type: {FORM}", *headers, body=f"code={code}")


class Attack(NamedTuple):
    """One attempt; `answers` are the statuses that refuse it, 0 for a connection that is closed without one."""

    name: str
    sent: Callable[[Victim], bytes]
    answers: tuple[int, ...]
    without: str = ""
    """What the answer must not have in it."""


PAUSE = "POST /api/pause"
OWN = "Sec-Fetch-Site: same-origin"

BY_A_SITE = (
    Attack(
        "post a form across sites", lambda v: with_cookie(v, PAUSE, f"Origin: {EVIL}", f"Content-Type: {FORM}"), (403,)
    ),
    Attack("post from a sandboxed frame", lambda v: with_cookie(v, PAUSE, "Origin: null"), (403,)),
    Attack("post without an origin", lambda v: with_cookie(v, PAUSE), (403,)),
    Attack("post with an empty origin", lambda v: with_cookie(v, PAUSE, "Origin:"), (403,)),
    Attack("post from another port", lambda v: with_cookie(v, PAUSE, f"Origin: http://{v.host}:{v.port - 1}"), (403,)),
    Attack(
        "post from localhost by name", lambda v: with_cookie(v, PAUSE, f"Origin: http://localhost:{v.port}"), (403,)
    ),
    Attack("post from https on this port", lambda v: with_cookie(v, PAUSE, f"Origin: https://{v.own}"), (403,)),
    Attack("post from a longer name", lambda v: with_cookie(v, PAUSE, f"Origin: http://{v.own}.evil.example"), (403,)),
    Attack(
        "post from our name as a user", lambda v: with_cookie(v, PAUSE, f"Origin: http://{v.own}@evil.example"), (403,)
    ),
    Attack(
        "post with two origins",
        lambda v: with_cookie(v, PAUSE, f"Origin: {EVIL}", f"Origin: http://{v.own}"),
        (403,),
    ),
    Attack(
        "post a page's form across sites",
        lambda v: with_cookie(v, "POST /tasks/T-1/cancel", f"Origin: {EVIL}", f"Content-Type: {FORM}", body="next=/"),
        (403,),
    ),
    Attack(
        "log the user in as somebody else",
        lambda v: login(v, "x" * 43).replace(v.own.encode(), b"evil.example", 2),
        (403, 421),
    ),
    Attack(
        "fetch with credentials",
        lambda v: with_cookie(
            v, "GET /api/status", f"Origin: {EVIL}", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors"
        ),
        (403,),
        "access-control",
    ),
    Attack(
        "load the API as a script from another port",
        lambda v: with_cookie(
            v, "GET /api/tasks", "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"
        ),
        (403,),
    ),
    Attack(
        "show a page in a frame",
        lambda v: with_cookie(
            v, "GET /", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"
        ),
        (403,),
    ),
    Attack(
        "ask leave of CORS",
        lambda v: request(
            v,
            "OPTIONS /api/pause",
            f"Origin: {EVIL}",
            "Access-Control-Request-Method: POST",
            "Access-Control-Request-Headers: authorization",
        ),
        (401, 405),
        "access-control",
    ),
    Attack(
        "rebind a name to this machine", lambda v: with_cookie(v, "GET /api/tasks", host="evil.example:8700"), (421,)
    ),
    Attack(
        "rebind a name and post from it",
        lambda v: with_cookie(v, PAUSE, f"Origin: {EVIL}", host="evil.example"),
        (421,),
    ),
    Attack("rebind a name and look at /healthz", lambda v: request(v, "GET /healthz", host="evil.example"), (421,)),
    Attack(
        "rebind a name that begins like ours", lambda v: with_cookie(v, "GET /", host="127.0.0.1.evil.example"), (421,)
    ),
    Attack("rebind a name that ends like ours", lambda v: with_cookie(v, "GET /", host="evil-localhost"), (421,)),
    Attack("send two hosts", lambda v: with_cookie(v, "GET /api/tasks", "Host: evil.example"), (400,)),
    Attack(
        "open a WebSocket",
        lambda v: with_cookie(
            v,
            "GET /live",
            f"Origin: {EVIL}",
            "Upgrade: websocket",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version: 13",
            "Sec-Fetch-Site: cross-site",
        ).replace(b"Connection: close", b"Connection: close, Upgrade"),
        (403,),
    ),
    Attack(
        "override the method of a read",
        lambda v: with_cookie(v, "GET /api/pause?_method=POST", "X-HTTP-Method-Override: POST", OWN),
        (404, 405),
    ),
    Attack(
        "send JSON as text without leave",
        lambda v: with_cookie(v, "POST /api/tasks", f"Origin: {EVIL}", f"Content-Type: {PLAIN}", body='{"text": "x"}'),
        (403,),
    ),
    Attack(
        "follow the link of login elsewhere", lambda v: login(v, v.used_link, "Referer: http://evil.example/"), (403,)
    ),
    Attack(
        "be led elsewhere after the language was chosen",
        lambda v: with_cookie(
            v,
            "POST /language",
            f"Origin: http://{v.own}",
            f"Content-Type: {FORM}",
            body="language=en&next=//evil.example/",
        ),
        (303,),
        "evil.example",
    ),
)

BY_A_PROGRAM = (
    Attack("ask without anything", lambda v: request(v, "GET /api/tasks"), (401,)),
    Attack("ask for a page without anything", lambda v: request(v, "GET /", "Accept: text/html"), (401,)),
    Attack("ask with an empty token", lambda v: with_token(v, "", "GET /api/tasks"), (401,)),
    Attack("ask with a made-up token", lambda v: with_token(v, "orch_" + "A" * 43, "GET /api/tasks"), (401,)),
    Attack(
        "ask with a token as a cookie",
        lambda v: request(v, "GET /api/tasks", f"Cookie: orchestrator_session={v.operator}"),
        (401,),
    ),
    Attack("ask with a cookie as a token", lambda v: with_token(v, v.cookie, "GET /api/tasks"), (401,)),
    Attack("ask with an expired token", lambda v: with_token(v, v.expired, "GET /api/tasks"), (401,)),
    Attack("ask with a revoked token", lambda v: with_token(v, v.revoked, "GET /api/tasks"), (401,)),
    Attack(
        "ask with the hash of a token",
        lambda v: with_token(v, v.daemon.service.credentials.listed()[0].digest, "GET /api/tasks"),
        (401,),
    ),
    Attack("add a made-up token to a cookie", lambda v: with_cookie(v, PAUSE, "Authorization: Bearer x"), (401,)),
    Attack(
        "choose the session in advance",
        lambda v: login(v, v.used_link, "Cookie: orchestrator_session=chosen"),
        (403,),
        "set-cookie: orchestrator_session",
    ),
    Attack("use a link twice", lambda v: login(v, v.used_link), (403,), "set-cookie: orchestrator_session"),
    Attack("guess a link", lambda v: login(v, "A" * 43), (403,), "set-cookie: orchestrator_session"),
    Attack("write with a token that may read", lambda v: with_token(v, v.viewer, PAUSE), (403,)),
    Attack(
        "press a button with a token that may read",
        lambda v: with_token(v, v.viewer, "POST /tasks/T-1/cancel", f"Content-Type: {FORM}", body="next=/"),
        (403,),
    ),
    Attack(
        "make a token with one that may operate",
        lambda v: with_token(
            v, v.operator, "POST /api/tokens", f"Content-Type: {JSON}", body='{"name": "mine", "scope": "admin"}'
        ),
        (403,),
    ),
    Attack("list the tokens with one that may operate", lambda v: with_token(v, v.operator, "GET /api/tokens"), (403,)),
    Attack("drain with a token that may operate", lambda v: with_token(v, v.operator, "POST /api/drain"), (403,)),
    Attack(
        "make a link with a token",
        lambda v: with_token(v, v.operator, "POST /api/links", f"Content-Type: {JSON}", body="{}"),
        (403,),
    ),
    Attack(
        "call itself a proxy's user",
        lambda v: request(
            v, "GET /api/tasks", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-User: root", "X-Real-IP: ::1"
        ),
        (401,),
    ),
    Attack(
        "call itself an agent of a task", lambda v: with_token(v, "x" * 43, "GET /api/tasks/T-1/state/current"), (401,)
    ),
    Attack(
        "climb out of the static files", lambda v: request(v, "GET /static/../../../../../etc/passwd"), (404,), "root:"
    ),
    Attack(
        "climb out with escapes",
        lambda v: request(v, "GET /static/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd"),
        (404,),
        "root:",
    ),
    Attack(
        "climb out with double escapes",
        lambda v: request(v, "GET /static/%252e%252e%252f%252e%252e%252fetc/passwd"),
        (404,),
        "root:",
    ),
    Attack("name an absolute static file", lambda v: request(v, "GET /static//etc/passwd"), (404,), "root:"),
    Attack("pass as static what is not", lambda v: request(v, "GET /static/../api/tasks"), (404,), "nextcursor"),
    Attack("pass as open what is not", lambda v: request(v, "GET /healthz/../api/tasks"), (401,)),
    Attack("pass as open by escapes", lambda v: request(v, "GET /%61pi/tasks"), (401,)),
    Attack("pass as open by slashes", lambda v: request(v, "GET //api/tasks"), (401,)),
    Attack("pass by a whole address", lambda v: request(v, "GET http://127.0.0.1/api/tasks"), (401,)),
    Attack("look with HEAD", lambda v: request(v, "HEAD /api/tasks"), (401,)),
    Attack("look with TRACE", lambda v: request(v, "TRACE /api/tasks", "X-Secret: mine"), (401, 405), "mine"),
    Attack("look with a method of its own", lambda v: with_token(v, v.viewer, "PEEK /api/tasks"), (405,)),
    Attack("tunnel with CONNECT", lambda v: request(v, "CONNECT 127.0.0.1:22"), (400, 401, 404, 405)),
    Attack(
        "send two lengths",
        lambda v: with_token(v, v.operator, PAUSE, "Content-Length: 5", "Content-Length: 6") + b"hello",
        (400,),
    ),
    Attack(
        "send a length that is none",
        lambda v: with_token(v, v.operator, PAUSE, "Content-Length: +5") + b"hello",
        (400,),
    ),
    Attack(
        "smuggle behind a length and chunks",
        lambda v: (
            with_token(v, v.viewer, "POST /mcp", "Content-Length: 4", "Transfer-Encoding: chunked")
            + b"0\r\n\r\nPOST /api/pause HTTP/1.1\r\nHost: x\r\n\r\n"
        ),
        (400, 415, 406),
    ),
    Attack(
        "smuggle behind unknown coding",
        lambda v: with_token(v, v.operator, PAUSE, "Transfer-Encoding: xchunked") + b"0\r\n\r\n",
        (400, 501),
    ),
    Attack("split a header", lambda v: with_token(v, v.viewer, "GET /api/tasks", "X-A: a\rb"), (400,)),
    Attack("put a NUL into a header", lambda v: with_token(v, v.viewer, "GET /api/tasks", "X-A: a\0b"), (400,)),
    Attack("put a NUL into an address", lambda v: with_token(v, v.viewer, "GET /api/tasks/%00"), (400, 404)),
    Attack(
        "put a line into an address",
        lambda v: with_token(v, v.viewer, "GET /api/tasks/a%0d%0aSet-Cookie:x=1"),
        (400, 404),
        "\r\nset-cookie:x",
    ),
    Attack(
        "send 10,000 headers",
        lambda v: with_token(v, v.viewer, "GET /api/tasks", *("X-More: 1" for _ in range(10_000))),
        (431, 0),
    ),
    Attack(
        "send an endless header",
        lambda v: with_token(v, v.viewer, "GET /api/tasks", "X-Long: " + "x" * 200_000),
        (400, 431, 0),
    ),
    Attack("send an endless address", lambda v: with_token(v, v.viewer, "GET /" + "x" * 200_000), (400, 414, 0)),
    Attack(
        "announce more than may be sent",
        lambda v: with_token(v, v.operator, "POST /api/tasks", f"Content-Type: {JSON}", f"Content-Length: {1 << 40}"),
        (413,),
    ),
    Attack("send what is no HTTP", lambda _: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200, (400, 0)),
    Attack(
        "send deep JSON",
        lambda v: with_token(v, v.operator, "POST /api/tasks", f"Content-Type: {JSON}", body="[" * 100_000),
        (400,),
    ),
    Attack(
        "send JSON as text",
        lambda v: with_token(v, v.operator, "POST /api/tasks", f"Content-Type: {PLAIN}", body='{"text": "x"}'),
        (415,),
    ),
)
ATTACKS = (*BY_A_SITE, *BY_A_PROGRAM)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def victim(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Victim]:
    """A daemon whose users have logged in; as many failures as these tests make are no flood."""
    root = tmp_path_factory.mktemp("victim")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(root / "config"))
        patch.setenv("ORCHESTRATOR_LISTEN", "127.0.0.1:0")
        patch.setattr(rates, "FAILURES", RateLimitItemPerMinute(100_000))
        patch.setattr(PeerProtocol, "bounds", Bounds(head=5, body=5))
        daemon = create_daemon(root / "data")
        async with serving(daemon) as client:
            yield await _prepared(daemon, client)
        daemon.store.close()


async def _prepared(daemon: InProcessDaemon, client: httpx.AsyncClient) -> Victim:
    async def token(name: str, scope: str, **more: float) -> str:
        made = await client.post("/api/tokens", json={"name": name, "scope": scope, **more})
        return str(made.json()["token"])

    url = httpx.URL((await client.post("/api/links", json={})).json()["url"])
    secret = await daemon.service.credentials.begin_session(url.params["code"])
    found = Victim(
        daemon=daemon,
        host=url.host,
        port=url.port or 0,
        cookie=secret or "",
        viewer=await token("viewer", "view"),
        operator=await token("operator", "operate"),
        expired=await token("expired", "admin", expiresDays=1e-9),
        revoked=await token("revoked", "admin"),
        used_link=url.params["code"],
    )
    await client.delete("/api/tokens/revoked")
    return found


async def answered(victim: Victim, content: bytes) -> str:
    """Send bytes and return the whole answer; empty if the connection ends without one."""
    reader, writer = await asyncio.open_connection(victim.host, victim.port)
    found = b""
    try:
        writer.write(content)
        async with asyncio.timeout(PATIENCE):
            while piece := await reader.read(1 << 16):
                found += piece
    except ConnectionError:
        pass
    finally:
        writer.close()
    return found.decode("latin-1")


def status_of(answer: str) -> int:
    """Return the status of an answer; 0 without one."""
    return int(answer.split(" ", 2)[1]) if answer else 0


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.name for attack in ATTACKS])
async def test_an_attack_is_refused(victim: Victim, attack: Attack) -> None:
    answer = await answered(victim, attack.sent(victim))
    assert status_of(answer) in attack.answers, answer[:600]
    if attack.without:
        assert attack.without not in answer.lower()
    assert (victim.daemon.supervisor.tasks, await paused_by(victim)) == ({}, None)
    assert len([one for one in victim.daemon.service.credentials.listed() if one.kind == "token"]) == 3


async def paused_by(victim: Victim) -> str | None:
    """Return who paused everything; it also shows that the daemon still answers."""
    answer = await answered(victim, with_token(victim, victim.viewer, "GET /api/status"))
    assert status_of(answer) == 200
    found = httpx.Response(200, content=answer.partition("\r\n\r\n")[2].encode("latin-1")).json()["pausedBy"]
    return None if found is None else str(found)


async def test_the_same_requests_are_taken_from_those_who_may(victim: Victim) -> None:
    by_page = with_cookie(victim, PAUSE, f"Origin: http://{victim.own}")
    by_script = with_cookie(victim, PAUSE, OWN)
    by_token = with_token(victim, victim.operator, PAUSE, "X-HTTP-Method-Override: GET")
    for sent, who in ((by_page, "browser:"), (by_script, "browser:"), (by_token, "token:operator")):
        assert status_of(await answered(victim, sent)) == 200
        assert (await paused_by(victim) or "").startswith(who)
        resumed = with_token(victim, victim.operator, "POST /api/resume")
        assert status_of(await answered(victim, resumed)) == 200
        assert await paused_by(victim) is None


async def test_every_answer_tells_the_browser_to_be_careful(victim: Victim) -> None:
    for sent in (
        with_cookie(victim, "GET /", "Accept: text/html"),
        with_cookie(victim, "GET /api/status"),
        request(victim, "GET /login"),
        request(victim, "GET /api/status"),
        request(victim, "GET /nothing", "Accept: text/html"),
    ):
        head = (await answered(victim, sent)).partition("\r\n\r\n")[0].lower()
        for line in (
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; ",
            "frame-ancestors 'none'",
            "cross-origin-opener-policy: same-origin",
            "cross-origin-resource-policy: same-origin",
            "referrer-policy: same-origin",
            "x-content-type-options: nosniff",
            "cache-control: no-store",
        ):
            assert line in head, (line, head)
        assert "unsafe-" not in head


async def test_the_port_shows_no_page_of_another_host(victim: Victim) -> None:
    page = await answered(victim, with_cookie(victim, "GET /docs", "Accept: text/html"))
    assert status_of(page) == 200
    assert "/api/tokens" in page
    assert "//" not in page.partition("<body")[0].partition("<head>")[2].replace("://", "")
    assert "cdn" not in page
