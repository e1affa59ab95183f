"""What takes work in by itself: its loops, which new settings wake."""

from orchestrator.daemon.service import Service
from orchestrator.daemon.side_loops import Loop
from orchestrator.wiring.base import Base


def intake_loops(base: Base, service: Service) -> dict[str, Loop]:
    base.settings.on_change(lambda _: service.intake.hurry())
    return {"inbox": service.intake.run_inbox, "queries": service.intake.run_queries}
