"""What the outbox holds: a notice, and for each channel what became of it there."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from orchestrator.core.notices.delivery import DeliveryStatus
from orchestrator.core.notices.rules import Waiting

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A notice on one channel: how often it was tried, and when and why it was last not taken, sent or given up.

    Of one that is sent in a digest, `reason` is the key of the digest.
    """

    channel: str
    status: DeliveryStatus = DeliveryStatus.WAITING
    attempts: int = 0
    at: datetime | None = None
    reason: str = ""

    @property
    def is_waiting(self) -> bool:
        """Return whether it may still be sent."""
        return self.status is DeliveryStatus.WAITING


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A notice as it is sent: `document` to programs, subject and text to people, `html` beside the text if any.

    `key` is the same however often it is sent. `members` are the keys of the notices in a digest.
    """

    key: str
    kind: str
    at: datetime
    subject: str
    text: str
    document: Mapping[str, object]
    deliveries: tuple[Delivery, ...]
    html: str = ""
    members: tuple[str, ...] = ()

    @property
    def is_waiting(self) -> bool:
        """Return whether it may still be sent on some channel."""
        return any(one.is_waiting for one in self.deliveries)

    def on(self, channel: str) -> Delivery | None:
        """Return what became of it on a channel, None if it does not go there."""
        return next((one for one in self.deliveries if one.channel == channel), None)

    def with_delivery(self, delivery: Delivery) -> "Entry":
        """Return the entry with this in place of what is known of the same channel."""
        changed = tuple(delivery if one.channel == delivery.channel else one for one in self.deliveries)
        return replace(self, deliveries=changed)

    def as_waiting(self, channel: str) -> Waiting:
        """Return what the rules need to know of it on a channel."""
        delivery = self.on(channel)
        attempts = delivery.attempts if delivery else 0
        return Waiting(key=self.key, kind=self.kind, at=self.at, attempts=attempts, is_whole=bool(self.members))
