"""Schemas of events, one by one, and of everything at a glance."""

from collections.abc import Mapping
from datetime import datetime

from pydantic import ConfigDict, Field, JsonValue

from orchestrator.core.task.agent import AgentStatus, PauseReason
from orchestrator.core.task.task import TaskStatus
from orchestrator.server.schemas.base import Instant, Utf8, View, Words
from orchestrator.server.schemas.limits import WaitView


class StreamFilter(View):
    """Which events a stream sends: those after number `from`, or from a time on; else those from now on.

    A negative number counts from the end. Without `follow` the stream ends after the events that exist; `whole` adds
    the event and what it changed in the state.
    """

    model_config = ConfigDict(extra="forbid")

    from_: int | None = Field(default=None, alias="from", ge=-1_000_000, lt=2**62)
    since: Instant | None = None
    follow: bool = True
    whole: bool = False


MOST_FOLLOWED = 200
"""How many tasks a stream may be narrowed to."""


class EventsFilter(StreamFilter):
    """Which events of all tasks a stream sends; with `task`, which may be repeated, those of these tasks alone."""

    task: tuple[Utf8, ...] = Field(default=(), max_length=MOST_FOLLOWED)


class EventView(View):
    """One decision: `number` counts within the stream, `seq` within the task, `text` words it for people.

    `from` and `to` are what the decision changed first of status, stage and agent status.
    """

    number: int
    task: str
    seq: int
    timestamp: datetime
    type: str
    from_: str | None = Field(alias="from")
    to: str
    trigger: str
    text: Words
    metadata: Mapping[str, JsonValue]
    event: JsonValue = None
    change: JsonValue = None


class GapView(View):
    """Events that cannot be read, the last of them `number`, and why; `deleted` if they went with their task."""

    number: int
    reason: str
    deleted: bool = False


class GlanceView(View):
    """A live task as a screen of all tasks shows it; `since` is when its stage began, `why` what keeps it there."""

    id: str
    title: Words
    status: TaskStatus
    paused: bool
    stage: str
    progress: int
    step: int | None
    steps: int
    role: str | None
    agent: AgentStatus
    blocked_by: PauseReason | None
    since: datetime
    tokens_used: int
    cost_usd: float
    why: Words


class OverviewView(View):
    """Everything at a glance; `tasks` are active ones, then paused ones, then those that wait, in order.

    `more` counts those left out, `waiting` all that want a slot, `waits` those that wait by what they wait for;
    `limited_until` is when a usage limit ends. `trouble` says why agents cannot work.
    """

    health: str
    trouble: str | None
    pressure: str | None
    started_at: datetime
    places: int
    places_taken: int
    waiting: int
    waits: tuple[WaitView, ...] = ()
    limited_until: datetime | None
    counts: Mapping[TaskStatus, int]
    tasks: tuple[GlanceView, ...]
    more: int
