"""When the daemon examines itself and the machine."""

from datetime import time
from typing import Annotated

from pydantic import AfterValidator, Field

from orchestrator.settings.sections.types import SettingsSection


def _time_of_day(text: str) -> str:
    """Return a time of day as it is written; raise ValueError if it is none."""
    if text:
        try:
            found = time.fromisoformat(text)
        except ValueError as error:
            raise ValueError(f"{text!r:.40} is no time of day; write 21:00, or an empty text for never") from error
        if len(text) != len("21:00") or found.tzinfo:
            raise ValueError(f"{text!r:.40} is no time of day; write hours and minutes, as in 21:00")
    return text


TimeOfDay = Annotated[str, AfterValidator(_time_of_day)]


class DoctorSettings(SettingsSection):
    """When the daemon looks by itself for what would stop the night, in the machine's time zone."""

    at: TimeOfDay = "21:00"
    before_window: float = Field(default=1800.0, ge=0, le=86_400, allow_inf_nan=False)
    canary: bool = False

    @property
    def time(self) -> time | None:
        """The time of day; None for never."""
        return time.fromisoformat(self.at) if self.at else None
