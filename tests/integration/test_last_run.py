"""The record of a run, on a disk that takes it and on one that takes nothing."""

from datetime import UTC, datetime
from pathlib import Path

import structlog

from orchestrator.daemon.watchdog.last_run import RUN_FILE, STACKS_FILE, Ending, RunRecord

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def test_a_run_that_did_not_end_as_it_should_is_known_to_the_next_one(tmp_path: Path) -> None:
    first = RunRecord(tmp_path, "boot", lambda: NOW)
    first.note_hangs("the disk has not finished a write")
    left = (tmp_path / RUN_FILE).read_bytes()
    first.close()
    (tmp_path / RUN_FILE).write_bytes(left)  # as a run that is killed leaves it
    second = RunRecord(tmp_path, "boot", lambda: NOW)
    assert first.last is None
    assert second.last is not None
    assert (second.last.ending, second.last.hangs) == (Ending.KILLED, "the disk has not finished a write")
    second.close()
    third = RunRecord(tmp_path, "boot", lambda: NOW)
    third.close()
    assert third.last is None


def test_a_disk_that_takes_no_record_is_logged_and_keeps_no_daemon_from_running(tmp_path: Path) -> None:
    for name in (f".{RUN_FILE}.partial", STACKS_FILE):
        (tmp_path / name / "in the way").mkdir(parents=True)
    with structlog.testing.capture_logs() as logged:
        record = RunRecord(tmp_path, "boot", lambda: NOW)
        record.note_hangs("the disk")
        record.close()
    assert record.last is None
    assert {one["event"] for one in logged} == {"stacks_not_recorded", "run_not_recorded"}
