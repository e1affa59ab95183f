"""What a task's journal tells of a stretch of time: what was spent by whom, how its status changed, what was unusual.

A history is built line by line and keeps only a little of each, so that it can stay in memory and go on where the
journal has grown. What a task has spent stands in its state as totals by day; the difference that a line makes belongs
to the role whose agent was at work before that line, and to the model that its session reported.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from orchestrator.core.decide.pausing import DENY
from orchestrator.core.events.event_text import describe_event
from orchestrator.core.task.budget import NOTHING_SPENT, Spending
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.user_requests import Subject
from orchestrator.daemon.reporting.stops import StopLog
from orchestrator.formats.codec import Json, JsonObject, from_json
from orchestrator.formats.diffs.patch import Operation, applied
from orchestrator.formats.person import person_name

KEPT_INCIDENTS = 300
"""How many incidents of a task are kept, the newest ones."""
NOBODY = "daemon"
"""The role of what is spent while no agent has a role."""
_FOLLOWED = {
    "by_day": "/spending/by_day",
    "role": "/agent/role",
    "requests": "/requests",
    "failures": "/failure_summary/total_failures",
    "agent_status": "/agent/status",
    "blocked_by": "/agent/blocked_by",
}
"""What a history follows, and where it stands in the state."""
_SERVICE = frozenset({"throttled", "overloaded", "server"})


class IncidentKind(StrEnum):
    """What was unusual."""

    RETRY = "retry"
    FREEZE = "freeze"
    UNFREEZABLE = "unfreezable"
    KILL = "kill"
    LOST = "lost"
    STALL = "stall"
    LIMIT = "limit"
    SERVICE = "service"
    DENIED = "denied"
    FAILURE = "failure"
    COMMAND = "command"
    FOREIGN_EDIT = "foreign_edit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Something unusual: when, as a stamp, in which stage, and in words. For a limit `window` and `until` say which."""

    at: str
    seq: int
    kind: IncidentKind
    stage: str
    text: str
    window: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one decision added to a task's spending; `at` is a stamp, `model` is empty where it was not reported."""

    at: str
    role: str
    model: str
    spent: Spending


@dataclass(slots=True, kw_only=True)
class TaskHistory:
    """The history of one task up to its decision `seq`; lines that could not be read are counted in `unread`."""

    seq: int = 0
    unread: int = 0
    charges: list[Charge] = field(default_factory=list)
    statuses: list[tuple[str, TaskStatus]] = field(default_factory=list)
    incidents: deque[Incident] = field(default_factory=lambda: deque(maxlen=KEPT_INCIDENTS))
    incidents_left_out: int = 0
    stops: StopLog = field(default_factory=StopLog)
    _state: dict[str, Json] = field(default_factory=dict)
    _spent: dict[str, Json] = field(default_factory=dict)
    _model: str = ""
    _denied: int = 0

    def add(self, line: JsonObject) -> None:
        """Take up the next line of the journal; one that is damaged is counted."""
        try:
            self._add(line)
        except (KeyError, TypeError, ValueError, AttributeError):
            self.unread += 1

    def charges_between(self, since: str, until: str) -> Iterator[Charge]:
        """Yield what was spent from one stamp on and before another."""
        return (one for one in self.charges if since <= one.at < until)

    def incidents_between(self, since: str, until: str) -> Iterator[Incident]:
        """Yield what was unusual from one stamp on and before another, oldest first."""
        return (one for one in self.incidents if since <= one.at < until)

    def _add(self, line: JsonObject) -> None:
        seq, at, event, metadata = line["seq"], str(line["timestamp"]), line["event"], line["metadata"]
        if not isinstance(seq, int) or not isinstance(event, dict) or not isinstance(metadata, dict):
            raise TypeError("a line of a journal has another form")
        self.seq = seq
        operations = _operations(line["change"])
        if "status" in metadata:
            self._change_status(at, TaskStatus(str(metadata["status"])))
        before = self._state
        self._state = applied(before, list(_followed(operations)))
        if self.statuses:
            status = self.statuses[-1][1]
            self.stops.note(at, status, self._state.get("agent_status"), self._state.get("blocked_by"))
        stage, trigger = str(metadata.get("stage") or line["to"]), str(line["trigger"])
        if trigger == "SessionStarted":
            self._model = str(event.get("model") or "") or self._model
        self._charge(at, str(before.get("role") or self._state.get("role") or NOBODY))
        failed = _count(self._state) - _count(before)
        found = (*_of_event(trigger, event), *_retries(operations, stage), *_failures(operations, failed))
        for kind, text in (*found, *self._denials()):
            window, until = str(event.get("window") or ""), str(event.get("resets_at") or "")
            is_limit = kind is IncidentKind.LIMIT
            self._note(
                Incident(
                    at=at,
                    seq=seq,
                    kind=kind,
                    stage=stage,
                    text=text,
                    window=window if is_limit else "",
                    until=until if is_limit else "",
                )
            )

    def _change_status(self, at: str, status: TaskStatus) -> None:
        if not self.statuses or self.statuses[-1][1] is not status:
            self.statuses.append((at, status))

    def _charge(self, at: str, role: str) -> None:
        """Record what a line has added to the spending of each day; of an earlier day it is noted at that day's end."""
        by_day = self._state.get("by_day")
        for day, spent in by_day.items() if isinstance(by_day, dict) else ():
            if spent != self._spent.get(day):
                before = from_json(Spending, self._spent.get(day, {}))
                when = at if at.startswith(day) else f"{day}T23:59:59.999Z"
                added = from_json(Spending, spent) - before
                self.charges.append(Charge(at=when, role=role, model=self._model, spent=added))
        self._spent = by_day if isinstance(by_day, dict) else {}

    def _denials(self) -> Iterator[tuple[IncidentKind, str]]:
        """Yield the permissions that were denied since the line before."""
        requests = self._state.get("requests")
        denied = [one for one in requests if _is_denial(one)] if isinstance(requests, list) else []
        for one in denied[self._denied :]:
            draft = one.get("draft") if isinstance(one, dict) else None
            text = str(draft.get("text") if isinstance(draft, dict) else "")[:200]
            by = one.get("answered_by") if isinstance(one, dict) else None
            who = person_name(by) if isinstance(by, str) else "nobody"
            yield IncidentKind.DENIED, f"a permission was denied by {who}: {text}"
        self._denied = len(denied)

    def _note(self, incident: Incident) -> None:
        self.incidents_left_out += len(self.incidents) == KEPT_INCIDENTS
        self.incidents.append(incident)


