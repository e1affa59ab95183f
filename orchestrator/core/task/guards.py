"""What stands between two stages: each guard answers with a list of what is missing, empty when it holds.

A guard sees the task and the evidence: what the daemon itself found in files and in git (law 4). It never sees what
an agent says of its own work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import assert_never

from orchestrator.core.task import pipeline as words
from orchestrator.core.task.failures import Analysis
from orchestrator.core.task.progress import StepStatus
from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy

LOCAL_BYPASS = "LOCAL_BYPASS"
"""What the check says of a ticket that a person handed in past it (sources.md §5.2 row 9)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What a gate knows of one artifact: its length in characters, its headings, and its filled JSON keys.

    `digests` are hashes of what stands below each heading.
    `json_filled` is None where the file is no JSON object; `digest` is a hash of its content.
    """

    chars: int
    headings: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    json_filled: tuple[str, ...] | None = None
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the daemon found when it looked: artifacts by name, what it refused, and the state of the branch."""

    files: Mapping[str, FileFacts] = field(default_factory=dict)
    fresh: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    head: str | None = None
    commits: tuple[str, ...] = ()
    dirty: tuple[str, ...] = ()
    analysis: Analysis | None = None

    @property
    def digest(self) -> str:
        """A hash of everything that a person would review."""
        seen = [self.head or "", *(f"{name} {facts.digest}" for name, facts in sorted(self.files.items()))]
        return sha256("\n".join(seen).encode()).hexdigest()


NOTHING_SEEN = Evidence()


def missing(guards: Sequence[words.Guard], task: Task, evidence: Evidence) -> tuple[str, ...]:
    """All that keeps these guards closed, in their order, in words for agents and people."""
    return tuple(lack for guard in guards for lack in _missing(guard, task, evidence))


def accepted(guards: Sequence[words.Guard]) -> frozenset[str]:
    """The verdicts of checks that these guards let through."""
    return frozenset(one for guard in guards if isinstance(guard, words.ChecksAcceptable) for one in guard.accept)


def overspent(guards: Sequence[words.Guard], task: Task) -> tuple[str, ...]:
    """What no agent can mend: budgets of which more was used than these guards allow.

    Where nobody is asked they let it pass, with the risk on record (sources.md §5.2 row 8).
    """
    return tuple(lack for guard in guards if isinstance(guard, words.BudgetWithin) for lack in _budget(guard, task))


def missing_of_step(evidence: Evidence) -> tuple[str, ...]:
    """What a step still lacks to count as done: a commit of its own, and a clean worktree after it."""
    return (() if evidence.commits else ("no new commit was made for this step",)) + _uncommitted(evidence)


def _missing(guard: words.Guard, task: Task, evidence: Evidence) -> tuple[str, ...]:
    match guard:
        case words.TicketFiltered():
            return _ticket(guard, task)
        case words.FileExists() | words.FileMinChars() | words.HeadingCount() | words.JsonNonempty():
            return _file(guard, evidence)
        case words.GlobCount():
            found = sum(fnmatchcase(name, guard.pattern) for name in evidence.files)
            return () if found >= guard.at_least else (f"{guard.pattern}: {found} of {guard.at_least} files found",)
        case words.BudgetLeft():
            return _budget(guard, task)
        case words.BudgetWithin():
            return () if task.policy.autonomy is Autonomy.AUTO else _budget(guard, task)
        case words.StepsCompleted():
            return _steps(task) or tuple(
                f"step {step.step_id} is not completed"
                for step in task.steps
                if step.status is not StepStatus.COMPLETED
            )
        case words.StepsCommitted():
            return _steps(task) or tuple(
                f"step {step.step_id} has no commit" for step in task.steps if not step.commits
            )
        case words.TreeClean():
            return _uncommitted(evidence)
        case words.ChecksAcceptable():
            return _checks(guard, task)
        case _:
            assert_never(guard)


def _ticket(guard: words.TicketFiltered, task: Task) -> tuple[str, ...]:
    check = task.ticket.sensitive_check
    if check is None:
        return ("the ticket was not checked for secrets",)
    if check.result not in guard.accept:
        return (f"the check of the ticket for secrets says {check.result}",)
    if check.result == LOCAL_BYPASS and task.ticket.source != "local":
        return (f"the check of the ticket for secrets says {check.result}, which only a ticket of one's own may",)
    return ()


def _file(
    guard: words.FileExists | words.FileMinChars | words.HeadingCount | words.JsonNonempty, evidence: Evidence
) -> tuple[str, ...]:
    facts = evidence.files.get(guard.file)
    if facts is None:
        return (f"{guard.file} not found",)
    match guard:
        case words.FileExists():
            return ()
        case words.FileMinChars():
            enough = facts.chars > guard.more_than
            return () if enough else (f"{guard.file} has {facts.chars} characters, more than {guard.more_than} needed",)
        case words.HeadingCount():
            found = sum(heading.startswith(guard.prefix) for heading in facts.headings)
            enough = found >= guard.at_least
            return () if enough else (f"{guard.file} has {found} of {guard.at_least} lines beginning '{guard.prefix}'",)
        case words.JsonNonempty():
            if facts.json_filled is None:
                return (f"{guard.file} is not a JSON object",)
            filled = set(guard.any_of) & set(facts.json_filled)
            return () if filled else (f"{guard.file} is empty: fill at least one of {', '.join(guard.any_of)}",)
        case _:
            assert_never(guard)


def _budget(guard: words.BudgetLeft | words.BudgetWithin, task: Task) -> tuple[str, ...]:
    budget = task.budgets.get(guard.name)
    if budget is None:
        return (f"the task has no budget {guard.name}",)
    spent = budget.used >= budget.limit if isinstance(guard, words.BudgetLeft) else budget.used > budget.limit
    return (f"the budget {guard.name} is used up ({budget.used} of {budget.limit})",) if spent else ()


def _steps(task: Task) -> tuple[str, ...]:
    return () if task.steps else ("the plan has no steps",)


def _checks(guard: words.ChecksAcceptable, task: Task) -> tuple[str, ...]:
    if not task.evaluation.results:
        return ("no check was run",)
    return tuple(
        f"{name}: {result.verdict} ({result.reason})"
        for name, result in task.evaluation.results.items()
        if result.verdict not in guard.accept
    )


def _uncommitted(evidence: Evidence) -> tuple[str, ...]:
    shown = ", ".join(evidence.dirty[:10]) + (", …" if len(evidence.dirty) > 10 else "")
    return (f"uncommitted changes: {shown}",) if evidence.dirty else ()
