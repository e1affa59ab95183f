"""Schemas of what a task left on disk: its journal, its artifacts, its agents' transcripts."""

from datetime import datetime
from enum import StrEnum

from pydantic import ConfigDict, Field, JsonValue

from orchestrator.daemon.history.timeline import Lane, MomentKind
from orchestrator.server.schemas.base import Instant, View, Words


class JournalEntry(View):
    """One decision: what happened, and what it changed in the state as a JSON Patch."""

    seq: int
    timestamp: datetime
    task_id: str
    type: str
    from_: str | None = Field(alias="from")
    to: str
    trigger: str
    metadata: dict[str, JsonValue]
    event: JsonValue
    change: JsonValue


class JournalPage(View):
    """Decisions in order; the next page is asked for with `since` = `next_since`."""

    entries: tuple[JournalEntry, ...]
    next_since: int


class TimelineFilter(View):
    """A stretch of time; what touches it is shown."""

    model_config = ConfigDict(extra="forbid")

    from_: Instant | None = Field(default=None, alias="from")
    to: Instant | None = None


class IntervalView(View):
    """Something that lasted from decision `seq` to decision `endSeq`; without an `end` it goes on.

    `label` names the stage, role, check, request or reason; `number` is an agent's attempt, or that of a turn or
    request. `tokens` and `usd` are what a turn used.
    """

    lane: Lane
    label: str
    begin: datetime
    seq: int
    end: datetime | None
    end_seq: int | None
    number: int | None
    outcome: str
    tokens: int
    usd: float


class MomentView(View):
    """Something that happened at once, with decision `seq`; `label` is its event or, at an end, the status."""

    kind: MomentKind
    label: str
    at: datetime
    seq: int


class TimelineView(View):
    """What a task did when; `isCut` says that earlier decisions were left out, `unread` counts unreadable lines."""

    begin: datetime
    end: datetime
    intervals: tuple[IntervalView, ...]
    moments: tuple[MomentView, ...]
    is_cut: bool
    unread: int


class ArtifactKind(StrEnum):
    """How a file is to be read."""

    MARKDOWN = "markdown"
    JSON = "json"
    TEXT = "text"


def artifact_kind(path: str) -> ArtifactKind:
    """Return how a file of that name is to be read."""
    endings = {".md": ArtifactKind.MARKDOWN, ".json": ArtifactKind.JSON}
    return next((kind for ending, kind in endings.items() if path.endswith(ending)), ArtifactKind.TEXT)


class ArtifactLine(View):
    """A file that a stage or a check left; `size` in bytes."""

    path: str
    kind: ArtifactKind
    size: int
    modified_at: datetime


class ArtifactList(View):
    """Every artifact, by name."""

    artifacts: tuple[ArtifactLine, ...]


class AttemptLine(View):
    """An agent that worked or works on a task."""

    attempt: int
    alive: bool
    ended: bool
    transcript_bytes: int


class AttemptList(View):
    """Every agent of a task, oldest first."""

    attempts: tuple[AttemptLine, ...]


class TranscriptEntry(View):
    """One thing that an agent said or did; `offset` is where its line begins in the output."""

    offset: int
    kind: str
    text: Words


class TranscriptPage(View):
    """A stretch of an agent's output; `ended` means that nothing follows `next_offset`."""

    attempt: int
    entries: tuple[TranscriptEntry, ...]
    next_offset: int
    ended: bool
