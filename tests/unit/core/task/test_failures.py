"""The failure log: ids, sums, and recurring patterns."""

import pytest

from orchestrator.core.task.failures import KEPT, Failure, FailureLog, Pattern, pattern_of
from tests.fakes.world import START


def a_failure(summary: str, failure_id: str = "", state: str = "EVALUATION", kind: str = "test_failure") -> Failure:
    return Failure(
        id=failure_id, occurred_at=START, state=state, agent=None, step=None, attempted="a test run",
        command=None, expected="it passes", type=kind, summary=summary,
    )  # fmt: skip


def log_of(*summaries: str) -> FailureLog:
    log = FailureLog()
    for summary in summaries:
        log = log.with_failure(a_failure(summary))
    return log


@pytest.mark.parametrize(
    ("summary", "pattern"),
    [
        ("panic: nil pointer at consensus/wbft.go:123", "nil_pointer:consensus/wbft.go"),
        ("nil pointer in consensus/wbft.go:7:12 after 0.53s", "nil_pointer:consensus/wbft.go"),
        ("Panic: nil pointer 0xc000123 in consensus/wbft.go.", "nil_pointer:consensus/wbft.go"),
        ("2 tests failed, 31 passed", "tests_passed"),
        ("AssertionError: expected 'abc' but found \"abd\"", "assertionerror_expected_found"),
        ("no tests ran in 0.01s", "no_tests_ran"),
        ("2026-05-28T01:23:45Z request 3e4567ab-e89b-abcd-abef-426614174000 timed out", "request_timed_out"),
        ("since 2026-05-28 the build of commit deadbeef1 stops", "since_build_commit"),
        ("exit code 1: FAILED tests/test_a.py::test_slug - assert 1 == 2", "test_slug_assert:tests/test_a.py"),
        ("exit code 2", "exit_code"),
        ("error in a.py:3", "a.py"),
        ("", ""),
        ("1234: 0x5f", ""),
    ],
)
def test_a_pattern_is_the_text_with_all_variable_parts_masked(summary: str, pattern: str) -> None:
    assert pattern_of(summary) == pattern


def test_failures_that_differ_only_in_line_numbers_are_one_pattern_from_the_second_on() -> None:
    lines = [f"nil pointer at consensus/wbft.go:{number}" for number in (12, 900, 17)]
    assert log_of(lines[0]).patterns == ()
    ids = ("fail-001", "fail-002")
    pair = Pattern(pattern="nil_pointer:consensus/wbft.go", occurrences=2, failure_ids=ids)
    assert log_of(*lines[:2]).patterns == (pair,)
    assert log_of(*lines).patterns[0].failure_ids == (*ids, "fail-003")


def test_patterns_do_not_mix() -> None:
    log = log_of("nil pointer in a/b.go:1", "timeout waiting", "nil pointer in a/b.go:2", "timeout waiting")
    assert [(known.pattern, known.failure_ids) for known in log.patterns] == [
        ("nil_pointer:a/b.go", ("fail-001", "fail-003")),
        ("timeout_waiting", ("fail-002", "fail-004")),
    ]
    again = log.with_failure(a_failure("timeout waiting"))
    assert [known.occurrences for known in again.patterns] == [2, 3]


def test_failures_without_comparable_text_have_no_common_pattern() -> None:
    assert log_of("", "1234", "테스트 실패").patterns == ()


def test_sums_count_by_state_and_by_type() -> None:
    log = log_of("a b", "c d").with_failure(a_failure("e f", state="ANALYSIS", kind="agent_lost"))
    assert (log.total, dict(log.by_state)) == (3, {"EVALUATION": 2, "ANALYSIS": 1})
    assert dict(log.by_type) == {"test_failure": 2, "agent_lost": 1}


def test_a_given_id_is_kept() -> None:
    assert FailureLog().with_failure(a_failure("x", failure_id="fail-abc")).entries[0].id == "fail-abc"


def test_the_newest_entries_are_kept_and_ids_continue() -> None:
    log = log_of(*(f"failure {n}" for n in range(KEPT + 3)))
    assert (log.total, len(log.entries)) == (KEPT + 3, KEPT)
    assert (log.entries[0].id, log.entries[-1].id) == ("fail-004", f"fail-{KEPT + 3}")


def test_new_ids_continue_after_the_highest_existing_one() -> None:
    log = FailureLog().with_failure(a_failure("x", failure_id="fail-007"))
    assert log.with_failure(a_failure("y")).entries[-1].id == "fail-008"


def test_the_number_of_patterns_and_their_ids_is_bounded_but_counting_continues() -> None:
    log = log_of(*("nil pointer at a/b.go:1" for _ in range(KEPT + 5)))
    assert (log.patterns[0].occurrences, len(log.patterns[0].failure_ids)) == (KEPT + 5, KEPT)
    assert log.patterns[0].failure_ids[-1] == f"fail-{KEPT + 5}"
    words = [f"{chr(97 + n // 26)}{chr(97 + n % 26)} stops" for n in range(KEPT + 5)]
    assert len(log_of(*(word for word in words for _ in range(2))).patterns) == KEPT


def test_a_summary_of_any_size_is_processed_in_bounded_time() -> None:
    assert pattern_of("'" * 1_000_000 + " late words") == pattern_of("'" * 2000)
