"""Whether `why` tells the truth: each hour it is asked about every task that stands still, and what it says is kept.

What it said is compared with what happened. A time that it named must end the wait it named. When a task goes on before
that, or no time was named, then what it waited for must be over: the slot is free, the answer given, the window open.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from orchestrator.core.events import events
from orchestrator.core.schedule.admission import (
    WITHOUT_AGENT,
    SchedulerSnapshot,
    active_limit_before,
    is_within_budgets,
    places,
)
from orchestrator.core.schedule.why import Why
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.supervisor.simulation.clockwork.virtual_clock import VirtualClock
from orchestrator.supervisor.supervisor import Supervisor

PATIENCE = timedelta(minutes=7)
"""How long after the time that it names a wait may last: the daemon looks at the clock every five minutes."""
PRECISION = timedelta(minutes=1)
"""How precisely times are named."""
MOST_EXAMPLES = 20
LATER = "later "
"""What the kind of a window begins with that is closed only when what was named before is over."""
AT_ONCE = "at once"
"""The kind of a claim that a task goes on in a moment."""

_WINDOW = re.compile(r"its run window (\S+) opens at (?:\w{3} (\d{4}-\d\d-\d\d) )?(\d\d:\d\d) ([^\s,]+), ")
_UTC = r"(\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?) UTC"
_STARTS = re.compile(rf"^it starts at {_UTC}")
_WAITS_FOR = re.compile(r"^it waits for (\S+), which is ")
_SLOTS = re.compile(r"^(\d+) of (\d+) slots are taken(?: by (.*))?$")
_LIMIT = re.compile(rf"usage limit \(.*\) lasts until {_UTC}")
_UNTIL = re.compile(rf"(?:continues|tries again) by itself at {_UTC}")
_UNTIL_FACT = re.compile(rf", until {_UTC}")
_DAY = re.compile(rf"when the day is over, at {_UTC}")
_DEADLINE = re.compile(rf"without an answer it continues at {_UTC}")
_LOOK = re.compile(rf"the next look is at {_UTC}")
_TIMES = {"start": _STARTS, "limit": _LIMIT, "request": _DEADLINE}
_WORDS = {
    "are free, the setting": "pressure",
    "the load is ": "pressure",
    "the machine was short": "pressure",
    "children have not ended": "children",
    "a person paused it": "user",
    "is reserved for their running turns": "reserved",
}
_ASKS = (
    "orchestrator answer",
    "orchestrator approve",
    "orchestrator provide",
    "orchestrator deny",
    "orchestrator review",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What `why` said of a task: the kind of its reason, the time it named, and the names in it."""

    task: str
    at: datetime
    kind: str
    until: datetime | None
    names: tuple[str, ...]
    text: str


_Said = tuple[str, datetime | None, tuple[str, ...]]
"""The kind, the time and the names of a claim, which make it another one."""