def spent_in(charges: Sequence[Charge]) -> Spending:
    """Return the sum of what was spent."""
    return sum((one.spent for one in charges), NOTHING_SPENT)


def _operations(change: Json) -> list[Operation]:
    return [one for one in change if isinstance(one, dict)] if isinstance(change, list) else []


def _followed(operations: Sequence[Operation]) -> Iterator[Operation]:
    """Yield the changes of what a history follows, in a document of its own: see `_FOLLOWED`."""
    for one in operations:
        path, value = str(one["path"]), one.get("value")
        for name, place in _FOLLOWED.items():
            if path == place or path.startswith(f"{place}/"):
                yield {**one, "path": f"/{name}{path.removeprefix(place)}"}
            elif place.startswith(f"{path}/"):
                yield {"op": "add", "path": f"/{name}", "value": _inner(value, place.removeprefix(path))}


def _inner(value: Json, path: str) -> Json:
    for key in path.split("/")[1:]:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _count(state: JsonObject) -> int:
    count = state.get("failures")
    return count if isinstance(count, int) else 0


def _of_event(trigger: str, event: JsonObject) -> Iterator[tuple[IncidentKind, str]]:
    """Yield what is unusual about an event itself."""
    kind = _KINDS.get(trigger)
    match trigger, event:
        case "TurnFinished", {"error_class": "usage_limit"}:
            kind = IncidentKind.LIMIT
        case "TurnFinished", {"error_class": str(error)} if error in _SERVICE:
            kind = IncidentKind.SERVICE
        case "AgentExited", {"is_lost": True}:
            kind = IncidentKind.LOST
        case "AgentExited", {"signal": int()}:
            kind = IncidentKind.KILL
        case _:
            pass
    if kind is not None:
        yield kind, describe_event(trigger, event)


_KINDS = {
    "RunFrozen": IncidentKind.FREEZE,
    "FreezeFailed": IncidentKind.UNFREEZABLE,
    "StallSeen": IncidentKind.STALL,
    "CommandFailed": IncidentKind.COMMAND,
    "ForeignEditFound": IncidentKind.FOREIGN_EDIT,
    "RetryRequested": IncidentKind.RETRY,
}


def _retries(operations: Sequence[Operation], stage: str) -> Iterator[tuple[IncidentKind, str]]:
    """Yield the tries beyond the first that a decision used."""
    for one in operations:
        keys, value = str(one["path"]).split("/")[1:], one.get("value")
        if len(keys) == 3 and keys[0] == "budgets" and keys[2] == "used" and isinstance(value, int) and value > 0:
            yield IncidentKind.RETRY, f"{stage}: try {value} beyond the first ({keys[1]})"


def _failures(operations: Sequence[Operation], count: int) -> Iterator[tuple[IncidentKind, str]]:
    """Yield the failures that a decision recorded."""
    entries: list[Json] = []
    for one in operations:
        if str(one["path"]).startswith("/failure_log"):
            value = one.get("value")
            entries += value if isinstance(value, list) else [value]
    for entry in entries[-count:] if count > 0 else ():
        kind, summary = _inner(entry, "/actual_outcome/type"), _inner(entry, "/actual_outcome/summary")
        yield IncidentKind.FAILURE, f"{kind}: {str(summary)[:300]}"


def _is_denial(request: Json) -> bool:
    match request:
        case {"draft": {"subject": Subject.PERMISSION.value}, "answer": str(answer)}:
            return answer == DENY
        case _:
            return False
