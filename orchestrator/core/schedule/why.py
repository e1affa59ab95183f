"""Explain why a task waits: the reasons, and what makes it continue."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from orchestrator.core.decide.lifecycle import cap_reached
from orchestrator.core.schedule.admission import (
    SchedulerSnapshot,
    active_limit_before,
    block_reason,
    blockers,
    day_used_up,
    next_day,
    places,
    shared_limit,
    shared_used_up,
    tasks_to_admit,
    tasks_to_resume,
)
from orchestrator.core.schedule.foreseen import awaited_time, obstacles_at
from orchestrator.core.task.agent import PauseReason, ProcessState
from orchestrator.core.task.budget import Spending, reached_caps
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.user_requests import Subject, UserRequest, how_to_answer

_CONTINUES = "it continues by itself"
_TURN_ENDS = "when another of these turns has ended"
_FORGET = "; if the account may be used again before, orchestrator limits --forget"
_AFTER_REPAIR = "fix that; it then continues by itself, or at once after orchestrator resume --all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The reasons why a task waits, most direct first, and what makes it continue."""

    facts: tuple[str, ...]
    next: str


def explain(task: Task, snapshot: SchedulerSnapshot) -> Why:
    """Return why a task is where it is, and what happens next."""
    why, at = _now(task, snapshot), awaited_time(task, snapshot)
    later = tuple(one for one in obstacles_at(task, snapshot, at) if one not in why.facts) if at else ()
    if not at or not later or _failed_dependency(task, snapshot):
        return why
    first, *others = why.facts
    if task.retry_at == at:
        first = f"{first}, until {at:%Y-%m-%d %H:%M:%S} UTC"
    begins = "starts" if task.status is TaskStatus.PENDING else "continues"
    return Why(
        facts=(first, *later, *others),
        next=f"it {begins} by itself when all of that is over{_sooner(task, at, snapshot)}",
    )


def _sooner(task: Task, at: datetime, snapshot: SchedulerSnapshot) -> str:
    """Return what a person may do who does not want to wait for run windows."""
    is_closed = snapshot.closed(task) or replace(snapshot, now=at).closed(task)
    return f"; orchestrator resume {task.id} --now lets it run while its window is closed" if is_closed else ""


def _now(task: Task, snapshot: SchedulerSnapshot) -> Why:
    """Return why a task waits now, whatever it will wait for when that is over."""
    match task.status:
        case TaskStatus.PENDING if task.is_paused:
            return Why(facts=("a person paused it before it started",), next=_how_to_resume(task, snapshot))
        case TaskStatus.PENDING:
            own = blockers(task, snapshot)
            if own:
                following = _failed_dependency(task, snapshot) or _when_over(task, snapshot)
                return Why(facts=own, next=following)
            following = _when_admitted(task, snapshot, "it starts by itself when a slot is free")
            return Why(facts=_no_place(task, snapshot), next=following)
        case TaskStatus.IN_PROGRESS:
            if task.is_paused:
                return _paused(task, snapshot)
            facts = (f"it is in {task.stage}", *_tool(task, snapshot), *_attempts(task), *_after_turn(task, snapshot))
            return Why(facts=facts, next=_under_way(task))
        case TaskStatus.BLOCKED:
            reason = (task.block_reason or "no reason is on record").removeprefix(f"{task.stage}: ")
            return Why(
                facts=(reason,), next=f"look at {task.display_path()}, then orchestrator retry {task.id}, or cancel it"
            )
        case TaskStatus.DRAFT:
            return Why(facts=("it is a draft",), next=f"orchestrator submit --task {task.id}")
        case TaskStatus.REVIEW:
            return _paused(task, snapshot)
        case TaskStatus.FAILED:
            reason = (task.block_reason or "no reason is on record").removeprefix(f"{task.stage}: ")
            return Why(
                facts=(f"it failed in {task.stage}: {reason}",),
                next=f"look at {task.display_path()}, then orchestrator retry {task.id}, which makes a new task of it",
            )
        case TaskStatus.COMPLETED | TaskStatus.CANCELLED | TaskStatus.ARCHIVED:
            return Why(facts=(f"it is {task.status}",), next="nothing: it has ended")
        case _:
            assert_never(task.status)


def _when_over(task: Task, snapshot: SchedulerSnapshot) -> str:
    start_at = task.schedule.start_at
    if start_at is None or start_at <= snapshot.now or task.schedule.after:
        return "it starts by itself when that is over"
    return _when_open(task, "it starts by itself")


def _how_to_resume(task: Task, snapshot: SchedulerSnapshot) -> str:
    alone = f"orchestrator resume {task.id}"
    return f"orchestrator resume --all, for all are paused; or {alone}" if snapshot.capacity.paused_by else alone


