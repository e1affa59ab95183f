"""Convert a task to its state.json and back.

The document uses the names that readers of state.json know: BLOCKED and COMPLETED appear as `current_state`, and the
stage is a key of its own. What can be derived (progress, sums of old log entries) is written for readers and not read
back.

Some facts of a task are stored in the record of the stage that they come from. If the pipeline has no such stage, they
are at the top of the document.
"""

from collections.abc import Iterable
from dataclasses import fields
from functools import lru_cache
from typing import cast

from orchestrator.core.task.agent import TurnProgress
from orchestrator.core.task.checks import Check, CheckKind
from orchestrator.core.task.failures import Failure
from orchestrator.core.task.progress import StageFacts, StageRecord, Step
from orchestrator.core.task.publication import Publication
from orchestrator.core.task.task import AS_STATE, Schedule, Source, Task, Timing
from orchestrator.core.task.task_policy import TaskPolicy
from orchestrator.core.task.user_requests import UserRequest
from orchestrator.formats.codec import Json, JsonObject, from_json, stamp, to_json
from orchestrator.storage.migration import SCHEMA_VERSION, migrated

MACHINE_TEST = "chainbench"
"""What the original format calls the integration test that a machine offers."""
RESULT_NAMES = ("unit_test", "lint", "security", MACHINE_TEST)
AUTO_SAVE_INTERVAL = 600
"""Seconds between two checkpoints of a working agent."""
KEPT_SHOWN = 512
"""Converted values that are cached: most decisions do not change most steps, stages and failures."""
PUBLISHED = ("pr_url", "merged_at", "merge_commit")
REVISIONS, CYCLES = "design_revisions", "eval_cycles"
"""Budgets that the original format shows under names of its own."""
MARKS = {
    "sensitive_check": StageFacts.TICKET,
    "revision": StageFacts.DRAFTS,
    "plan_progress": StageFacts.STEPS,
    "results": StageFacts.CHECKS,
    "pr_url": StageFacts.PUBLICATION,
}
"""The keys that show which facts a stage's record contains."""
TURN = tuple(one.name for one in fields(TurnProgress) if one.name != "step")
USAGE = ("tokens_before_session", "cost_before_session")

SAME_NAME = (
    *("seq", "title", "status", "block_reason", "next_action", "retry_at", "feedback", "requested_changes"),
    *("requests", "notices", "spending", "parent", "children", "sessions", "pipeline_digest", "retry_of"),
)
FLAT = ("source", "schedule", "timing")
"""Records of a task whose fields stand at the top of the document."""


def to_document(task: Task) -> JsonObject:
    """Return the task as state.json shows it."""
    document: JsonObject = {
        "schema_version": SCHEMA_VERSION,
        "task_id": task.id,
        "updated_at": stamp(task.updated_at),
        "ticket_id": task.ticket.key,
        "created_at": stamp(task.timing.created_at),
        "workspace_dir": task.folder,
        "ticket_type": task.ticket.type.value,
        "pipeline_variant": task.pipeline,
        "requirement_source": task.ticket.source,
        "current_state": AS_STATE.get(task.status, task.stage),
        "stage": task.stage,
        "current_agent": task.agent.role,
        **{name: to_json(getattr(task, name)) for name in SAME_NAME},
        **_shown(task.source),
        **_shown(task.schedule),
        **_shown(task.timing),
        "publication": _shown(task.publication),
        "progress": task.progress,
        "current_phase": task.current_phase,
        "total_phases": task.total_phases,
        "run": to_json(task.run),
        "states": {name: _stage(task, record) for name, record in task.stages.items()},
        "checks": {check.name: check.command for check in task.evaluation.checks},
        "check_options": {check.name: _check_options(check) for check in task.evaluation.checks},
        "agent": _agent(task),
        "waiting": [_ask(request) for request in task.pending_requests],
        "budgets": {name: {"used": budget.used, "limit": budget.limit} for name, budget in task.budgets.items()},
        "failure_log": [shown_failure(entry) for entry in task.failures.entries],
        "failure_summary": task.failures.summary,
        "config": _config(task),
    }
    shown = {record.facts for record in task.stages.values()}
    for facts in MARKS.values():
        if facts not in shown and facts is not StageFacts.DRAFTS:
            document |= _facts(task, facts)
    return document


