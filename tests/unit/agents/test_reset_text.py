"""Every known form of a reset time, and the pitfalls of clocks and calendars."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.agents.reset_text import JUST_NOW, reset_in

SATURDAY = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)


def told(text: str, *, at: datetime = SATURDAY, zone: str = "UTC") -> str | None:
    moment = reset_in(text, at, zone)
    return f"{moment:%Y-%m-%d %H:%M}" if moment else None


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("Claude AI usage limit reached|1795284000", "2026-11-21 18:00"),
        ("Claude AI usage limit reached|1795284000000", "2026-11-21 18:00"),
        ("Claude usage limit reached. Your limit will reset at 5pm (Europe/Warsaw).", "2026-11-21 16:00"),
        ("5-hour limit reached ∙ resets 3am", "2026-11-22 03:00"),
        ("Weekly limit reached ∙ resets Oct 9 at 5pm", None),
        ("You've hit your limit · resets 2pm (Asia/Shanghai)", "2026-11-22 06:00"),
        ("You're out of extra usage · resets 4pm (America/Chicago)", "2026-11-21 22:00"),
        ("You\u2019ve hit your session limit · resets 3:45pm", "2026-11-21 15:45"),
        ("You've hit your session limit · resets 12am (UTC)", "2026-11-22 00:00"),
        ("You've hit your session limit · resets 12:30 p.m.", "2026-11-22 12:30"),
        ("You've hit your weekly limit · resets Mon 12:00am", "2026-11-23 00:00"),
        ("You've hit your weekly limit · resets Saturday at 1pm", "2026-11-28 13:00"),
        ("You've hit your weekly limit · resets sat 3pm", "2026-11-21 15:00"),
        ("You've hit your weekly limit · resets Nov 22, 1:28am (UTC)", "2026-11-22 01:28"),
        ("You've hit your limit · resets Nov 28, 6pm (Europe/Berlin)", "2026-11-28 17:00"),
        ("You've hit your limit · resets November 28th", "2026-11-28 00:00"),
        ("You've hit your limit · resets Jan 2, 1am", "2027-01-02 01:00"),
        ("You've hit your limit · resets Dec 1, 2026, 6pm (America/New_York)", "2026-12-01 23:00"),
        ("API Error: 429 spend limit reached (daily; resets 2026-11-22 00:00 UTC)", "2026-11-22 00:00"),
        ("spend limit reached (daily; resets 2026-08-09 00:00 UTC)", "2026-08-09 00:00"),
        ("The limit resets soon: it resets 3pm", "2026-11-21 15:00"),
    ],
)
def test_every_form_is_understood(text: str, moment: str | None) -> None:
    assert told(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "You've hit your org's monthly usage limit",
        "spend limit reached (monthly; resets monthly)",
        "resets 3",
        "resets 15:45",
        "resets 13pm",
        "resets 3:75pm",
        "resets Mon",
        "resets Monument 3 pm",
        "resets Feb 29, 1am",
        "resets 2026-13-41 00:00 UTC",
        "resets 3pm (Mars/Olympus)",
        "resets 3pm (Europe)",
        "presets 3pm",
        "x" * 500 + " resets 3pm",
    ],
    ids=lambda text: repr(text[:30]),
)
def test_an_unclear_text_gives_no_time(text: str) -> None:
    assert told(text) is None


def test_a_time_without_a_zone_is_in_the_zone_of_the_agent() -> None:
    assert told("resets 5pm", zone="Asia/Kathmandu") == "2026-11-22 11:15"
    assert told("resets 11pm", zone="Asia/Kathmandu") == "2026-11-21 17:15"
    assert told("resets 5pm", zone="nowhere") is None
    assert told("resets 5pm", zone="../../etc/passwd") is None


def test_a_time_that_has_just_passed_is_not_tomorrows() -> None:
    assert told("resets 2:00pm") == "2026-11-21 14:00"
    assert told("resets 1:50pm") == "2026-11-21 13:50"
    assert told("resets 1:49pm") == "2026-11-22 13:49"
    assert told("resets Sat 1:55pm") == "2026-11-21 13:55"
    assert told("resets Nov 21, 1:55pm") == "2026-11-21 13:55"


def test_a_date_means_the_year_in_which_it_is_nearest() -> None:
    new_years_eve = datetime(2026, 12, 31, 23, 30, tzinfo=UTC)
    assert told("resets Jan 1, 2am", at=new_years_eve) == "2027-01-01 02:00"
    assert told("resets Dec 30, 2am", at=new_years_eve + timedelta(days=3)) is None
    assert told("resets Feb 29, 1am", at=datetime(2028, 2, 27, tzinfo=UTC)) == "2028-02-29 01:00"


def test_a_time_skipped_by_a_clock_change_is_an_hour_later() -> None:
    evening = datetime(2026, 3, 28, 20, 0, tzinfo=UTC)
    assert told("resets 2:30am (Europe/Berlin)", at=evening) == "2026-03-29 01:30"


def test_a_time_repeated_by_a_clock_change_is_the_first_one_in_the_future() -> None:
    evening = datetime(2026, 10, 24, 20, 0, tzinfo=UTC)
    between = datetime(2026, 10, 25, 0, 45, tzinfo=UTC)
    assert told("resets 2:30am (Europe/Berlin)", at=evening) == "2026-10-25 00:30"
    assert told("resets 2:30am (Europe/Berlin)", at=between) == "2026-10-25 01:30"


WORDS = st.sampled_from([
    "resets", "reset at", "3am", "12:59pm", "Mon", "Feb", "29,", "31", "(UTC)", "(Europe/Berlin)", "(a/b)", "2028",
    "limit|1795284000", "|9999999999999", "2026-11-22 00:00 UTC", "at", ",", "·",
])  # fmt: skip


@given(
    st.lists(WORDS | st.text(max_size=5), max_size=12).map(" ".join),
    st.datetimes(datetime(2020, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - bounds have none
    st.sampled_from(["UTC", "America/St_Johns", "Australia/Lord_Howe", "", "\x00"]),
)
def test_no_text_raises_and_parsed_times_are_never_long_past(text: str, at: datetime, zone: str) -> None:
    moment = reset_in(text, at, zone)
    if moment is not None and "|" not in text and "2026-11-22 00:00 UTC" not in text:
        assert moment >= at - JUST_NOW
        assert moment <= at + timedelta(days=366)
