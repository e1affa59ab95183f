"""Each guard: what it accepts, each way in which it stays closed, and its message."""

from dataclasses import replace

import pytest

from orchestrator.core.guards.budgets import BudgetLeft, BudgetWithin
from orchestrator.core.guards.files import (
    FileExists,
    FileMinChars,
    FileSays,
    FilesMinChars,
    GlobCount,
    HeadingCount,
    JsonNonempty,
    NoPlaceholders,
)
from orchestrator.core.guards.results import (
    ChecksAcceptable,
    CommitCount,
    StepsCommitted,
    StepsCompleted,
    TreeClean,
)
from orchestrator.core.guards.ticket import TicketFiltered
from orchestrator.core.task.checks import CheckResult, Verdict
from orchestrator.core.task.guards import Evidence, FileFacts, Guard, missing, missing_of_step
from orchestrator.core.task.progress import Budget, Step, StepStatus
from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy, TaskPolicy
from orchestrator.core.task.ticket import SensitiveCheck
from tests.fakes.tasks import with_results
from tests.unit.playbook import a_task

NOTES = FileExists(file="notes.md")
LONG = FileMinChars(file="analysis.md", more_than=200)
STEPS = HeadingCount(file="plan.md", prefix="## Step", at_least=2)
CODE = JsonNonempty(file="code.json", any_of=("pack", "impacts"))
ENDED = FileSays(file="end.txt", text="=== PHASE 1 COMPLETE ===")
LONG_DOCUMENTS = FilesMinChars(pattern="docs/*.md", more_than=500)
FINISHED = NoPlaceholders(pattern="docs/*.md", words=("TODO", "TBD"))
OF_TICKET = FileExists(file="works/{ticket}/PLAN.md")
ONE, NONE, SOME = CommitCount(at_least=1, at_most=1), CommitCount(at_most=0), CommitCount(at_least=2)
UNDO = f"; bring them together: git reset --soft {a_task().source.commit}"
DESIGNS = GlobCount(pattern="design-v*.md", at_least=2)


def seen(name: str, chars: int = 1, headings: tuple[str, ...] = (), filled: tuple[str, ...] | None = None) -> Evidence:
    return Evidence(files={name: FileFacts(chars=chars, headings=headings, json_filled=filled)})


@pytest.mark.parametrize(
    ("guard", "evidence", "lacking"),
    [
        (NOTES, seen("notes.md", chars=0), None),
        (NOTES, Evidence(), "notes.md not found"),
        (LONG, seen("analysis.md", chars=201), None),
        (LONG, seen("analysis.md", chars=200), "analysis.md has 200 characters, more than 200 needed"),
        (LONG, Evidence(), "analysis.md not found"),
        (STEPS, seen("plan.md", headings=("# Plan", "## Step 1", "## Step 2")), None),
        (STEPS, seen("plan.md", headings=("## Step 1", "### Step 2")), "plan.md has 1 of 2 lines beginning '## Step'"),
        (CODE, seen("code.json", filled=("other", "impacts")), None),
        (CODE, seen("code.json", filled=("other",)), "code.json is empty: fill at least one of pack, impacts"),
        (CODE, seen("code.json", filled=None), "code.json is not a JSON object"),
        (DESIGNS, Evidence(files={f"design-v{n}.md": FileFacts(chars=1) for n in (1, 2)}), None),
        (DESIGNS, seen("design-v1.md"), "design-v*.md: 1 of 2 files found"),
        (DESIGNS, seen("old-design-v1.md"), "design-v*.md: 0 of 2 files found"),
        (ENDED, Evidence(files={"end.txt": FileFacts(chars=9, found=(ENDED.text,))}), None),
        (ENDED, seen("end.txt"), "end.txt does not say '=== PHASE 1 COMPLETE ==='"),
        (LONG_DOCUMENTS, seen("docs/idea.md", chars=501), None),
        (LONG_DOCUMENTS, seen("docs/idea.md", chars=500), "docs/idea.md has 500 characters, more than 500 needed"),
        (FINISHED, seen("docs/idea.md"), None),
        (
            FINISHED,
            Evidence(files={"docs/idea.md": FileFacts(chars=9, found=("TBD", "TODO"))}),
            "docs/idea.md still says TODO, TBD",
        ),
        (FINISHED, Evidence(files={"notes.md": FileFacts(chars=9, found=("TBD",))}), None),
        (OF_TICKET, seen(f"works/{a_task().ticket.key}/PLAN.md"), None),
        (OF_TICKET, Evidence(), f"works/{a_task().ticket.key}/PLAN.md not found"),
        (ONE, Evidence(commits=("c1",)), None),
        (ONE, Evidence(), "the stage made no commits; exactly 1 commit"),
        (ONE, Evidence(commits=("c1", "c2")), f"the stage made 2 commits; exactly 1 commit{UNDO}"),
        (NONE, Evidence(commits=("c1",)), f"the stage made 1 commit; exactly no commits{UNDO}"),
        (SOME, Evidence(commits=("c1",)), "the stage made 1 commit; at least 2 commits"),
        (TreeClean(), Evidence(), None),
        (TreeClean(), Evidence(dirty=("a.py", "b.py")), "uncommitted changes: a.py, b.py"),
    ],
)
def test_a_guard_on_collected_evidence(guard: Guard, evidence: Evidence, lacking: str | None) -> None:
    assert missing((guard,), a_task(), evidence) == ((lacking,) if lacking else ())