def from_document(document: JsonObject) -> Task:
    """Return the task that a state.json describes. Raises KeyError, TypeError or ValueError."""
    document = migrated(document)
    records = (*_objects(document["states"]).values(), document)
    evaluation, delivery = _record_with(records, "results"), _record_with(records, "pr_url")
    config = _object(document["config"])
    fields_of_task: JsonObject = {
        **document,
        "id": document["task_id"],
        "folder": document["workspace_dir"],
        "pipeline": document["pipeline_variant"],
        "stages": {name: _stage_from(record) for name, record in _objects(document["states"]).items()},
        "ticket": {
            "key": document["ticket_id"],
            "type": document["ticket_type"],
            "source": document["requirement_source"],
            "sensitive_check": _record_with(records, "sensitive_check").get("sensitive_check"),
            "preflight": _preflight_from(_record_with(records, "mcp_preflight").get("mcp_preflight")),
        },
        "steps": _object(_record_with(records, "plan_progress").get("plan_progress") or {"steps": []})["steps"],
        **dict.fromkeys(FLAT, document),
        "evaluation": {
            "checks": _checks_from(document),
            "results": evaluation.get("result_details") or {},
            "report_path": evaluation.get("report_path"),
        },
        "failures": _failures_from(document),
        "policy": {**config, **_autonomy_from(_object(config["autonomy"]))},
        "publication": {**_object(document.get("publication") or {}), **_published(delivery)},
    }
    if "agent" in document:
        fields_of_task["agent"] = _agent_from(_object(document["agent"]))
    return from_json(Task, fields_of_task)


def _stage(task: Task, record: StageRecord) -> JsonObject:
    """Return a stage's record together with the facts of the task that belong to this stage."""
    return _without_facts(record) | (_facts(task, record.facts) if record.facts else {})


@lru_cache(maxsize=KEPT_SHOWN)
def _without_facts(record: StageRecord) -> JsonObject:
    return {key: value for key, value in _shown(record).items() if key != "facts" and (key, value) != ("way", "")}


def _stage_from(record: JsonObject) -> JsonObject:
    """Return a stage's record; its keys show which facts it contains."""
    return {**record, "facts": next((facts.value for key, facts in MARKS.items() if key in record), None)}


@lru_cache(maxsize=KEPT_SHOWN)
def _shown(value: StageRecord | Step | TaskPolicy | Publication | Source | Schedule | Timing) -> JsonObject:
    """Return a record that seldom changes as plain data: the same object while it is equal, so that diffs are quick."""
    return cast(JsonObject, to_json(value))


@lru_cache(maxsize=KEPT_SHOWN)
def _check_options(check: Check) -> JsonObject:
    """Return what is declared for a check besides its command."""
    shown = cast(JsonObject, to_json(check))
    return {name: value for name, value in shown.items() if name not in {"name", "command"}}


def _facts(task: Task, facts: StageFacts) -> JsonObject:
    match facts:
        case StageFacts.TICKET:
            ticket = task.ticket
            return {"sensitive_check": to_json(ticket.sensitive_check), "mcp_preflight": to_json(ticket.preflight)}
        case StageFacts.STEPS:
            commits: list[Json] = [commit for step in task.steps for commit in step.commits]
            steps: list[Json] = [_shown(step) for step in task.steps]
            progress: Json = {"total_steps": len(steps), "steps": steps} if steps else None
            return {"branch": task.source.branch, "plan_progress": progress, "commits": commits}
        case StageFacts.CHECKS:
            results: JsonObject = dict.fromkeys(RESULT_NAMES)
            machine = (check.name for check in task.evaluation.checks if check.kind is CheckKind.INTEGRATION)
            found = {name: result.verdict.value for name, result in task.evaluation.results.items()}
            results[MACHINE_TEST] = next((found[name] for name in machine if name in found), None)
            results |= found
            return {
                "results": results,
                "result_details": to_json(task.evaluation.results),
                "report_path": task.evaluation.report_path,
            }
        case StageFacts.PUBLICATION:
            return _published(_shown(task.publication))
        case StageFacts.DRAFTS:
            return {"revision": task.budgets[REVISIONS].used if REVISIONS in task.budgets else 0}


def _agent(task: Task) -> JsonObject:
    """Return the agent; the facts of its session, turn and usage that scripts read stand at the top of it."""
    agent = task.agent
    session, turn, usage = agent.session, agent.turn, agent.usage
    return {
        "status": agent.status.value,
        "blocked_by": to_json(agent.blocked_by),
        "role": agent.role,
        "attempt": agent.attempt,
        "pid": agent.pid,
        "session_id": session.id,
        "current_phase": task.current_phase if agent.attempt else None,
        "current_step": turn.step,
        "tokens_used": usage.tokens,
        "cost_usd": usage.cost_usd,
        "read_offset": agent.read_offset,
        "last_update": to_json(agent.last_update),
        "checkpoint": {"last_saved": to_json(agent.last_saved), "auto_save_interval": AUTO_SAVE_INTERVAL},
        "session": {"is_known": session.is_known, "origin": session.origin.value},
        "turn": {name: to_json(getattr(turn, name)) for name in TURN},
        "usage": {name: getattr(usage, name) for name in USAGE},
        "setbacks": to_json(agent.setbacks),
    }


