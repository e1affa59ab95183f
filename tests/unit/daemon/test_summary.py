"""The summary of a finished task."""

from dataclasses import replace

from orchestrator.core.task.checks import NOT_EVALUATED, CheckResult, Verdict
from orchestrator.core.task.failures import Failure, FailureLog
from orchestrator.core.task.publication import Publication
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.daemon.reporting.summary import Change, blocked_summary, summary
from tests.fakes.tasks import with_results
from tests.fakes.world import START
from tests.unit.playbook import EXPLAINED, a_task, at

UNSEEN = "**No check ran: nothing shows that this change works.**"


def finished(begun: Task | None = None) -> Task:
    return at("COMPLETION", NextAction.NOTHING, begun)


def test_a_finished_task_states_what_was_done_and_where_to_look() -> None:
    assert summary(finished(), Change(size="2 files, 10 lines")) == (
        "# LOCAL-20261121_220000: Add a flag\n\n"
        "LOCAL-20261121_220000 completed after 0s: Add a flag\\\n"
        "branch: feature/LOCAL-20261121_220000 in /repo\n\n"
        "| | |\n"
        "|---|---|\n"
        "| Branch | `feature/LOCAL-20261121_220000` at `c2`, from `main` |\n"
        "| Repository | /repo |\n"
        "| Change | 2 files, 10 lines |\n"
        "| Evaluations | 1 |\n"
        "| Agents | 2 processes, 2000 tokens, 0.50 USD |\n\n"
        "## Steps\n\n"
        "- Step 1: Do it (c1)\n"
        "- Step 2: Test it (c2)\n\n"
        "## Checks\n\n"
        "| Check | Verdict | Time | Why |\n"
        "|---|---|---|---|\n"
        "| unit_test | PASS |  | exit code |\n"
        "| lint | PASS |  | exit code |\n\n"
        "- unit_test: `pytest` ()\n"
        "- lint: `ruff check` ()\n\n"
        "## What went wrong on the way\n\n"
        "Nothing.\n\n"
        "## To look at it\n\n"
        "    git -C /repo log -p bbbbbbbbbbbb..feature/LOCAL-20261121_220000\n\n"
        "Everything the agents wrote and the checks printed is in /data/tasks/LOCAL-20261121_220000.\n"
    )


def test_evaluations_are_counted_separately_in_each_round_of_review() -> None:
    task = replace(finished(), publication=Publication(round=2))
    assert "| Evaluations | 1 in round 2 of review |" in summary(task, Change(size=""))


def test_an_unchecked_change_is_marked_prominently() -> None:
    assert UNSEEN in summary(finished(replace(a_task(), evaluation=NOT_EVALUATED)), Change(size=""))
    assert UNSEEN not in summary(finished(), Change(size=""))


def test_a_change_of_the_checks_themselves_is_stated() -> None:
    note = "The branch changes `.orchestrator.toml`; the checks above are those of the base commit."
    assert note in summary(finished(), Change(size="", checks_differ=True))
    assert note not in summary(finished(), Change(size=""))


def test_failures_are_listed_with_their_output() -> None:
    task = finished()
    for number, log_file in enumerate(("logs/1-lint/out.log", None)):
        failure = Failure(
            id="", occurred_at=START, state="EVALUATION", agent=None, step=None, attempted="", command=None,
            expected="", type="t", summary=f"it\nfailed {number}", log_file=log_file,
        )  # fmt: skip
        task = replace(task, failures=task.failures.with_failure(failure))
    text = summary(task, Change(size=""))
    assert "- fail-001 in EVALUATION, t: it failed 0 (logs/1-lint/out.log)\n" in text
    assert "- fail-002 in EVALUATION, t: it failed 1\n" in text


def test_external_text_cannot_break_a_table_or_start_a_heading() -> None:
    evil = "a | b\n# c"
    results = {evil: CheckResult(verdict=Verdict.WARN, reason=evil, seconds=1.25)}
    task = with_results(finished(), results, title=evil)
    text = summary(task, Change(size=evil))
    assert "# LOCAL-20261121_220000: a | b # c\n" in text
    assert "| a \\| b # c | WARN | 1.2 s | a \\| b # c |" in text
    assert "| Change | a \\| b # c |" in text


def test_a_task_without_steps_states_that_there_were_none() -> None:
    assert "## Steps\n\nNone.\n" in summary(replace(finished(), steps=()), Change(size=""))


def test_a_task_that_waits_for_a_merge_does_not_state_how_it_ended() -> None:
    waiting = replace(finished(), status=TaskStatus.REVIEW)
    assert summary(waiting, Change(size="")).startswith("# LOCAL-20261121_220000: Add a flag\n\n| | |")


def a_halt() -> Task:
    """Return a task that was blocked after four failures, three of which were alike."""
    task = replace(finished(), status=TaskStatus.BLOCKED, block_reason="EVALUATION failed 3 times", stage="EVALUATION")
    for number in range(4):
        failure = Failure(
            id="", occurred_at=START, state="EVALUATION" if number else "PLANNING", agent="evaluator", step="lint",
            attempted="", command=None, expected="", type="check_failure" if number else "timeout",
            summary=f"unused import in a/b.py:{number} <b>" if number else "out of time",
            log_file=f"logs/{number}-lint/out.log", analysis=EXPLAINED if number == 3 else None,
        )  # fmt: skip
        task = replace(task, failures=task.failures.with_failure(failure))
    return task


def test_a_halt_states_what_failed_what_recurs_and_what_to_do_next() -> None:
    text = blocked_summary(a_halt())
    assert "# Blocked: LOCAL-20261121_220000: Add a flag" in text
    assert "- In all: 4\n- By state: EVALUATION 3, PLANNING 1\n- By type: check_failure 3, timeout 1\n" in text
    assert "## Recurring patterns\n\n- unused_import:a/b.py: 3 times" in text
    assert "fail-001" not in text
    assert "- fail-004 in EVALUATION, check_failure: unused import in a/b.py:3 &lt;b> (logs/3-lint/out.log)" in text
    assert "  - Likely cause: an index too far" in text
    assert "## What to do next\n\ntry what evaluator suggests: stop one earlier; then orchestrator retry" in text


def test_a_halt_without_failures_states_that_there_were_none() -> None:
    text = blocked_summary(replace(a_halt(), failures=FailureLog()))
    assert "- In all: 0\n- By state: none\n- By type: none\n" in text
    assert "fix what the reason says; then orchestrator retry" in text


def test_a_change_of_what_judges_the_branch_stands_first() -> None:
    text = summary(finished(), Change(size="", look_first=("conftest.py was added: why", "and 2 more")))
    assert text.index("## Look at this first\n\n- conftest.py was added: why\n- and 2 more\n\n") < text.index(
        "| Branch |"
    )
    assert "Look at this first" not in summary(finished(), Change(size=""))
