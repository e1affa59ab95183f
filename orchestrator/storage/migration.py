"""Read a state.json of an earlier format as the current one.

Format 1 kept every fact of the agent and of the spending side by side. Format 2 groups them as the program does: the
agent's session, current turn, usage and setbacks are objects of their own. What scripts read (`agent.session_id`,
`agent.tokens_used`, `states`, `budgets` …) is in the same place in both.

A journal may begin in one format and continue in another. Its lines are differences between documents, so they are
applied as they are, and only the result is migrated.
"""

from collections.abc import Mapping
from typing import Final

from orchestrator.formats.codec import Json, JsonObject

SCHEMA_VERSION = 2
"""The format that is written."""

_TASK: Final = {"owed": "next_action", "wanted": "requested_changes", "asks": "requests"}
_REQUEST: Final = {"asking": "draft", "told": "is_delivered"}
_AGENT: Final[Mapping[str, tuple[str, str]]] = {
    "session_seen": ("session", "is_known"),
    "turn": ("turn", "number"),
    "turn_deadline": ("turn", "deadline"),
    "at_work_since": ("turn", "active_since"),
    "tool_uses": ("turn", "tool_uses"),
    "turn_tokens": ("turn", "tokens"),
    "open_tools": ("turn", "open_tools"),
    "timed_out": ("turn", "timed_out"),
    "retry_until": ("turn", "retry_until"),
    "thawed_at_work": ("turn", "was_frozen_in_tool"),
    "tokens_before": ("usage", "tokens_before_session"),
    "cost_before": ("usage", "cost_before_session"),
    "waits": ("setbacks", "limit_waits"),
    "limit_window": ("setbacks", "limit_window"),
    "nudges": ("setbacks", "nudges"),
    "corrected": ("setbacks", "was_corrected"),
}
_GONE: Final = ("resumed", "begun_anew", "last_saved")
"""Replaced by the session's origin and by `checkpoint`."""


def is_current(document: JsonObject) -> bool:
    """Return whether a document has the format that is written."""
    return document.get("schema_version") == SCHEMA_VERSION


def migrated(document: JsonObject) -> JsonObject:
    """Return the document in the current format; the same object if it has that format or a later one.

    It may be part of a state.json, or that of a workspace without a daemon, which has no `schema_version`; missing
    fields stay missing.
    """
    version = document.get("schema_version", 1)
    return _from_1(document) if version == 1 else document


def _from_1(document: JsonObject) -> JsonObject:
    new = {_TASK.get(name, name): value for name, value in document.items()}
    new["schema_version"] = SCHEMA_VERSION
    if isinstance(agent := new.get("agent"), dict):
        new["agent"] = _agent_from_1(agent)
    if isinstance(requests := new.get("requests"), list):
        new["requests"] = [_renamed(one, _REQUEST) for one in requests]
    if "spent" in new:
        new["spending"] = {"by_day": new.pop("spent"), "usd_at_limit": new.pop("spent_at_limit", None)}
    return new


def _agent_from_1(old: JsonObject) -> JsonObject:
    parts: dict[str, JsonObject] = {"session": {}, "turn": {}, "usage": {}, "setbacks": {}}
    parts["session"]["origin"] = "resumed" if old.get("resumed") else "restarted" if old.get("begun_anew") else "new"
    for name, (part, new_name) in _AGENT.items():
        if name in old:
            parts[part][new_name] = old[name]
    kept = {name: value for name, value in old.items() if name not in _AGENT and name not in _GONE}
    if "checkpoint" not in kept and "last_saved" in old:
        kept["checkpoint"] = {"last_saved": old["last_saved"]}
    return kept | parts


def _renamed(value: Json, names: Mapping[str, str]) -> Json:
    return {names.get(name, name): one for name, one in value.items()} if isinstance(value, dict) else value
