"""Why a task is where it is, as a chain of facts, and what would move it."""

from dataclasses import dataclass
from typing import assert_never

from orchestrator.core.decide.lifecycle import cap_reached
from orchestrator.core.schedule.admission import (
    SchedulerSnapshot,
    active_limit_before,
    block_reason,
    blockers,
    day_used_up,
    places,
)
from orchestrator.core.task.agent import PauseReason, ProcessState
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.user_requests import Subject, UserRequest, how_to_answer

_FORGET = "; if the account may be used again before, orchestrator limits --forget"
_MENDED = "fix that, then orchestrator resume --all; a new login is seen without it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The facts that keep a task where it is, nearest first, and what moves it on."""

    facts: tuple[str, ...]
    next: str


def explain(task: Task, scene: SchedulerSnapshot) -> Why:
    """The chain of facts for one task."""
    match task.status:
        case TaskStatus.PENDING if task.is_paused:
            return Why(facts=("a person paused it before it began",), next=_how_to_resume(task, scene))
        case TaskStatus.PENDING:
            own = blockers(task, scene)
            if own:
                return Why(facts=own, next=_in_vain(task, scene) or "it starts by itself when that is over")
            following = _when_let_in(task, scene, "it starts by itself when a slot is free")
            return Why(facts=_no_place(task, scene), next=following)
        case TaskStatus.IN_PROGRESS:
            if task.is_paused:
                return _paused(task, scene)
            return Why(facts=(f"it is in {task.stage}", *_attempts(task)), next=_under_way(task))
        case TaskStatus.BLOCKED:
            reason = (task.block_reason or "no reason is on record").removeprefix(f"{task.stage}: ")
            return Why(
                facts=(reason,), next=f"look at {task.display_path()}, then orchestrator retry {task.id}, or cancel it"
            )
        case TaskStatus.DRAFT:
            return Why(facts=("it is a draft",), next=f"orchestrator submit --task {task.id}")
        case TaskStatus.REVIEW:
            return _paused(task, scene)
        case TaskStatus.COMPLETED | TaskStatus.FAILED | TaskStatus.CANCELLED | TaskStatus.ARCHIVED:
            return Why(facts=(f"it is {task.status}",), next="nothing: it has ended")
        case _:
            assert_never(task.status)


def _how_to_resume(task: Task, scene: SchedulerSnapshot) -> str:
    alone = f"orchestrator resume {task.id}"
    return f"orchestrator resume --all, for all are paused; or {alone}" if scene.room.paused_by else alone


def _in_vain(task: Task, scene: SchedulerSnapshot) -> str | None:
    """What a person may do for a task that comes after one that ended without being completed, or is blocked."""
    lost = [
        one for one in task.schedule.after if scene.ended.get(one, TaskStatus.COMPLETED) is not TaskStatus.COMPLETED
    ]
    if lost:
        return f"nothing: {' and '.join(lost)} will not be completed; cancel it, or submit it anew"
    stuck = (one.id for one in scene.tasks if one.id in task.schedule.after and one.status is TaskStatus.BLOCKED)
    blocker = next(stuck, None)
    return f"nothing until a person has looked at that one: orchestrator why {blocker}" if blocker else None


def _paused(task: Task, scene: SchedulerSnapshot) -> Why:
    still = (
        "its processes stand still" if task.run and task.run.process is ProcessState.FROZEN else "nothing of it runs"
    )
    match task.agent.blocked_by:
        case PauseReason.USER:
            return Why(facts=("a person paused it", still), next=_how_to_resume(task, scene))
        case PauseReason.PRESSURE:
            reason = scene.room.pressure or "the machine was short of room"
            return Why(facts=(reason, still), next="it continues by itself when there is room again")
        case PauseReason.RATE_LIMIT:
            return _limited(task, scene, still)
        case PauseReason.SERVICE if scene.trouble and task.retry_at is None:
            return Why(facts=(scene.trouble, still), next=_MENDED)
        case PauseReason.SERVICE:
            reason = "the model's service is overloaded, throttling or out of reach, or its agent asked for a pause"
            return Why(facts=(reason, still), next=f"it tries again by itself at {_clock(task)}")
        case PauseReason.BUDGET:
            return _over_budget(task, scene, still)
        case PauseReason.QUESTION | PauseReason.DEPENDENCY | PauseReason.REVIEW:
            requests = task.pending_requests
            hindered = tuple(f"not to be merged yet: {one}" for one in task.publication.hindrances)
            facts = (*(_asked(request) for request in requests), *hindered, still)
            return Why(facts=facts, next=_how_to_answer(task, requests[0]) if requests else _when_merged(task))
        case None:
            following = _when_let_in(task, scene, "it continues by itself when a slot is free")
            return Why(facts=(*_no_place(task, scene), still), next=following)
        case _:
            assert_never(task.agent.blocked_by)


