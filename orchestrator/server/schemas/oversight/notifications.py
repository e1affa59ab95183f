"""Schemas of notifications: what was told on which channel, and how the channels do."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from orchestrator.core.notices.delivery import DeliveryStatus
from orchestrator.server.schemas.base import RequestBody, View, Words


class DeliveryView(View):
    """What became of a notice on a channel: how often it was tried, when last, and why it was not taken.

    `heldUntil` is when it may be sent, where quiet hours or a digest hold it back.
    """

    channel: str
    status: DeliveryStatus
    attempts: int
    at: datetime | None
    reason: Words
    held_until: datetime | None


class NoticeView(View):
    """A notice that was told; `key` is the same wherever and however often it is sent."""

    key: str
    kind: str
    at: datetime
    subject: Words
    text: Words
    deliveries: tuple[DeliveryView, ...]


class ChannelView(View):
    """A channel: whether it works, how often in a row it failed, since when and why, and what waits for it."""

    name: str
    works: bool
    failures: int
    failing_since: datetime | None
    worked_at: datetime | None
    reason: Words
    waiting: int


class NotificationList(View):
    """The channels that are set, and the newest notices."""

    channels: tuple[ChannelView, ...]
    notices: tuple[NoticeView, ...]


class NotificationTestBody(RequestBody):
    """The channel to test; None: each."""

    channel: Annotated[str, Field(max_length=60)] | None = None


class TestedList(View):
    """What became of the tests so far."""

    notices: tuple[NoticeView, ...]
