"""Why a request about a schedule is refused."""

from orchestrator.errors import OrchestratorError


class NoSuchSchedule(OrchestratorError):
    """There is no schedule of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no schedule {name!r:.60}; `orchestrator schedule list` lists all")


class ScheduleExists(OrchestratorError):
    """A schedule of that name exists."""


class ScheduleBusy(OrchestratorError):
    """The last task of the schedule has not ended, and no second one is wanted beside it."""
