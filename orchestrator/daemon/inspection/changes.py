"""Which tasks have changed, for pages that show many of them.

A page does not need each decision: it asks for its parts again when something has changed. So decisions that come close
together are told together, and a reader that comes back late is told that anything may have changed.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from secrets import token_hex

from orchestrator.core.events.events import Event
from orchestrator.core.task.task import Task

REMEMBERED = 1000
"""How many decisions are remembered for readers that come back."""
TOGETHER = 0.05
"""Seconds that are waited for more decisions after one."""


@dataclass(frozen=True, slots=True)
class Change:
    """The tasks that have changed up to a mark; None where anything may have."""

    mark: str
    tasks: frozenset[str] | None


class Changes:
    """The changes of all tasks; used from the supervisor's event loop, which must call `on_decision` after each one."""

    def __init__(self) -> None:
        self._process = token_hex(4)  # marks of an earlier process mean nothing
        self._count = 0
        self._recent: deque[str] = deque(maxlen=REMEMBERED)
        self._changed = asyncio.Event()
        self._is_over = False

    @property
    def mark(self) -> str:
        """Where the newest change stands."""
        return f"{self._process}-{self._count}"

    def on_decision(self, task: Task, _: Event) -> None:
        """Remember that a task has changed, and wake every reader."""
        self._count += 1
        self._recent.append(task.id)
        self._wake()

    def end(self) -> None:
        """End every wait, because the daemon stops."""
        self._is_over = True
        self._wake()

    async def after(self, mark: str, patience: float) -> Change | None:
        """Return what has changed after a mark, as soon as anything has; None after `patience` seconds without.

        An unknown mark is answered at once. Raises EOFError once the daemon stops.
        """
        process, _, count = mark.partition("-")
        if process != self._process or not count.isdecimal() or len(count) > 20:
            return Change(self.mark, None)
        seen = int(count)
        if seen >= self._count and not await self._has_changed(patience):
            return None
        if self._is_over:
            raise EOFError
        missed = self._count - seen
        if missed > len(self._recent):
            return Change(self.mark, None)
        return Change(self.mark, frozenset(list(self._recent)[len(self._recent) - missed :]))

    async def _has_changed(self, patience: float) -> bool:
        if not self._is_over:
            try:
                async with asyncio.timeout(patience):
                    await self._changed.wait()
            except TimeoutError:
                return False
            await asyncio.sleep(TOGETHER)
        return True

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
