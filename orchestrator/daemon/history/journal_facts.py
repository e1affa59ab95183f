"""The few facts of a task that its timeline is drawn from, followed through the changes in its journal.

A line of a journal has the change of the whole state as a JSON Patch. To apply all of it to ten thousand lines would
take seconds, so only the operations on these facts are looked at. A line may be damaged or made by another program:
what does not have the expected form is left out.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from orchestrator.formats.codec import Json, JsonObject, time_of

STATUS, STAGE, NEXT_ACTION = "/status", "/stage", "/next_action"
AGENT, BLOCKED_BY, ROLE = "/agent/status", "/agent/blocked_by", "/agent/role"
TURN, DEADLINE, STEP = "/agent/turn/number", "/agent/turn/deadline", "/agent/current_step"
TOKENS, COST = "/agent/tokens_used", "/agent/cost_usd"
RUN, PROCESS = "/run/folder", "/run/process"
WAITING = "/waiting"

_FACTS = (
    *(STATUS, STAGE, NEXT_ACTION, AGENT, BLOCKED_BY, ROLE),
    *(TURN, DEADLINE, STEP, TOKENS, COST, RUN, PROCESS, WAITING),
)


def _parents() -> Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]]:
    """Return, for every fact and every object around one, the facts in it and the keys that lead there."""
    found: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {}
    for fact in _FACTS:
        keys = tuple(fact.split("/")[1:])
        for depth in range(len(keys) + 1):
            path = "".join(f"/{key}" for key in keys[:depth])
            found[path] = (*found.get(path, ()), (fact, keys[depth:]))
    return found


_PARENTS = _parents()
_ADDED = f"{WAITING}/-"
_WATCHED = frozenset(_PARENTS) | {_ADDED}


class Decision(NamedTuple):
    """A line of a journal: its number, when it was decided, and the name of its event."""

    seq: int
    at: datetime
    trigger: str
    line: JsonObject

    @property
    def event(self) -> Json:
        """The whole event."""
        return self.line.get("event")

    @property
    def change(self) -> Json:
        """What it changed in the state, as a JSON Patch."""
        return self.line.get("change")


class Facts:
    """The facts after the lines that were applied so far; None for one that is not known."""

    def __init__(self) -> None:
        self._values: dict[str, Json] = {}

    def apply(self, decision: Decision) -> bool:
        """Take over what a decision changes; return whether a fact is among it.

        The first one also gives what its metadata say, because it may be a later one than the journal's first.
        """
        is_first = not self._values
        if is_first:
            metadata = decision.line.get("metadata")
            self._values = {STATUS: text_in(metadata, "status"), STAGE: text_in(metadata, "stage")}
        changed = is_first
        for operation in objects(decision.change):
            path = operation.get("path")
            if isinstance(path, str) and path in _WATCHED:
                self._change(path, operation.get("value"))
                changed = True
        return changed

    def text(self, fact: str) -> str:
        """Return a fact that is a text; empty if it is none."""
        found = self._values.get(fact)
        return found if isinstance(found, str) else ""

    def number(self, fact: str) -> float:
        """Return a fact that is a number; zero if it is none."""
        found = self._values.get(fact)
        return found if isinstance(found, int | float) else 0

    @property
    def waiting(self) -> dict[int, JsonObject]:
        """The requests that nobody has answered yet, in short, by their numbers."""
        requests = objects(self._values.get(WAITING))
        return {number: one for one in requests if isinstance(number := one.get("number"), int)}

    def _change(self, path: str, value: Json) -> None:
        if path == _ADDED:
            known = self._values.get(WAITING)
            self._values[WAITING] = [*(known if isinstance(known, list) else ()), value]
            return
        for fact, keys in _PARENTS[path]:
            self._values[fact] = _inner(value, keys)


def _inner(value: Json, keys: tuple[str, ...]) -> Json:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def read_decision(line: JsonObject | None) -> Decision | None:
    """Return the decision of a line; None if it has no number or time, or is no line at all."""
    if line is None or not isinstance(seq := line.get("seq"), int):
        return None
    try:
        when = time_of(str(line.get("timestamp")))
    except (ValueError, OverflowError):
        return None
    return Decision(seq, when, text_in(line.get("trigger")), line)


def text_in(value: Json, *keys: str) -> str:
    """Return a text within a JSON value; empty if there is none."""
    found = _inner(value, keys)
    return found if isinstance(found, str) else ""


def objects(value: Json) -> list[JsonObject]:
    """Return the objects in a JSON list; none if it is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
