"""Which channels get a notice, and when: also with a clock that is set ahead and back."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.notices.rules import ChannelRules, Due, Escalation, Rule, Rules, Waiting, due, held_until
from orchestrator.settings.sections.notify import hours_of

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
NIGHT = datetime(2026, 11, 23, 23, tzinfo=UTC)
QUIET = ChannelRules(quiet=hours_of("22:00-07:00"), urgent=frozenset({"login_missing"}))
HOURLY = ChannelRules(digest_every=3600.0)


def waiting(key: str, at: datetime, kind: str = "completed", attempts: int = 0) -> Waiting:
    return Waiting(key=key, kind=kind, at=at, attempts=attempts)


def test_a_channel_that_nothing_names_gets_everything() -> None:
    channels = {"a": ChannelRules(), "b": ChannelRules(), "c": ChannelRules(), "d": ChannelRules()}
    rules = Rules(
        channels=channels,
        zone=UTC,
        rules=(Rule(channels=frozenset("b"), kinds=frozenset({"failed"}), hours=hours_of("08:00-18:00")),),
        escalations=(Escalation(channels=frozenset("d"), after=60.0),),
    )
    assert rules.channels_for("failed", NOON) == ("a", "b", "c")
    assert rules.channels_for("completed", NOON) == ("a", "c")
    assert rules.channels_for("failed", NIGHT) == ("a", "c")


def test_in_quiet_hours_only_what_is_urgent_is_due_and_afterwards_the_rest_together() -> None:
    held = [waiting("1", NIGHT), waiting("2", NIGHT + timedelta(minutes=1)), waiting("3", NIGHT, "login_missing")]
    assert due(held, QUIET, NIGHT + timedelta(hours=1), UTC).singles == ("3",)
    plan = due(held[:2], QUIET, NIGHT + timedelta(hours=8), UTC)
    assert (plan.singles, plan.digest) == ((), ("1", "2"))


def test_one_notice_alone_is_no_digest() -> None:
    assert due([waiting("1", NIGHT)], QUIET, NIGHT + timedelta(hours=8), UTC).singles == ("1",)


def test_a_digest_waits_for_its_interval_and_a_clock_that_was_set_back_ends_it() -> None:
    two = [waiting("1", NOON), waiting("2", NOON + timedelta(minutes=30))]
    assert due(two, HOURLY, NOON + timedelta(minutes=59), UTC).digest == ()
    assert due(two, HOURLY, NOON + timedelta(minutes=60), UTC).digest == ("1", "2")
    assert due(two, HOURLY, NOON - timedelta(days=400), UTC).digest == ("1", "2")


def test_what_was_tried_least_comes_first() -> None:
    several = [waiting("old", NOON, attempts=7), waiting("new", NOON + timedelta(hours=1))]
    assert due(several, ChannelRules(), NOON, UTC).singles == ("new", "old")


@pytest.mark.parametrize(
    ("evening", "morning"),
    [("2026-10-24 21:30", "2026-10-25 06:00"), ("2027-03-27 21:30", "2027-03-28 05:00")],
    ids=["set back", "set ahead"],
)
def test_what_is_held_back_is_due_when_the_clock_shows_the_end_of_quiet_hours(evening: str, morning: str) -> None:
    told, end = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (evening, morning))
    held = [waiting("1", told), waiting("2", told)]
    moment = told
    while moment < end:
        assert due(held, QUIET, moment, BERLIN).digest == ()
        assert held_until(held[0], QUIET, moment, BERLIN) == end
        moment += timedelta(minutes=10)
    assert due(held, QUIET, end, BERLIN).digest == ("1", "2")
    assert held_until(held[0], QUIET, end, BERLIN) is None


WAITING = st.lists(
    st.builds(
        Waiting,
        key=st.uuids().map(str),
        kind=st.sampled_from(["completed", "failed", "login_missing", "test"]),
        at=st.integers(0, 10_000).map(lambda minutes: NOON + timedelta(minutes=minutes)),
        attempts=st.integers(0, 3),
        is_whole=st.booleans(),
    ),
    max_size=8,
    unique_by=lambda one: one.key,
)
RULES = st.builds(
    ChannelRules,
    quiet=st.sampled_from([None, hours_of("22:00-07:00"), hours_of("12:00-13:00")]),
    digest_every=st.sampled_from([0.0, 600.0, 86_400.0]),
    urgent=st.sampled_from([frozenset(), frozenset({"login_missing"})]),
)


@given(several=WAITING, rules=RULES, jumps=st.lists(st.integers(-5000, 20_000), min_size=1, max_size=10))
def test_nothing_is_lost_or_sent_twice_however_the_clock_jumps(
    several: list[Waiting], rules: ChannelRules, jumps: list[int]
) -> None:
    left, sent = {one.key: one for one in several}, list[str]()
    moments = [NOON + timedelta(minutes=jump) for jump in jumps]
    for now in [*moments, NOON + timedelta(days=30)]:  # at noon, when one of the quiet hours is over soon
        for moment in (now, now + timedelta(hours=2)):
            plan = due(left.values(), rules, moment, BERLIN)
            assert not set(plan.singles) & set(plan.digest)
            sent += [*plan.singles, *plan.digest]
            for key in (*plan.singles, *plan.digest):
                if rules.is_quiet(moment, BERLIN):
                    assert rules.is_urgent(left[key].kind)
                del left[key]
    assert sorted(sent) == sorted(one.key for one in several)


@given(several=WAITING, rules=RULES, minutes=st.integers(-5000, 20_000))
def test_what_is_not_due_says_until_when_it_is_held_and_is_due_then(
    several: list[Waiting], rules: ChannelRules, minutes: int
) -> None:
    now = NOON + timedelta(minutes=minutes)
    plan = due(several, rules, now, BERLIN)
    for one in several:
        until = held_until(one, rules, now, BERLIN)
        if one.key not in (*plan.singles, *plan.digest) and one.at <= now:
            assert until is not None
            assert until > now
            later = due([one], rules, until, BERLIN)
            assert later.singles == (one.key,)


def test_an_escalation_is_due_from_its_age_on_for_a_while() -> None:
    rule = Escalation(channels=frozenset({"phone"}), after=1800.0, kinds=frozenset({"question_asked"}))
    ages = {minutes: rule.is_due("question_asked", NOON, NOON + timedelta(minutes=minutes), 3600) for minutes in
            (-10, 0, 29, 30, 89, 90)}  # fmt: skip
    assert [minutes for minutes, is_due in ages.items() if is_due] == [30, 89]
    assert not rule.is_due("review_asked", NOON, NOON + timedelta(minutes=30), 3600)


def test_a_plan_of_many_notices_compares_none_with_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def is_same(one: Waiting, other: object) -> bool:
        nonlocal compared
        compared += 1
        return one is other

    many = [Waiting(key=f"{number}", kind="completed", at=NOON) for number in range(200)]
    monkeypatch.setattr(Waiting, "__eq__", is_same)
    rules = ChannelRules(digest_every=3600.0)
    assert len(due(many, rules, NOON + timedelta(hours=2), BERLIN).digest) == 200
    assert due(many, rules, NOON, BERLIN) == Due()
    assert compared < 200
