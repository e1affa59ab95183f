"""What a finished task says of itself, for the person who comes in the morning."""

from collections.abc import Iterable

from orchestrator.core.checking import nothing_ran
from orchestrator.core.model import CheckResult, Step, Task


def summary(task: Task, changed: str, checks_differ: bool) -> str:
    """The Markdown of summary.md; `changed` is the size of the change in words."""
    parts = [
        f"# {task.ticket.key}: {' '.join(task.title.split())}",
        _facts(task, changed),
        "## Steps\n\n" + ("\n".join(_steps(task.steps)) or "None."),
        "## Checks\n\n" + _checks(task, checks_differ),
        "## What went wrong on the way\n\n" + ("\n".join(_failures(task)) or "Nothing."),
        f"## To look at it\n\n    git -C {task.repo} log -p {task.base_commit[:12]}..{task.branch}",
        f"Everything the agents wrote and the checks printed is in {task.folder}.",
    ]
    return "\n\n".join(parts) + "\n"


def _facts(task: Task, changed: str) -> str:
    rows = [
        ("Branch", f"`{task.branch}` at `{(task.head or '')[:12]}`, from `{task.base_branch}`"),
        ("Repository", task.repo),
        ("Change", changed),
        ("Evaluations", str(task.cycle)),
        ("Agents", f"{task.agent.attempt} processes, {task.agent.tokens_used} tokens, {task.agent.cost_usd:.2f} USD"),
    ]
    return "\n".join(("| | |", "|---|---|", *(f"| {name} | {_cell(value)} |" for name, value in rows)))


def _steps(steps: Iterable[Step]) -> list[str]:
    return [
        f"- Step {step.step_id}: {' '.join(step.description.split())} ({', '.join(sha[:12] for sha in step.commits)})"
        for step in steps
    ]


def _checks(task: Task, checks_differ: bool) -> str:
    table = "\n".join(
        (
            "| Check | Verdict | Time | Why |",
            "|---|---|---|---|",
            *(_row(name, one) for name, one in task.results.items()),
        )
    )
    commands = "\n".join(f"- {one.name}: `{_cell(one.command)}` ({one.source})" for one in task.checks if one.command)
    unseen = "**No check ran: nobody has seen this change work.**"
    notes = [
        *([unseen] if nothing_ran(task.checks, task.results) else []),
        *(["The branch changes `.orchestrator.toml`; the checks above are those of the base commit."] * checks_differ),
    ]
    return "\n\n".join(part for part in (table, commands, *notes) if part)


def _row(name: str, result: CheckResult) -> str:
    took = "" if result.seconds is None else f"{result.seconds:.1f} s"
    return f"| {_cell(name)} | {result.verdict} | {took} | {_cell(result.reason)} |"


def _failures(task: Task) -> list[str]:
    return [
        f"- {entry.id} in {entry.state}: {' '.join(entry.summary.split())}"
        + (f" ({entry.log_file})" * bool(entry.log_file))
        for entry in task.failures.entries
    ]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:300]