def _when_let_in(task: Task, scene: SchedulerSnapshot, by_itself: str) -> str:
    """What moves a task that wants to begin a turn."""
    held_back = block_reason(task, scene)
    if held_back is None:
        return by_itself
    if held_back == scene.trouble:
        return _MENDED
    wall = active_limit_before(task, scene)
    if wall is None:
        return by_itself
    return by_itself + _FORGET if wall.until else "orchestrator resume --all"


def _over_budget(task: Task, scene: SchedulerSnapshot, still: str) -> Why:
    reason = cap_reached(task)
    if reason is None:
        over = day_used_up(scene) or "the day's budget was used up"
        return Why(facts=(over, still), next="it continues by itself when the day (UTC) is over or more may be spent")
    return Why(facts=(reason, still), next=f"orchestrator budget {task.id} --usd AMOUNT, or cancel it")


def _limited(task: Task, scene: SchedulerSnapshot, still: str) -> Why:
    if task.retry_at:
        reason = "its account has reached a usage limit"
        return Why(facts=(reason, still), next=f"it continues by itself at {_clock(task)}{_FORGET}")
    held_back = None if task.waits_for_word else block_reason(task, scene)
    if held_back:
        return Why(facts=(held_back, still), next=_when_let_in(task, scene, "it continues by itself when that is over"))
    return Why(
        facts=("its account had reached a usage limit, and it is not to go on by itself", still),
        next=f"orchestrator resume {task.id}",
    )


def _asked(request: UserRequest) -> str:
    words = " ".join(request.draft.text.split())[:300]
    match request.draft.subject:
        case Subject.QUESTION:
            options = f" ({', '.join(request.draft.options)})" if request.draft.options else ""
            said = f"its agent asks: {words}{options}"
        case Subject.PERMISSION:
            said = f"its agent wants to use {request.draft.name}: {words}"
        case Subject.PLAN:
            said = f"its agent has a plan: {words}"
        case Subject.DEPENDENCY:
            said = f"its agent needs the {request.draft.type} {request.draft.name}: {words}"
        case Subject.STAGE | Subject.MERGE | Subject.RELEASE:
            said = words
        case _:
            assert_never(request.draft.subject)
    lapses = f"; without an answer it goes on at {request.deadline:%Y-%m-%d %H:%M} UTC" if request.deadline else ""
    return said + lapses


def _how_to_answer(task: Task, request: UserRequest) -> str:
    return how_to_answer(task.id, request.kind, request.draft.subject, request.draft.name)


def _when_merged(task: Task) -> str:
    return f"it is merged by itself when nothing hinders it; the next look is at {_clock(task)}"


def _clock(task: Task) -> str:
    return f"{task.retry_at:%Y-%m-%d %H:%M:%S} UTC" if task.retry_at else "the next look"


def _no_place(task: Task, scene: SchedulerSnapshot) -> tuple[str, ...]:
    if scene.room.draining:
        return ("the daemon is draining: it begins nothing before it is started anew, or `orchestrator resume --all`",)
    if scene.room.pressure:
        return (scene.room.pressure,)
    held_back = block_reason(task, scene)
    if held_back is not None:
        return (held_back,)
    holders = [other.id for other in scene.tasks.running]
    ahead = scene.tasks.ahead.get(task.id, 0)
    taken = f"{len(holders)} of {places(scene)} slots are taken" + (f" by {', '.join(holders)}" if holders else "")
    waiting = f"{ahead} tasks are ahead of it" if ahead > 1 else "1 task is ahead of it"
    return (taken, waiting) if ahead else (taken,)


def _attempts(task: Task) -> tuple[str, ...]:
    retries = task.budgets.get("agent_retries")
    told = (f"its agent was told what is missing: {'; '.join(task.feedback)}",) if task.feedback else ()
    lost = (f"{retries.used} of {retries.limit} new attempts are used",) if retries and retries.used else ()
    return told + lost


def _under_way(task: Task) -> str:
    if task.run is not None and task.run.process is ProcessState.PARKING:
        return f"the {task.agent.role} is being ended, to go on from its session"
    return _OWED[task.next_action].format(task=task)


_OWED = {
    NextAction.NOTHING: "nothing",
    NextAction.ADMISSION: "it starts by itself when a slot is free",
    NextAction.WORKSPACE: "its worktree is being made from {task.source.repo}",
    NextAction.AGENT: "the {task.agent.role} is being started",
    NextAction.TURN: "the {task.agent.role} works at turn {task.agent.turn.number} of attempt {task.agent.attempt}",
    NextAction.INTERRUPT: "turn {task.agent.turn.number} of the {task.agent.role} is being ended, another follows",
    NextAction.GATE: "what the stage left behind is being looked at",
    NextAction.STOP: "the {task.agent.role} is being ended",
    NextAction.RETRY: "the next attempt begins at {task.retry_at:%H:%M:%S} UTC",
    NextAction.CHECKS: "the checks run on commit {task.source.head:.12}",
    NextAction.PUBLISH: "the change is being published",
    NextAction.MERGE: "the pull request is being merged",
    NextAction.RELEASE: "the release is being tagged",
    NextAction.DELIVERY: "the branch {task.source.branch} is being brought to {task.source.repo}",
}
