"""state.json of format 1, read as the present format: each fact has its place, and nothing is made up."""

import json
from typing import cast

import pytest

from orchestrator.core.task.agent import Setbacks
from orchestrator.formats.codec import JsonObject
from orchestrator.pipelines.families.tickets.standalone_state import manual, task_from, with_changes
from orchestrator.storage.migration import SCHEMA_VERSION, migrated
from orchestrator.storage.state_document import from_document, to_document
from tests.fakes.recorded import FOLDER
from tests.fakes.tasks import full_pipeline
from tests.unit.playbook import at_work

AGENT: JsonObject = {
    "status": "paused", "blocked_by": "rate_limit", "role": "planner", "attempt": 2, "pid": 7, "session_id": "s",
    "session_seen": True, "resumed": False, "begun_anew": False, "turn": 3, "turn_deadline": "2026-11-22T08:04:38.969Z",
    "current_step": 4, "read_offset": 5, "tool_uses": 6, "tokens_used": 7, "cost_usd": 8.5, "turn_tokens": 9,
    "tokens_before": 10, "cost_before": 11.5, "waits": 12, "limit_window": "five_hour", "open_tools": 13,
    "timed_out": ["make"], "retry_until": "2026-11-22T08:04:39.000Z", "thawed_at_work": True, "corrected": True,
    "nudges": 14, "at_work_since": "2026-11-22T08:04:40.000Z", "last_update": "2026-11-22T08:03:38.000Z",
    "last_saved": "2026-11-22T08:03:39.056Z", "current_phase": None,
    "checkpoint": {"last_saved": "2026-11-22T08:03:39.056Z", "auto_save_interval": 600},
}  # fmt: skip
ASK: JsonObject = {"number": 1, "asking": {"subject": "question", "text": "Which?"}, "told": True, "status": "answered"}
SPENT: JsonObject = {"2026-11-22": {"usd": 1.5, "tokens": 2, "turns": 3, "seconds": 4.5}}
OLD: JsonObject = {
    "schema_version": 1, "seq": 9, "owed": "turn", "wanted": ["less"], "asks": [ASK], "agent": AGENT, "spent": SPENT,
    "spent_at_limit": 0.5, "title": "t",
}  # fmt: skip


RECORDED = json.loads((FOLDER / "expected.json").read_text("utf-8"))["tasks"]
STATES = {part: RECORDED[part]["state"] for part in RECORDED}


def test_every_fact_of_format_1_is_at_its_place_in_the_present_format() -> None:
    turn: JsonObject = {
        "number": 3,
        "deadline": "2026-11-22T08:04:38.969Z",
        "active_since": "2026-11-22T08:04:40.000Z",
        "tool_uses": 6,
        "tokens": 9,
        "open_tools": 13,
        "timed_out": ["make"],
        "retry_until": "2026-11-22T08:04:39.000Z",
        "was_frozen_in_tool": True,
    }
    setbacks: JsonObject = {"limit_waits": 12, "limit_window": "five_hour", "nudges": 14, "was_corrected": True}
    draft: JsonObject = {"subject": "question", "text": "Which?"}
    expected: JsonObject = {
        "schema_version": SCHEMA_VERSION,
        "seq": 9,
        "title": "t",
        "next_action": "turn",
        "requested_changes": ["less"],
        "requests": [{"number": 1, "draft": draft, "is_delivered": True, "status": "answered"}],
        "spending": {"by_day": SPENT, "usd_at_limit": 0.5},
        "agent": {
            **{name: AGENT[name] for name in ("status", "blocked_by", "role", "attempt", "pid", "session_id")},
            **{name: AGENT[name] for name in ("current_step", "read_offset", "tokens_used", "cost_usd", "last_update")},
            **{name: AGENT[name] for name in ("current_phase", "checkpoint")},
            "session": {"is_known": True, "origin": "new"},
            "turn": turn,
            "usage": {"tokens_before_session": 10, "cost_before_session": 11.5},
            "setbacks": setbacks,
        },
    }
    assert migrated(OLD) == expected


def test_the_two_flags_of_a_session_become_its_one_origin() -> None:
    for flags, origin in (({"resumed": True}, "resumed"), ({"begun_anew": True}, "restarted"), ({}, "new")):
        agent = cast(JsonObject, migrated({**OLD, "agent": {**AGENT, **flags}})["agent"])
        assert cast(JsonObject, agent["session"])["origin"] == origin


def test_an_agent_of_format_1_is_read_whole() -> None:
    agent = from_document({**to_document(at_work()), "schema_version": 1, "agent": AGENT}).agent
    assert (agent.turn.number, agent.turn.step, agent.usage.tokens, agent.usage.cost_usd) == (3, 4, 7, 8.5)
    assert (agent.session.id, agent.session.is_known, agent.attempt, agent.pid) == ("s", True, 2, 7)
    assert agent.setbacks == Setbacks(limit_waits=12, limit_window="five_hour", nudges=14, was_corrected=True)


def test_what_is_missing_in_a_part_of_a_document_stays_missing() -> None:
    assert migrated({"title": "t"}) == {"title": "t", "schema_version": SCHEMA_VERSION}


@pytest.mark.parametrize("version", [SCHEMA_VERSION, SCHEMA_VERSION + 1])
def test_a_document_of_the_present_or_a_later_format_is_left_alone(version: int) -> None:
    document: JsonObject = {**OLD, "schema_version": version}
    assert migrated(document) is document


@pytest.mark.parametrize("part", [part for part, state in STATES.items() if state["pipeline_variant"] == "full"])
def test_a_lone_workspace_with_the_state_of_format_1_is_read_and_changed_without_losing_a_key(part: str) -> None:
    document = STATES[part]
    pipeline = manual(full_pipeline())
    task = task_from(document, pipeline, document["workspace_dir"])
    assert (task.stage, len(task.requests)) == (document["stage"], len(document["asks"]))
    assert with_changes(document, task, task) | {"status": document["status"]} == document
