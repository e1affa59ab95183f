"""The shapes of limits: the account's usage windows, what a day may cost, and which tasks wait for either."""

from datetime import datetime

from orchestrator.core.task.agent import PauseReason
from orchestrator.server.schemas.views import CapsView, SpentView, View, Words


class WindowView(View):
    """What was last told of a usage window of the account; `utilization` goes from 0 to 1."""

    name: str
    status: str
    resets_at: datetime | None
    utilization: float | None
    overage: bool
    seen_at: datetime


class WallView(View):
    """A window that is used up, and when turns may begin again; without a time when a person says so."""

    window: str
    until: datetime | None


class DayView(View):
    """What all tasks together have used today (UTC) and may use; `used_up` says in words that nothing is left."""

    day: str
    spent: SpentView
    caps: CapsView
    used_up: str | None


class HeldView(View):
    """A task that a limit, the service or a budget keeps from going on, and until when, if that is known."""

    task: str
    title: Words
    blocked_by: PauseReason | None
    because: Words
    until: datetime | None
    next: Words


class LimitsView(View):
    """Everything that limits work now; `places_now` are the places while a window is nearly used up."""

    windows: tuple[WindowView, ...]
    walls: tuple[WallView, ...]
    day: DayView
    places: int
    places_now: int
    held: tuple[HeldView, ...]
