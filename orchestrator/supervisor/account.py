"""What binds all tasks alike: the account that they work on, what ended ones had cost, and a pause of everything."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from orchestrator.core.events.agent_events import ErrorClass, Limit
from orchestrator.core.events.events import Event, ResumeRequested, RetryRequested, TurnFinished
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.budget import NOTHING_SPENT, Spending
from orchestrator.core.task.usage_limits import NAMELESS, AccountState, Windows, window_of

log = structlog.get_logger()

MOST_WINDOWS = 50
"""Windows that are known at once: those last told of."""
REFUSALS = frozenset({ErrorClass.AUTHENTICATION, ErrorClass.BILLING})
"""Failures of a turn that every other task of the account would meet as well."""


@dataclass(slots=True)
class Account:
    """Changed by the supervisor's loop alone.

    `refused` says why the service would not have the account, until a person has a task go on; `logged_out` why
    agents could not reach it at all, until the next look finds them logged in, `untold` the same until a task that it
    keeps waiting has told people. `unlooked` is set before the first look: nothing new begins until then. `paused_by`
    is who had everything stand still, until all is resumed. `unwritten` is set by news that the disk does not have yet.
    """

    windows: Windows = field(default_factory=dict)
    refused: str | None = None
    logged_out: str | None = None
    untold: str | None = None
    unlooked: str | None = None
    paused_by: str | None = None
    unwritten: bool = False
    _by_day: dict[str, Spending] = field(default_factory=dict)

    @property
    def trouble(self) -> str | None:
        """Why no turn would go well; a person has to mend it."""
        return self.logged_out or self.refused

    def decided(self, event: Event) -> None:
        """Take in what a decision says of the account."""
        match event:
            case TurnFinished() if event.error_class in REFUSALS:
                self._refused_is(f"the service refused the account: {event.reason}")
            case RetryRequested() | ResumeRequested(blocked_by=PauseReason.USER):
                self._refused_is(None)
            case _:
                pass

    def pause(self, by: str) -> None:
        """Take in that somebody has everything stand still."""
        log.info("all_paused", by=by)
        self.paused_by, self.unwritten = by, True

    def go_on(self) -> None:
        """Take in that a person has everything go on."""
        self._refused_is(None)
        if self.paused_by is not None:
            self.paused_by, self.unwritten = None, True

    @property
    def kept(self) -> AccountState:
        """What the next life of the daemon has to know."""
        return AccountState(windows=self.windows, refused=self.refused, paused_by=self.paused_by)

    def recall(self, kept: AccountState) -> None:
        """Take up what an earlier life of the daemon knew."""
        self.windows, self.refused, self.paused_by = kept.windows, kept.refused, kept.paused_by

    def _refused_is(self, reason: str | None) -> None:
        if reason != self.refused:
            self.refused, self.unwritten = reason, True

    def set_login_status(self, missing: str | None) -> None:
        """Take in whether somebody is logged in; `missing` says why agents could not reach a model."""
        if missing != self.logged_out:
            log.warning("login_changed", missing=missing)
            self.untold = missing
        self.logged_out, self.unlooked = missing, None

    def hear(self, limit: Limit, now: datetime) -> None:
        """Take in news of a usage window."""
        name = limit.window or NAMELESS
        old, new = self.windows.get(name), window_of(limit, now)
        others = {other: window for other, window in self.windows.items() if other != name}
        self.windows = dict([*others.items(), (name, new)][-MOST_WINDOWS:])
        if old is None or (old.status, old.resets_at) != (new.status, new.resets_at):
            log.info("usage_window", window=limit.window, status=limit.status.value, resets_at=limit.resets_at)
            self.unwritten = True

    def forget(self, window: str | None, by: str) -> None:
        """Believe no more what was told of a usage window, or of any."""
        log.info("usage_window_forgotten", window=window, by=by)
        self.windows = {name: one for name, one in self.windows.items() if window not in (None, name)}
        self.unwritten = True

    def remember(self, spent: Mapping[str, Spending]) -> None:
        """Take in what a task that has ended had cost on which days."""
        for day, spending in spent.items():
            self._by_day[day] = self.spent_on(day) + spending

    def spent_on(self, day: str) -> Spending:
        """What tasks that have ended had cost on a day, as 2026-11-21."""
        return self._by_day.get(day, NOTHING_SPENT)
