"""Writes: whoever names an Idempotency-Key may ask again, and is given the first answer instead of doing it twice.

What a person provides is kept in no form: by a plain digest of it, it could be guessed. Its digest is salted with what
only this life of the daemon knows, so that under the same key it is refused after a restart.
"""

import hmac
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import orjson
from fastapi import Depends, Header, Request, Response
from fastapi.routing import APIRoute

from orchestrator.server.idempotency_keys import Keys
from orchestrator.server.peer_auth import caller_of

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
SECRET = {"x-secret": True}
"""What a route says, in the OpenAPI document too, if its requests hold what must not be kept."""


def _key_named(
    idempotency_key: Annotated[str | None, Header(max_length=255, description="The same key does it once.")] = None,
) -> None:
    """Let the key stand in the OpenAPI document."""


_KEY = Depends(_key_named)


class KeyedRoute(APIRoute):
    """A route whose writes heed Idempotency-Key; what is only read is read anew."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        said = more.pop("dependencies", None) or []
        is_write = not WRITES.isdisjoint(more.get("methods") or ())
        also = [_KEY] if is_write and _KEY not in said else []
        super().__init__(path, endpoint, dependencies=[*said, *also], **more)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The framework's handler, which a known key leaves alone."""
        handle, is_secret = super().get_route_handler(), (self.openapi_extra or {}).items() >= SECRET.items()

        async def keyed(request: Request) -> Response:
            key = request.headers.get("idempotency-key")
            if not key or request.method not in WRITES:
                return await handle(request)

            async def take() -> str:
                return _kept(await handle(request))

            keys: Keys = request.app.state.keys
            asked = await _asked(request)
            meant = hmac.digest(keys.salt, asked, "sha256") if is_secret else asked
            return _again(await keys.once(key, meant, take))

        return keyed


async def _asked(request: Request) -> bytes:
    """What tells a request from others."""
    url = request.url
    return orjson.dumps([request.method, url.path, url.query, caller_of(request).attempt]) + await request.body()


def _kept(response: Response) -> str:
    body = bytes(response.body).decode()
    return orjson.dumps({"status": response.status_code, "headers": dict(response.headers), "body": body}).decode()


def _again(kept: str) -> Response:
    said = orjson.loads(kept)
    return Response(said["body"], status_code=said["status"], headers=said["headers"])
