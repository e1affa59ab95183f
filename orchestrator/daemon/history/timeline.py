"""What a task did when: its stages, agents, turns, checks and pauses as intervals, read from its journal.

An interval begins and ends with a decision and knows the number of both, so that each leads to its line of the journal.
One that has no end yet goes on now.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple, TypedDict, Unpack

from orchestrator.daemon.history import journal_facts as at
from orchestrator.daemon.history.journal_facts import Decision, Facts, objects, read_decision, text_in
from orchestrator.formats.codec import JsonObject
from orchestrator.redaction.display import escape_text

LONGEST_LABEL = 200
"""Characters; a longer label is cut."""

_ACTIVE = frozenset({"in_progress", "review", "blocked"})
_PAUSED = frozenset({"paused", "waiting_dependency", "waiting_question", "waiting_review"})
_FINAL = frozenset({"completed", "failed", "cancelled", "archived"})
_LIMITS = frozenset({"rate_limit", "service"})


class Lane(StrEnum):
    """What an interval is one of."""

    STAGE = "stage"
    AGENT = "agent"
    TURN = "turn"
    CHECK = "check"
    REQUEST = "request"
    PAUSE = "pause"
    LIMIT = "limit"
    FREEZE = "freeze"


class MomentKind(StrEnum):
    """What happened at a point of time."""

    RESTART = "restart"
    RETRY = "retry"
    TROUBLE = "trouble"
    END = "end"


_MOMENTS = {
    "DaemonStarted": MomentKind.RESTART,
    "RetryRequested": MomentKind.RETRY,
    "StallSeen": MomentKind.TROUBLE,
    "CommandFailed": MomentKind.TROUBLE,
    "FreezeFailed": MomentKind.TROUBLE,
    "ForeignEditFound": MomentKind.TROUBLE,
    "LoginMissed": MomentKind.TROUBLE,
    "Recovered": MomentKind.TROUBLE,
}
"""Triggers that are moments of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Something that lasted from decision `seq` to decision `end_seq`; without an `end` it goes on.

    `label` names the stage, the role, the check, the reason of a pause or the request; `number` is the attempt of an
    agent, the number of a turn or of a request. `outcome` is what a turn, a check or a request ended with. `tokens` and
    `usd` are what a turn used.
    """

    lane: Lane
    label: str
    begin: datetime
    seq: int
    end: datetime | None = None
    end_seq: int | None = None
    number: int | None = None
    outcome: str = ""
    tokens: int = 0
    usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Something that happened at once, with decision `seq`; `label` is its event or, at an end, the status."""

    kind: MomentKind
    label: str
    at: datetime
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Everything that a journal says of a task's time, in the order in which it began.

    `begin` and `end` are the times of the first and the last decision, or `now` while it `goes_on`. `is_cut` says that
    earlier decisions were left out; `unread` counts lines that are no decisions.
    """

    begin: datetime
    end: datetime
    intervals: tuple[Interval, ...] = ()
    moments: tuple[Moment, ...] = ()
    goes_on: bool = False
    is_cut: bool = False
    unread: int = 0

    def at(self, now: datetime) -> "Timeline":
        """Return what the same journal says later."""
        return replace(self, end=max(self.end, now)) if self.goes_on else self

    def lane(self, lane: Lane) -> list[Interval]:
        """Return the intervals of one lane."""
        return [one for one in self.intervals if one.lane is lane]

    def within(self, begin: datetime | None, end: datetime | None) -> "Timeline":
        """Return what touches a stretch of time, which is no longer than the timeline itself."""
        begin = min(max(begin or self.begin, self.begin), self.end)
        end = max(min(end or self.end, self.end), begin)
        intervals = tuple(one for one in self.intervals if one.begin <= end and (one.end or end) >= begin)
        moments = tuple(one for one in self.moments if begin <= one.at <= end)
        return replace(self, begin=begin, end=end, intervals=intervals, moments=moments)


def timeline_of(lines: Iterable[JsonObject | None], now: datetime) -> Timeline:
    """Return the timeline of a journal's lines, oldest first; None stands for a line that is no decision.

    The first line may be a later one than the journal's first: what had begun before it begins with it.
    """
    builder = _Builder()
    unread = sum(not builder.take(line) for line in lines)
    return replace(builder.result(now), unread=unread)


class _End(TypedDict, total=False):
    """What an interval gets when it ends."""

    end: datetime
    end_seq: int
    outcome: str
    tokens: int
    usd: float


class _Open(NamedTuple):
    """An interval that has not ended; another `key` in its place means another interval."""

    key: str
    label: str
    number: int | None
    begun: Decision

    def interval(self, lane: Lane, **end: Unpack[_End]) -> Interval:
        """Return it as an interval of a lane."""
        begin, seq = self.begun.at, self.begun.seq
        return Interval(lane=lane, label=self.label, number=self.number, begin=begin, seq=seq, **end)


class _Builder:
    """Follows the facts line by line and keeps which intervals are open."""

    def __init__(self) -> None:
        self._facts = Facts()
        self._open: dict[tuple[Lane, int], _Open] = {}
        self._closed: list[Interval] = []
        self._moments: list[Moment] = []
        self._counted = (0.0, 0.0)
        self._status = ""
        self._first: datetime | None = None
        self._last: datetime | None = None

    def take(self, line: JsonObject | None) -> bool:
        """Take a line's changes into account; return whether it is a decision."""
        decision = read_decision(line)
        if decision is None:
            return False
        self._first, self._last = self._first or decision.at, decision.at
        if self._facts.apply(decision):
            self._follow_task(decision)
            self._follow_turn(decision)
            self._follow_run(decision)
            self._follow_requests(decision)
        self._note(decision)
        return True

    def result(self, now: datetime) -> Timeline:
        """Return what was found so far."""
        still = [one.interval(lane) for (lane, _), one in self._open.items()]
        intervals = sorted((*self._closed, *still), key=lambda one: (one.begin, one.seq))
        begin = self._first or now
        goes_on = bool(still) or self._status not in _FINAL
        found = Timeline(
            begin=begin,
            end=self._last or begin,
            intervals=tuple(intervals),
            moments=tuple(self._moments),
            goes_on=goes_on,
        )
        return found.at(now)

    def _follow_task(self, decision: Decision) -> None:
        facts = self._facts
        status, blocked_by = facts.text(at.STATUS), facts.text(at.BLOCKED_BY)
        is_limited = blocked_by in _LIMITS and facts.text(at.AGENT) in _PAUSED and status not in _FINAL
        self._follow(Lane.STAGE, facts.text(at.STAGE) if status in _ACTIVE else "", decision)
        self._follow(Lane.LIMIT, blocked_by if is_limited else "", decision)
        self._follow(Lane.PAUSE, "" if is_limited else self._pause(status), decision)

    def _pause(self, status: str) -> str:
        """Return why nothing happens, other than a usage limit; empty if something does."""
        if status in {"draft", "blocked"}:
            return status
        if status in _FINAL:
            return ""
        if self._facts.text(at.AGENT) in _PAUSED:
            return self._facts.text(at.BLOCKED_BY) or "slot"
        if self._facts.text(at.NEXT_ACTION) == "retry":
            return "retry"
        return "slot" if status == "pending" else ""

    def _follow_turn(self, decision: Decision) -> None:
        facts = self._facts
        run, number = facts.text(at.RUN), int(facts.number(at.TURN))
        is_turn = run.startswith("agents/") and facts.text(at.DEADLINE) != ""
        key = f"{run} {number}" if is_turn else ""
        if self._is_over(Lane.TURN, key):
            outcome = text_in(decision.event, "outcome") or ("lost" if decision.trigger == "AgentExited" else "")
            self._close(Lane.TURN, 0, decision, outcome)
        self._follow(Lane.TURN, key, decision, facts.text(at.ROLE), number)

    def _follow_run(self, decision: Decision) -> None:
        kind, _, name = self._facts.text(at.RUN).partition("/")
        attempt = int(name) if kind == "agents" and name.isdecimal() and len(name) < 10 else None
        self._follow(Lane.AGENT, name if attempt else "", decision, self._facts.text(at.ROLE), attempt)
        check = name if kind == "logs" else ""
        if self._is_over(Lane.CHECK, check):
            self._close(Lane.CHECK, 0, decision, text_in(decision.event, "result", "verdict") or "stopped")
        self._follow(Lane.CHECK, check, decision, name.partition("-")[2] or name)
        self._follow(Lane.FREEZE, "frozen" if self._facts.text(at.PROCESS) == "frozen" else "", decision)

    def _follow_requests(self, decision: Decision) -> None:
        waiting = self._facts.waiting
        for number in [number for lane, number in self._open if lane is Lane.REQUEST and number not in waiting]:
            self._close(Lane.REQUEST, number, decision, _answer(decision, number))
        for number, request in waiting.items():
            label = f"{text_in(request, 'kind')}: {text_in(request, 'text')}"
            self._follow(Lane.REQUEST, str(number), decision, label, number)

    def _note(self, decision: Decision) -> None:
        status = self._facts.text(at.STATUS)
        if kind := _MOMENTS.get(decision.trigger):
            self._moments.append(Moment(kind=kind, label=decision.trigger, at=decision.at, seq=decision.seq))
        if status != self._status and status in _FINAL:
            self._moments.append(Moment(kind=MomentKind.END, label=status, at=decision.at, seq=decision.seq))
        self._status = status

    def _is_over(self, lane: Lane, key: str) -> bool:
        known = self._open.get((lane, 0))
        return known is not None and known.key != key

    def _follow(self, lane: Lane, key: str, decision: Decision, label: str = "", number: int | None = None) -> None:
        """Let the interval of a lane with this key go on; where it is another one, close that and open this."""
        which = number or 0 if lane is Lane.REQUEST else 0
        known = self._open.get((lane, which))
        if known is None and not key:
            return
        if known is not None:
            if known.key == key:
                return
            self._close(lane, which, decision)
        if key:
            self._open[lane, which] = _Open(key, _shown(label or key), number, decision)

    def _close(self, lane: Lane, which: int, decision: Decision, outcome: str = "") -> None:
        end: _End = {"end": decision.at, "end_seq": decision.seq, "outcome": _shown(outcome)}
        if lane is Lane.TURN:
            tokens, usd = self._facts.number(at.TOKENS), self._facts.number(at.COST)
            end |= {"tokens": int(tokens - self._counted[0]), "usd": usd - self._counted[1]}
            self._counted = tokens, usd
        self._closed.append(self._open.pop((lane, which)).interval(lane, **end))


@lru_cache(maxsize=1024)
def _shown(text: str) -> str:
    return escape_text(text, LONGEST_LABEL)


def _answer(decision: Decision, number: int) -> str:
    """Return what became of a request, by the decision after which nobody waits for it any more."""
    if (
        decision.trigger == "AskAnswered"
        and isinstance(event := decision.event, dict)
        and event.get("number") == number
    ):
        return text_in(event, "status")
    lists = (objects(one.get("value")) for one in objects(decision.change) if one.get("path") == "/requests")
    return next((text_in(one, "status") for found in lists for one in found if one.get("number") == number), "")
