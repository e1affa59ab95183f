"""Requests that another site made a browser send: whoever shows a cookie proves that our own page asked.

Cookies are sent from every port of a host, and `SameSite` counts them all as one site, so the origin itself is checked.
A request with a token needs no proof: no other site knows one, nor can it make a browser send one. The same is true of
a webhook's signature.
"""

from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator.server.access.requests import UNSAFE, bearer_of, header, is_hook, peer_of, scheme_of
from orchestrator.server.problems import HttpProblem, answer

FROM_OUTSIDE = frozenset({"cross-site", "same-site"})
"""What browsers say (Sec-Fetch-Site) of a request that another origin caused."""
REPORTS = "/csp-reports"
"""Reports of browsers come without cookies, and change nothing."""


class SameOrigin:
    """Refuses with 403 what a browser sends because of another site: each write, and each read but that of a page."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        is_excepted = scope["path"] == REPORTS or is_hook(scope)
        if peer_of(scope) is not None or bearer_of(scope) is not None or is_excepted:
            await self._app(scope, receive, send)
            return
        asked = _writes_from_own_page(scope) if scope["method"] in UNSAFE else _reads_as_allowed(scope)
        if asked:
            await self._app(scope, receive, send)
            return
        detail = "another site made the browser ask this, or it is no browser: programs send a token"
        await answer(HttpProblem(403, "other-origin", "Not from a page of this daemon", detail))(scope, receive, send)


def _writes_from_own_page(scope: Scope) -> bool:
    origin, site = header(scope, b"origin"), header(scope, b"sec-fetch-site")
    if origin:
        return origin == f"{scheme_of(scope)}://{header(scope, b'host')}".lower()
    return site == "same-origin"


def _reads_as_allowed(scope: Scope) -> bool:
    """Return whether our own page asks, or a person follows a link to a page."""
    is_page = header(scope, b"sec-fetch-mode") == "navigate" and header(scope, b"sec-fetch-dest") == "document"
    return is_page or header(scope, b"sec-fetch-site") not in FROM_OUTSIDE
