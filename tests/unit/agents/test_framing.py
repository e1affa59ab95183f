"""Lines, offsets and the limit on memory."""

import tracemalloc
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.agents.framing import LIMIT, Framer, Line


def test_an_incomplete_line_at_the_end_is_kept_until_it_is_complete() -> None:
    framer = Framer()
    assert framer.push(b"one\ntw") == [Line(b"one", 4)]
    assert framer.push(b"o") == []
    assert framer.push(b"\n") == [Line(b"two", 8)]


def test_offsets_count_from_where_reading_started() -> None:
    framer = Framer(start=1000)
    assert framer.push(b"one\ntwo\n") == [Line(b"one", 1004), Line(b"two", 1008)]


def test_the_offset_to_continue_from_is_after_the_last_newline() -> None:
    framer = Framer(start=10)
    framer.push(b"one\n\n\r\nhalf a line")
    assert framer.offset == 10 + len(b"one\n\n\r\n")


def test_empty_lines_yield_nothing_but_advance_the_offset() -> None:
    assert Framer().push(b"\n\none\n\n") == [Line(b"one", 6)]


def test_one_carriage_return_before_the_newline_is_dropped() -> None:
    assert Framer().push(b"one\r\ntwo\r\r\n\r\n") == [Line(b"one", 5), Line(b"two\r", 11)]


def test_only_a_newline_ends_a_line() -> None:
    body = "a\u2028b\u2029c\u0085d\x0b\x0c\x1c\re".encode()
    assert [line.body for line in Framer().push(body + b"\n")] == [body]


def test_a_line_of_exactly_the_limit_passes_and_a_longer_one_is_skipped_and_counted() -> None:
    framer = Framer(limit=4)
    assert framer.push(b"1234\n12345\nab\n") == [Line(b"1234", 5), Line(b"ab", 14)]
    assert framer.skipped == 1


def test_an_overlong_line_in_pieces_is_skipped_once_and_the_stream_continues() -> None:
    framer = Framer(limit=4)
    assert [framer.push(piece) for piece in (b"123", b"45", b"678", b"9")] == [[], [], [], []]
    assert framer.push(b"\nab\n") == [Line(b"ab", 13)]
    assert (framer.skipped, framer.offset) == (1, 13)


def test_a_line_beyond_64_mib_is_skipped_in_bounded_memory() -> None:
    framer, chunk = Framer(), b"x" * 1_048_576
    tracemalloc.start()
    try:
        for _ in range(LIMIT // len(chunk) + 16):
            assert framer.push(chunk) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [line.body for line in framer.push(b"\nnext\n")] == [b"next"]
    assert framer.skipped == 1
    assert peak < LIMIT * 1.3


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=12))
def test_chunk_boundaries_make_no_difference(stream: bytes, cuts: list[int]) -> None:
    framer, places = Framer(limit=50), [0, *sorted(cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(places)]
    whole = Framer(limit=50)
    assert [line for piece in pieces for line in framer.push(piece)] == whole.push(stream)
    assert (framer.offset, framer.skipped) == (whole.offset, whole.skipped)
    assert whole.offset == stream.rfind(b"\n") + 1
