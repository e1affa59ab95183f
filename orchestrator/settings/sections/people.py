"""How people and other programs are told."""

from typing import Annotated

from pydantic import AfterValidator

from orchestrator.formats.address import host_of
from orchestrator.settings.sections.types import Seconds, SettingsSection


class PeopleSettings(SettingsSection):
    """How people are notified, and how long their answers are awaited."""

    notify_command: tuple[str, ...] = ()
    question_timeout: Seconds = 1800.0
    reminders: tuple[Seconds, ...] = (1800.0, 86_400.0, 172_800.0, 259_200.0, 604_800.0)


def _address(url: str) -> str:
    """Return the address, which may be empty; raise ValueError if it cannot be called."""
    if url:
        host_of(url)
    return url


CallbackAddress = Annotated[str, AfterValidator(_address)]


class CallbackSettings(SettingsSection):
    """Where other programs are told about tasks; `hosts` are those that a repository's CLAUDE.md may name."""

    task: CallbackAddress = ""
    progress: CallbackAddress = ""
    hosts: frozenset[str] = frozenset()
