"""When the daemon examines itself, and what other programs are sent about its work."""

from datetime import time
from typing import Annotated
from urllib.parse import urlsplit

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


def _receiver(url: str) -> str:
    """Return the address of a receiver of traces, which may be empty; raise ValueError if nothing can be sent to it."""
    if not url:
        return url
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{url!r:.200} is no address of an OTLP receiver; write http://127.0.0.1:4318")
    if "@" in parts.netloc:
        raise ValueError("the address holds a login; put it into the variable OTEL_EXPORTER_OTLP_HEADERS")
    return url


class TelemetrySettings(SettingsSection):
    """Where traces go: the address of an OTLP/HTTP receiver; empty: nowhere."""

    traces: Annotated[str, AfterValidator(_receiver)] = ""
