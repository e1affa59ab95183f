"""Wake the supervisor whenever a run window opens or closes."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from orchestrator.clock import not_before
from orchestrator.core.schedule.run_windows import RunWindows, next_edge
from orchestrator.daemon.timers import Timers


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowEdges:
    """Rings at the edges of the windows in force; `wake` has the supervisor look at all tasks again."""

    timers: Timers
    windows: Callable[[], RunWindows]
    wake: Callable[[], None]
    clock: Callable[[], datetime]

    def ring(self) -> None:
        """Wake the supervisor now, and again at the next edge."""
        self.wake()
        edge = next_edge(self.windows(), self.clock())
        if edge is not None:
            self.timers.ring_at("run windows", not_before(edge), self.ring)
