"""The drawing of a timeline: well-formed, with every text escaped, of bounded size, each bar a link to its line."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from xml.etree.ElementTree import Element

from defusedxml.ElementTree import fromstring

from orchestrator.daemon.history.timeline import Interval, Lane, Moment, MomentKind, Timeline
from orchestrator.server.web.drawing.timeline import LARGEST, draw_timeline, span_text

START = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
TASK = "/tasks/LOCAL-1"


def minutes(count: float) -> datetime:
    """A time after the start."""
    return START + timedelta(minutes=count)


def interval(lane: Lane, label: str, begin: float, end: float | None, **more: object) -> Interval:
    """Something that lasted from one minute to another; its decisions have the numbers of the minutes."""
    until = None if end is None else minutes(end)
    made = Interval(lane=lane, label=label, begin=minutes(begin), end=until, seq=int(begin))
    return replace(made, **more)  # type: ignore[arg-type]  # any field


def timeline(*intervals: Interval, moments: tuple[Moment, ...] = ()) -> Timeline:
    """An hour of these."""
    return Timeline(begin=START, end=minutes(60), intervals=intervals, moments=moments)


def drawn(found: Timeline) -> Element:
    """The drawing, parsed as XML."""
    root: Element = fromstring(draw_timeline(found, TASK, str))
    return root


def bars(root: Element) -> Iterator[tuple[str, str, Element]]:
    """The address, the title and the rectangle of every bar."""
    for link in root.iter("a"):
        rect = link.find("rect")
        if rect is not None:
            yield str(link.get("href")), str(link.findtext("title")), rect


def test_every_bar_leads_to_the_line_with_which_it_began() -> None:
    root = drawn(timeline(interval(Lane.STAGE, "PLANNING", 0, 20), interval(Lane.STAGE, "DESIGN", 20, None)))
    assert [address for address, _, _ in bars(root)] == [
        "/tasks/LOCAL-1/journal?seq=0#seq-0",
        "/tasks/LOCAL-1/journal?seq=20#seq-20",
    ]


def test_a_title_says_what_it_was_how_long_and_when_in_utc() -> None:
    turn = interval(Lane.TURN, "planner", 0, 20, number=2, outcome="ok", tokens=1500, usd=0.25)
    ((_, title, _),) = bars(drawn(timeline(turn)))
    assert title == "turn: planner 2 · ok · 1,500 tokens, $0.25 · 20 min 0 s · 11-21 22:00:00 – 11-21 22:20:00 UTC"


def test_a_bar_is_as_long_as_what_it_shows_and_stays_within_the_drawing() -> None:
    root = drawn(timeline(interval(Lane.STAGE, "PLANNING", 15, 30), interval(Lane.PAUSE, "user", 30, None)))
    stage, pause = [rect for _, _, rect in bars(root)]
    assert (stage.get("x"), stage.get("width")) == ("317.0", "225.0")
    assert (pause.get("x"), pause.get("width")) == ("542.0", "450.0")
    assert "open" in str(pause.get("class")).split()


def test_what_lies_outside_the_stretch_is_cut_off() -> None:
    found = replace(timeline(interval(Lane.STAGE, "PLANNING", -60, 120)), begin=START, end=minutes(60))
    ((_, _, rect),) = bars(drawn(found))
    assert (rect.get("x"), rect.get("width")) == ("92.0", "900.0")


def test_overlapping_requests_get_rows_of_their_own() -> None:
    found = timeline(*(interval(Lane.REQUEST, f"question: {number}?", number, 50) for number in range(3)))
    assert len({rect.get("y") for _, _, rect in bars(drawn(found))}) == 3


def test_neighbours_too_narrow_to_be_told_apart_are_drawn_as_one_that_counts_them() -> None:
    turns = [interval(Lane.TURN, "planner", one / 100, one / 100 + 0.005, number=one) for one in range(5)]
    ((_, title, rect),) = bars(drawn(timeline(*turns)))
    assert title.startswith("turn (5) · ")
    assert rect.get("width") == "1.0"


def test_a_hostile_label_is_text_and_nothing_else() -> None:
    hostile = "</title></a></svg><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\x00\x0b\ud800"
    found = timeline(
        interval(Lane.STAGE, hostile, 0, 60),
        interval(Lane.CHECK, hostile, 0, 60, outcome=hostile),
        moments=(Moment(kind=MomentKind.TROUBLE, label=hostile, at=minutes(5), seq=5),),
    )
    root = fromstring(draw_timeline(found, '/tasks/"><script>', str))
    names = {element.tag for element in root.iter()}
    assert names <= {"svg", "a", "title", "rect", "path", "circle", "text"}
    assert not [name for element in root.iter() for name in element.attrib if name.startswith("on")]
    assert {str(rect.get("class")) for _, _, rect in bars(root)} == {"bar stage", "bar check"}


def test_ten_thousand_intervals_stay_below_the_bound_and_none_is_lost() -> None:
    lanes = (Lane.TURN, Lane.CHECK, Lane.PAUSE, Lane.FREEZE, Lane.REQUEST)
    whole = 60 / 2000
    found = timeline(
        *(
            interval(lane, f"{lane} {number}", number * whole, number * whole + whole / 2, seq=number)
            for number in range(2000)
            for lane in lanes
        ),
        moments=tuple(
            Moment(kind=MomentKind.RESTART, label="DaemonStarted", at=minutes(one * whole), seq=one)
            for one in range(2000)
        ),
    )
    text = draw_timeline(found, TASK, str)
    assert len(text.encode()) <= LARGEST
    counts = [re.search(r"^\w+ \((\d+)\)", title) for _, title, _ in bars(fromstring(text))]
    assert sum(int(count[1]) if count else 1 for count in counts) == 10_000


def test_an_empty_timeline_and_one_without_length_can_be_drawn() -> None:
    assert list(bars(drawn(Timeline(begin=START, end=START)))) == []
    at_once = Timeline(begin=START, end=START, intervals=(interval(Lane.STAGE, "INTAKE", 0, 0),))
    assert len(list(bars(drawn(at_once)))) == 1


def test_an_interval_that_ends_before_it_begins_has_no_negative_width() -> None:
    ((_, _, rect),) = bars(drawn(timeline(interval(Lane.STAGE, "INTAKE", 30, 10))))
    assert float(str(rect.get("width"))) > 0


def test_the_axis_has_few_marks_whatever_the_stretch() -> None:
    for days in (0.00001, 0.01, 1, 30, 4000):
        found = Timeline(begin=START, end=START + timedelta(days=days))
        ticks = [path for path in drawn(found).iter("path") if path.get("class") == "tick"]
        assert len(ticks) <= 12


def test_spans_are_told_in_their_two_largest_units() -> None:
    spans = [timedelta(seconds=one) for one in (0.04, 59.5, 61, 3720, 90_000, -5)]
    assert [span_text(span) for span in spans] == ["0.0 s", "59.5 s", "1 min 1 s", "1 h 2 min", "1 d 1 h", "0.0 s"]
