"""State shared by all tasks: usage limits of the account, spending of ended tasks, and the global pause."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from orchestrator.core.decide.turns import ACCOUNT_ERRORS
from orchestrator.core.events.agent_events import Limit
from orchestrator.core.events.events import Event, ResumeRequested, RetryRequested, TurnFinished, TurnOutcome
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.budget import NOTHING_SPENT, Spending
from orchestrator.core.task.usage_limits import NAMELESS, AccountState, Windows, probe_at, window_of

log = structlog.get_logger()

MOST_WINDOWS = 50
"""Usage windows that are kept: those reported last."""


@dataclass(slots=True)
class SharedState:
    """What all tasks have in common; changed only by the supervisor's loop.

    `refused` says why the service refused the account, `refusals` how often in a row; from `probe_at` on a turn tries
    it again. A turn that succeeds clears that, and so does a person who resumes a task. `logged_out` says why agents
    cannot reach the service; a check that finds them logged in clears it. `unannounced` is the same reason until people
    are told. `unchecked` is set until the first check; no task starts before. `paused_by` is who paused
    everything, until all is resumed. `unwritten` is set while the store lacks the newest state.
    """

    windows: Windows = field(default_factory=dict)
    refused: str | None = None
    refusals: int = 0
    probe_at: datetime | None = None
    logged_out: str | None = None
    unannounced: str | None = None
    unchecked: str | None = None
    paused_by: str | None = None
    unwritten: bool = False
    _by_day: dict[str, Spending] = field(default_factory=dict)

    def trouble(self, now: datetime) -> str | None:
        """Return why no turn can succeed at present; None if nothing is wrong, or if a refused account may be tried."""
        if self.logged_out or self.refused is None or self.is_probed(now):
            return self.logged_out
        return f"{self.refused}; it is tried again at {self.probe_at:%Y-%m-%d %H:%M:%S} UTC"

    def is_probed(self, now: datetime) -> bool:
        """Return whether one task at a time may try an account that the service refused."""
        return self.refused is not None and (self.probe_at is None or now >= self.probe_at)

    def on_decision(self, event: Event) -> None:
        """Record what a decision says about the account."""
        match event:
            case TurnFinished() if event.error_class in ACCOUNT_ERRORS:
                self.refused = f"the service refused the account: {event.reason}"
                self.refusals += 1
                self.probe_at, self.unwritten = probe_at(event.at, self.refusals), True
            case TurnFinished(outcome=TurnOutcome.OK) | RetryRequested() | ResumeRequested(blocked_by=PauseReason.USER):
                self._clear_refusal()
            case _:
                pass

    def pause(self, by: str) -> None:
        """Record that a person paused everything."""
        log.info("all_paused", by=by)
        self.paused_by, self.unwritten = by, True

    def resume(self) -> None:
        """Record that a person resumed everything."""
        self._clear_refusal()
        if self.paused_by is not None:
            self.paused_by, self.unwritten = None, True

    @property
    def kept(self) -> AccountState:
        """What the next daemon process has to know."""
        return AccountState(
            windows=self.windows,
            refused=self.refused,
            refusals=self.refusals,
            probe_at=self.probe_at,
            paused_by=self.paused_by,
        )

    def recall(self, kept: AccountState) -> None:
        """Adopt what an earlier daemon process knew."""
        self.windows, self.paused_by = kept.windows, kept.paused_by
        self.refused, self.refusals, self.probe_at = kept.refused, kept.refusals, kept.probe_at

    def _clear_refusal(self) -> None:
        if self.refused is not None:
            self.refused, self.refusals, self.probe_at, self.unwritten = None, 0, None, True

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