def ticket(result: str | None, source: str = "local") -> Task:
    check = SensitiveCheck(result=result) if result else None
    return replace(a_task(), ticket=replace(a_task().ticket, source=source, sensitive_check=check))


def spent(used: int) -> Task:
    return replace(a_task(), budgets={"tries": Budget(limit=2, used=used)})


def judged(**verdicts: Verdict) -> Task:
    results = {name: CheckResult(verdict=verdict, reason="as it is") for name, verdict in verdicts.items()}
    return with_results(a_task(), results)


def planned(*commits: tuple[str, ...], status: StepStatus = StepStatus.COMPLETED) -> Task:
    steps = (Step(step_id=n, description="d", status=status, commits=made) for n, made in enumerate(commits, 1))
    return replace(a_task(), steps=tuple(steps))


FILTERED, CHECKS = TicketFiltered(), ChecksAcceptable()
SKIPPING = ChecksAcceptable(accept=("PASS", "WARN", "SKIPPED"))
ATTENDED = TaskPolicy(autonomy=Autonomy.INTERACTIVE)
LEFT, WITHIN = BudgetLeft(name="tries"), BudgetWithin(name="tries")
DONE, COMMITTED = StepsCompleted(), StepsCommitted()


@pytest.mark.parametrize(
    ("guard", "task", "lacking"),
    [
        (FILTERED, ticket("CLEAN"), ()),
        (FILTERED, ticket("REDACTED"), ()),
        (FILTERED, ticket("LOCAL_BYPASS"), ()),
        (
            FILTERED,
            ticket("LOCAL_BYPASS", "jira"),
            ("the check of the ticket for secrets says LOCAL_BYPASS, which is accepted for local tickets only",),
        ),
        (FILTERED, ticket("BLOCKED"), ("the check of the ticket for secrets says BLOCKED",)),
        (FILTERED, ticket(None), ("the ticket was not checked for secrets",)),
        (LEFT, spent(1), ()),
        (LEFT, spent(2), ("the budget tries is used up (2 of 2)",)),
        (LEFT, a_task(), ("the task has no budget tries",)),
        (WITHIN, spent(2), ()),
        (WITHIN, spent(3), ()),
        (WITHIN, replace(spent(3), policy=ATTENDED), ("the budget tries is used up (3 of 2)",)),
        (DONE, planned(("c1",), ("c2",)), ()),
        (DONE, planned(), ("the plan has no steps",)),
        (DONE, planned(("c1",), (), status=StepStatus.FAILED), ("step 1 is not completed", "step 2 is not completed")),
        (COMMITTED, planned(("c1",), ("c2",)), ()),
        (COMMITTED, planned(("c1",), ()), ("step 2 has no commit",)),
        (COMMITTED, planned(), ("the plan has no steps",)),
        (CHECKS, judged(unit_test=Verdict.PASS, lint=Verdict.WARN), ()),
        (CHECKS, judged(unit_test=Verdict.PASS, security=Verdict.SKIPPED), ("security: SKIPPED (as it is)",)),
        (SKIPPING, judged(unit_test=Verdict.PASS, security=Verdict.SKIPPED), ()),
        (CHECKS, judged(unit_test=Verdict.PASS, lint=Verdict.FAIL), ("lint: FAIL (as it is)",)),
        (CHECKS, judged(), ("no check was run",)),
    ],
)
def test_a_guard_on_the_task_itself(guard: Guard, task: Task, lacking: tuple[str, ...]) -> None:
    assert missing((guard,), task, Evidence()) == lacking


def test_all_gaps_are_listed_in_the_order_of_the_guards() -> None:
    assert missing((CODE, NOTES, LONG), a_task(), seen("analysis.md")) == (
        "code.json not found",
        "notes.md not found",
        "analysis.md has 1 characters, more than 200 needed",
    )


def test_a_step_needs_its_own_commit_and_a_clean_tree() -> None:
    assert missing_of_step(Evidence(commits=("c1",))) == ()
    assert missing_of_step(Evidence(dirty=("a.py",))) == (
        "no new commit was made for this step",
        "uncommitted changes: a.py",
    )


@pytest.mark.parametrize(("count", "end"), [(10, "9.py"), (11, "9.py, …")])
def test_at_most_ten_uncommitted_files_are_named(count: int, end: str) -> None:
    (lack,) = missing((TreeClean(),), a_task(), Evidence(dirty=tuple(f"{n}.py" for n in range(count))))
    assert lack.endswith(end)