def _failed_dependency(task: Task, snapshot: SchedulerSnapshot) -> str | None:
    """Return what to do about a task that depends on one that is blocked, or ended without being completed."""
    ended = [
        other
        for other in task.schedule.after
        if snapshot.ended.get(other, TaskStatus.COMPLETED) is not TaskStatus.COMPLETED
    ]
    if ended:
        return f"nothing: {' and '.join(ended)} will not be completed; cancel this task, or submit it again"
    blocked = (one.id for one in snapshot.tasks if one.id in task.schedule.after and one.status is TaskStatus.BLOCKED)
    blocker = next(blocked, None)
    return f"nothing until a person has looked at the blocked task: orchestrator why {blocker}" if blocker else None


def _paused(task: Task, snapshot: SchedulerSnapshot) -> Why:
    is_frozen = task.run is not None and task.run.process is ProcessState.FROZEN
    processes = "its processes are frozen" if is_frozen else "none of its processes runs"
    match task.agent.blocked_by:
        case PauseReason.USER:
            return Why(facts=("a person paused it", processes), next=_how_to_resume(task, snapshot))
        case PauseReason.PRESSURE:
            return _short(snapshot, processes)
        case PauseReason.RATE_LIMIT:
            return _limited(task, snapshot, processes)
        case PauseReason.SERVICE if snapshot.obstacle and task.retry_at is None:
            return Why(facts=(snapshot.obstacle, processes), next=_AFTER_REPAIR)
        case PauseReason.SERVICE:
            reason = "the model's service is overloaded, throttling or out of reach, or its agent asked for a pause"
            return Why(facts=(reason, processes), next=f"it tries again by itself{_clock(task)}")
        case PauseReason.BUDGET:
            return _over_budget(task, snapshot, processes)
        case PauseReason.WINDOW:
            return _out_of_hours(task, snapshot, processes)
        case PauseReason.CHILDREN:
            return _for_children(task, snapshot)
        case PauseReason.QUESTION | PauseReason.DEPENDENCY | PauseReason.REVIEW:
            requests = task.pending_requests
            obstacles = tuple(f"not ready to merge: {one}" for one in task.publication.hindrances)
            following = f"it is merged when nothing prevents that any more; {_next_look(task)}"
            if requests:
                draft = requests[0].draft
                following = how_to_answer(task.id, draft.kind, draft.subject, draft.name)
            facts = (*(_request_text(request) for request in requests), *obstacles, processes)
            return Why(facts=facts, next=following)
        case None:
            following = _when_admitted(task, snapshot, "it continues by itself when a slot is free")
            return Why(facts=(*_no_place(task, snapshot), processes), next=following)
        case _:
            assert_never(task.agent.blocked_by)


def _short(snapshot: SchedulerSnapshot, processes: str) -> Why:
    if snapshot.capacity.draining:
        ended = "the daemon was drained: its agent was ended, and its session is kept"
        return Why(facts=(ended, processes), next="a restart of the daemon, or orchestrator resume --all")
    reason = snapshot.capacity.pressure or "the machine was short of resources"
    return Why(facts=(reason, processes), next="it continues by itself when there is enough again")


def _out_of_hours(task: Task, snapshot: SchedulerSnapshot, processes: str) -> Why:
    closed = snapshot.closed(task)
    if closed is None:
        return Why(facts=("its run window has just opened", processes), next=_at_once(_CONTINUES))
    return Why(facts=(closed.opens_in(snapshot.now), processes), next=_when_open(task, _CONTINUES))


def _for_children(task: Task, snapshot: SchedulerSnapshot) -> Why:
    live = [child for child in task.children if child.status.is_live]
    still = sum(child.status.is_open for child in task.children)
    named = ", ".join(child.plan.key for child in live[:5]) + (", …" if len(live) > 5 else "")
    facts = (f"{still} of its {len(task.children)} children have not ended" + (f": {named}" if named else ""),)
    following = f"orchestrator why {live[0].task}" if live else "its children are being submitted"
    used_up = shared_used_up(task, snapshot)
    more = f"; {raised}" if used_up and (raised := _how_to_raise(task, snapshot)) else ""
    return Why(
        facts=(*facts, used_up) if used_up else facts,
        next=f"it continues by itself when they have ended; {following}{more}",
    )


