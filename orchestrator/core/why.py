"""Why a task is where it is, as a chain of facts, and what would move it."""

from dataclasses import dataclass
from typing import assert_never

from orchestrator.core.admission import Scene, account_limit, hindrances, queue
from orchestrator.core.model import BlockedBy, Owed, Process, Task, TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The facts that keep a task where it is, nearest first, and what moves it on."""

    facts: tuple[str, ...]
    next: str


def explain(task: Task, scene: Scene) -> Why:
    """The chain of facts for one task."""
    match task.status:
        case TaskStatus.PENDING:
            own = hindrances(task, scene)
            if own:
                return Why(facts=own, next=_in_vain(task, scene) or "it starts by itself when that is over")
            return Why(facts=_no_place(task, scene), next="it starts by itself when there is a place")
        case TaskStatus.IN_PROGRESS:
            if task.paused:
                return _paused(task, scene)
            return Why(facts=(f"it is in {task.stage}", *_attempts(task)), next=_OWED[task.owed].format(task=task))
        case TaskStatus.BLOCKED:
            reason = (task.block_reason or "no reason is on record").removeprefix(f"{task.stage}: ")
            return Why(facts=(reason,), next=f"look at {task.folder}, then cancel it or submit it anew")
        case TaskStatus.DRAFT:
            return Why(facts=("it is a draft",), next="it waits for a place once it is no draft any more")
        case TaskStatus.REVIEW:
            return Why(facts=("its work is under review",), next="it goes on when the review is over")
        case TaskStatus.COMPLETED | TaskStatus.FAILED | TaskStatus.CANCELLED | TaskStatus.ARCHIVED:
            return Why(facts=(f"it is {task.status}",), next="nothing: it has ended")
        case _:
            assert_never(task.status)


def _in_vain(task: Task, scene: Scene) -> str | None:
    """What a person may do for a task that comes after one that ended without being completed, or is blocked."""
    lost = [one for one in task.after if scene.ended.get(one, TaskStatus.COMPLETED) is not TaskStatus.COMPLETED]
    if lost:
        return f"nothing: {' and '.join(lost)} will not be completed; cancel it, or submit it anew"
    stuck = (one.id for one in scene.tasks if one.id in task.after and one.status is TaskStatus.BLOCKED)
    blocker = next(stuck, None)
    return f"nothing until a person has looked at that one: orchestrator why {blocker}" if blocker else None


def _paused(task: Task, scene: Scene) -> Why:
    still = "its processes stand still" if task.run and task.run.process is Process.FROZEN else "nothing of it runs"
    match task.agent.blocked_by:
        case BlockedBy.USER:
            return Why(facts=("a person paused it", still), next=f"orchestrator resume {task.id}")
        case BlockedBy.PRESSURE:
            reason = scene.room.pressure or "the machine was short of room"
            return Why(facts=(reason, still), next="it goes on by itself when there is room again")
        case BlockedBy.RATE_LIMIT if task.retry_at:
            facts = ("its account has reached a usage limit", still)
            return Why(facts=facts, next=f"it goes on by itself at {task.retry_at:%Y-%m-%d %H:%M:%S} UTC")
        case None:
            return Why(facts=(*_no_place(task, scene), still), next="it goes on by itself when there is a place")
        case other:
            return Why(facts=(f"it waits for a {other}", still), next="it goes on by itself when that has come")


def _no_place(task: Task, scene: Scene) -> tuple[str, ...]:
    if scene.room.draining:
        return ("the daemon takes no tasks because it is stopping",)
    if scene.room.pressure:
        return (scene.room.pressure,)
    limited = account_limit(scene)
    if limited is not None:
        return (f"the account's usage limit, which {limited.id} reached, lasts until {limited.retry_at:%H:%M:%S} UTC",)
    holders = [other.id for other in scene.tasks if other.holds_slot]
    before = [other.id for other in queue(scene.tasks)]
    ahead = before.index(task.id) if task.id in before else 0
    taken = f"{len(holders)} of {scene.room.places} places are taken" + (f" by {', '.join(holders)}" if holders else "")
    waiting = f"{ahead} tasks are ahead of it" if ahead > 1 else "1 task is ahead of it"
    return (taken, waiting) if ahead else (taken,)


def _attempts(task: Task) -> tuple[str, ...]:
    retries = task.budgets.get("agent_retries")
    told = (f"its agent was told what is missing: {'; '.join(task.feedback)}",) if task.feedback else ()
    lost = (f"{retries.used} of {retries.limit} new attempts are used",) if retries and retries.used else ()
    return told + lost


_OWED = {
    Owed.NOTHING: "nothing",
    Owed.ADMISSION: "it starts by itself when there is a place",
    Owed.WORKSPACE: "its worktree is being made from {task.repo}",
    Owed.AGENT: "the {task.agent.role} is being started",
    Owed.TURN: "the {task.agent.role} works at turn {task.agent.turn} of attempt {task.agent.attempt}",
    Owed.GATE: "what the stage left behind is being looked at",
    Owed.STOP: "the {task.agent.role} is being ended",
    Owed.RETRY: "the next attempt begins at {task.retry_at:%H:%M:%S} UTC",
    Owed.CHECKS: "the checks run on commit {task.head:.12}",
    Owed.DELIVERY: "the branch {task.branch} is being brought to {task.repo}",
}
