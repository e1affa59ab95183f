"""Which of the times at which a task was due is submitted, and which were missed."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.schedule.recurring import GRACE, MOST_TIMES, DueTimes, Missed, due_times, is_ahead

NIGHT = datetime(2026, 5, 28, 22, tzinfo=UTC)
DAY = timedelta(days=1)


def nightly(at: datetime) -> datetime:
    """Return the next 22:00."""
    tonight = at.replace(hour=22, minute=0, second=0, microsecond=0)
    return tonight if tonight > at else tonight + DAY


def look(now: datetime, missed: Missed = Missed.TELL, handled: datetime = NIGHT - DAY) -> DueTimes | None:
    return due_times(handled, now, nightly, missed)


def test_nothing_is_due_before_its_time() -> None:
    assert look(NIGHT - timedelta(seconds=1)) is None


def test_a_time_is_submitted_when_it_comes() -> None:
    assert look(NIGHT) == DueTimes(due=NIGHT, is_late=False, missed=(), until=NIGHT)


@pytest.mark.parametrize("missed", Missed)
def test_a_time_that_is_noticed_late_is_missed_and_by_choice_made_up_for_once(missed: Missed) -> None:
    found = look(NIGHT + 2 * DAY + timedelta(hours=1), missed)
    assert found is not None
    nights = tuple(NIGHT + number * DAY for number in range(3))
    assert found.is_late
    assert found.until == nights[-1]
    assert (found.due, found.missed) == ((nights[-1], nights[:2]) if missed is Missed.ONCE else (None, nights))


def test_what_was_missed_before_a_time_that_is_kept_is_told() -> None:
    found = look(NIGHT + DAY)
    assert found is not None
    assert (found.due, found.missed) == (NIGHT + DAY, (NIGHT,))


def test_a_clock_that_is_put_back_repeats_nothing() -> None:
    assert look(NIGHT + timedelta(minutes=1), handled=NIGHT) is None
    assert look(NIGHT - 3 * DAY, handled=NIGHT) is None


def test_years_of_missed_minutes_are_not_all_counted() -> None:
    found = due_times(NIGHT, NIGHT + 400 * DAY, lambda at: at + timedelta(minutes=1), Missed.TELL)
    assert found is not None
    assert (len(found.missed), found.until) == (MOST_TIMES, NIGHT + 400 * DAY)


@given(looks=st.lists(st.timedeltas(-DAY, 3 * DAY), max_size=30), missed=st.sampled_from(Missed))
def test_however_the_clock_jumps_each_time_is_submitted_or_told_at_most_once(
    looks: list[timedelta], missed: Missed
) -> None:
    handled, now, seen = NIGHT, NIGHT, list[datetime]()
    for step in looks:
        now += step
        found = due_times(handled, now, nightly, missed)
        if found is not None:
            assert found.until > handled
            handled = found.until
            seen += [*found.missed, *([found.due] if found.due else [])]
            assert found.due is None or missed is Missed.ONCE or now - found.due <= GRACE
    assert len(seen) == len(set(seen))
    assert seen == sorted(seen)
    assert len(seen) == (handled - NIGHT) // DAY


def test_a_mark_is_ahead_only_if_a_clock_that_is_put_back_does_not_explain_it() -> None:
    assert not is_ahead(NIGHT + DAY, NIGHT)
    assert is_ahead(NIGHT + DAY + timedelta(seconds=1), NIGHT)
