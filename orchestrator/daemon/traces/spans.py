"""A task as a trace: its spans, derived from what its journal says, each with an id that never changes. Pure.

The trace is the task; stages, agents, turns, checks and waits are spans in it. An id is a hash of the task's id and of
the decision with which the span began. So a span that is sent again, after a crash or a lost answer, is the same span.
A task that was retried after its end has another span of its whole work, in the same trace.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.history.timeline import Interval, Lane, Moment, MomentKind, Timeline

Attributes = Mapping[str, str | int | float]

_FAILED = frozenset({"failed", "lost", "error", "FAIL", "ERROR", TaskStatus.CANCELLED.value})
_WITHIN = {Lane.TURN: (Lane.AGENT, Lane.STAGE)}
_TOP = (Lane.STAGE,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecord:
    """One span; `end_seq` is the decision with which it ended. The ids have 16 bytes for the trace, 8 for spans."""

    trace_id: int
    span_id: int
    parent_id: int | None
    name: str
    begin: datetime
    end: datetime
    end_seq: int
    attributes: Attributes
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class _Life:
    """The work on a task from its beginning, or from a retry, to its end."""

    first: int
    begin: datetime
    end: Moment | None

    def holds(self, seq: int) -> bool:
        """Return whether a decision belongs to it."""
        return self.first <= seq and (self.end is None or seq <= self.end.seq)


def spans_of(task_id: str, timeline: Timeline, after: int, facts: Attributes) -> list[SpanRecord]:
    """Return the spans that ended with a decision later than `after`; each carries the facts about its task."""
    lives = list(_lives(timeline))
    ended = [(life, life.end) for life in lives if life.end and life.end.seq > after]
    found = [_span_of_life(task_id, life, end, facts) for life, end in ended]
    for one in timeline.intervals:
        if one.end is not None and one.end_seq is not None and one.end_seq > after:
            parent = _parent_of(task_id, one, timeline.intervals, lives)
            found.append(_span_of_interval(task_id, one, parent, facts))
    return found


def _lives(timeline: Timeline) -> Iterator[_Life]:
    ends = [one for one in timeline.moments if one.kind is MomentKind.END]
    begun = sorted((one.seq, one.begin) for one in timeline.intervals)
    first, begin = 0, timeline.begin
    for end in ends:
        if any(first <= seq <= end.seq for seq, _ in begun):
            yield _Life(first, begin, end)
        first = end.seq + 1
        begin = next((at for seq, at in begun if seq >= first), end.at)
    if any(seq >= first for seq, _ in begun):
        yield _Life(first, begin, None)


def _span_of_life(task_id: str, life: _Life, end: Moment, facts: Attributes) -> SpanRecord:
    return SpanRecord(
        trace_id=trace_id_of(task_id),
        span_id=_id(task_id, "task", life.first),
        parent_id=None,
        name=f"task {facts.get('orchestrator.pipeline', '')}".strip(),
        begin=life.begin,
        end=end.at,
        end_seq=end.seq,
        attributes={**facts, "orchestrator.status": end.label},
        is_error=end.label in _FAILED,
    )


def _span_of_interval(task_id: str, one: Interval, parent: int | None, facts: Attributes) -> SpanRecord:
    name, own = _described(one)
    return SpanRecord(
        trace_id=trace_id_of(task_id),
        span_id=_id_of(task_id, one),
        parent_id=parent,
        name=name,
        begin=one.begin,
        end=one.end or one.begin,
        end_seq=one.end_seq or one.seq,
        attributes={**facts, **own, **({"orchestrator.outcome": one.outcome} if one.outcome else {})},
        is_error=one.outcome in _FAILED,
    )


def _described(one: Interval) -> tuple[str, Attributes]:
    """Return a span's name, of which there are few, and what it says of itself."""
    match one.lane:
        case Lane.STAGE:
            return f"stage {one.label}", {"orchestrator.stage": one.label}
        case Lane.AGENT:
            return f"agent {one.label}", {"orchestrator.role": one.label, "orchestrator.attempt": one.number or 0}
        case Lane.TURN:
            return f"invoke_agent {one.label}", {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": one.label,
                "orchestrator.turn": one.number or 0,
                "orchestrator.tokens": one.tokens,
                "orchestrator.cost_usd": round(one.usd, 6),
            }
        case Lane.CHECK:
            return f"check {one.label}", {"orchestrator.check": one.label}
        case Lane.REQUEST:
            kind = one.label.partition(":")[0]  # what is asked stays here
            return f"wait {kind}", {"orchestrator.reason": kind, "orchestrator.request": one.number or 0}
        case Lane.PAUSE | Lane.LIMIT:
            return f"wait {one.label}", {"orchestrator.reason": one.label}
        case Lane.FREEZE:
            return "frozen", {}


def _parent_of(task_id: str, one: Interval, intervals: Sequence[Interval], lives: list[_Life]) -> int | None:
    """Return the id of the span in which another began: a turn's agent, the stage, or the work on the task."""
    for lane in _WITHIN.get(one.lane, () if one.lane is Lane.STAGE else _TOP):
        around = [
            other
            for other in intervals
            if other.lane is lane and other.seq <= one.seq and (other.end_seq is None or other.end_seq > one.seq)
        ]
        if around:
            return _id_of(task_id, max(around, key=lambda other: other.seq))
    return next((_id(task_id, "task", life.first) for life in lives if life.holds(one.seq)), None)


def trace_id_of(task_id: str) -> int:
    """Return the id of a task's trace."""
    return int.from_bytes(sha256(f"orchestrator trace {task_id}".encode()).digest()[:16]) or 1


def _id_of(task_id: str, one: Interval) -> int:
    return _id(task_id, f"{one.lane.value} {one.number if one.lane is Lane.REQUEST else ''}", one.seq)


def _id(task_id: str, kind: str, seq: int) -> int:
    return int.from_bytes(sha256(f"orchestrator span {task_id} {kind} {seq}".encode()).digest()[:8]) or 1
