"""How a task comes to a halt, what is put on record of a failure, and how tries are counted."""

from dataclasses import replace
from datetime import datetime

from orchestrator.core.decide.final_message import final_message
from orchestrator.core.decide.pausing import add_notice
from orchestrator.core.task.agent import AgentStatus
from orchestrator.core.task.failures import Failure
from orchestrator.core.task.notice import NoticeKind
from orchestrator.core.task.progress import Budget
from orchestrator.core.task.task import NextAction, Task, TaskStatus


def block(task: Task, reason: str, at: datetime) -> Task:
    """The task at a halt that only a person can end."""
    agent = replace(task.agent, status=AgentStatus.FAILED, blocked_by=None)
    task = replace(
        task, status=TaskStatus.BLOCKED, block_reason=reason[:2000], next_action=NextAction.NOTHING, agent=agent
    )
    return add_notice(task, NoticeKind.BLOCKED, final_message(task, at), at, f"blocked-{task.seq}")


def fail(task: Task, reason: str, at: datetime) -> Task:
    """The task ended without success; its reason is on record."""
    agent = replace(task.agent, status=AgentStatus.FAILED, blocked_by=None)
    task = record_failed_turn(task, at, "fatal", reason, "user_intervention")
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
    """The task with one more entry in its failure log."""
    return replace(task, failures=task.failures.with_failure(replace(failure, occurred_at=at)))


def record_failed_turn(task: Task, at: datetime, kind: str, reason: str, action: str) -> Task:
    """The task with it on record that its agent's present turn came to nothing, and what follows from that."""
    return record_failure(task, at, Failure(
        id="", occurred_at=at, state=task.stage, agent=task.agent.role, step=step_name(task),
        attempted=f"turn {task.agent.turn.number} of attempt {task.agent.attempt}", command=None,
        expected="a turn that finishes its work", type=kind, summary=reason[:500], action=action,
    ))  # fmt: skip


def use_retry(task: Task, name: str) -> Task | None:
    """The task with one try of a budget used, or None if none is left."""
    budget = task.budgets.get(name, Budget(limit=0))
    if not budget.left:
        return None
    return replace(task, budgets={**task.budgets, name: replace(budget, used=budget.used + 1)})


def reset_retries(task: Task) -> Task:
    """The task with the tries that count from the last progress whole again."""
    fresh = {
        name: replace(task.budgets[name], used=0) for name in ("gate_retries", "agent_retries") if name in task.budgets
    }
    return replace(task, budgets={**task.budgets, **fresh})


def reset_all_retries(task: Task, but: str | None = None) -> Task:
    """The task with every try whole again, those of one budget left out: what follows is judged by itself."""
    fresh = {name: budget if name == but else replace(budget, used=0) for name, budget in task.budgets.items()}
    return replace(task, budgets=fresh)


def step_name(task: Task) -> str | None:
    """The present step as failures name it."""
    return str(task.agent.turn.step) if task.agent.turn.step else None
