"""The summaries of a task that has ended or is blocked, for the person who looks at it later."""

from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.core.decide.final_message import (
    counted,
    ended_at,
    final_message,
    has_ended,
    recommended,
    top_patterns,
)
from orchestrator.core.task.checks import CheckResult, nothing_ran
from orchestrator.core.task.failures import Failure
from orchestrator.core.task.progress import Step
from orchestrator.core.task.task import Task
from orchestrator.redaction.display import as_code, inert
from orchestrator.workspaces.evaluation.test_report import look_first

SUMMARY_FILE, BLOCKED_FILE = "summary.md", "BLOCKED-summary.md"
LAST_FAILURES = 3
_PIPE = "\\|"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How large a change is, in words; whether it changes the file of its checks, and what else judges it."""

    size: str
    checks_differ: bool = False
    look_first: tuple[str, ...] = ()


def summary(task: Task, change: Change) -> str:
    """Return the Markdown of summary.md; for an ended task it begins with the final message."""
    source = task.source
    parts = [
        f"# {task.ticket.key}: {inert(task.title)}",
        *([_closing(task)] if has_ended(task) else []),
        *look_first(change.look_first),
        _facts(task, change.size),
        "## Steps\n\n" + ("\n".join(_steps(task.steps)) or "None."),
        "## Checks\n\n" + _checks(task, change.checks_differ),
        "## What went wrong on the way\n\n" + ("\n".join(map(_failure, task.failures.entries)) or "Nothing."),
        f"## To look at it\n\n    git -C {source.repo} log -p {source.base_commit[:12]}..{source.branch}",
        f"Everything the agents wrote and the checks printed is in {task.display_path()}.",
    ]
    return "\n\n".join(parts) + "\n"


def blocked_summary(task: Task) -> str:
    """Return the Markdown of BLOCKED-summary.md: what failed how often, what recurs, what to do next."""
    log = task.failures
    patterns = [f"- {inert(found.pattern)}: {found.occurrences} times" for found in top_patterns(task)]
    parts = [
        f"# Blocked: {task.ticket.key}: {inert(task.title)}",
        _closing(task),
        "## Failures\n\n" + "\n".join((
            f"- In all: {log.total}",
            f"- By state: {counted(log.by_state) or 'none'}",
            f"- By type: {counted(log.by_type) or 'none'}",
        )),
        "## Recurring patterns\n\n" + ("\n".join(patterns) or "None."),
        "## The last failures\n\n" + ("\n".join(map(_failure, log.entries[-LAST_FAILURES:])) or "None."),
        f"## What to do next\n\n{inert(recommended(task))}",
        f"Everything the agents wrote and the checks printed is in {task.display_path()}.",
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _closing(task: Task) -> str:
    """Return the final message with a line break after each line."""
    return "\\\n".join(inert(line) for line in final_message(task, ended_at(task)).splitlines())


def _facts(task: Task, changed: str) -> str:
    head = as_code((task.source.commit)[:12])
    rows = [
        ("Branch", f"{as_code(task.source.branch)} at {head}, from {as_code(task.source.base_branch)}"),
        ("Repository", inert(task.source.repo)),
        ("Change", inert(changed)),
        ("Evaluations", _evaluations(task)),
        (
            "Agents",
            f"{task.agent.attempt} processes, {task.agent.usage.tokens} tokens, {task.agent.usage.cost_usd:.2f} USD",
        ),
    ]
    return "\n".join(("| | |", "|---|---|", *(f"| {name} | {value.replace('|', _PIPE)} |" for name, value in rows)))


def _evaluations(task: Task) -> str:
    """Return how many evaluations there were; each round of review counts its own."""
    return f"{task.cycle} in round {task.publication.round} of review" if task.publication.round else str(task.cycle)


def _steps(steps: Iterable[Step]) -> list[str]:
    return [
        f"- Step {step.step_id}: {inert(step.description)} ({', '.join(sha[:12] for sha in step.commits)})"
        for step in steps
    ]


def _checks(task: Task, checks_differ: bool) -> str:
    table = "\n".join(
        (
            "| Check | Verdict | Time | Why |",
            "|---|---|---|---|",
            *(_row(name, one) for name, one in task.evaluation.results.items()),
        )
    )
    commands = "\n".join(
        f"- {one.name}: {as_code(one.command)} ({inert(one.source)})" for one in task.evaluation.checks if one.command
    )
    unseen = "**No check ran: nothing shows that this change works.**"
    notes = [
        *([unseen] if nothing_ran(task.evaluation.checks, task.evaluation.results) else []),
        *(["The branch changes `.orchestrator.toml`; the checks above are those of the base commit."] * checks_differ),
    ]
    return "\n\n".join(part for part in (table, commands, *notes) if part)


def _row(name: str, result: CheckResult) -> str:
    took = "" if result.seconds is None else f"{result.seconds:.1f} s"
    return f"| {_cell(name)} | {result.verdict} | {took} | {_cell(result.reason)} |"


def _failure(entry: Failure) -> str:
    log = f" ({entry.log_file})" if entry.log_file else ""
    line = f"- {entry.id} in {entry.state}, {entry.type}: {inert(entry.summary)}{log}"
    if entry.analysis is None:
        return line
    return f"{line}\n  - Likely cause: {inert(entry.analysis.root_cause_hypothesis)}"


def _cell(text: str) -> str:
    return inert(text, 300).replace("|", _PIPE)
