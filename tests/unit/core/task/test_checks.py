"""Which checks the result of another one skips, and when a check is tried twice."""

from dataclasses import replace

import pytest

from orchestrator.core.task.checks import (
    Check,
    CheckKind,
    CheckResult,
    Evaluation,
    ResultSource,
    Verdict,
    first_try,
    nothing_ran,
    with_result,
)
from orchestrator.core.task.task import NextAction
from tests.unit.playbook import Playbook, a_task, at, judged

PASS = CheckResult(verdict=Verdict.PASS, reason="exit code 0")
WARN = CheckResult(verdict=Verdict.WARN, reason="exit code 1")
FAIL = CheckResult(verdict=Verdict.FAIL, reason="exit code 1")
SKIPPED = CheckResult(verdict=Verdict.SKIPPED, reason="exit code 1: no such tool")
BUILD = Check(name="build", command="make", kind=CheckKind.BUILD)
UNIT = Check(name="unit_test", command="make test", kind=CheckKind.UNIT_TEST)
PROBE = Check(name="integration_probe", command="health", kind=CheckKind.PROBE)
CHAIN = Check(name="integration", command="run", kind=CheckKind.INTEGRATION, needs="integration_probe")
ALL = (BUILD, UNIT, PROBE, CHAIN)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("build", "build_error"),
        ("unit_test_go", "test_failure"),
        ("security", "security_fail"),
        ("format", "format_failure"),
        ("coverage", "coverage_failure"),
        ("my_own", "check_failure"),
    ],
)
def test_a_failed_check_is_recorded_under_the_name_of_its_kind(name: str, kind: str) -> None:
    assert CheckKind.of(name).failure == kind


def test_a_failed_build_skips_every_other_check_with_a_reason() -> None:
    results = with_result(ALL, {}, "build", FAIL)
    assert results["build"] == FAIL
    reasons = {(name, one.verdict, one.reason) for name, one in results.items() if name != "build"}
    told = "the build failed (build)"
    assert reasons == {(name, Verdict.SKIPPED, told) for name in ("unit_test", "integration_probe", "integration")}


def test_no_other_failure_skips_a_check() -> None:
    assert with_result(ALL, {"build": PASS}, "unit_test", FAIL) == {"build": PASS, "unit_test": FAIL}
    assert with_result(ALL, {}, "build", WARN) == {"build": WARN}


def test_an_unsuccessful_probe_skips_the_checks_that_need_it() -> None:
    results = with_result(ALL, {}, "integration_probe", SKIPPED)
    assert results["integration"].verdict is Verdict.SKIPPED
    assert results["integration"].reason == "integration_probe: exit code 1: no such tool"
    assert set(with_result(ALL, {}, "integration_probe", PASS)) == {"integration_probe"}


def test_a_failed_check_that_may_be_retried_is_and_the_first_try_stays_recorded() -> None:
    flaky = Check(name="unit_test", command="x", tries=2)
    once = with_result((flaky,), {}, "unit_test", FAIL)
    assert once == {
        first_try("unit_test"): CheckResult(verdict=Verdict.WARN, reason="it failed and was run once more: exit code 1")
    }
    assert with_result((flaky,), once, "unit_test", PASS)["unit_test"] == PASS
    assert with_result((flaky,), once, "unit_test", FAIL)["unit_test"] == FAIL
    assert with_result((flaky,), {}, "unit_test", PASS) == {"unit_test": PASS}


def test_the_second_try_has_its_own_folder_and_decides() -> None:
    flaky = Check(name="unit_test", command="pytest", tries=2)
    task = at("EVALUATION", NextAction.CHECKS, replace(a_task(), evaluation=Evaluation(checks=(flaky,))))
    play = Playbook(task) >> judged(Verdict.FAIL) << f"check unit_test in logs/1-unit_test-{task.seq}"
    assert play >> judged(Verdict.PASS) << "deliver c2"
    assert set(play.task.evaluation.results) == {"unit_test", first_try("unit_test")}


def test_a_failed_build_is_passed_to_its_evaluator_at_once() -> None:
    task = at("EVALUATION", NextAction.CHECKS, replace(a_task(), evaluation=Evaluation(checks=(BUILD, UNIT))))
    assert Playbook(task) >> judged(Verdict.FAIL) << "start evaluator 3"


def test_a_task_with_only_built_in_checks_reports_that_nothing_was_tested() -> None:
    look = Check(name="security", command="", kind=CheckKind.SECURITY)
    task = at("EVALUATION", NextAction.CHECKS, replace(a_task(), evaluation=Evaluation(checks=(look,))))
    play = Playbook(task) >> judged(Verdict.PASS) << "deliver c2"
    assert {name: one.verdict for name, one in play.task.evaluation.results.items()} == {
        "security": Verdict.PASS,
        "unit_test": Verdict.SKIPPED,
    }


def test_only_commands_count_as_testing_the_change() -> None:
    look = Check(name="security", command="", kind=CheckKind.SECURITY)
    assert nothing_ran((look,), {"security": PASS, "unit_test": SKIPPED})
    assert nothing_ran((PROBE, CHAIN), {"integration_probe": PASS, "integration": SKIPPED})
    assert not nothing_ran((look, UNIT), {"security": PASS, "unit_test": FAIL})


@pytest.mark.parametrize(
    ("name", "kind"),
    [("lint", CheckKind.LINT), ("lint_go", CheckKind.LINT), ("linter", CheckKind.OTHER), ("x", CheckKind.OTHER)],
)
def test_a_name_determines_the_kind(name: str, kind: CheckKind) -> None:
    assert CheckKind.of(name) is kind


@pytest.mark.parametrize(
    ("reading", "of_tests", "by_daemon"),
    [(ResultSource.LCOV, True, True), (ResultSource.CHANGE, False, True), (ResultSource.RUFF, False, False)],
)
def test_a_result_source_states_whether_it_is_of_tests_and_made_by_the_daemon(
    reading: ResultSource, of_tests: bool, by_daemon: bool
) -> None:
    assert (reading.of_tests, reading.by_daemon) == (of_tests, by_daemon)
