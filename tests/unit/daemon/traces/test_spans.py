"""Spans of a task, derived from its timeline."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.daemon.history.timeline import Interval, Lane, Moment, MomentKind, Timeline
from orchestrator.daemon.traces.spans import SpanRecord, spans_of, trace_id_of

BEGIN = datetime(2026, 11, 22, 22, 0, tzinfo=UTC)
FACTS = {"orchestrator.task.id": "A-1", "orchestrator.pipeline": "full"}


def at(seq: int) -> datetime:
    return BEGIN + timedelta(seconds=seq)


def interval(lane: Lane, label: str, seq: int, end: int | None, outcome: str = "") -> Interval:
    ends = None if end is None else at(end)
    return Interval(lane=lane, label=label, begin=at(seq), seq=seq, end=ends, end_seq=end, number=1, outcome=outcome)


def ended(seq: int, status: str = "completed") -> Moment:
    return Moment(kind=MomentKind.END, label=status, at=at(seq), seq=seq)


def timeline(*found: Interval | Moment) -> Timeline:
    intervals = tuple(one for one in found if isinstance(one, Interval))
    moments = tuple(one for one in found if isinstance(one, Moment))
    return Timeline(begin=at(1), end=at(99), intervals=intervals, moments=moments)


def spans(what: Timeline, after: int = 0) -> dict[str, SpanRecord]:
    return {one.name: one for one in spans_of("A-1", what, after, FACTS)}


WORK = (
    interval(Lane.STAGE, "PLANNING", 2, 9),
    interval(Lane.AGENT, "planner", 3, 9),
    interval(Lane.TURN, "planner", 4, 8, outcome="ok"),
    interval(Lane.STAGE, "BUILD", 9, 20),
    interval(Lane.CHECK, "unit_test", 10, 12, outcome="FAIL"),
    interval(Lane.REQUEST, "question: which password?", 13, 15, outcome="answered"),
)


def test_what_happened_within_something_is_its_child() -> None:
    found = spans(timeline(*WORK, ended(20)))
    root = found["task full"]
    assert (root.parent_id, root.begin, root.end) == (None, at(1), at(20))
    assert found["stage PLANNING"].parent_id == found["stage BUILD"].parent_id == root.span_id
    assert found["agent planner"].parent_id == found["stage PLANNING"].span_id
    assert found["invoke_agent planner"].parent_id == found["agent planner"].span_id
    assert found["check unit_test"].parent_id == found["stage BUILD"].span_id
    assert [name for name, one in found.items() if one.is_error] == ["check unit_test"]
    assert {one.trace_id for one in found.values()} == {trace_id_of("A-1")}


def test_what_a_person_was_asked_stays_on_the_machine() -> None:
    found = spans(timeline(*WORK, ended(20)))["wait question"]
    assert "password" not in str(found)


def test_what_goes_on_is_not_told_and_its_children_name_it_already() -> None:
    going_on = timeline(interval(Lane.STAGE, "BUILD", 2, None), interval(Lane.CHECK, "lint", 3, 4))
    done = timeline(interval(Lane.STAGE, "BUILD", 2, 9), interval(Lane.CHECK, "lint", 3, 4), ended(9))
    early = spans(going_on)
    assert list(early) == ["check lint"]
    assert early["check lint"].parent_id == spans(done)["stage BUILD"].span_id


def test_a_retry_after_the_end_is_another_span_in_the_same_trace() -> None:
    found = spans_of("A-1", timeline(*WORK, ended(20, "failed"), interval(Lane.STAGE, "BUILD", 25, 30)), 0, FACTS)
    again = timeline(
        *WORK, ended(20, "failed"), interval(Lane.STAGE, "BUILD", 25, 30), ended(30), ended(31, "archived")
    )
    later = spans_of("A-1", again, 20, FACTS)
    roots = [one for one in (*found, *later) if one.parent_id is None]
    assert [(one.begin, one.end, one.is_error) for one in roots] == [(at(1), at(20), True), (at(25), at(30), False)]
    assert len({one.span_id for one in roots}) == 2
    assert [one.parent_id for one in later if one.name == "stage BUILD"] == [roots[1].span_id]


@given(cuts=st.lists(st.integers(0, 25), max_size=6))
def test_spans_are_told_once_each_however_often_one_is_interrupted(cuts: list[int]) -> None:
    whole = timeline(*WORK, ended(20))
    told: list[SpanRecord] = []
    after = 0
    for cut in (*sorted(cuts), 99):
        new = [one for one in spans_of("A-1", whole, after, FACTS) if one.end_seq <= cut]
        after = max([after, *(one.end_seq for one in new)])
        told += new
    assert sorted(one.span_id for one in told) == sorted(one.span_id for one in spans_of("A-1", whole, 0, FACTS))
    assert len({one.span_id for one in told}) == len(told)
