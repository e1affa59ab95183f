"""State shared by all tasks: usage limits of the account, spending of ended tasks, and the global pause."""

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
"""Usage windows that are kept: those reported last."""
REFUSALS = frozenset({ErrorClass.AUTHENTICATION, ErrorClass.BILLING})
"""Failures of a turn that every other task of the account would meet too."""


@dataclass(slots=True)
class SharedState:
    """What all tasks have in common; changed only by the supervisor's loop.

    `refused` says why the service refused the account; a person who resumes a task clears it. `logged_out` says why
    agents cannot reach the service; a check that finds them logged in clears it. `unannounced` is the same reason
    until people are told. `unchecked` is set until the first check; no task starts before. `paused_by` is who paused
    everything, until all is resumed. `unwritten` is set while the store lacks the newest state.
    """

    windows: Windows = field(default_factory=dict)
    refused: str | None = None
    logged_out: str | None = None
    unannounced: str | None = None
    unchecked: str | None = None
    paused_by: str | None = None
    unwritten: bool = False
    _by_day: dict[str, Spending] = field(default_factory=dict)

    @property
    def trouble(self) -> str | None:
        """Why no turn could succeed until a person fixes something; None if nothing is wrong."""
        return self.logged_out or self.refused

    def on_decision(self, event: Event) -> None:
        """Record what a decision says about the account."""
        match event:
            case TurnFinished() if event.error_class in REFUSALS:
                self._set_refused(f"the service refused the account: {event.reason}")
            case RetryRequested() | ResumeRequested(blocked_by=PauseReason.USER):
                self._set_refused(None)
            case _:
                pass

    def pause(self, by: str) -> None:
        """Record that a person paused everything."""
        log.info("all_paused", by=by)
        self.paused_by, self.unwritten = by, True

    def resume(self) -> None:
        """Record that a person resumed everything."""
        self._set_refused(None)
        if self.paused_by is not None:
            self.paused_by, self.unwritten = None, True

    @property
    def kept(self) -> AccountState:
        """What the next daemon process has to know."""
        return AccountState(windows=self.windows, refused=self.refused, paused_by=self.paused_by)

    def recall(self, kept: AccountState) -> None:
        """Adopt what an earlier daemon process knew."""
        self.windows, self.refused, self.paused_by = kept.windows, kept.refused, kept.paused_by

    def _set_refused(self, reason: str | None) -> None:
        if reason != self.refused:
            self.refused, self.unwritten = reason, True

    def set_login_status(self, missing: str | None) -> None:
        """Record whether agents are logged in; `missing` says why they cannot reach a model."""
        if missing != self.logged_out:
            log.warning("login_changed", missing=missing)
            self.unannounced = missing
        self.logged_out, self.unchecked = missing, None

    def record_limit(self, limit: Limit, now: datetime) -> None:
        """Record news of a usage window."""
        name = limit.window or NAMELESS
        old, new = self.windows.get(name), window_of(limit, now)
        others = {other: window for other, window in self.windows.items() if other != name}
        self.windows = dict([*others.items(), (name, new)][-MOST_WINDOWS:])
        if old is None or (old.status, old.resets_at) != (new.status, new.resets_at):
            log.info("usage_window", window=limit.window, status=limit.status.value, resets_at=limit.resets_at)
            self.unwritten = True

    def forget(self, window: str | None, by: str) -> None:
        """Forget what was reported of a usage window, or of all of them."""
        log.info("usage_window_forgotten", window=window, by=by)
        self.windows = {name: one for name, one in self.windows.items() if window not in (None, name)}
        self.unwritten = True

    def remember(self, spent: Mapping[str, Spending]) -> None:
        """Add what an ended task cost, by day."""
        for day, spending in spent.items():
            self._by_day[day] = self.spent_on(day) + spending

    def spent_on(self, day: str) -> Spending:
        """Return what ended tasks cost on a day, given as 2026-11-21."""
        return self._by_day.get(day, NOTHING_SPENT)
