"""Schemas of what comes in by itself: its sources, what came in, and the answer to a webhook."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from orchestrator.daemon.intake.records import IntakeKind
from orchestrator.server.schemas.base import View, Words


class IntakeFilter(View):
    """How much of what came in is listed; `refused` leaves out everything else."""

    model_config = ConfigDict(extra="forbid")

    limit: Annotated[int, Field(ge=1, le=500)] = 50
    refused: bool = False


class InboxView(View):
    """The inbox: its folder, how many files wait there, and why none is taken.

    `tasks_waiting` of its tasks wait for a slot; while these are `most_waiting`, no file is taken.
    """

    folder: Path | None
    waiting: int
    tasks_waiting: int
    most_waiting: int
    trouble: Words


class QueryView(View):
    """A query: what it asks for, how often, when it last did and does next, what it handled, and what it waits for.

    `tasks_waiting` of its tasks wait for a slot; while these are `most_waiting`, no ticket is taken.
    """

    name: str
    tracker: str
    asks: Words
    every: float
    polled_at: datetime | None
    next_at: datetime | None
    taken: int
    refused: int
    tasks_waiting: int
    most_waiting: int
    trouble: Words


class HookStatusView(View):
    """A webhook: its address, the query that it wakes, and why it admits nothing."""

    name: str
    path: str
    query: str
    trouble: str


class IntakeRecordView(View):
    """Something that came in: from where, what became of it, and what identifies it there."""

    at: datetime
    source: str
    kind: IntakeKind
    name: Words
    title: Words
    task: str
    reason: Words
    evidence: str


class IntakeView(View):
    """The sources of work, and what came in from them, newest first."""

    inbox: InboxView
    queries: tuple[QueryView, ...]
    hooks: tuple[HookStatusView, ...]
    records: tuple[IntakeRecordView, ...]


class HookView(View):
    """The answer to a webhook: its query is asked."""

    status: Literal["accepted"] = "accepted"
