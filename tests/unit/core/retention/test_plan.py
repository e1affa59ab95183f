"""The plan of retention: nothing protected, nothing young, nothing within the limits goes; everything else does."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.retention.plan import Action, Item, Removal, due_at, plan, tasks_to_archive
from orchestrator.core.retention.policy import Kind, Limits, Policy
from orchestrator.core.retention.words import age_in_words, size_in_words

NOW = datetime(2026, 11, 23, 5, tzinfo=UTC)
DAY = timedelta(days=1)

items = st.builds(
    Item,
    kind=st.sampled_from(Kind),
    name=st.sampled_from(("worktree", "agents", "logs")),
    task=st.integers(1, 60).map(lambda number: f"T-{number}"),
    size=st.integers(0, 10**9),
    since=st.integers(0, 400 * 24).map(lambda hours: NOW - timedelta(hours=hours)),
    protection=st.sampled_from(("", "", "", "3 files are not committed")),
    plain_size=st.integers(0, 1000),
)
many = st.lists(items, max_size=60, unique_by=lambda item: item.key)
ages = st.none() | st.integers(0, 200).map(lambda days: days * DAY)
limits = st.builds(Limits, age=ages, count=st.none() | st.integers(0, 30), size=st.none() | st.integers(0, 10**10))
policies = st.builds(
    Policy,
    limits=st.dictionaries(st.sampled_from(Kind), limits),
    least_age=st.integers(0, 72).map(lambda hours: timedelta(hours=hours)),
    compress_after=ages,
    archive_after=ages,
)


def item(days: float, size: int = 10, task: str = "T-1", kind: Kind = Kind.WORKTREES, protection: str = "") -> Item:
    since = NOW - days * DAY
    return Item(kind=kind, name="worktree", task=task, size=size, since=since, protection=protection)


@given(many, policies)
def test_nothing_protected_or_young_goes(found: list[Item], policy: Policy) -> None:
    made = plan(found, policy, NOW)
    for one in made.removals:
        if one.action is Action.REMOVE:
            assert not one.item.protection
            assert NOW - one.item.since > policy.least_age
            assert policy.of(one.item.kind) != Limits()
            assert one.rule


@given(many, policies)
def test_what_stays_although_it_is_due_is_named_with_the_reason(found: list[Item], policy: Policy) -> None:
    made = plan(found, policy, NOW)
    assert all(one.reason and one.rule for one in made.kept)
    removed = [one.item.key for one in made.removals if one.action is Action.REMOVE]
    kept = [one.item.key for one in made.kept]
    assert len(set(removed + kept)) == len(removed) + len(kept)


@given(many, policies)
def test_after_a_plan_was_carried_out_nothing_more_is_due(found: list[Item], policy: Policy) -> None:
    gone = {one.item.key for one in plan(found, policy, NOW).removals if one.action is Action.REMOVE}
    left = [one for one in found if one.key not in gone]
    assert [one for one in plan(left, policy, NOW).removals if one.action is Action.REMOVE] == []


@given(many, policies)
def test_the_order_of_the_items_does_not_matter(found: list[Item], policy: Policy) -> None:
    made, other = plan(found, policy, NOW), plan(reversed(found), policy, NOW)
    assert (set(made.removals), set(made.kept)) == (set(other.removals), set(other.kept))


@given(many, policies, st.integers(1, 100))
def test_what_goes_by_age_today_goes_tomorrow_too(found: list[Item], policy: Policy, days: int) -> None:
    def gone(at: datetime) -> set[tuple[Kind, str, str]]:
        return {one.item.key for one in plan(found, policy, at).removals if one.action is Action.REMOVE}

    assert gone(NOW) <= gone(NOW + days * DAY)


def test_the_oldest_beyond_a_number_go_and_protected_ones_count() -> None:
    found = [item(2, task="a"), item(3, task="b", protection="it is needed"), item(4, task="c"), item(5, task="d")]
    made = plan(found, Policy(limits={Kind.WORKTREES: Limits(count=2)}), NOW)
    assert [one.item.task for one in made.removals] == ["d", "c"]
    assert made.removals[0].rule == "more than 2 of them"
    assert plan(found, Policy(limits={Kind.WORKTREES: Limits(count=1)}), NOW).kept[0].reason == "it is needed"


def test_the_newest_within_a_number_of_bytes_stay() -> None:
    found = [item(days, size=40, task=str(days)) for days in (2, 3, 4)]
    made = plan(found, Policy(limits={Kind.WORKTREES: Limits(size=100)}), NOW)
    assert [one.item.task for one in made.removals] == ["4"]
    assert made.size == 40


def test_transcripts_are_compressed_first_and_removed_later() -> None:
    policy = Policy(limits={Kind.TRANSCRIPTS: Limits(age=90 * DAY)}, compress_after=3 * DAY)
    found = [
        Item(kind=Kind.TRANSCRIPTS, name="agents", task=task, size=9, since=NOW - days * DAY, plain_size=plain)
        for task, days, plain in (("new", 2, 9), ("plain", 4, 9), ("packed", 5, 0), ("old", 91, 9))
    ]
    made = plan(found, policy, NOW)
    assert [(one.item.task, one.action) for one in made.removals] == [
        ("old", Action.REMOVE),
        ("plain", Action.COMPRESS),
    ]


def test_ended_tasks_are_archived_after_their_time() -> None:
    policy = Policy(archive_after=30 * DAY)
    tasks = [item(days, kind=Kind.TASKS, task=str(days)) for days in (29, 31)]
    kept = item(40, kind=Kind.TASKS, task="kept", protection="2 files are not committed")
    assert tasks_to_archive([*tasks, kept], policy, NOW) == (
        Removal(item=tasks[1], rule="ended more than 30 days ago", action=Action.ARCHIVE),
    )
    assert tasks_to_archive(tasks, Policy(), NOW) == ()


def test_when_something_goes_is_foretold_by_its_age() -> None:
    policy = Policy(limits={Kind.WORKTREES: Limits(age=14 * DAY)})
    assert due_at(item(10), policy) == NOW + 4 * DAY
    assert due_at(item(10, protection="kept"), policy) is None
    assert due_at(item(10, kind=Kind.TASKS), policy) is None


def test_ages_are_told_in_days_or_hours() -> None:
    assert [age_in_words(timedelta(hours=hours)) for hours in (0, 1, 12, 24, 36, 336)] == [
        "0 days",
        "1 hour",
        "12 hours",
        "1 day",
        "1.5 days",
        "14 days",
    ]


def test_sizes_are_told_in_the_largest_unit() -> None:
    sizes = [0, 1023, 1024, 1536, 300 * 1024, 5 * 2**30]
    said = ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 KiB", "300 KiB", "5.0 GiB"]
    assert list(map(size_in_words, sizes)) == said


def test_a_very_short_age_is_said_in_words_and_not_as_a_tiny_fraction_of_an_hour() -> None:
    seconds = (0.149, 90 * 60, 1800, 86400.4, 45)
    assert [age_in_words(timedelta(seconds=one)) for one in seconds] == [
        "a moment",
        "1.5 hours",
        "30 minutes",
        "1 day",
        "a moment",
    ]
