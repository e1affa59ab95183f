"""What comes in by itself: webhooks, which show their signature instead of a token, and the list of what came in."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, status

from orchestrator.daemon.history.aside import aside
from orchestrator.daemon.intake.hooks import DeliveredBefore, NotSigned
from orchestrator.server.access.admission import NO_CREDENTIALS
from orchestrator.server.access.requests import HOOKS
from orchestrator.server.openapi.refusals import refuses
from orchestrator.server.problems import HttpProblem, RefusedRequest
from orchestrator.server.routes.dependencies import TheService
from orchestrator.server.schemas.base import compose_view
from orchestrator.server.schemas.intake.intake import (
    HookStatusView,
    HookView,
    InboxView,
    IntakeFilter,
    IntakeRecordView,
    IntakeView,
    QueryView,
)

router = APIRouter(prefix="/api", tags=["intake"])
hooks = APIRouter(prefix=HOOKS.rstrip("/"), tags=["hooks"])

LARGEST_HOOK = 1024 * 1024
"""Bytes; trackers send less, unless a ticket is huge."""
TOO_LARGE = HttpProblem(413, "too-large", "The request is too large", f"a webhook may hold {LARGEST_HOOK} bytes")
SIGNED_BY = {
    "X-Hub-Signature-256": "GitHub: `sha256=` and the HMAC of the body in hexadecimal.",
    "X-GitHub-Delivery": "GitHub: the id of the delivery, which is accepted once.",
    "X-Gitlab-Token": "GitLab: the secret token.",
    "webhook-signature": "GitLab with a signing token: `v1,` and the HMAC of id, time and body in Base64.",
    "webhook-id": "GitLab with a signing token: the id of the delivery, which is accepted once.",
    "webhook-timestamp": "GitLab with a signing token: seconds since 1970, at most five minutes from the daemon's.",
    "X-Hub-Signature": "Jira: `sha256=` and the HMAC of the body in hexadecimal.",
    "X-Atlassian-Webhook-Identifier": "Jira: the id of the delivery, which is accepted once.",
}
DESCRIBED: dict[str, Any] = {
    "parameters": [
        {"in": "header", "name": name, "required": False, "schema": {"type": "string"}, "description": text}
        for name, text in SIGNED_BY.items()
    ],
    "requestBody": {
        "required": True,
        "description": "Whatever the tracker sends; only its signature is looked at.",
        "content": {
            "application/json": {
                "schema": {"type": "object", "additionalProperties": True},
                "examples": {
                    "labeled": {"value": {"action": "labeled", "issue": {"number": 12}, "label": {"name": "agent"}}}
                },
            }
        },
    },
}


@hooks.post(
    "/{kind}/{hook}",
    status_code=status.HTTP_202_ACCEPTED,
    responses=refuses((409, "delivered-before")),
    openapi_extra=DESCRIBED,
)
async def receive(kind: str, hook: str, request: Request, service: TheService) -> HookView:
    """Take a webhook of a tracker, signed with the secret of its settings: it wakes a query, and nothing more.

    Whatever is wrong with its address, its secret or its signature, the answer is the same.
    """
    body = await _body(request)
    try:
        await service.intake.hooks.receive(kind, hook, dict(request.headers), body)
    except NotSigned as error:
        raise RefusedRequest(NO_CREDENTIALS) from error
    except DeliveredBefore as error:
        raise RefusedRequest(
            HttpProblem(409, "delivered-before", "The webhook was delivered before", str(error))
        ) from error
    return HookView()


@router.get("/intake")
async def intake(service: TheService, wanted: Annotated[IntakeFilter, Query()]) -> IntakeView:
    """Show the inbox, the queries and the webhooks, and what came in from them, newest first."""
    found = await service.intake.status(wanted.limit, refused=wanted.refused)
    redact = service.redact

    def view() -> IntakeView:
        return compose_view(
            IntakeView,
            redact,
            inbox=compose_view(InboxView, redact, found.inbox),
            queries=tuple(compose_view(QueryView, redact, one) for one in found.queries),
            hooks=tuple(compose_view(HookStatusView, redact, one) for one in found.hooks),
            records=tuple(compose_view(IntakeRecordView, redact, one) for one in found.records),
        )

    return await aside(view)


async def _body(request: Request) -> bytes:
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > LARGEST_HOOK:
            raise RefusedRequest(TOO_LARGE)
    return bytes(found)
