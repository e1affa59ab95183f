"""Schemas of what a task left on disk: its journal, its artifacts, its agents' transcripts."""

from datetime import datetime

from pydantic import Field, JsonValue

from orchestrator.server.schemas.base import View, Words


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


class ArtifactLine(View):
    """A file that a stage or a check left; `size` in bytes."""

    path: str
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
