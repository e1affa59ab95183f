"""What takes work in by itself: its loops, which new settings wake."""

from collections.abc import Callable, Coroutine

from orchestrator.daemon.service import Service
from orchestrator.wiring.base import Base


def intake_loops(base: Base, service: Service) -> dict[str, Callable[[], Coroutine[object, object, None]]]:
    base.settings.on_change(lambda _: service.intake.hurry())
    return {"inbox": service.intake.run_inbox, "queries": service.intake.run_queries}
