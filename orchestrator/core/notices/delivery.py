"""What becomes of a notice on a channel."""

from enum import StrEnum


class DeliveryStatus(StrEnum):
    """What became of a notice on a channel."""

    WAITING = "waiting"
    SENT = "sent"
    IN_DIGEST = "in_digest"
    FAILED = "failed"
