"""State shared by all tasks: usage limits of the account, spending of ended tasks, and the global pause."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from orchestrator.core.events.agent_events import Limit
from orchestrator.core.events.events import AgentExited, Event, ResumeRequested, RetryRequested, TurnFinished
from orchestrator.core.schedule.trouble import CLOSED, AccountState, Breaker, Trouble, TroubleKind
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.budget import NOTHING_SPENT, Spending
from orchestrator.core.task.task import Task
from orchestrator.core.task.usage_limits import NAMELESS, Windows, window_of

log = structlog.get_logger()

MOST_WINDOWS = 50
"""Usage windows that are kept: those reported last."""


@dataclass(slots=True)
class SharedState:
    """What all tasks have in common; changed only by the supervisor's loop.

    `breaker` is open while turns fail for a reason that concerns all; a turn that succeeds closes it, and so does a
    person who resumes a task. `unusable` says why agents cannot work at all: nobody is logged in, or their program is
    missing or unfit; a check that finds them usable clears it. `unannounced` is a trouble that people are not told of
    yet. `unchecked` is set until the first check; no task starts before. `paused_by` is who paused everything, until
    all is resumed. `unwritten` is set while the store lacks the newest state.
    """

    windows: Windows = field(default_factory=dict)
    breaker: Breaker = CLOSED
    unusable: Trouble | None = None
    unannounced: Trouble | None = None
    unchecked: str | None = None
    paused_by: str | None = None
    unwritten: bool = False
    _by_day: dict[str, Spending] = field(default_factory=dict)

    def trouble(self, now: datetime) -> Trouble | None:
        """Return why no turn can succeed; None if nothing is wrong."""
        return self.unusable or self.breaker.trouble(now)

    def judged(self, task: Task, event: Event) -> Event:
        """Return the event of a task, blaming the installation if that is at fault for what happened."""
        if isinstance(event, AgentExited | TurnFinished) and self.breaker.blames_installation(task, event):
            return replace(event, blames_installation=True)
        return event

    def on_decision(self, task: Task, event: Event) -> tuple[str, ...]:
        """Record what a decision about a task, which is given as it was before, says about all tasks.

        Return the tasks that were judged before it turned out that not they were to blame.
        """
        match event:
            case RetryRequested(blames_installation=False) | ResumeRequested(blocked_by=PauseReason.USER):
                self._adopt(CLOSED)
            case _:
                before, now = self.breaker, self.breaker.after(task, event)
                self._adopt(now)
                if before.fault is None and (found := now.trouble(event.at)) and found.kind is TroubleKind.INSTALLATION:
                    self.unannounced = found
                    return found.met_by
        return ()

    def try_again(self) -> None:
        """Let a task try at once whether a trouble is over, because something was changed."""
        self._adopt(self.breaker.probed_now())

    def pause(self, by: str) -> None:
        """Record that a person paused everything."""
        log.info("all_paused", by=by)
        self.paused_by, self.unwritten = by, True

    def resume(self) -> None:
        """Record that a person resumed everything."""
        self._adopt(CLOSED)
        if self.paused_by is not None:
            self.paused_by, self.unwritten = None, True

    @property
    def kept(self) -> AccountState:
        """What the next daemon process has to know."""
        return AccountState(windows=self.windows, breaker=self.breaker, paused_by=self.paused_by)

    def recall(self, kept: AccountState) -> None:
        """Adopt what an earlier daemon process knew."""
        self.windows, self.breaker, self.paused_by = kept.windows, kept.breaker, kept.paused_by

    def _adopt(self, breaker: Breaker) -> None:
        if breaker.fault != self.breaker.fault:
            tell = log.info if breaker.fault is None else log.warning
            tell("trouble_changed", fault=breaker.fault, reason=breaker.reason)
        self.breaker, self.unwritten = breaker, self.unwritten or breaker != self.breaker

    def set_usable(self, trouble: Trouble | None) -> None:
        """Record whether agents can work, as far as can be told without a turn."""
        if trouble != self.unusable:
            tell = log.warning if trouble else log.info
            tell("agents_usable_changed", trouble=trouble and trouble.reason)
            self.unannounced = trouble
        self.unusable, self.unchecked = trouble, None

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
