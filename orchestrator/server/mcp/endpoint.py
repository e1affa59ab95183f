"""The route /mcp: streamable HTTP without sessions, so that a client outlives any number of restarts of the daemon."""

import asyncio
import importlib
from typing import Protocol

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator.daemon.service import Service
from orchestrator.server.idempotency import IdempotencyKeys

PATH = "/mcp"
PROTOCOL = "orchestrator.server.mcp.protocol"
"""The module that imports the SDK, which takes half a second and 15 MB: with the first request, in a thread."""


class _ProtocolModule(Protocol):
    def make_app(self, service: Service, keys: IdempotencyKeys) -> ASGIApp:
        """Return the app that answers POST requests."""


class McpEndpoint:
    """An ASGI app for /mcp."""

    def __init__(self, service: Service, keys: IdempotencyKeys) -> None:
        self._service, self._keys = service, keys
        self._app: ASGIApp | None = None
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a message; there is nothing to listen to (GET) and no session to end (DELETE)."""
        if scope["method"] != "POST":
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        app = await self._loaded()
        await app(scope, receive, send)

    async def _loaded(self) -> ASGIApp:
        async with self._loading:
            if self._app is None:
                module: _ProtocolModule = await asyncio.to_thread(importlib.import_module, PROTOCOL)
                self._app = module.make_app(self._service, self._keys)
        return self._app
