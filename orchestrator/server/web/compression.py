"""Compression of pages and their files. The API is left alone: most of its callers are on the same machine."""

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

SMALLEST = 1024
"""Bytes: what is smaller is sent as it is."""
LEVEL = 5
UNCOMPRESSED = ("/api/", "/mcp", "/live", "/metrics")


class PageCompression(GZipMiddleware):
    """Compresses pages for browsers that take it."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app, minimum_size=SMALLEST, compresslevel=LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, compressed if it is for a page."""
        if scope["type"] == "http" and not scope["path"].startswith(UNCOMPRESSED):
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)
