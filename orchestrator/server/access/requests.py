"""What the access of a request is decided by: its headers, its cookies, its peer."""

from starlette.types import Scope as Asgi

from orchestrator.daemon.callers import Caller

COOKIE = "orchestrator_session"
UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})
"""Methods that change something."""
OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""What everybody may ask."""
OPEN_OVER_TCP = OPEN_PATHS | {"/csp-reports", "/login", "/metrics"}
"""What a caller may ask over TCP without showing anything; static files too."""

HOOKS = "/hooks/"
"""Under which webhooks are sent to us."""


def header(scope: Asgi, name: bytes) -> str:
    """Return the value of a header, empty without one; of several, the first."""
    found: bytes = next((value for key, value in scope["headers"] if key == name), b"")
    return found.decode("latin-1")


def bearer_of(scope: Asgi) -> str | None:
    """Return the token that a request shows, if any."""
    kind, _, token = header(scope, b"authorization").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None


def session_of(scope: Asgi) -> str | None:
    """Return the secret of the browser session that a request shows, if any."""
    for key, value in scope["headers"]:
        if key == b"cookie" and COOKIE.encode() in value:
            for part in value.decode("latin-1").split(";"):
                name, _, secret = part.strip().partition("=")
                if name == COOKIE:
                    return str(secret)
    return None


def peer_of(scope: Asgi) -> Caller | None:
    """Return the process at the other end of a Unix socket; None over TCP."""
    peer: Caller | None = scope["state"]["peer"]
    return peer


def is_open(scope: Asgi) -> bool:
    """Return whether a request needs no credentials."""
    path: str = scope["path"]
    return path in OPEN_PATHS or (peer_of(scope) is None and (path in OPEN_OVER_TCP or path.startswith("/static/")))


def is_hook(scope: Asgi) -> bool:
    """Return whether a webhook is sent over TCP: its route looks at its signature instead of a token."""
    return peer_of(scope) is None and scope["method"] == "POST" and str(scope["path"]).startswith(HOOKS)


def is_admitted(scope: Asgi) -> bool:
    """Return whether a request has shown something valid; not before it was looked at (admission.py)."""
    caller: Caller | None = scope["state"].get("caller")
    return caller is not None and caller.scope is not None


def scheme_of(scope: Asgi) -> str:
    """Return how the caller reached us: `https` through a proxy that says so, else `http`."""
    return "https" if header(scope, b"x-forwarded-proto") == "https" else "http"
