"""Schemas of tokens, sessions and the links that begin one."""

import re
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from orchestrator.daemon.access.scopes import Scope
from orchestrator.server.schemas.base import RequestBody, View

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError("a name has up to 64 letters, digits, dots, _ and -, and begins with a letter or digit")
    return name


TokenName = Annotated[str, AfterValidator(_named), WithJsonSchema({"type": "string", "pattern": _NAME.pattern})]
LONGEST_DAYS = 3650.0


class TokenBody(RequestBody):
    """A new token: its name, what it allows, and for how many days; None: until it is revoked."""

    name: TokenName
    scope: Scope
    expires_days: float | None = Field(default=None, gt=0, le=LONGEST_DAYS)


class LinkBody(RequestBody):
    """A link for a browser, and what its session may ask; None: what the caller may."""

    scope: Scope | None = None


class TokenView(View):
    """A token, or a session of a browser; `kind` is token or browser, `used_at` its last use."""

    kind: str
    name: str
    scope: Scope
    created_at: datetime
    used_at: datetime | None
    expires_at: datetime | None


class NewTokenView(TokenView):
    """A new token with its secret, which is shown this once."""

    token: str


class TokenList(View):
    """Every token and every session."""

    tokens: tuple[TokenView, ...]


class RevokedView(View):
    """How many tokens or sessions are invalid now."""

    revoked: int


class LinkView(View):
    """A link that logs one browser in, once, until it expires."""

    url: str
    expires_at: datetime
