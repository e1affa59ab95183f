"""Schedules as a program on the same machine sees them."""

from urllib.parse import quote

from orchestrator.server.client import Client
from orchestrator.server.schemas.base import to_view
from orchestrator.server.schemas.intake.schedules import ScheduleBody, ScheduleChangeBody, ScheduleList, ScheduleView


class ScheduleClient:
    """The schedules of one daemon; every method raises what the client raises."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def listed(self) -> ScheduleList:
        """Return every schedule, by name."""
        return to_view(ScheduleList, self._client.exchange("GET", "/api/schedules"), str)

    def add(self, body: ScheduleBody) -> ScheduleView:
        """Add a schedule."""
        document = body.model_dump(mode="json", by_alias=True)
        return to_view(ScheduleView, self._client.exchange("POST", "/api/schedules", document), str)

    def change(self, name: str, body: ScheduleChangeBody) -> ScheduleView:
        """Change what is given of a schedule."""
        document = body.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return to_view(ScheduleView, self._client.exchange("PATCH", _path(name), document), str)

    def find(self, name: str) -> ScheduleView:
        """Return one schedule."""
        return self._asked("GET", name)

    def request(self, name: str, action: str) -> ScheduleView:
        """Pause, resume or run a schedule."""
        return self._asked("POST", name, f"/{action}")

    def remove(self, name: str) -> ScheduleView:
        """Remove a schedule and return what it was."""
        return self._asked("DELETE", name)

    def _asked(self, method: str, name: str, action: str = "") -> ScheduleView:
        return to_view(ScheduleView, self._client.exchange(method, f"{_path(name)}{action}"), str)


def _path(name: str) -> str:
    return f"/api/schedules/{quote(name, safe='')}"