@dataclass(slots=True)
class Reasons:
    """What was said and what came of it; `broken` describes each claim that was not true."""

    clock: VirtualClock
    asked: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    _claims: dict[str, dict[_Said, Claim]] = field(default_factory=dict)
    _times: set[tuple[str, str, datetime]] = field(default_factory=set)
    _supervisor: Supervisor | None = None
    _last: dict[str, Task] = field(default_factory=dict)
    _started_at: datetime | None = None

    def on_start(self, supervisor: Supervisor) -> None:
        """Ask this process of the daemon from now on."""
        self._supervisor, self._started_at = supervisor, self.clock.now

    def on_crash(self) -> None:
        """Nobody can be asked for a while."""
        self._supervisor = None

    def ask(self, supervisor: Supervisor) -> None:
        """Ask about every task that stands still."""
        for task in supervisor.tasks.values():
            if not stands(task):
                continue
            self.asked += 1
            claims = claims_of(task, supervisor.why(task), self.clock.now)
            named = {one.kind.removeprefix(LATER) for one in claims}
            if any(map(self._is_new, claims)):
                last = max(claims, key=_until)
                for obstacle in set(_foreseeable(task, supervisor.snapshot(), last)) - named:
                    self._break(task.id, f"said {last.text!r}, but then it is known to wait for its {obstacle}")
            if not claims:
                self._break(task.id, f"no reason is understood: {supervisor.why(task)}")
            known = self._claims.setdefault(task.id, {})
            for one in claims:
                known.setdefault((one.kind, one.until, one.names), one)
                self._look_again(one)

    def on_decision(self, task: Task, event: events.Event) -> None:
        """Compare what was said with what happens when a task goes on, or waits for something else."""
        before, self._last[task.id] = self._last.get(task.id), task
        if before is None or (_state(before) == _state(task) and not task.is_over):
            return
        claims, now = self._claims.pop(task.id, {}), event.at
        still = stands(task) and not task.is_over
        for said, claim in claims.items():
            if still and claim.until is not None and claim.until - PRECISION > now:
                self._claims.setdefault(task.id, {})[said] = claim
            else:
                self._judge(claim, before, task, event)

    def _judge(self, claim: Claim, before: Task, task: Task, event: events.Event) -> None:
        now, supervisor = event.at, self._supervisor
        assert supervisor is not None
        if claim.kind == AT_ONCE and self._started_at and now - max(claim.at, self._started_at) > PATIENCE:
            self._break(task.id, f"{claim.at:%m-%d %H:%M} said {claim.text!r}, and then came only {event}")
        elif _by_person(event):
            self.kept[f"{claim.kind}: a person"] += 1
        elif claim.until is not None and now >= claim.until - PRECISION:
            self.kept[f"{claim.kind}: the time it named"] += 1
        elif _is_over(claim, task, event, supervisor.snapshot()):
            self.kept[f"{claim.kind}: what it named"] += 1
        elif _is_finished(claim, task):
            self.kept[f"{claim.kind}: no turn was needed any more"] += 1
        elif stands(task):
            self.kept[f"{claim.kind}: another reason came first"] += 1
        else:
            self._break(
                task.id,
                f"{claim.at:%m-%d %H:%M} said {claim.text!r}; {_state(before)} became {_state(task)} by {event}",
            )

    def _is_new(self, claim: Claim) -> bool:
        is_timed = claim.until is not None and claim.kind != AT_ONCE
        return is_timed and (claim.task, claim.kind, claim.until) not in self._times

    def _look_again(self, claim: Claim) -> None:
        """Look, some minutes after a time that was named, whether the wait is over."""
        if claim.until is None or not self._is_new(claim):
            return
        self._times.add((claim.task, claim.kind, claim.until))

        def look() -> None:
            if self._supervisor is None or (self._started_at and self.clock.now - self._started_at < PATIENCE):
                self.clock.schedule_after(PATIENCE.total_seconds(), look)
                return
            task = self._supervisor.tasks.get(claim.task)
            still = claims_of(task, self._supervisor.why(task), self.clock.now) if task and stands(task) else ()
            if any((one.kind, one.until) == (claim.kind, claim.until) for one in still):
                self._break(claim.task, f"{claim.at:%m-%d %H:%M} said {claim.text!r}, and it says that still")
            self.kept[f"{claim.kind}: over at the time it named"] += 1

        self.clock.schedule_at(claim.until + PATIENCE, look)

    def _break(self, task: str, text: str) -> None:
        if len(self.broken) < MOST_EXAMPLES:
            self.broken.append(f"{self.clock.now:%Y-%m-%d %H:%M} {task}: {text}")


def stands(task: Task) -> bool:
    """Return whether a task stands still: it has not begun, is paused, or waits for a person."""
    return task.is_paused or task.status in (TaskStatus.PENDING, TaskStatus.DRAFT, TaskStatus.BLOCKED)


def _until(claim: Claim) -> datetime:
    return claim.until or datetime.min.replace(tzinfo=UTC)


def _foreseeable(task: Task, snapshot: SchedulerSnapshot, claim: Claim) -> Iterator[str]:
    """Yield what is known already to keep a task from going on at the last time that claims name."""
    if claim.until is None or claim.kind == "request" or " by itself" not in claim.text:
        return
    then = replace(snapshot, now=claim.until + PRECISION)
    if then.closed(task) is not None and replace(snapshot, now=claim.until).closed(task) is not None:
        yield "window"
    if task.status is TaskStatus.PENDING and task.schedule.start_at and task.schedule.start_at > then.now:
        yield "start"
    if (limit := active_limit_before(task, then)) is not None and limit.until is not None:
        yield "limit"


def _state(task: Task) -> tuple[object, ...]:
    return task.status, task.is_paused, task.agent.blocked_by if task.is_paused else None


def claims_of(task: Task, why: Why, now: datetime) -> list[Claim]:
    """Return what is claimed of a task, as a person reads it."""
    text = "; ".join((*why.facts, why.next))
    found = [claimed for fact in why.facts if (claimed := _claimed(fact, now))] or _claimed_next(task, why, now)
    later = {number for number, one in enumerate(found) if number and one[0] == "window"}
    return [
        Claim(task=task.id, at=now, kind=LATER * (number in later) + kind, until=until, names=names, text=text)
        for number, (kind, until, names) in enumerate(found)
    ]


