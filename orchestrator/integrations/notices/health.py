"""Which channels do not work, on disk: since when, why, and which other channel was told."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import structlog

from orchestrator.formats.codec import stamp
from orchestrator.formats.files import make_private, write_atomically
from orchestrator.formats.versioned import encode_versioned, read_versioned

log = structlog.get_logger()

FILE = "channels.json"
FORMAT = 1
DEAD_AFTER = 3
"""Failures in a row after which a channel counts as dead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelHealth:
    """How a channel does: how many tries failed in a row, since when and why, and when it last worked.

    `told` is the channel on which that was told, empty if it was not.
    """

    failures: int = 0
    failing_since: datetime | None = None
    reason: str = ""
    worked_at: datetime | None = None
    told: str = ""

    @property
    def is_dead(self) -> bool:
        """Return whether the channel counts as dead."""
        return self.failures >= DEAD_AFTER

    @property
    def summary(self) -> str:
        """Since when and why the channel fails, in a line."""
        since = f"since {stamp(self.failing_since)}, " if self.failing_since else ""
        return f"{since}{self.failures} failures: {self.reason}"

    def failed(self, at: datetime, reason: str) -> "ChannelHealth":
        """Return the health after one more failure."""
        return replace(self, failures=self.failures + 1, failing_since=self.failing_since or at, reason=reason)

    def worked(self, at: datetime) -> "ChannelHealth":
        """Return the health after a success."""
        return ChannelHealth(worked_at=at)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    channels: dict[str, ChannelHealth] = field(default_factory=dict)


class HealthBook:
    """The health of every channel; a file that cannot be read counts as none."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._path = folder, folder / FILE
        self._channels = (read_versioned(_Document, self._path, FORMAT) or _Document()).channels

    @property
    def now(self) -> Mapping[str, ChannelHealth]:
        """The health of each channel that was used."""
        return self._channels

    def of(self, channel: str) -> ChannelHealth:
        """Return the health of a channel."""
        return self._channels.get(channel, ChannelHealth())

    def note(self, channel: str, health: ChannelHealth) -> bytes:
        """Note the health of a channel, and return what `write` is to write."""
        self._channels = {**self._channels, channel: health}
        return self._content()

    def keep_only(self, channels: set[str]) -> None:
        """Forget channels that are no longer set."""
        self._channels = {name: health for name, health in self._channels.items() if name in channels}

    def write(self, content: bytes) -> None:
        """Write what `note` returned. Blocks; a disk that fails is logged."""
        try:
            make_private(self._folder)
            write_atomically(self._path, content)
        except OSError as error:
            log.warning("channel_health_not_remembered", reason=str(error))

    def _content(self) -> bytes:
        return encode_versioned(_Document(channels=dict(self._channels)), FORMAT, indent=True)
