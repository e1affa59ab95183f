"""test-report.md: the outcome of an evaluation, from its results alone."""

from collections.abc import Iterable
from datetime import datetime

from orchestrator.core.task.checks import Check, CheckResult, Verdict, nothing_ran
from orchestrator.core.task.failures import Failure
from orchestrator.core.task.task import Task
from orchestrator.formats.codec import stamp
from orchestrator.redaction.display import as_code, inert


def is_evaluated(task: Task) -> bool:
    """Return whether every check of the newest evaluation has its result."""
    return bool(task.evaluation.results) and task.evaluation.next_check is None


def test_report(task: Task, at: datetime, changed: Iterable[str]) -> str:
    """Return the Markdown of the newest evaluation.

    `at` is when it was concluded; `changed` says what the branch changes of that which judges it.
    """
    return "\n\n".join((*_header(task, at), *look_first(changed), *_sections(task), *_analysis(task))) + "\n"


def look_first(changed: Iterable[str]) -> Iterable[str]:
    """Return the section on what a branch changes of that which judges it, nothing if there is none."""
    rows = [f"- {inert(one)}" for one in changed]
    return ["## Look at this first\n\n" + "\n".join(rows)] if rows else []


def overall(task: Task) -> Verdict:
    """Return FAIL if any check failed, SKIPPED if none ran, else WARN if any warned, else PASS."""
    verdicts = {result.verdict for result in task.evaluation.results.values()}
    if Verdict.FAIL in verdicts:
        return Verdict.FAIL
    if nothing_ran(task.evaluation.checks, task.evaluation.results):
        return Verdict.SKIPPED
    return Verdict.WARN if Verdict.WARN in verdicts else Verdict.PASS


def failures_of_evaluation(task: Task) -> tuple[Failure, ...]:
    """Return the recorded failures of the newest evaluation's checks, matched by their output."""
    failed = {(name, result.log) for name, result in task.evaluation.results.items() if result.verdict is Verdict.FAIL}
    return tuple(entry for entry in task.failures.entries if (entry.step, entry.log_file) in failed)


def _header(task: Task, at: datetime) -> Iterable[str]:
    yield f"# Test report: {inert(task.title)}"
    yield f"Generated: {stamp(at)}\\\nBranch: {as_code(task.source.branch)}\\\nHEAD: {as_code(task.source.commit)}"
    rows = [
        f"| {_cell(name)} | {result.verdict} | {'' if result.seconds is None else f'{result.seconds:.1f} s'} |"
        for name, result in task.evaluation.results.items()
    ]
    seconds = sum(result.seconds or 0.0 for result in task.evaluation.results.values())
    rows.append(f"| **Overall** | **{overall(task)}** | {seconds:.1f} s |")
    yield "\n".join(("## Summary", "", "| Stage | Status | Duration |", "|---|---|---|", *rows))
    if nothing_ran(task.evaluation.checks, task.evaluation.results):
        yield "**No check ran: nothing shows that this change works.**"


def _sections(task: Task) -> Iterable[str]:
    known = {check.name: check for check in task.evaluation.checks}
    for name, result in task.evaluation.results.items():
        yield _section(name, result, known.get(name.partition(" ")[0]))


def _section(name: str, result: CheckResult, check: Check | None) -> str:
    rows = [f"- Status: {result.verdict}", f"- Reason: {inert(result.reason)}"]
    if check is not None and check.command:
        rows.append(f"- Command: {as_code(check.command)}")
    if check is not None:
        kind = "required" if check.required else "not required, so a failure warns"
        rows.append(f"- From: {inert(check.source)} ({kind})")
    if result.exit_code is not None:
        rows.append(f"- Exit code: {result.exit_code}")
    if result.log is not None:
        rows.append(f"- Log: {as_code(result.log)}")
    return "\n".join((f"## {inert(name)}", "", *rows))


def _analysis(task: Task) -> Iterable[str]:
    """Return the recorded analysis of this evaluation's failures, which follows the checks."""
    if overall(task) is not Verdict.FAIL:
        return
    yield "## Failure Analysis"
    failed = [name for name, result in task.evaluation.results.items() if result.verdict is Verdict.FAIL]
    entries = failures_of_evaluation(task)
    yield "\n".join(map(_entry, entries)) if entries else "Not analysed yet: " + ", ".join(failed) + "."


def _entry(entry: Failure) -> str:
    line = f"- {inert(entry.step or entry.state)} ({entry.id}): {inert(entry.summary)}"
    if entry.analysis is None:
        return line
    return (
        f"{line}\n  - Likely cause ({entry.analysis.confidence}): {inert(entry.analysis.root_cause_hypothesis)}"
        f"\n  - Suggested: {inert(entry.analysis.suggested_fix)}"
    )


def _cell(text: str) -> str:
    return inert(text).replace("|", "\\|")
