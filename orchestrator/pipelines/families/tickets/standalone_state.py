"""state.json of a workspace without a daemon: begun, read as a task, and changed without losing a key.

Another program may have written the document, and may know fewer keys or more. So it is read with defaults for whatever
is missing, and only what an operation changed is written back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from orchestrator.core.decide.machine import stage_facts
from orchestrator.core.decide.state_moves import stage_named
from orchestrator.core.events.operations import OperationRefused
from orchestrator.core.task.checks import Check, CheckResult, Verdict
from orchestrator.core.task.failures import Failure, FailureLog, Pattern
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.progress import Budget, StageStatus
from orchestrator.core.task.task import AS_STATE, Task, TaskStatus
from orchestrator.core.task.task_policy import Autonomy, OnBlocked
from orchestrator.core.task.ticket import LOCAL, TicketType
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import Json, JsonObject, from_json, stamp, time_of
from orchestrator.pipelines.families.tickets.family import TICKETS
from orchestrator.pipelines.operation_parser import failure_of
from orchestrator.storage.state_document import RESULT_NAMES, from_document, to_document

SEEDS = ("current_state", "states", "failure_summary", "budgets")
"""Keys that operations change, beside the failure log."""
OURS = ("stage", "status", "block_reason", "completed_at")
"""Keys of this program that are changed too where the document has them, or when the task is blocked."""
OURS_IN_RECORDS = ("visits", "digest", "phase")
CYCLES, REVISIONS = "eval_cycles", TICKETS.draft_budget
LIMITS = {CYCLES: "max_eval_cycles", REVISIONS: "max_design_revisions"}
INTAKE = "TICKET_INTAKE"
TRIES = 3
"""Tries of each budget, where the document says nothing else."""


class UnreadableState(OrchestratorError):
    """A state.json cannot be read; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialState:
    """The parameters of a new workspace; the autonomy follows from the source unless it is given."""

    ticket_id: str
    ticket_type: TicketType
    variant: str
    source: str
    autonomy: Autonomy | None = None
    on_blocked: OnBlocked | None = None
    auto_merge: bool = False


def initial(beginning: InitialState, start: str, folder: str, at: datetime) -> JsonObject:
    """Return the document of a workspace where nothing has happened yet, in state `start`."""
    local = beginning.source == LOCAL
    mode = beginning.autonomy or (Autonomy.AUTO if local else Autonomy.INTERACTIVE)
    on_blocked = beginning.on_blocked or (OnBlocked.ESCALATE if local else OnBlocked.HALT)
    return {
        "ticket_id": beginning.ticket_id,
        "created_at": stamp(at),
        "workspace_dir": folder,
        "ticket_type": beginning.ticket_type.value,
        "pipeline_variant": beginning.variant,
        "requirement_source": beginning.source,
        "current_state": start,
        "current_agent": None,
        "states": _blank_states(),
        "failure_log": [],
        "failure_summary": {"total_failures": 0, "by_state": {}, "by_type": {}, "recurring_patterns": []},
        "config": {
            **dict.fromkeys(LIMITS.values(), TRIES),
            "impl_model": None,
            "planning_model": None,
            "autonomy": {"mode": mode.value, "on_blocked": on_blocked.value, "auto_merge": beginning.auto_merge},
        },
    }


