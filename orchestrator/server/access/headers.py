"""What every answer tells the browser that shows it."""

from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator import __version__
from orchestrator.server.access.requests import is_admitted, peer_of
from orchestrator.server.versions import VERSION

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "report-uri /csp-reports"
)
"""Content-Security-Policy: nothing inline, nothing from another host, no frame around it."""

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class SafeHeaders:
    """Adds the headers of safety and the version to every answer, and keeps what is no static file out of every cache.

    Over TCP, whoever showed nothing valid is answered on a connection that then ends: others need the place.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and its answer with the headers that it lacks."""
        is_static = scope["path"].startswith("/static/")

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if not is_static:
                    headers.setdefault("Cache-Control", "no-store")
                if peer_of(scope) is None and not is_admitted(scope):
                    headers["Connection"] = "close"
                else:
                    headers.setdefault(VERSION, __version__)
            await send(message)

        await self._app(scope, receive, safely)