def _claimed(fact: str, now: datetime) -> tuple[str, datetime | None, tuple[str, ...]] | None:
    """Return what a fact claims: the kind of the reason, its time and the names in it."""
    for kind, pattern in _TIMES.items():
        if match := pattern.search(fact):
            return kind, _utc(match[1]), ()
    if match := _UNTIL_FACT.search(fact):
        return "limit" if "usage limit" in fact else "service", _utc(match[1]), ()
    if match := _WINDOW.search(fact):
        return "window", _wall_clock(match[2], match[3], match[4], now), (match[1],)
    if match := _WAITS_FOR.search(fact):
        return "dependency", None, (match[1],)
    if match := _SLOTS.search(fact):
        is_full = int(match[1]) >= int(match[2])
        return "slots" if is_full else "others first", None, (match[2], *(match[3] or "").split(", "))
    return next(((kind, None, ()) for words, kind in _WORDS.items() if words in fact), None)


def _claimed_next(task: Task, why: Why, now: datetime) -> list[tuple[str, datetime | None, tuple[str, ...]]]:
    """Return what is claimed by the command or the time that makes a task go on; none if it is not understood."""
    kind, until = (AT_ONCE, now) if why.next.endswith(" by itself in a moment") else _next_kind(task, why)
    return [(kind, until, ())] if kind else []


def _next_kind(task: Task, why: Why) -> tuple[str, datetime | None]:
    if match := _UNTIL.search(why.next):
        return "service" if "tries again" in why.next else "limit", _utc(match[1])
    if match := _DAY.search(why.next):
        return "day", _utc(match[1])
    if match := _LOOK.search(why.next):
        return "look", _utc(match[1])
    if task.status is TaskStatus.BLOCKED:
        return "blocked", None
    if task.status is TaskStatus.DRAFT:
        return "draft", None
    if why.next.startswith("orchestrator budget"):
        return "budget", None
    if why.next.startswith(_ASKS):
        return "request", None
    if why.next.startswith("orchestrator resume"):
        return "resume", None
    return "", None


def _is_over(claim: Claim, task: Task, event: events.Event, snapshot: SchedulerSnapshot) -> bool:
    """Return whether what a claim named is over now, or happens with this event."""
    match claim.kind:
        case "window":
            return snapshot.closed(task) is None and task.schedule.let_run_at is not None
        case "later window":
            return snapshot.closed(task) is None  # what came before it was over early, when the window was open
        case "dependency":
            return claim.names[0] in snapshot.ended
        case "slots":
            holders = {one.id for one in snapshot.tasks.running} - {task.id}
            return places(snapshot) > int(claim.names[0]) or not set(claim.names[1:]) <= holders
        case "others first":
            return True  # a slot is free that others take who go on just now, or it gets one of them
        case "limit" | "resume":
            return active_limit_before(task, snapshot) is None
        case "request" | "look":
            return task.pending_requests == () or isinstance(event, events.AskAnswered) or task.is_over
        case "pressure":
            return snapshot.capacity.pressure is None
        case "budget" | "day":
            eased = isinstance(event, events.CapsChanged | events.ResumeRequested)
            return eased or is_within_budgets(task, snapshot)
        case "reserved":
            return is_within_budgets(task, snapshot)
        case "children":
            return not any(child.status.is_open for child in task.children)
        case _:
            return False


def _is_finished(claim: Claim, task: Task) -> bool:
    """Return whether a task waited for its next turn, and its work was found to be finished meanwhile."""
    return claim.kind in ("limit", "window", "later window") and task.next_action in WITHOUT_AGENT


def _by_person(event: events.Event) -> bool:
    match event:
        case events.CancelRequested() | events.RetryRequested() | events.DraftSubmitted() | events.CapsChanged():
            return True
        case events.PauseRequested():
            return event.blocked_by is PauseReason.USER
        case events.ResumeRequested():
            return bool(event.by)
        case _:
            return False


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _wall_clock(day: str | None, clock: str, zone: str, now: datetime) -> datetime:
    """Return the time that a person reads: on that day, or the next time that clocks show it."""
    there, at = ZoneInfo(zone), datetime.strptime(clock, "%H:%M").time()  # noqa: DTZ007 - a time of the day
    if day is not None:
        return datetime.combine(datetime.fromisoformat(day), at, there).astimezone(UTC)
    today = now.astimezone(there).date()
    times = (datetime.combine(today + timedelta(days=ahead), at, there).astimezone(UTC) for ahead in (0, 1))
    return next((one for one in times if one > now), now)
