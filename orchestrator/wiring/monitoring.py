"""What watches the daemon for others: metrics."""

from collections.abc import Callable, Coroutine

from orchestrator.daemon.service import Service


def monitoring_loops(service: Service) -> dict[str, Callable[[], Coroutine[object, object, None]]]:
    """Return the loops of these parts, by name."""
    return {"loop lag": service.oversight.metrics.lag.run}
