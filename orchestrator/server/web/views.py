"""Schemas of what only pages show."""

from datetime import datetime
from pathlib import Path

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


class RemovedView(View):
    """What was removed, compressed or archived: when, by which rule, and who asked."""

    at: datetime
    action: str
    kind: str
    name: Words
    task: str
    size: int
    rule: Words
    by: Words


class CheckedView(View):
    """When a backup was read whole, and what was wrong with it."""

    at: datetime
    problem: Words


class BackupFileView(View):
    """A backup of this data folder."""

    name: str
    at: datetime
    is_asked: bool
    size: int
    checked: CheckedView | None


class BackupsView(View):
    """The daily backups: where and when they are made, the newest try, those that there are, what is being done."""

    folder: Path | None
    daily_at: str
    keep: int
    next_at: datetime | None
    tried_at: datetime | None
    made_at: datetime | None
    failure: Words
    trouble: Words
    files: tuple[BackupFileView, ...]
    is_making: bool
    checking: str
