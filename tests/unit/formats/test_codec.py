"""Values to JSON and back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.task.progress import Budget
from orchestrator.core.task.task import Priority
from orchestrator.formats.codec import Json, from_json, stamp, time_of, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A value of every supported kind."""

    at: datetime
    priority: Priority = Priority.LOW
    seconds: float = 0.0
    count: int | None = None
    names: tuple[str, ...] = ()
    budgets: Mapping[str, Budget] = field(default_factory=dict)
    ready: bool = False


TIMES = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1)).map(  # noqa: DTZ001 - made UTC next
    lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=UTC)
)
LEAVES = st.builds(
    Leaf,
    at=TIMES,
    priority=st.sampled_from(Priority),
    seconds=st.floats(allow_nan=False, allow_infinity=False),
    count=st.none() | st.integers(),
    names=st.lists(st.text()).map(tuple),
    budgets=st.dictionaries(st.text(), st.builds(Budget, limit=st.integers(), used=st.integers())),
    ready=st.booleans(),
)


@given(LEAVES)
def test_a_value_survives_the_round_trip(leaf: Leaf) -> None:
    assert from_json(Leaf, to_json(leaf)) == leaf


def test_times_are_written_in_utc_with_milliseconds() -> None:
    at = datetime(2026, 5, 28, 3, 23, 45, 1999, tzinfo=timezone(timedelta(hours=2)))
    assert stamp(at) == "2026-05-28T01:23:45.001Z"
    assert time_of("2026-05-28T03:23:45.001+02:00") == time_of("2026-05-28T01:23:45.001Z")


def test_missing_fields_take_their_defaults_and_unknown_ones_are_ignored() -> None:
    leaf = from_json(Leaf, {"at": "2026-05-28T01:23:45.000Z", "mood": "good"})
    assert (leaf.priority, leaf.names, leaf.budgets) == (Priority.LOW, (), {})


def test_a_whole_number_is_accepted_as_a_time_span() -> None:
    leaf = from_json(Leaf, {"at": "2026-05-28T01:23:45.000Z", "seconds": 3})
    assert type(leaf.seconds) is float


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("at", 5),
        ("at", "noon"),
        ("priority", "urgent"),
        ("count", "3"),
        ("names", "abc"),
        ("names", [1]),
        ("budgets", []),
        ("budgets", {"a": 1}),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_place(key: str, value: Json) -> None:
    with pytest.raises(ValueError, match=rf"`\$\.{key}"):
        from_json(Leaf, {"at": "2026-05-28T01:23:45.000Z", key: value})


def test_a_missing_required_field_is_refused() -> None:
    with pytest.raises(ValueError, match="`at`"):
        from_json(Leaf, {})


def test_a_value_of_an_unsupported_type_is_refused() -> None:
    with pytest.raises(TypeError, match="complex has no form in JSON"):
        to_json(1j)


def test_sets_are_lists() -> None:
    assert to_json(frozenset({"a"})) == ["a"]
