"""Who asks, and whether they may: the process at the other end of a Unix socket, a token, or a browser's session.

The kernel says which process asks on a Unix socket. Over TCP nobody is known by it, so every request shows a token or
the cookie of a session, and a webhook its signature. Reads need the scope `view`, writes `operate`; a route may need
`admin` (see marks.py).
"""

from dataclasses import replace

from fastapi import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Asgi

from orchestrator.daemon.access.credentials import BROWSER, TOKEN, Credentials
from orchestrator.daemon.access.scopes import Scope
from orchestrator.daemon.callers import AccessControl, Caller
from orchestrator.server.access.marks import lacks_scope
from orchestrator.server.access.requests import UNSAFE, bearer_of, header, is_hook, is_open, peer_of, session_of
from orchestrator.server.problems import HttpProblem, answer
from orchestrator.server.web.pages.login import login_needed

OPEN_TO_AGENTS = frozenset({("GET", "state/current"), ("POST", "state/step"), ("POST", "state/fail")})
"""What an agent may ask of its own task, under /api/tasks/<id>/."""
OPEN_TO_VIEWERS = frozenset({"/language", "/logout", "/mcp"})
"""What is sent by POST, but changes nothing beyond the caller's own browser, or looks at the scope itself."""
DECIDES_ITSELF = frozenset({"/mcp"})
"""What is sent by POST whether it reads or writes: each tool needs the scope of what it does."""
NO_CREDENTIALS = HttpProblem(
    401,
    "not-logged-in",
    "The request shows no valid token",
    "send `Authorization: Bearer …` with a token of `orchestrator token create`, or log in by `orchestrator open`",
)


class Admission:
    """Refuses callers that may not ask; names the others to the routes, as `caller` of the request's state."""

    def __init__(self, app: ASGIApp, access: AccessControl, credentials: Credentials) -> None:
        self._app, self._access, self._credentials = app, access, credentials

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        """Refuse with 401 or 403, or pass the request on."""
        peer = peer_of(scope)
        if is_hook(scope):  # it may do nothing but what its route does for who has its secret
            scope["state"]["caller"] = Caller(name="a webhook")
            await self._app(scope, receive, send)
            return
        if peer is None:
            found = await self._by_credentials(scope)
            caller = scope["state"]["caller"] = found or Caller(name="anybody")
            refusal = None if found or is_open(scope) else _login_needed(scope)
        else:
            caller = self._agent(peer, scope) or replace(peer, scope=self._access.scope_of(peer))
            scope["state"]["caller"] = caller
            objection = None if caller.attempt or is_open(scope) else self._access.objection_to(peer)
            refusal = (
                answer(HttpProblem(403, "not-for-you", "The caller may not do this", objection)) if objection else None
            )
        if refusal is None and caller.attempt is None and not is_open(scope):
            refusal = _out_of_scope(caller, scope)
        await (refusal or self._app)(scope, receive, send)

    async def _by_credentials(self, scope: Asgi) -> Caller | None:
        """Return whose token or session a request shows, if it is valid; a token that is not is no session either."""
        token, session = bearer_of(scope), session_of(scope)
        if token is not None:
            return await self._credentials.caller_with(TOKEN, token)
        return await self._credentials.caller_with(BROWSER, session) if session else None

    def _agent(self, peer: Caller, scope: Asgi) -> Caller | None:
        """The caller as an agent that asks what it may; None if it is none, or asks for anything else."""
        under, _, rest = scope["path"].partition("/api/tasks/")
        task_id, _, action = rest.partition("/")
        if under or (scope["method"], action) not in OPEN_TO_AGENTS:
            return None
        return self._access.agent_with_token(peer, task_id, bearer_of(scope) or "")


def _out_of_scope(caller: Caller, scope: Asgi) -> Response | None:
    writes = scope["method"] in UNSAFE and scope["path"] not in OPEN_TO_VIEWERS | DECIDES_ITSELF
    needed = Scope.OPERATE if writes else Scope.VIEW
    return None if caller.may(needed) else answer(lacks_scope(caller, needed))


def _login_needed(scope: Asgi) -> Response:
    if "text/html" in header(scope, b"accept"):
        return login_needed(Request(scope))
    refusal = answer(NO_CREDENTIALS)
    refusal.headers["WWW-Authenticate"] = "Bearer"
    return refusal
