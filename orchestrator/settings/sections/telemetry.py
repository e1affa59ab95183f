"""What other programs are sent about the daemon's work."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from orchestrator.settings.sections.types import SettingsSection


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
