"""JSON Schemas of the files that people and programs meet: state.json, pipelines, the front matter of roles."""

from dataclasses import MISSING, fields
from datetime import datetime
from types import NoneType
from typing import cast, get_type_hints

from orchestrator.core.decide.work import WORK
from orchestrator.core.events.agent_messages import AgentTool
from orchestrator.core.guards import GUARDS
from orchestrator.core.task.agent import Agent, AgentUsage, Session, TurnProgress
from orchestrator.core.task.checks import Check, CheckResult
from orchestrator.core.task.children import OnChildFailure
from orchestrator.core.task.failures import Analysis
from orchestrator.core.task.guards import Guard
from orchestrator.core.task.pipeline import OnExhausted
from orchestrator.core.task.progress import StageRecord, Step
from orchestrator.core.task.publication import Publish
from orchestrator.core.task.task import AS_STATE, Task
from orchestrator.core.task.task_policy import Autonomy, OnBlocked, TaskPolicy
from orchestrator.core.task.ticket import Preflight, SensitiveCheck, TicketType
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.json_schema import array, maybe, one_of, properties_of, record, schema_of
from orchestrator.pipelines.families import FAMILIES
from orchestrator.pipelines.role import EFFORTS, PERMISSION_MODES, OnAsk, Tier
from orchestrator.storage.migration import SCHEMA_VERSION
from orchestrator.storage.state_document import FLAT, PUBLISHED, RESULT_NAMES, SAME_NAME

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT, _WHOLE, _TIME = schema_of(str), schema_of(int), schema_of(datetime)
_TEXTS, _NULL = array(_TEXT), schema_of(NoneType)


_SEEDS = (
    *("ticket_id", "created_at", "workspace_dir", "ticket_type", "pipeline_variant", "requirement_source"),
    *("current_state", "current_agent", "states", "failure_log", "failure_summary", "config"),
)
"""What every state.json has; the daemon writes more."""


def state_schema() -> JsonObject:
    """Return the schema of state.json, of a task or of a workspace without a daemon, which has fewer keys."""
    hints = get_type_hints(Task)
    facts = _facts()
    properties: JsonObject = {
        "schema_version": {"const": SCHEMA_VERSION},
        **dict.fromkeys(("task_id", "ticket_id", "workspace_dir", "pipeline_variant", "requirement_source"), _TEXT),
        "updated_at": _TIME,
        **dict.fromkeys(("current_state", "stage"), _TEXT),
        "ticket_type": schema_of(TicketType),
        "current_agent": maybe(_TEXT),
        **{name: schema_of(hints[name]) for name in (*SAME_NAME, "publication")},
        **{name: one for part in FLAT for name, one in properties_of(hints[part]).items()},
        "progress": {"type": "integer", "minimum": 0, "maximum": 100},
        "current_phase": maybe(_WHOLE),
        "total_phases": maybe(_WHOLE),
        "run": schema_of(hints["run"]),
        "states": {"type": "object", "additionalProperties": _stage_record(facts)},
        "checks": {"type": "object", "additionalProperties": _TEXT},
        "check_options": {"type": "object", "additionalProperties": _without(Check, "name", "command")},
        "agent": _agent(),
        "waiting": array(record({
            **dict.fromkeys(("kind", "text"), _TEXT), "number": _WHOLE, "asked_at": _TIME, "deadline": maybe(_TIME),
        })),
        "budgets": {"type": "object", "additionalProperties": record({"used": _WHOLE, "limit": _WHOLE})},
        "failure_log": array(_failure()),
        "failure_summary": _failure_summary(),
        "config": _config(),
    }  # fmt: skip
    return _titled("state.json", record(properties | facts, [*_SEEDS])) | {
        "$comment": f"current_state is {' or '.join(AS_STATE.values())}, or the stage"
    }


def pipeline_schema() -> JsonObject:
    """Return the schema of a pipeline's TOML file, as JSON."""
    tables = (GUARDS, *(family.guards for family in FAMILIES.values()))
    guards = [_guard(name, kind) for table in tables for name, kind in table.items()]
    stage: JsonObject = {
        **dict.fromkeys(("role", "next", "on_fail", "budget", "plan", "recheck", "mode", "children", "answer"), _TEXT),
        **dict.fromkeys(("artifacts", "documents", "child_pipelines"), _TEXTS),
        **dict.fromkeys(("review", "commits", "resume_session", "squash"), schema_of(bool)),
        "on_child_failure": schema_of(OnChildFailure),
        "on_exhausted": schema_of(OnExhausted),
        "work": one_of(*WORK),
        "guards": array({"anyOf": [*guards]}),
        "choices": array(record({"next": _TEXT, "when": array({"anyOf": [*guards]})}, ["next", "when"])),
        "publish": schema_of(Publish),
        "phase": {"type": "integer", "minimum": 1},
    }
    return _titled(
        "a pipeline",
        record(
            {
                "name": _TEXT,
                "description": _TEXT,
                "start": _TEXT,
                "branch": _TEXT,
                "new_repository": schema_of(bool),
                "family": one_of(*FAMILIES),
                "budgets": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
                "stages": {"type": "object", "additionalProperties": record(stage, ["work"])},
            },
            ["name", "description", "start", "stages"],
        ),
    )


