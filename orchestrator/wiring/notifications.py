"""Notices: the channels that send them, and the loops that tell what is due by the clock."""

from orchestrator import clock
from orchestrator.daemon.notifications.courier import Courier
from orchestrator.daemon.notifications.escalations import Escalations
from orchestrator.daemon.notifications.morning_report import MorningReport
from orchestrator.daemon.service import Service
from orchestrator.daemon.side_loops import Loop
from orchestrator.integrations.notices.build import build_channels
from orchestrator.integrations.notices.channel import Channel, Variables
from orchestrator.integrations.notices.outbox import FOLDER
from orchestrator.server.report_writer import MorningReportWriter
from orchestrator.settings.environment import environment, environment_with_secrets
from orchestrator.wiring.base import Base


def notification_loops(base: Base, service: Service) -> dict[str, Loop]:
    """Return the loops that send notices, by their names."""
    announcer = base.notifications.announcer
    courier = Courier(
        announcer=announcer,
        watch=base.notifications.watch,
        channels=lambda: _channels(base),
        redact=base.redactor.masked,
        pause=lambda: base.settings.now.notify.retry_pause,
    )
    base.settings.on_change(lambda _: courier.adopt())
    report = MorningReport(
        announcer=announcer,
        reports=service.oversight.report,
        writer=MorningReportWriter(base.redactor.masked),
        settings=lambda: base.settings.now.notify,
        folder=base.store.data_dir / FOLDER,
    )
    return {
        "notices": courier.run,
        "escalations": Escalations(announcer=announcer, attention=service.attention).run,
        "morning report": report.run,
    }


def _channels(base: Base) -> dict[str, Channel]:
    """Return the channels in force."""
    return build_channels(base.settings.now, environment(), _variables, clock.now)


def _variables() -> Variables:
    """Return the variables with the secrets as they are now. Blocks."""
    return Variables(values=environment_with_secrets())
