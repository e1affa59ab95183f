"""When the daily backup is due, also over a change of the clocks."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from orchestrator.daemon.backup.schedule import last_due
from orchestrator.settings.sections.backup import BackupSettings

BERLIN = ZoneInfo("Europe/Berlin")
AT_FIVE = BackupSettings(at="05:00")


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2026-07-01T05:00:00+02:00", "2026-07-01T03:00:00Z"),
        ("2026-07-01T04:59:59+02:00", "2026-06-30T03:00:00Z"),
        ("2026-10-25T04:00:00+01:00", "2026-10-24T03:00:00Z"),
        ("2026-10-25T05:00:00+01:00", "2026-10-25T04:00:00Z"),
        ("2026-03-29T04:00:00+02:00", "2026-03-28T04:00:00Z"),
        ("2026-03-29T23:00:00+02:00", "2026-03-29T03:00:00Z"),
    ],
)
def test_a_backup_is_due_at_its_time_on_the_clock_of_the_machine(now: str, due: str) -> None:
    found = last_due(datetime.fromisoformat(now).astimezone(BERLIN), AT_FIVE)
    assert found.astimezone(UTC) == datetime.fromisoformat(due)
