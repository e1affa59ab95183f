"""What a finished task says of itself."""

from dataclasses import replace

from orchestrator.core.failures import Failure
from orchestrator.core.model import CheckResult, Owed, Task, Verdict
from orchestrator.core.summary import summary
from tests.fakes.world import START
from tests.unit.playbook import a_task, at

UNSEEN = "**No check ran: nobody has seen this change work.**"


def finished(begun: Task | None = None) -> Task:
    return at("COMPLETION", Owed.NOTHING, begun)


def test_a_finished_task_says_what_was_done_and_where_to_look() -> None:
    assert summary(finished(), "2 files, 10 lines", checks_differ=False) == (
        "# LOCAL-20261121_220000: Add a flag\n\n"
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


def test_a_change_that_no_check_saw_says_so_loudly() -> None:
    assert UNSEEN in summary(finished(replace(a_task(), checks=())), "", checks_differ=False)
    assert UNSEEN not in summary(finished(), "", checks_differ=False)


def test_a_change_of_the_checks_themselves_is_said() -> None:
    note = "The branch changes `.orchestrator.toml`; the checks above are those of the base commit."
    assert note in summary(finished(), "", checks_differ=True)
    assert note not in summary(finished(), "", checks_differ=False)


def test_what_went_wrong_is_listed_with_its_output() -> None:
    task = finished()
    for number, log_file in enumerate(("logs/1-lint/out.log", None)):
        failure = Failure(
            id="", occurred_at=START, state="EVALUATION", agent=None, step=None, attempted="", command=None,
            expected="", type="t", summary=f"it\nfailed {number}", log_file=log_file,
        )  # fmt: skip
        task = replace(task, failures=task.failures.with_failure(failure))
    text = summary(task, "", checks_differ=False)
    assert (
        "- fail-001 in EVALUATION: it failed 0 (logs/1-lint/out.log)\n- fail-002 in EVALUATION: it failed 1\n" in text
    )


def test_foreign_text_cannot_break_a_table_or_begin_a_heading() -> None:
    evil = "a | b\n# c"
    task = replace(finished(), title=evil, results={evil: CheckResult(verdict=Verdict.WARN, reason=evil, seconds=1.25)})
    text = summary(task, evil, checks_differ=False)
    assert "# LOCAL-20261121_220000: a | b # c\n" in text
    assert "| a \\| b # c | WARN | 1.2 s | a \\| b # c |" in text
    assert "| Change | a \\| b # c |" in text


def test_a_task_without_steps_says_that_there_were_none() -> None:
    assert "## Steps\n\nNone.\n" in summary(replace(finished(), steps=()), "", checks_differ=False)