def _when_admitted(task: Task, snapshot: SchedulerSnapshot, by_itself: str) -> str:
    """Return what makes a task continue that waits to begin a turn."""
    reason = block_reason(task, snapshot)
    if reason is None:
        return _at_once(by_itself) if _is_next(task, snapshot) else by_itself
    if reason == snapshot.obstacle:
        return _AFTER_REPAIR
    if snapshot.closed(task):
        return _when_open(task, _itself(by_itself))
    if shared_limit(task, snapshot) is not None:
        return _how_to_raise(task, snapshot) or f"{_itself(by_itself)} {_TURN_ENDS}"
    limit = active_limit_before(task, snapshot)
    if limit is None:
        return _when_day_is_over(_itself(by_itself).removesuffix(" by itself"), snapshot)
    return by_itself + _FORGET if limit.until else "orchestrator resume --all"


def _is_next(task: Task, snapshot: SchedulerSnapshot) -> bool:
    """Return whether the task gets a slot that is free, as soon as the daemon looks at what has just changed."""
    free = places(snapshot) - len(snapshot.tasks.running)
    return free > 0 and task.id in tasks_to_admit(snapshot)[: max(0, free - len(list(tasks_to_resume(snapshot))))]


def _itself(by_itself: str) -> str:
    return by_itself.split(" when ", maxsplit=1)[0]


def _at_once(by_itself: str) -> str:
    return f"{_itself(by_itself)} in a moment"


def _when_open(task: Task, by_itself: str) -> str:
    return f"{by_itself} then; orchestrator resume {task.id} --now lets it run before that"


def _after_turn(task: Task, snapshot: SchedulerSnapshot) -> tuple[str, ...]:
    """Return that a task still runs although its run windows are closed, and waits after that."""
    closed = snapshot.closed(task)
    return (f"it ends its turn and then waits: {closed.opens_in(snapshot.now)}",) if closed else ()


def _over_budget(task: Task, snapshot: SchedulerSnapshot, processes: str) -> Why:
    reason = cap_reached(task)
    shared = shared_used_up(task, snapshot)
    if reason is None and shared is not None:
        following = _how_to_raise(task, snapshot) or f"{_CONTINUES} {_TURN_ENDS}"
        return Why(facts=(shared, processes), next=following)
    if reason is None:
        over = day_used_up(snapshot)
        following = _when_day_is_over("it continues", snapshot) if over else _at_once(_CONTINUES)
        return Why(facts=(over or "the budget has just come to allow more", processes), next=following)
    return Why(facts=(reason, processes), next=_raise(task.id, _used_up(task) or ("usd",)))


_MORE = {"usd": "AMOUNT"}


def _raise(task_id: str, caps: tuple[str, ...]) -> str:
    more = " ".join(f"--{name} {_MORE.get(name, 'NUMBER')}" for name in caps)
    return f"orchestrator budget {task_id} {more}, or cancel it"


def _how_to_raise(task: Task, snapshot: SchedulerSnapshot) -> str | None:
    """Return how to raise a used-up budget that the task shares; None where running turns have only reserved it."""
    budget = shared_limit(task, snapshot)
    return _raise(budget.parent, budget.options) if budget and budget.options else None


def _used_up(task: Task) -> tuple[str, ...]:
    """Return the names of the caps that a person has to raise for the task to continue."""
    turn = task.agent.turn
    return tuple(reached_caps(task.spending.whole + Spending(usd=turn.usd, tokens=turn.tokens), task.policy.caps))


def _when_day_is_over(begins: str, snapshot: SchedulerSnapshot) -> str:
    end = next_day(snapshot.now)
    return f"{begins} by itself when the day is over, at {end:%Y-%m-%d %H:%M} UTC, or when [budget.day] allows more"


def _limited(task: Task, snapshot: SchedulerSnapshot, processes: str) -> Why:
    if task.retry_at:
        reached = "its account has reached a usage limit"
        return Why(facts=(reached, processes), next=f"it continues by itself{_clock(task)}{_FORGET}")
    if not task.waits_for_word:
        if (reason := block_reason(task, snapshot)) is None:
            return Why(facts=("its account's usage limit is just over", processes), next=_at_once(_CONTINUES))
        closed = snapshot.closed(task)
        fact = closed.opens_in(snapshot.now) if closed and reason == closed.reason else reason
        return Why(
            facts=(fact, processes), next=_when_admitted(task, snapshot, "it continues by itself when that is over")
        )
    return Why(
        facts=("its account had reached a usage limit, and its policy does not let it continue by itself", processes),
        next=f"orchestrator resume {task.id}",
    )


