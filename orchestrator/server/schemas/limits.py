"""Schemas of limits: the account's usage windows, the day's budget, and the tasks that wait for either."""

from datetime import datetime

from orchestrator.core.schedule.waits import WaitReason
from orchestrator.core.task.agent import PauseReason
from orchestrator.server.schemas.base import View, Words
from orchestrator.server.schemas.tasks import CapsView, SpentView


class WindowView(View):
    """What was last reported of a usage window of the account; `utilization` is from 0 to 1."""

    name: str
    status: str
    resets_at: datetime | None
    utilization: float | None
    overage: bool
    seen_at: datetime


class WallView(View):
    """A window that is used up, and when turns may start again; without a time, when a person resumes them."""

    window: str
    until: datetime | None


class DayView(View):
    """What all tasks together have used today (UTC) and may use; `used_up` says in words that nothing is left."""

    day: str
    spent: SpentView
    caps: CapsView
    used_up: str | None


class HeldView(View):
    """A task that a limit, the service or a budget keeps from continuing, and until when, if that is known."""

    task: str
    title: Words
    blocked_by: PauseReason | None
    because: Words
    until: datetime | None
    next: Words


class RunWindowView(View):
    """A run window of the settings: whether it is open, and until when it stays as it is."""

    name: str
    zone: str
    is_open: bool
    until: datetime | None


class WaitView(View):
    """How many tasks wait for the same: a slot, their start time, their run window, other tasks, a usage limit, a
    budget, or the service. From `until` on the first of them may go on; null if no time is known.
    """

    reason: WaitReason
    tasks: int
    until: datetime | None


class LimitsView(View):
    """Everything that limits work now; `places_now` are the slots while a window is nearly used up, `run_windows` the
    hours that the settings give tasks.
    """

    windows: tuple[WindowView, ...]
    walls: tuple[WallView, ...]
    day: DayView
    places: int
    places_now: int
    held: tuple[HeldView, ...]
    run_windows: tuple[RunWindowView, ...] = ()
