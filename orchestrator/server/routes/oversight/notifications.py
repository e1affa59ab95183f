"""Notifications: what was told, how the channels do, and a test of them."""

from typing import Annotated

import structlog
from fastapi import APIRouter, Query

from orchestrator.daemon.notifications.service import (
    ChannelState,
    NoChannel,
    NoSuchChannel,
    ShownDelivery,
    ShownNotice,
)
from orchestrator.server.idempotency import KeyedRoute
from orchestrator.server.openapi.refusals import refuses
from orchestrator.server.routes.dependencies import By, TheService
from orchestrator.server.schemas.base import Redact, compose_view
from orchestrator.server.schemas.oversight.notifications import (
    ChannelView,
    DeliveryView,
    NoticeView,
    NotificationList,
    NotificationTestBody,
    TestedList,
)

log = structlog.get_logger()

router = APIRouter(prefix="/api/notifications", tags=["notifications"], route_class=KeyedRoute)

MOST = 500


@router.get("")
async def notifications(
    service: TheService,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 50,
    open: bool = False,  # noqa: A002 - the name of the parameter
) -> NotificationList:
    """Show every channel, and the newest notices; with `open` those that wait or were given up on a channel."""
    found = service.notifications
    return NotificationList(
        channels=tuple(_channel(one, service.redact) for one in found.channels()),
        notices=tuple(_notice(one, service.redact) for one in found.newest(limit, only_open=open)),
    )


@router.post("/test", responses=refuses(NoSuchChannel, NoChannel))
async def test(body: NotificationTestBody, service: TheService, by: By) -> TestedList:
    """Send a test on a channel, or on each, and show what became of it within half a minute."""
    log.info("channel_tested", channel=body.channel or "all", by=by)
    found = await service.notifications.test(body.channel)
    return TestedList(notices=tuple(_notice(one, service.redact) for one in found))


def _channel(one: ChannelState, redact: Redact) -> ChannelView:
    return compose_view(ChannelView, redact, one, one.health, works=not one.is_dead)


def _notice(one: ShownNotice, redact: Redact) -> NoticeView:
    return compose_view(
        NoticeView, redact, one.entry, deliveries=tuple(_delivery(found, redact) for found in one.deliveries)
    )


def _delivery(one: ShownDelivery, redact: Redact) -> DeliveryView:
    return compose_view(DeliveryView, redact, one, one.delivery)