def _request_text(request: UserRequest) -> str:
    words = " ".join(request.draft.text.split())[:300]
    match request.draft.subject:
        case Subject.QUESTION:
            options = f" ({', '.join(request.draft.options)})" if request.draft.options else ""
            text = f"its agent asks: {words}{options}"
        case Subject.PERMISSION:
            text = f"its agent wants to use {request.draft.name}: {words}"
        case Subject.PLAN:
            text = f"its agent has a plan: {words}"
        case Subject.DEPENDENCY:
            text = f"its agent needs the {request.draft.type} {request.draft.name}: {words}"
        case Subject.STAGE | Subject.PUBLISH | Subject.MERGE | Subject.RELEASE:
            text = words
        case _:
            assert_never(request.draft.subject)
    deadline = f"; without an answer it continues at {request.deadline:%Y-%m-%d %H:%M} UTC" if request.deadline else ""
    return text + deadline


def _clock(task: Task) -> str:
    return f" at {task.retry_at:%Y-%m-%d %H:%M:%S} UTC" if task.retry_at else ""


def _next_look(task: Task) -> str:
    if task.retry_at:
        return f"the next look is{_clock(task)}"
    looks = task.policy.look_every > 0 or task.publication.asked_for_round
    return "the daemon is looking at it now" if looks else f"to have it looked at: orchestrator review {task.id}"


def _no_place(task: Task, snapshot: SchedulerSnapshot) -> tuple[str, ...]:
    if snapshot.capacity.draining:
        return (
            "the daemon is draining: it starts nothing until it is restarted, or until `orchestrator resume --all`",
        )
    if snapshot.capacity.pressure:
        return (snapshot.capacity.pressure,)
    reason, closed = block_reason(task, snapshot), snapshot.closed(task)
    if reason is not None:
        return (closed.opens_in(snapshot.now),) if closed and reason == closed.reason else (reason,)
    holders = [other.id for other in snapshot.tasks.running]
    ahead = snapshot.tasks.ahead.get(task.id, 0)
    trouble = (snapshot.trouble.reason,) if snapshot.trouble else ()
    if _is_next(task, snapshot):
        return (*trouble, "a slot has just become free for it")
    taken = f"{len(holders)} of {places(snapshot)} slots are taken" + (f" by {', '.join(holders)}" if holders else "")
    waiting = f"{ahead} tasks are ahead of it" if ahead > 1 else "1 task is ahead of it"
    return (*trouble, taken, waiting) if ahead else (*trouble, taken)


def _tool(task: Task, snapshot: SchedulerSnapshot) -> tuple[str, ...]:
    """Return which tool has run for how long, if one has run for a minute."""
    turn = task.agent.turn
    minutes = int((snapshot.now - turn.tool_since).total_seconds() // 60) if turn.tool_since else 0
    if not minutes or task.next_action is not NextAction.TURN:
        return ()
    others = f", with {turn.open_tools - 1} more tools" if turn.open_tools > 1 else ""
    return (f"{turn.tool or 'a tool'} has run for {minutes} minute{'' if minutes == 1 else 's'}{others}",)


def _attempts(task: Task) -> tuple[str, ...]:
    retries = task.budgets.get("agent_retries")
    feedback = (f"its agent was told what is missing: {'; '.join(task.feedback)}",) if task.feedback else ()
    used = (f"{retries.used} of {retries.limit} new attempts are used",) if retries and retries.used else ()
    return feedback + used


def _under_way(task: Task) -> str:
    if task.run is not None and task.run.process is ProcessState.PARKING:
        return f"the {task.agent.role} is being stopped; a later attempt resumes its session"
    return _NEXT[task.next_action].format(task=task)


_NEXT = {
    NextAction.NOTHING: "nothing",
    NextAction.ADMISSION: "it starts by itself when a slot is free",
    NextAction.WORKSPACE: "its worktree is being created from {task.source.repo}",
    NextAction.AGENT: "the {task.agent.role} is being started",
    NextAction.TURN: "the {task.agent.role} works at turn {task.agent.turn.number} of attempt {task.agent.attempt}",
    NextAction.INTERRUPT: "turn {task.agent.turn.number} of the {task.agent.role} is being interrupted",
    NextAction.GATE: "the results of the stage are being checked",
    NextAction.STOP: "the {task.agent.role} is being stopped",
    NextAction.RETRY: "the next attempt begins at {task.retry_at:%H:%M:%S} UTC",
    NextAction.CHILDREN: "its children are being submitted",
    NextAction.CHECKS: "the checks run on commit {task.source.head:.12}",
    NextAction.PUBLISH: "the change is being published",
    NextAction.MERGE: "the pull request is being merged",
    NextAction.RELEASE: "the release is being tagged",
    NextAction.DELIVERY: "the branch {task.source.branch} is being delivered to {task.source.repo}",
}
