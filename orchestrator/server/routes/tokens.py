"""Who may ask over TCP: tokens for programs, and links that log a browser in.

No answer with a secret is kept: these routes know no Idempotency-Key. A token's name is taken once, so that a repeated
request makes no second one.
"""

from datetime import timedelta

import structlog
from fastapi import APIRouter, Request

from orchestrator.daemon.access.credentials import NameTaken, NoSuchToken, NotListening, TooManyTokens
from orchestrator.daemon.access.scopes import Scope
from orchestrator.server.access.marks import ADMIN, lacks_scope
from orchestrator.server.openapi.refusals import refuses
from orchestrator.server.problems import HttpProblem, RefusedRequest
from orchestrator.server.routes.dependencies import By, TheCaller, TheService
from orchestrator.server.schemas.base import compose_view
from orchestrator.server.schemas.tokens import (
    LinkBody,
    LinkView,
    NewTokenView,
    RevokedView,
    TokenBody,
    TokenList,
    TokenView,
)

log = structlog.get_logger()

router = APIRouter(prefix="/api", tags=["access"])


@router.get("/tokens", openapi_extra=ADMIN)
async def tokens(service: TheService) -> TokenList:
    """List every token and every session of a browser, newest first; their secrets are not known."""
    return TokenList(tokens=tuple(map(TokenView.model_validate, service.credentials.listed())))


@router.post("/tokens", openapi_extra=ADMIN, responses=refuses(NameTaken, TooManyTokens))
async def create(body: TokenBody, service: TheService, by: By) -> NewTokenView:
    """Create a token. Its secret is in this answer and nowhere else."""
    lasts = None if body.expires_days is None else timedelta(days=body.expires_days)
    made, secret = await service.credentials.create_token(body.name, body.scope, lasts)
    log.info("token_created", name=made.name, scope=made.scope, expires_at=str(made.expires_at or "never"), by=by)
    return compose_view(NewTokenView, service.redact, made, token=secret)


@router.delete("/tokens/{token}", openapi_extra=ADMIN, responses=refuses(NoSuchToken))
async def revoke(token: str, service: TheService, by: By) -> RevokedView:
    """Make a token invalid at once; with `browser:` before a user's name, all sessions of that user."""
    revoked = await service.credentials.revoke(token)
    log.info("token_revoked", name=token, revoked=revoked, by=by)
    return RevokedView(revoked=revoked)


@router.post("/links", responses=refuses(NotListening))
async def link(body: LinkBody, request: Request, service: TheService, caller: TheCaller) -> LinkView:
    """Create a link that logs a browser in; only for callers on the Unix socket, and with no more than they may."""
    origin: str = request.app.state.origin
    if not origin:
        raise NotListening('the daemon listens for no browser; set `listen = "127.0.0.1:8700"` and restart it')
    if caller.name:
        detail = f"{caller} is no process on the Unix socket; run `orchestrator open` on the machine of the daemon"
        raise RefusedRequest(HttpProblem(403, "not-for-you", "The caller may not do this", detail))
    scope = body.scope or caller.scope or Scope.VIEW
    if not caller.may(scope):
        raise RefusedRequest(lacks_scope(caller, scope))
    code, until = service.credentials.create_link(caller.user, scope)
    log.info("link_created", name=caller.user, scope=scope, by=str(caller))
    return LinkView(url=f"{origin}/login?code={code}", expires_at=until)
