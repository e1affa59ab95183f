"""Loops beside the supervisor's, of which none may end the daemon: one that fails is begun again after a pause.

Agents, checks and decisions do not depend on them. So a fault in a schedule, a channel or a backup is shown in the
status, and tasks go on.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping

import structlog

log = structlog.get_logger()

Loop = Callable[[], Coroutine[object, object, None]]

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
"""Seconds before a loop that failed is begun again; they double with each failure."""
FIT_AFTER = 600.0
"""Seconds after which a loop that runs counts as repaired."""


class SideLoops:
    """Runs loops again and again, and knows which do not work; `first_pause` in seconds."""

    def __init__(self, first_pause: float = FIRST_PAUSE) -> None:
        self._first_pause = first_pause
        self._reasons: dict[str, str] = {}

    def reasons(self) -> Mapping[str, str]:
        """Return why each loop that failed lately did so, by its name."""
        return dict(self._reasons)

    def guarded(self, loops: Mapping[str, Loop]) -> dict[str, Loop]:
        """Return loops of the same names that never end by themselves."""
        return {name: self._guarded(name, run) for name, run in loops.items()}

    def _guarded(self, name: str, run: Loop) -> Loop:
        async def keep() -> None:
            pause = self._first_pause
            while True:
                began = time.monotonic()
                fit = asyncio.get_running_loop().call_later(FIT_AFTER, self._reasons.pop, name, None)
                try:
                    await run()
                    self._note(name, "it ended by itself", pause)
                except Exception as error:
                    self._note(name, f"{type(error).__name__}: {error}"[:300], pause)
                    log.exception("part_failed", part=name)
                finally:
                    fit.cancel()
                pause = self._first_pause if time.monotonic() - began > FIT_AFTER else pause
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

        return keep

    def _note(self, name: str, reason: str, pause: float) -> None:
        self._reasons[name] = reason
        log.error("part_is_begun_again", part=name, reason=reason, after_seconds=pause)