def role_schema() -> JsonObject:
    """Return the schema of the front matter of a role's file."""
    tools: JsonObject = {"anyOf": [_TEXT, _TEXTS]}
    properties: JsonObject = {
        **dict.fromkeys(("name", "description", "model", "color"), _TEXT),
        **dict.fromkeys(("tools", "disallowedTools", "mcpServers"), tools),
        "orchestratorTools": {"anyOf": [_TEXT, array(schema_of(AgentTool))]},
        "permissionMode": one_of(*PERMISSION_MODES),
        "maxTurns": {"type": "integer", "minimum": 1},
        "effort": one_of(*EFFORTS),
        "tier": schema_of(Tier),
        **dict.fromkeys(("network", "readOnly"), schema_of(bool)),
        **dict.fromkeys(("onPermission", "onQuestion", "onPlan"), schema_of(OnAsk)),
    }
    return _titled("the front matter of a role", record(properties, ["name", "description"]))


def _guard(name: str, kind: type[Guard]) -> JsonObject:
    needed = [one.name for one in fields(kind) if one.default is MISSING]
    return record({"guard": {"const": name}, **properties_of(kind)}, ["guard", *needed])


def _facts() -> JsonObject:
    """Return the facts that stand in the stage where they arise, or beside the stages where there is no such stage."""
    verdicts: JsonObject = {"type": "object", "additionalProperties": maybe(_TEXT), "required": [*RESULT_NAMES]}
    published = get_type_hints(Task)["publication"]
    return {
        "sensitive_check": maybe(schema_of(SensitiveCheck)),
        "mcp_preflight": maybe(schema_of(Preflight)),
        "branch": maybe(_TEXT),
        "plan_progress": maybe(record({"total_steps": _WHOLE, "steps": array(schema_of(Step))})),
        "commits": _TEXTS,
        "results": verdicts,
        "result_details": {"type": "object", "additionalProperties": schema_of(CheckResult)},
        "report_path": maybe(_TEXT),
        **{name: one for name, one in properties_of(published).items() if name in PUBLISHED},
    }


def _stage_record(facts: JsonObject) -> JsonObject:
    return record({**properties_of(StageRecord), "revision": _WHOLE, **facts}, ["status"])


def _agent() -> JsonObject:
    checkpoint = record({"last_saved": maybe(_TIME), "auto_save_interval": _WHOLE})
    own = _without(Agent, "session", "turn", "usage", "last_saved")["properties"]
    return record({
        **cast(JsonObject, own),
        "session_id": maybe(_TEXT),
        "current_phase": maybe(_WHOLE),
        "current_step": maybe(_WHOLE),
        "tokens_used": _WHOLE,
        "cost_usd": schema_of(float),
        "checkpoint": checkpoint,
        "session": _without(Session, "id"),
        "turn": _without(TurnProgress, "step"),
        "usage": _without(AgentUsage, "tokens", "cost_usd"),
    })  # fmt: skip


def _failure() -> JsonObject:
    maybe_text = maybe(_TEXT)
    attempted: JsonObject = {"description": _TEXT, "modified_files": _TEXTS}
    attempted |= dict.fromkeys(("command", "related_plan_step", "related_design"), maybe_text)
    outcome = {**dict.fromkeys(("type", "summary", "details"), _TEXT), "log_file": maybe_text}
    return record({
        **dict.fromkeys(("id", "state", "expected_outcome"), _TEXT),
        "occurred_at": _TIME,
        **dict.fromkeys(("agent", "step"), maybe_text),
        "attempted_action": record(attempted),
        "actual_outcome": record({**outcome, "exit_code": maybe(_WHOLE)}),
        "agent_analysis": maybe(schema_of(Analysis)),
        "resolution": record({"action": maybe_text, "transitioned_to": maybe_text, "retry_count": _WHOLE}),
    })  # fmt: skip


def _failure_summary() -> JsonObject:
    counts: JsonObject = {"type": "object", "additionalProperties": _WHOLE}
    pattern = record({"pattern": _TEXT, "occurrences": _WHOLE, "failure_ids": _TEXTS})
    return record(
        {"total_failures": _WHOLE, "by_state": counts, "by_type": counts, "recurring_patterns": array(pattern)}
    )


def _config() -> JsonObject:
    autonomy: JsonObject = {
        "mode": schema_of(Autonomy),
        "on_blocked": schema_of(OnBlocked),
        "auto_merge": schema_of(bool),
    }
    cycles: JsonObject = dict.fromkeys(("max_design_revisions", "max_eval_cycles"), maybe(_WHOLE))
    return record({**properties_of(TaskPolicy), **cycles, "autonomy": record(autonomy)}, [*cycles, "autonomy"])


def _without(kind: type, *names: str) -> JsonObject:
    return record({name: one for name, one in properties_of(kind).items() if name not in names})


def _titled(title: str, schema: JsonObject) -> JsonObject:
    return {"$schema": _DIALECT, "title": title, **schema}