def manual(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline of a workspace without a daemon: no work is started and no stage needs an approval."""
    stages = {name: replace(stage, review=False) for name, stage in pipeline.stages.items()}
    return replace(pipeline, stages=stages, is_manual=True)


def task_from(document: JsonObject, pipeline: Pipeline, folder: str) -> Task:
    """Return the task that a document describes. Raises UnreadableState."""
    try:
        return _task(document, pipeline, folder)
    except OperationRefused as error:
        raise UnreadableState(f"an entry of its failure_log cannot be read: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UnreadableState(f"it cannot be read as a state: {error!r:.300}; repair it by hand") from error


def with_changes(document: JsonObject, before: Task, after: Task) -> JsonObject:
    """Return the document with everything that changed in a task, except its failure log."""
    halted = TaskStatus.BLOCKED in (before.status, after.status)
    ours = [name for name in OURS if halted or name in document]
    old, new = (_for(document, to_document(task)) for task in (before, after))
    changed = _merged(document, {name: old[name] for name in SEEDS}, {name: new[name] for name in SEEDS})
    return {**changed, **{name: new[name] for name in ours}}


def with_check(document: JsonObject, check: JsonObject) -> JsonObject:
    """Return the document with the result of the search of its ticket for secrets."""
    states = cast(dict[str, JsonObject], document["states"])
    name = next((name for name, record in states.items() if "sensitive_check" in record), INTAKE)
    return {**document, "states": {**states, name: {**states.get(name, {}), "sensitive_check": check}}}


def _task(document: JsonObject, pipeline: Pipeline, folder: str) -> Task:
    state = str(document["current_state"])
    stage = _stage(document, pipeline, stage_named(pipeline, state))
    states = _states(document, pipeline)
    config = cast(JsonObject, document.get("config") or {})
    autonomy = cast(JsonObject, config.get("autonomy") or {})
    created = document.get("created_at") or "1970-01-01T00:00:00Z"
    whole: JsonObject = {
        **dict.fromkeys(("title", "repo", "base_branch", "base_commit", "branch"), ""),
        "updated_at": created,
        **{name: value for name, value in document.items() if value is not None},
        "created_at": created,
        "task_id": document["ticket_id"],
        "workspace_dir": folder,
        "pipeline_variant": pipeline.name,
        "ticket_type": document.get("ticket_type") or TicketType.FEATURE.value,
        "requirement_source": document.get("requirement_source") or "jira",
        "stage": stage,
        "status": _status(state).value,
        "states": cast(Json, states),
        "checks": {},
        "check_options": {},
        "failure_log": [],
        "failure_summary": {"total_failures": 0, "by_state": {}, "by_type": {}, "recurring_patterns": []},
        "config": {**config, "autonomy": {"mode": Autonomy.INTERACTIVE.value, **autonomy}},
    }
    task = replace(from_document(whole), failures=_failures(document, state))
    _require_own_numbers(task)
    results = cast(JsonObject, states.get("EVALUATION", {}).get("results") or {})
    verdicts = {name: _verdict(value) for name, value in results.items() if not isinstance(value, bool)}
    task = replace(
        task,
        evaluation=replace(
            task.evaluation,
            checks=tuple(Check(name=name, command="") for name in verdicts),
            results={name: result for name, result in verdicts.items() if result is not None},
        ),
    )
    facts = {name: stage_facts(pipeline, stage) for name, stage in pipeline.stages.items()}
    stages = {name: replace(record, facts=facts.get(name)) for name, record in task.stages.items()}
    source = replace(task.source, worktree=folder)
    return replace(task, source=source, stages=stages, budgets={**_budgets(task, document), **task.budgets})


def _stage(document: JsonObject, pipeline: Pipeline, state: str) -> str:
    """Return the stage that a state is, or that a blocked or completed task was in."""
    if state in pipeline.stages:
        return state
    if state not in AS_STATE.values():
        raise ValueError(
            f"{pipeline.name} has no state {state}, but {', '.join((*pipeline.stages, *pipeline.family.aliases))}"
        )
    kept = document.get("stage")
    if isinstance(kept, str) and kept in pipeline.stages:
        return kept
    last = list(pipeline.stages)[-1]
    begun = [
        (str(record.get("started_at") or ""), name)
        for name, record in _states(document, pipeline).items()
        if name in pipeline.stages and record.get("started_at")
    ]
    return last if state == AS_STATE[TaskStatus.COMPLETED] or not begun else max(begun)[1]


def _status(state: str) -> TaskStatus:
    outcome = next((status for status, word in AS_STATE.items() if word == state), None)
    return outcome or TaskStatus.IN_PROGRESS


def _states(document: JsonObject, pipeline: Pipeline) -> dict[str, JsonObject]:
    """Return the record of every stage, with defaults for missing keys."""
    found = cast(dict[str, JsonObject], document["states"])
    states: dict[str, JsonObject] = {}
    for name in dict.fromkeys((*found, *pipeline.stages)):
        record = {key: value for key, value in found.get(name, {}).items() if value is not None}
        begun = record.get("status", StageStatus.PENDING.value) != StageStatus.PENDING.value
        check = record.get("sensitive_check")
        if isinstance(check, str):
            record["sensitive_check"] = {"result": check}
        states[name] = {"visits": int(begun), **record}
    return states


def _failures(document: JsonObject, state: str) -> FailureLog:
    """Return the failure log, its sums counted again where they are missing or too low."""
    entries: list[Failure] = []
    since = time_of(cast(str, document.get("created_at") or "1970-01-01T00:00:00Z"))
    for number, entry in enumerate(cast(list[JsonObject], document.get("failure_log") or ()), 1):
        found = failure_of({**_OUTCOME_UNKNOWN, **entry}, state, since).failure
        entries.append(found if found.id else replace(found, id=f"fail-{number:03d}"))
    summary = cast(JsonObject, document.get("failure_summary") or {})
    patterns = cast(list[JsonObject], summary.get("recurring_patterns") or ())
    return FailureLog(
        entries=tuple(entries),
        total=max(len(entries), cast(int, summary.get("total_failures") or 0)),
        by_state=from_json(Mapping[str, int], summary.get("by_state") or {}),  # type: ignore[type-abstract]  # a form
        by_type=from_json(Mapping[str, int], summary.get("by_type") or {}),  # type: ignore[type-abstract]  # a form
        patterns=tuple(from_json(Pattern, _counted(pattern)) for pattern in patterns),
    )


_OUTCOME_UNKNOWN: JsonObject = {"actual_outcome": {"type": "unknown", "summary": "nothing is said"}}


def _counted(pattern: JsonObject) -> JsonObject:
    ids = cast(list[Json], pattern.get("failure_ids") or [])
    return {"occurrences": len(ids), **pattern, "failure_ids": ids}


def _verdict(value: Json) -> CheckResult | None:
    """Return the result that a word stands for; None where the check has not run."""
    if value is None:
        return None
    word = str(value).strip().upper()
    if word in {"N/A", "NA", "SKIP"}:
        return CheckResult(verdict=Verdict.SKIPPED, reason=f"its result is {word}")
    if word not in tuple(Verdict):
        return CheckResult(verdict=Verdict.FAIL, reason=f"its result is {value!r:.80}, which is none")
    return CheckResult(verdict=Verdict(word), reason=f"its result is {word}")


def _budgets(task: Task, document: JsonObject) -> dict[str, Budget]:
    """Return the format's two budgets, counted as the original system does: by cycles, or by failures that led back."""
    config = cast(JsonObject, document.get("config") or {})
    limits = {name: config.get(key) for name, key in LIMITS.items()}
    states = cast(dict[str, JsonObject], document["states"])
    cycle = states.get("EVALUATION", {}).get("cycle")
    back = sum(entry.transitioned_to == "ANALYSIS" for entry in task.failures.entries)
    revision = states.get("DESIGN", {}).get("revision")
    used = {
        CYCLES: max(0, (cycle if isinstance(cycle, int) else back) - 1),
        REVISIONS: revision if isinstance(revision, int) else 0,
    }
    return {
        name: Budget(limit=limit if isinstance(limit, int) else TRIES, used=used[name])
        for name, limit in limits.items()
    }


def _require_own_numbers(task: Task) -> None:
    numbers = [step.step_id for step in task.steps]
    if len(set(numbers)) != len(numbers):
        raise ValueError("two steps of plan_progress have the same step_id")


def _for(document: JsonObject, shown: JsonObject) -> JsonObject:
    """Return how a task is shown, without keys of this program that the document does not use."""
    records = cast(dict[str, JsonObject], shown["states"])
    known = cast(dict[str, JsonObject], document["states"])
    states: JsonObject = {
        name: {key: value for key, value in record.items() if key not in OURS_IN_RECORDS or key in known.get(name, {})}
        for name, record in records.items()
    }
    return {**shown, "states": states}


def _merged(original: JsonObject, old: JsonObject, new: JsonObject) -> JsonObject:
    """Return the original with everything that differs between `old` and `new`; its other keys stay."""
    other = {name: value for name, value in new.items() if old.get(name) != value}
    changed = {name: _renewed(original.get(name), old.get(name), value) for name, value in other.items()}
    gone = {name: None for name in old if name not in new and name in original}
    return {**original, **changed, **gone}


def _renewed(original: Json, old: Json, new: Json) -> Json:
    if original is None:
        return new
    if isinstance(new, dict):
        return _merged(original if isinstance(original, dict) else {}, old if isinstance(old, dict) else {}, new)
    if isinstance(new, list) and all(isinstance(one, dict) and "step_id" in one for one in new):
        known, was = _by_number(original), _by_number(old)
        steps = cast(list[JsonObject], new)
        return [_merged(known.get(step["step_id"], {}), was.get(step["step_id"], {}), step) for step in steps]
    return new


def _by_number(steps: Json) -> dict[Json, JsonObject]:
    found = steps if isinstance(steps, list) else []
    return {one.get("step_id"): one for one in found if isinstance(one, dict)}


def _blank_states() -> JsonObject:
    blank: JsonObject = {"status": StageStatus.PENDING.value, "started_at": None, "completed_at": None}
    nothing: JsonObject = {**blank, "artifacts": []}
    results: Json = dict.fromkeys(RESULT_NAMES)
    return {
        INTAKE: {**nothing, "sensitive_check": None},
        "ANALYSIS": dict(nothing),
        "PLANNING": dict(nothing),
        "DESIGN": {**nothing, "revision": 0},
        "IMPLEMENTATION": {**blank, "branch": None, "plan_progress": None, "commits": []},
        "EVALUATION": {**blank, "results": results, "report_path": None},
        "COMPLETION": {"status": StageStatus.PENDING.value, "pr_url": None, "merged_at": None, "merge_commit": None},
    }
