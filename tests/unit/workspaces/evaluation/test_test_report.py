"""test-report.md, rendered from the results of a task."""

from dataclasses import replace

from orchestrator.core.task.checks import Check, CheckResult, Verdict
from orchestrator.core.task.failures import Analysis, Failure, FailureLog
from orchestrator.core.task.task import Task
from orchestrator.workspaces.evaluation import test_report
from tests.fakes.tasks import submitted
from tests.fakes.world import START

UNIT = Check(name="unit_test", command="pytest -q", source="detected: python")
LINT = Check(name="lint", command="ruff check .", source="submitter", required=False)
PASSED = CheckResult(verdict=Verdict.PASS, reason="exit code 0", exit_code=0, seconds=1.25, log="logs/1-unit_test/x")
WARNED = CheckResult(verdict=Verdict.WARN, reason="exit code 1", exit_code=1, seconds=0.5, log="logs/1-lint/x")
FAILED = replace(PASSED, verdict=Verdict.FAIL, reason="exit code 1: FAILED test_a.py::test_it", exit_code=1)


def evaluated(**results: CheckResult) -> Task:
    return submitted(checks=(UNIT, LINT), results=results, head="c" * 40)


def test_it_has_the_header_the_summary_and_a_section_for_each_check() -> None:
    told = test_report.test_report(evaluated(unit_test=PASSED, lint=WARNED), START, ())
    assert told == (
        "# Test report: Add a flag\n\n"
        "Generated: 2026-11-21T22:00:00.000Z\\\nBranch: `feature/LOCAL-20261121_220000`\\\n"
        "HEAD: `cccccccccccccccccccccccccccccccccccccccc`\n\n"
        "## Summary\n\n| Stage | Status | Duration |\n|---|---|---|\n"
        "| unit_test | PASS | 1.2 s |\n| lint | WARN | 0.5 s |\n| **Overall** | **WARN** | 1.8 s |\n\n"
        "## unit_test\n\n- Status: PASS\n- Reason: exit code 0\n- Command: `pytest -q`\n"
        "- From: detected: python (required)\n- Exit code: 0\n- Log: `logs/1-unit_test/x`\n\n"
        "## lint\n\n- Status: WARN\n- Reason: exit code 1\n- Command: `ruff check .`\n"
        "- From: submitter (not required, so a failure warns)\n- Exit code: 1\n- Log: `logs/1-lint/x`\n"
    )


def test_a_failure_has_its_analysis_once_there_is_one() -> None:
    task = evaluated(unit_test=FAILED, lint=WARNED)
    assert "Not analysed yet: unit_test." in test_report.test_report(task, START, ())
    why = Analysis(root_cause_hypothesis="an index <b>too</b> far", confidence="high", suggested_fix="stop earlier")
    entry = Failure(
        id="", occurred_at=START, state="EVALUATION", agent="evaluator", step="unit_test", attempted="", command=None,
        expected="", type="test_failure", summary=FAILED.reason, log_file=FAILED.log, analysis=why,
    )  # fmt: skip
    older = replace(entry, log_file="logs/0-unit_test/x", summary="long ago")
    task = replace(task, failures=FailureLog().with_failure(older).with_failure(entry))
    told = test_report.test_report(task, START, ())
    assert "## Failure Analysis\n\n- unit_test (fail-002): exit code 1: FAILED test_a.py::test_it\n" in told
    assert "  - Likely cause (high): an index &lt;b>too&lt;/b> far\n  - Suggested: stop earlier\n" in told
    assert "long ago" not in told


def test_the_overall_verdict_is_the_worst_one_and_skipped_if_nothing_ran() -> None:
    skipped = CheckResult(verdict=Verdict.SKIPPED, reason="no tool")
    assert test_report.overall(evaluated(unit_test=PASSED)) is Verdict.PASS
    assert test_report.overall(evaluated(unit_test=PASSED, lint=skipped)) is Verdict.PASS
    assert test_report.overall(evaluated(unit_test=FAILED, lint=WARNED)) is Verdict.FAIL
    nothing = evaluated(unit_test=skipped)
    assert test_report.overall(nothing) is Verdict.SKIPPED
    assert "**No check ran: nothing shows that this change works.**" in test_report.test_report(nothing, START, ())


def test_the_output_of_a_check_cannot_imitate_a_part_of_the_report() -> None:
    hostile = replace(FAILED, reason="exit code 1: | <!-- `x` \x1b[2J\n# PASS")
    told = test_report.test_report(evaluated(unit_test=hostile), START, ())
    assert "- Reason: exit code 1: | &lt;!-- 'x' \\x1b[2J # PASS\n" in told


def test_an_evaluation_is_complete_when_every_check_has_its_result() -> None:
    assert not test_report.is_evaluated(evaluated())
    assert not test_report.is_evaluated(evaluated(unit_test=PASSED))
    assert test_report.is_evaluated(evaluated(unit_test=PASSED, lint=WARNED))


def test_a_result_of_an_unknown_check_is_shown_without_a_command_and_a_failure_without_its_cause() -> None:
    looked_into = Failure(
        id="f-1", occurred_at=START, state="EVALUATION", agent=None, step="unit_test", attempted="evaluation 1 of c",
        command=None, expected="it passes", type="test_failure", summary="exit code 1", log_file=FAILED.log,
    )  # fmt: skip
    skipped = CheckResult(verdict=Verdict.SKIPPED, reason="nothing to run")
    task = replace(evaluated(unit_test=FAILED, extra=skipped), failures=FailureLog().with_failure(looked_into))
    told = test_report.test_report(
        replace(task, evaluation=replace(task.evaluation, checks=(replace(UNIT, command=""),))), START, ()
    )
    assert "## extra\n\n- Status: SKIPPED\n- Reason: nothing to run\n" in told
    assert "- Command:" not in told
    assert told.endswith("## Failure Analysis\n\n- unit_test (f-1): exit code 1\n")


def test_a_change_of_what_judges_the_branch_stands_before_the_checks() -> None:
    told = test_report.test_report(evaluated(unit_test=PASSED), START, ["Makefile was changed: it `says`\n# how"])
    assert "\n\n## Look at this first\n\n- Makefile was changed: it 'says' # how\n\n## unit_test\n" in told
