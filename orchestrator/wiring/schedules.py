"""What begins and stops work by the clock."""

from orchestrator import clock
from orchestrator.daemon.schedules.window_edges import WindowEdges
from orchestrator.daemon.timers import Timers
from orchestrator.supervisor.supervisor import Supervisor
from orchestrator.wiring.base import Base


def watch_run_windows(base: Base, supervisor: Supervisor, timers: Timers) -> None:
    """Have the supervisor look at all tasks whenever a run window opens or closes."""
    edges = WindowEdges(
        timers=timers, windows=lambda: supervisor.control.capacity.windows, wake=base.inbox.wake, clock=clock.now
    )
    edges.ring()
    base.settings.on_change(lambda _: edges.ring())
