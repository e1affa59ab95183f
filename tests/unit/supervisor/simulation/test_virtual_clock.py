"""The clock of the simulation."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from orchestrator.supervisor.simulation.clockwork.virtual_clock import VirtualClock


def test_a_call_is_as_late_as_was_asked_also_across_a_change_of_clocks() -> None:
    clock, came = VirtualClock(datetime(2026, 3, 29, 0, 0, tzinfo=UTC)), list[datetime]()

    def begin() -> None:
        clock.schedule_after(timedelta(hours=2).total_seconds(), lambda: came.append(clock.now))

    clock.schedule_at(datetime(2026, 3, 29, 1, 30, tzinfo=ZoneInfo("Europe/Berlin")), begin)
    while clock.run_next(datetime(2026, 3, 30, tzinfo=UTC)):
        pass
    assert came == [datetime(2026, 3, 29, 2, 30, tzinfo=UTC)]
