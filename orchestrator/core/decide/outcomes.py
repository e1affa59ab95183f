"""How a task is blocked or fails, what is put on record about a failure, and how retries are counted."""

from dataclasses import replace
from datetime import datetime
from fnmatch import fnmatchcase

from orchestrator.core.decide.final_message import final_message
from orchestrator.core.decide.pausing import add_notice
from orchestrator.core.events.notice import NoticeKind
from orchestrator.core.task.agent import AgentStatus
from orchestrator.core.task.failures import Failure
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.progress import Budget
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.task_policy import OnBlocked


def block(task: Task, reason: str, at: datetime) -> Task:
    """Return the task blocked until a person looks at it."""
    agent = replace(task.agent, status=AgentStatus.FAILED, blocked_by=None)
    task = replace(
        task, status=TaskStatus.BLOCKED, block_reason=reason[:2000], next_action=NextAction.NOTHING, agent=agent
    )
    return add_notice(task, NoticeKind.BLOCKED, final_message(task, at), at, f"blocked-{task.seq}")


def give_up(task: Task, reason: str, at: datetime) -> Task:
    """Return the task after its last try: blocked until a person looks at it, or failed if its policy says so."""
    return _failed(task, reason, at) if task.policy.on_blocked is OnBlocked.FAIL else block(task, reason, at)


def fail(task: Task, reason: str, at: datetime) -> Task:
    """Return the task failed for good, with the reason on record."""
    return _failed(record_failed_turn(task, at, "fatal", reason, "user_intervention"), reason, at)


def _failed(task: Task, reason: str, at: datetime) -> Task:
    agent = replace(task.agent, status=AgentStatus.FAILED, blocked_by=None)
    task = replace(
        task,
        status=TaskStatus.FAILED,
        timing=replace(task.timing, failed_at=at),
        block_reason=reason[:2000],
        next_action=NextAction.NOTHING,
        agent=agent,
    )
    return add_notice(task, NoticeKind.FAILED, final_message(task, at), at, "failed")


def record_failure(task: Task, at: datetime, failure: Failure) -> Task:
    """Return the task with one more entry in its failure log."""
    return replace(task, failures=task.failures.with_failure(replace(failure, occurred_at=at)))


def name_related(pipeline: Pipeline, before: Task, task: Task) -> Task:
    """Return the task whose new failures say where the plan has their step, and which design was followed.

    The failure of a whole evaluation is related to the whole plan. What another program reports is left as it is,
    except for the number of a step.
    """
    known = {entry.id for entry in before.failures.entries}
    entries = tuple(
        entry if entry.id in known else _with_relations(pipeline, task, entry) for entry in task.failures.entries
    )
    return replace(task, failures=replace(task.failures, entries=entries))


def _with_relations(pipeline: Pipeline, task: Task, entry: Failure) -> Failure:
    plan = next(iter(pipeline.plans), None)
    if plan is None:
        return entry
    if (entry.step or "").isdecimal():
        entry = replace(entry, related_plan_step=entry.related_plan_step or f"{plan}#step-{entry.step}")
    if pipeline.is_manual or not task.steps:
        return entry
    left = (name for record in task.stages.values() for name in record.artifacts)
    drafts = [name for name in left if fnmatchcase(name, pipeline.family.draft)]
    newest = max(drafts, key=lambda name: (len(name), name), default=None)
    return replace(
        entry,
        related_plan_step=entry.related_plan_step or plan,
        related_design=entry.related_design or newest,
    )


def record_failed_turn(task: Task, at: datetime, kind: str, reason: str, action: str) -> Task:
    """Return the task with the failure of its agent's present turn on record, and what follows from it."""
    return record_failure(task, at, Failure(
        id="", occurred_at=at, state=task.stage, agent=task.agent.role, step=step_name(task), details=reason[500:2000],
        attempted=f"turn {task.agent.turn.number} of attempt {task.agent.attempt}", command=None,
        expected="a turn that finishes its work", type=kind, summary=reason[:500], action=action,
    ))  # fmt: skip


def use_retry(task: Task, name: str) -> Task | None:
    """Return the task with one try of a budget used; None if none is left."""
    budget = task.budgets.get(name, Budget(limit=0))
    if not budget.left:
        return None
    return replace(task, budgets={**task.budgets, name: replace(budget, used=budget.used + 1)})


def reset_retries(task: Task) -> Task:
    """Return the task with the retries reset that count since the last progress."""
    fresh = {
        name: replace(task.budgets[name], used=0) for name in ("gate_retries", "agent_retries") if name in task.budgets
    }
    return replace(task, budgets={**task.budgets, **fresh})


def reset_all_retries(task: Task, but: str | None = None) -> Task:
    """Return the task with every budget reset except the one named `but`."""
    fresh = {name: budget if name == but else replace(budget, used=0) for name, budget in task.budgets.items()}
    return replace(task, budgets=fresh)


def step_name(task: Task) -> str | None:
    """Return the present step as failures name it."""
    return str(task.agent.turn.step) if task.agent.turn.step else None
