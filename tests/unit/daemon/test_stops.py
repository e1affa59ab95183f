"""When a task stood still and why, as its journal tells it."""

from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.reporting.stops import Stop, StopLog, stops_of

RUNS, BLOCKED = TaskStatus.IN_PROGRESS, TaskStatus.BLOCKED


def at(minute: int) -> str:
    return f"2026-11-21T22:{minute:02}:00.000Z"


def log() -> StopLog:
    found = StopLog()
    found.note(at(0), RUNS, "running", None)
    found.note(at(5), RUNS, "paused", "window")
    found.note(at(10), RUNS, "paused", "window")
    found.note(at(15), RUNS, "paused", None)
    found.note(at(16), RUNS, "running", None)
    found.note(at(20), RUNS, "paused", "window")
    found.note(at(30), BLOCKED, "running", None)
    return found


def test_each_reason_is_a_stop_of_its_own_and_lasts_until_the_next() -> None:
    assert list(log().stops) == [
        Stop(reason="window", begin=at(5), end=at(15)),
        Stop(reason="slot", begin=at(15), end=at(16)),
        Stop(reason="window", begin=at(20), end=at(30)),
        Stop(reason="blocked", begin=at(30)),
    ]


def test_stops_are_cut_to_the_span_and_those_for_one_reason_are_added() -> None:
    found = list(stops_of("T-1", "a title", log().between(at(10), at(25)), at(25)))
    assert [(one.reason, one.times, one.seconds, one.is_over) for one in found] == [
        ("window", 2, 600.0, False),
        ("slot", 1, 60.0, True),
    ]


def test_a_task_that_has_ended_stands_still_no_more() -> None:
    found = log()
    found.note(at(40), TaskStatus.CANCELLED, "paused", "user")
    assert found.stops[-1] == Stop(reason="blocked", begin=at(30), end=at(40))
