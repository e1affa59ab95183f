"""The backup that the daemon makes by itself every day."""

from datetime import time
from typing import Annotated

from pydantic import AfterValidator, Field

from orchestrator.settings.sections.types import SettingsSection, WholePath
from orchestrator.settings.sections.windows import clock_of
from orchestrator.storage.backup.contents import Part


def _is_clock(text: str) -> str:
    clock_of(text)
    return text


class BackupSettings(SettingsSection):
    """Where a backup is made every day, at what time of this machine's clock, and how many are kept."""

    folder: WholePath | None = None
    at: Annotated[str, AfterValidator(_is_clock)] = "05:00"
    keep: int = Field(default=7, ge=1, le=1000)
    exclude: tuple[Part, ...] = ()

    @property
    def time(self) -> time:
        """The time of day."""
        return clock_of(self.at)
