"""Schemas of what only pages show."""

from datetime import datetime

from orchestrator.daemon.inspection.present import AlarmKind
from orchestrator.server.schemas.base import View, Words
from orchestrator.server.schemas.events import GlanceView
from orchestrator.server.schemas.user_requests import RequestView


class AttentionView(View):
    """A task that needs a person: for a request, or because it is blocked for a reason."""

    task: str
    title: Words
    stage: str
    since: datetime
    reason: Words
    request: RequestView | None


class EdgeView(View):
    """A way from one stage of a pipeline to another, or to its end: next, back or halt, and under which conditions."""

    source: str
    target: str
    way: str
    labels: tuple[Words, ...]


class AtWorkView(View):
    """A task at work, and the last thing that its agent said or did."""

    glance: GlanceView
    kind: str
    said: Words


class AlarmView(View):
    """Something that happens by itself at a time: to a task, or to a usage window."""

    at: datetime
    kind: AlarmKind
    task: str | None
    title: Words
    window: str
