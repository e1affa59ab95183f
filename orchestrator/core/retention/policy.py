"""The policy of retention: for each kind of files how long, how many and how much of them is kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum


class Kind(StrEnum):
    """What takes space in the data folder, as far as it belongs to tasks that have ended."""

    WORKTREES = "worktrees"
    """The folders in which agents worked."""
    CLONES = "clones"
    """The stores of commits, one for each repository."""
    SOURCES = "sources"
    """Copies of repositories that were named by an address, from which tasks begin."""
    LOGS = "logs"
    """The output of checks, and what agents wrote to standard error."""
    TRANSCRIPTS = "transcripts"
    """What agents said and did, and what they were told."""
    SESSIONS = "sessions"
    """What the agents' CLI keeps for a session to be resumed."""
    CHECKPOINTS = "checkpoints"
    """Saved states and uncommitted work."""
    FOREIGN_EDITS = "foreign-edits"
    """Copies of files that another program had changed."""
    QUARANTINE = "quarantine"
    """Texts that held secrets and were refused."""
    TASKS = "tasks"
    """Whole archived tasks: their journals and documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is kept of one kind; None means without limit.

    `age` is how long after its end, `count` how many of the newest, `size` how many bytes of the newest.
    """

    age: timedelta | None = None
    count: int | None = None
    size: int | None = None


FOREVER = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The limits of each kind; without an entry it is kept forever.

    Nothing goes sooner than `least_age` after its end. Transcripts are compressed after `compress_after`, and ended
    tasks archived after `archive_after`; None means never.
    """

    limits: Mapping[Kind, Limits] = field(default_factory=dict)
    least_age: timedelta = timedelta(days=1)
    compress_after: timedelta | None = None
    archive_after: timedelta | None = None

    def of(self, kind: Kind) -> Limits:
        """Return the limits of a kind."""
        return self.limits.get(kind, FOREVER)
