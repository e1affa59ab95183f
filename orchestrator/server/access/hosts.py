"""The names by which a browser may call us: a site whose name leads to this machine is not one of them."""

from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator.server.access.requests import header, is_hook, peer_of
from orchestrator.server.problems import HttpProblem, answer

OWN = frozenset({"127.0.0.1", "[::1]", "localhost"})


class KnownHosts:
    """Refuses with 421 what is sent over TCP to another host than these; ports do not matter.

    A webhook may come by any name that leads here: no browser can sign one.
    """

    def __init__(self, app: ASGIApp, also: Collection[str]) -> None:
        self._app, self._known = app, OWN | {name.lower() for name in also}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        name = host_of(header(scope, b"host"))
        if peer_of(scope) is not None or name in self._known or is_hook(scope):
            await self._app(scope, receive, send)
            return
        detail = f"the request was sent to {name!r:.80}; name a proxy's host in `allowed_hosts` of the settings"
        await answer(HttpProblem(421, "wrong-host", "This is another host", detail))(scope, receive, send)


def host_of(text: str) -> str:
    """Return a Host header without its port."""
    name, colon, port = text.lower().rpartition(":")
    return name if colon and (port.isdecimal() or not port) else text.lower()
