"""The channels that the settings name."""

from collections.abc import Callable, Mapping
from datetime import datetime

from orchestrator.integrations.notices.channel import Channel, Variables
from orchestrator.integrations.notices.command import NAME, CommandChannel
from orchestrator.integrations.notices.mail import PORTS, MailChannel
from orchestrator.integrations.notices.service import ServiceChannel
from orchestrator.integrations.notices.webhook import WebhookChannel
from orchestrator.settings.sections.notify import ChannelSettings
from orchestrator.settings.settings import Settings


def build_channels(
    settings: Settings, base_env: Mapping[str, str], variables: Callable[[], Variables], clock: Callable[[], datetime]
) -> dict[str, Channel]:
    """Return the channels by their names, `notify_command` first if it is set; `variables` may block."""
    command = settings.people.notify_command
    found: dict[str, Channel] = {NAME: CommandChannel(command=command, base_env=base_env)} if command else {}
    return found | {name: _built(one, variables, clock) for name, one in settings.notify.channels.items()}


def _built(one: ChannelSettings, variables: Callable[[], Variables], clock: Callable[[], datetime]) -> Channel:
    match one.type:
        case "apprise":
            return ServiceChannel(url=one.url, variables=variables)
        case "webhook":
            return WebhookChannel(url=one.url, secret_env=one.secret_env, variables=variables, clock=clock)
        case "mail":
            return MailChannel(
                host=one.host,
                port=one.port or PORTS[one.security],
                security=one.security,
                user=one.user,
                password_env=one.password_env,
                sender=one.sender,
                to=one.to,
                variables=variables,
            )
