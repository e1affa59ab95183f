"""How large a request may be, its head and its body, whatever length it announces."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.server.problems import HttpProblem, RefusedRequest, answer

LARGEST_REQUEST = 8 * 1024 * 1024
"""Bytes: the largest ticket, with every character escaped."""
TOO_LARGE = HttpProblem(
    413,
    "too-large",
    "The request is too large",
    f"a request may hold {LARGEST_REQUEST} bytes; put long material into the repository",
)
MOST_HEADERS, LARGEST_HEAD = 100, 32 * 1024
LARGE_HEAD = HttpProblem(
    431,
    "large-head",
    "The head of the request is too large",
    f"a request may have {MOST_HEADERS} headers and {LARGEST_HEAD} bytes of them; browsers: delete this site's cookies",
)


class BoundedHeads:
    """Refuses a request whose address and headers are too large with 431."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        headers = scope["headers"]
        size = (
            len(scope["raw_path"]) + len(scope["query_string"]) + sum(len(name) + len(value) for name, value in headers)
        )
        is_large = len(headers) > MOST_HEADERS or size > LARGEST_HEAD
        await (answer(LARGE_HEAD) if is_large else self._app)(scope, receive, send)


class BoundedBodies:
    """Refuses a request that is too large with 413: at once if it says so, else when it has become so."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on with its length watched."""
        if _announced_length(scope) > LARGEST_REQUEST:
            await answer(TOO_LARGE)(scope, receive, send)
        else:
            await self._app(scope, _bounded(receive), send)


def _announced_length(scope: Scope) -> int:
    text = dict(scope["headers"]).get(b"content-length", b"0")
    return int(text) if text.isdigit() else 0


def _bounded(receive: Receive) -> Receive:
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > LARGEST_REQUEST:
            raise RefusedRequest(TOO_LARGE)
        return message

    return bounded