def _agent_from(shown: JsonObject) -> JsonObject:
    parts = {name: _object(shown.get(name) or {}) for name in ("session", "turn", "usage", "checkpoint")}
    usage = {name: shown[key] for name, key in (("tokens", "tokens_used"), ("cost_usd", "cost_usd")) if key in shown}
    return {
        **shown,
        "session": {"id": shown.get("session_id"), **parts["session"]},
        "turn": {"step": shown.get("current_step"), **parts["turn"]},
        "usage": {**usage, **parts["usage"]},
        "last_saved": parts["checkpoint"].get("last_saved"),
    }


@lru_cache(maxsize=KEPT_SHOWN)
def shown_failure(entry: Failure) -> JsonObject:
    """Return an entry of the failure log."""
    return {
        "id": entry.id,
        "occurred_at": stamp(entry.occurred_at),
        "state": entry.state,
        "agent": entry.agent,
        "step": entry.step,
        "attempted_action": {
            "description": entry.attempted,
            "command": entry.command,
            "related_plan_step": entry.related_plan_step,
            "related_design": entry.related_design,
            "modified_files": list(entry.modified_files),
        },
        "expected_outcome": entry.expected,
        "actual_outcome": {
            "type": entry.type,
            "summary": entry.summary,
            "details": entry.details,
            "exit_code": entry.exit_code,
            "log_file": entry.log_file,
        },
        "agent_analysis": to_json(entry.analysis),
        "resolution": {
            "action": entry.action,
            "transitioned_to": entry.transitioned_to,
            "retry_count": entry.retry_count,
        },
    }


def _config(task: Task) -> JsonObject:
    limits = {name: budget.limit for name, budget in task.budgets.items()}
    return {
        "max_design_revisions": limits.get(REVISIONS),
        "max_eval_cycles": limits.get(CYCLES),
        **_shown(task.policy),
        "autonomy": {
            "mode": task.policy.autonomy.value,
            "on_blocked": task.policy.on_blocked.value,
            "auto_merge": task.policy.auto_merge,
        },
    }


def _autonomy_from(shown: JsonObject) -> JsonObject:
    return {"autonomy": shown["mode"], **{name: shown[name] for name in ("on_blocked", "auto_merge") if name in shown}}


def _ask(request: UserRequest) -> JsonObject:
    """Return what the task waits for, in short; the whole record is in `requests`."""
    return {
        "number": request.number,
        "kind": request.kind.value,
        "text": request.draft.text,
        "asked_at": stamp(request.asked_at),
        "deadline": stamp(request.deadline) if request.deadline else None,
    }


def _preflight_from(shown: Json) -> Json:
    """Return a preflight record with everything but lists of strings left out: earlier writers used no fixed form."""
    if not isinstance(shown, dict):
        return None
    lists = {name: shown.get(name) for name in ("servers_registered", "env_unset")}
    return {
        name: [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
        for name, value in lists.items()
    }


def _checks_from(document: JsonObject) -> list[Json]:
    options = _objects(document["check_options"])
    return [
        {"name": name, "command": command, **options.get(name, {})}
        for name, command in _object(document["checks"]).items()
    ]


def _failures_from(document: JsonObject) -> Json:
    summary = _object(document["failure_summary"])
    return {
        "entries": [_failure_from(_object(entry)) for entry in cast(list[Json], document["failure_log"])],
        "total": summary["total_failures"],
        "by_state": summary["by_state"],
        "by_type": summary["by_type"],
        "patterns": summary["recurring_patterns"],
    }


def _failure_from(entry: JsonObject) -> Json:
    tried = _object(entry["attempted_action"])
    return {
        **entry,
        **tried,
        **_object(entry["actual_outcome"]),
        **_object(entry["resolution"]),
        "attempted": tried["description"],
        "command": tried["command"],
        "expected": entry["expected_outcome"],
        "analysis": entry["agent_analysis"],
    }


def _record_with(records: Iterable[JsonObject], key: str) -> JsonObject:
    return next((record for record in records if key in record), {})


def _published(document: JsonObject) -> JsonObject:
    return {name: document.get(name) for name in PUBLISHED}


def _object(value: Json) -> JsonObject:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r:.80} is not an object")
    return value


def _objects(value: Json) -> dict[str, JsonObject]:
    return {name: _object(one) for name, one in _object(value).items()}
