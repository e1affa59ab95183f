"""State operations on documents that other programs wrote as well: transitions, steps, failures."""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest

from orchestrator.core.decide import machine, state_moves
from orchestrator.core.events.events import OperationRequested
from orchestrator.core.events.operations import OperationRefused, StepUpdate, Transition
from orchestrator.core.task.guards import NOTHING_SEEN, Evidence, FileFacts
from orchestrator.core.task.progress import StepCheckpoint, StepStatus
from orchestrator.core.task.task import Task
from orchestrator.core.task.ticket import TicketType
from orchestrator.formats.codec import Json, JsonObject, stamp
from orchestrator.pipelines.families.tickets.standalone_state import (
    InitialState,
    UnreadableState,
    initial,
    manual,
    task_from,
    with_changes,
)
from orchestrator.pipelines.operation_parser import failure_of, show_step, show_transition, step_of, transition_of
from tests.fakes.tasks import full_pipeline
from tests.fakes.world import START

FULL = manual(full_pipeline())
TICKET = Evidence(files={"ticket.json": FileFacts(chars=80)})
PLAN = FileFacts(chars=90, headings=("## Step 1: Do it", "## Step 2: Test it"))


def analysed(chars: int) -> Evidence:
    """Return the evidence of an analysis with this many characters."""
    found = FileFacts(chars=90, json_filled=("results",))
    return Evidence(files={"analysis.md": FileFacts(chars=chars), "related-code.json": found})


def a_document(source: str = "jira") -> JsonObject:
    """Return the document of a new workspace."""
    beginning = InitialState(ticket_id="STABLE-1234", ticket_type=TicketType.FEATURE, variant="full", source=source)
    return initial(beginning, FULL.start, "/work/STABLE-1234", START)


def in_state(state: str, **record: Json) -> JsonObject:
    """Return a document in a state whose record has these values."""
    document = a_document()
    states = cast(dict[str, JsonObject], document["states"])
    entered: JsonObject = {**states.get(state, {}), "status": "in_progress", "started_at": stamp(START), **record}
    return {**document, "current_state": state, "states": {**states, state: entered}}


def step(number: int, status: str = "pending", *commits: str) -> JsonObject:
    shown: JsonObject = {"step_id": number, "description": f"Part {number}", "status": status, "commits": [*commits]}
    return {**shown, "started_at": None, "completed_at": None, "last_checkpoint": None}


def in_steps(*steps: JsonObject) -> JsonObject:
    return in_state("IMPLEMENTATION", plan_progress={"total_steps": len(steps), "steps": [*steps]})


def task_of(document: JsonObject) -> Task:
    return task_from(document, FULL, "/work/STABLE-1234")


def moved(before: Task, move: Transition, evidence: Evidence) -> Task:
    """The task after a move that the engine decided on."""
    event = OperationRequested(at=START, operation=move, evidence=evidence, by="somebody")
    return machine.decide(FULL, before, event)[0]


def after_move(document: JsonObject, to: str, evidence: Evidence = NOTHING_SEEN, origin: str = "") -> JsonObject:
    """Return the document after a transition from its current state."""
    before = task_of(document)
    move = Transition(from_state=origin or str(document["current_state"]), to_state=to)
    return with_changes(document, before, moved(before, move, evidence))


def refusal(document: JsonObject, to: str, evidence: Evidence = NOTHING_SEEN, origin: str = "") -> Mapping[str, Json]:
    """Return the refusal of a transition."""
    with pytest.raises(OperationRefused) as caught:
        after_move(document, to, evidence, origin)
    return caught.value.document


def record_of(document: JsonObject, state: str) -> JsonObject:
    return cast(dict[str, JsonObject], document["states"])[state]


def test_a_new_document_has_the_original_terms_and_autonomy_by_its_source() -> None:
    assert a_document()["current_state"] == "TICKET_INTAKE"
    modes = [cast(dict[str, JsonObject], a_document(source)["config"])["autonomy"] for source in ("jira", "local")]
    assert modes == [
        {"mode": "interactive", "on_blocked": "halt", "auto_merge": False},
        {"mode": "auto", "on_blocked": "escalate", "auto_merge": False},
    ]


def test_a_transition_from_another_state_is_a_mismatch_that_names_both() -> None:
    assert refusal(a_document(), "PLANNING", origin="ANALYSIS") == {
        "error": "STATE_MISMATCH",
        "expected": "ANALYSIS",
        "actual": "TICKET_INTAKE",
    }


def test_a_transition_names_everything_that_is_missing() -> None:
    assert refusal(in_state("ANALYSIS"), "PLANNING") == {
        "error": "TRANSITION_BLOCKED",
        "missing": ["analysis.md not found", "related-code.json not found"],
        "from": "ANALYSIS",
        "to": "PLANNING",
    }


def test_an_analysis_of_201_characters_passes_and_one_of_200_does_not() -> None:
    lacking = refusal(in_state("ANALYSIS"), "PLANNING", analysed(200))["missing"]
    assert lacking == ["analysis.md has 200 characters, more than 200 needed"]
    assert after_move(in_state("ANALYSIS"), "PLANNING", analysed(201))["current_state"] == "PLANNING"


@pytest.mark.parametrize(
    ("source", "check", "passes"),
    [
        ("jira", {"result": "CLEAN"}, True),
        ("jira", "REDACTED", True),
        ("local", "LOCAL_BYPASS", True),
        ("jira", "LOCAL_BYPASS", False),
        ("jira", "BLOCKED", False),
        ("jira", None, False),
    ],
)
def test_a_ticket_must_be_redacted_or_submitted_locally(source: str, check: Json, passes: bool) -> None:
    document = {**in_state("TICKET_INTAKE", sensitive_check=check), "requirement_source": source}
    if passes:
        assert after_move(document, "ANALYSIS", TICKET)["current_state"] == "ANALYSIS"
    else:
        assert refusal(document, "ANALYSIS", TICKET)["error"] == "TRANSITION_BLOCKED"


def test_who_allowed_an_unredacted_ticket_is_recorded() -> None:
    document = {**in_state("TICKET_INTAKE", sensitive_check="LOCAL_BYPASS"), "requirement_source": "local"}
    before = task_of(document)
    vouched = state_moves.record_bypass(before, "somebody")
    shown = record_of(with_changes(document, before, vouched), "TICKET_INTAKE")["sensitive_check"]
    assert cast(JsonObject, shown)["allowed_by"] == "somebody"
    assert state_moves.record_bypass(vouched, "another") is vouched
    assert state_moves.record_bypass(task_of(a_document()), "somebody") == task_of(a_document())


def test_a_transition_updates_both_states_and_adds_no_new_keys() -> None:
    document = in_state("ANALYSIS", artifacts=["analysis.md"], retrieval="good")
    before = task_of(document)
    move = Transition(from_state="ANALYSIS", to_state="PLANNING", artifacts=("analysis.md", "related-code.json"))
    after = with_changes(document, before, moved(before, move, analysed(900)))
    assert after.keys() == document.keys()
    assert record_of(after, "ANALYSIS") == {
        "status": "completed",
        "started_at": stamp(START),
        "completed_at": stamp(START),
        "artifacts": ["analysis.md", "related-code.json"],
        "retrieval": "good",
    }
    planning = record_of(after, "PLANNING")
    assert (planning["status"], planning["started_at"]) == ("in_progress", stamp(START))
    assert planning.keys() == record_of(document, "PLANNING").keys()


@pytest.mark.parametrize(
    ("state", "alias", "evidence"),
    [
        ("DESIGN", "READY_FOR_IMPL", Evidence(files={"design-v1.md": FileFacts(chars=9)})),
        ("EVALUATION", "EVALUATION_PASS", NOTHING_SEEN),
    ],
)
def test_states_that_name_a_result_stand_for_the_transition_they_lead_to(
    state: str, alias: str, evidence: Evidence
) -> None:
    passed: Json = dict.fromkeys(("unit_test", "lint", "security", "chainbench"), "PASS")
    document = in_state(state, results=passed) if state == "EVALUATION" else in_state(state)
    following = FULL.stage(state).next
    assert after_move(document, alias, evidence)["current_state"] == following
    assert refusal(a_document(), alias)["error"] == "TRANSITION_BLOCKED"
    said = {**document, "current_state": alias}
    assert after_move(said, str(following), evidence, origin=state)["current_state"] == following


def test_a_missing_or_bad_check_result_prevents_completion() -> None:
    results: Json = {"unit_test": "PASS", "lint": "WARN", "security": "FAIL", "chainbench": None, "careful": True}
    assert refusal(in_state("EVALUATION", results=results), "COMPLETION")["missing"] == [
        "security: FAIL (its result is FAIL)",
        "chainbench has no result",
    ]
    odd: Json = {"unit_test": "green", "lint": "n/a"}
    lacking = refusal(in_state("EVALUATION", results=odd), "COMPLETION")["missing"]
    assert lacking == ["unit_test: FAIL (its result is 'green', which is none)"]


def test_a_workspace_that_is_blocked_without_a_reason_says_who_did_it() -> None:
    halted = after_move(in_state("EVALUATION", results={"unit_test": "FAIL"}), "BLOCKED")
    assert str(halted["block_reason"]).endswith(" blocked it")


def test_the_third_failed_evaluation_leads_only_to_blocked_and_one_retry_starts_again() -> None:
    document = in_state("EVALUATION", results={"unit_test": "FAIL"})
    for cycle in (1, 2):
        document = after_move(document, "EVALUATION_FAIL")
        assert (cycle, document["current_state"]) == (cycle, "ANALYSIS")
        document = {**document, "current_state": "EVALUATION"}
    assert refusal(document, "ANALYSIS")["missing"] == ["the budget eval_cycles is used up (3 of 3)"]
    halted = after_move(document, "BLOCKED")
    assert (halted["current_state"], halted["stage"]) == ("BLOCKED", "EVALUATION")
    assert halted["block_reason"] == "the budget eval_cycles is used up (3 of 3)"
    assert refusal(halted, "ANALYSIS")["missing"] == [
        "no transition leads there; from BLOCKED the task can go to EVALUATION"
    ]
    anew = after_move(halted, "EVALUATION")
    assert (anew["current_state"], anew["block_reason"]) == ("EVALUATION", None)
    assert cast(JsonObject, record_of(anew, "EVALUATION")["results"])["unit_test"] is None


def test_cycles_of_the_original_format_are_counted_by_the_failures_that_led_back() -> None:
    entry: JsonObject = {
        "state": "EVALUATION",
        "actual_outcome": {"type": "test_failure", "summary": "x"},
        "resolution": {"transitioned_to": "ANALYSIS"},
    }
    failed = in_state("EVALUATION", results={"unit_test": "FAIL"})
    assert after_move({**failed, "failure_log": [entry, entry]}, "ANALYSIS")["current_state"] == "ANALYSIS"
    assert refusal({**failed, "failure_log": [entry] * 3}, "ANALYSIS")["error"] == "TRANSITION_BLOCKED"
    assert refusal(in_state("EVALUATION", results={}), "ANALYSIS")["missing"] == ["no check failed"]


def test_a_design_may_be_revised_as_often_as_its_budget_allows() -> None:
    drawn = Evidence(files={"design-v1.md": FileFacts(chars=9), "plan.md": PLAN})
    assert after_move(in_state("DESIGN", revision=3), "IMPLEMENTATION", drawn)["current_state"] == "IMPLEMENTATION"
    lacking = refusal(in_state("DESIGN", revision=4), "IMPLEMENTATION", drawn)["missing"]
    assert lacking == ["the budget design_revisions is used up (4 of 3)"]


def test_reentering_a_design_is_not_a_revision() -> None:
    planned = Evidence(files={"plan.md": PLAN})
    first = after_move(in_state("PLANNING"), "DESIGN", planned)
    assert record_of(first, "DESIGN")["revision"] == 0
    again = after_move({**first, "current_state": "PLANNING"}, "DESIGN", planned)
    assert record_of(again, "DESIGN")["revision"] == 0


def test_a_new_plan_creates_its_steps_and_keeps_finished_ones_that_are_equal() -> None:
    done = {**step(1, "completed", "a1"), "description": "Do it"}
    task = state_moves.update_plan(
        FULL.stage("IMPLEMENTATION"), task_of(in_steps(done, step(2, "failed"))), Evidence(files={"plan.md": PLAN})
    )
    assert [(one.description, one.status) for one in task.steps] == [
        ("Do it", StepStatus.COMPLETED),
        ("Test it", StepStatus.PENDING),
    ]
    assert state_moves.update_plan(FULL.stage("IMPLEMENTATION"), task, NOTHING_SEEN) is task


def test_steps_without_commits_or_with_open_work_block_the_evaluation() -> None:
    document = in_steps(step(1, "completed", "a1"), step(2, "in_progress"))
    assert refusal(document, "EVALUATION", Evidence(dirty=("a.py",)))["missing"] == [
        "step 2 is not completed",
        "step 2 has no commit",
        "uncommitted changes: a.py",
    ]


def test_the_last_state_ends_in_completed_and_nothing_follows() -> None:
    document = after_move(in_state("COMPLETION"), "COMPLETED")
    assert document["current_state"] == "COMPLETED"
    assert record_of(document, "COMPLETION")["status"] == "completed"
    assert refusal(document, "BLOCKED")["missing"] == [
        "no transition leads there; from COMPLETED the task can go to no other state"
    ]


NOTE = StepCheckpoint(at=START, reason="token_limit", work_in_progress="70 %", uncommitted_files=("a.go",))


def test_a_step_keeps_its_first_start_time_and_loses_its_checkpoint_when_it_is_done() -> None:
    steps = task_of(in_steps(step(1), step(2))).steps
    begun = state_moves.update_step(steps, StepUpdate(step_id=1, status=StepStatus.IN_PROGRESS, checkpoint=NOTE), START)
    assert (begun[0].started_at, begun[0].last_checkpoint) == (START, NOTE)
    later = START.replace(year=2030)
    kept = state_moves.update_step(
        begun, StepUpdate(step_id=1, status=StepStatus.IN_PROGRESS, commits=("a", "a")), later
    )
    assert (kept[0].started_at, kept[0].last_checkpoint, kept[0].commits) == (START, NOTE, ("a",))
    gone = state_moves.update_step(
        kept, StepUpdate(step_id=1, status=StepStatus.PENDING, forget_checkpoint=True), later
    )
    assert (gone[0].status, gone[0].last_checkpoint) == (StepStatus.PENDING, None)
    done = state_moves.update_step(kept, StepUpdate(step_id=1, status=StepStatus.COMPLETED, commits=("a", "b")), later)
    assert (done[0].completed_at, done[0].last_checkpoint, done[0].commits) == (later, None, ("a", "b"))
    assert done[1] is kept[1]


def test_commits_of_a_step_are_listed_with_the_state_too_and_unknown_keys_stay() -> None:
    document = in_steps({**step(1), "owner": "me"}, step(2))
    before = task_of(document)
    update = StepUpdate(step_id=1, status=StepStatus.COMPLETED, commits=("a1",))
    after = with_changes(document, before, replace(before, steps=state_moves.update_step(before.steps, update, START)))
    record = record_of(after, "IMPLEMENTATION")
    progress = cast(JsonObject, record["plan_progress"])
    first, second = cast(list[JsonObject], progress["steps"])
    assert (record["commits"], first["owner"], first["status"]) == (["a1"], "me", "completed")
    assert (second, progress["total_steps"]) == (step(2), 2)


def test_an_unknown_step_is_an_error_that_names_the_existing_ones() -> None:
    with pytest.raises(OperationRefused) as caught:
        state_moves.update_step(
            task_of(in_steps(step(1))).steps, StepUpdate(step_id=7, status=StepStatus.FAILED), START
        )
    assert caught.value.document == {"error": "UNKNOWN_STEP", "step_id": 7, "known": [1]}


def test_failures_that_differ_only_in_line_numbers_are_a_pattern_from_the_second_on() -> None:
    before = task = task_of(a_document())
    found: list[list[tuple[str, int]]] = []
    for line in (12, 123, 9):
        outcome: JsonObject = {"type": "test_failure", "summary": f"panic: nil pointer at consensus/wbft.go:{line}"}
        entry = failure_of({"actual_outcome": outcome}, "EVALUATION", START).failure
        task = replace(task, failures=task.failures.with_failure(entry))
        found.append([(known.pattern, known.occurrences) for known in task.failures.patterns])
    assert found == [[], [("nil_pointer:consensus/wbft.go", 2)], [("nil_pointer:consensus/wbft.go", 3)]]
    summary = cast(JsonObject, with_changes(a_document(), before, task)["failure_summary"])
    assert (summary["total_failures"], summary["by_state"]) == (3, {"EVALUATION": 3})
    with pytest.raises(OperationRefused, match="fail-003"):
        state_moves.require_new(task, replace(entry, id="fail-003"))
    state_moves.require_new(task, entry)


def test_get_returns_the_current_state_in_full_and_the_others_in_short() -> None:
    document = in_steps(step(1, "completed", "a1"), step(2))
    shown = state_moves.current(FULL, task_of(document), document)
    assert shown == {
        "ticket_id": "STABLE-1234",
        "current_state": "IMPLEMENTATION",
        "current_agent": None,
        "state": record_of(document, "IMPLEMENTATION"),
        "plan_progress": {"total_steps": 2, "completed_steps": 1, "current_step": "Part 2"},
        "failure_summary": document["failure_summary"],
    }
    assert state_moves.current(FULL, task_of(a_document()), a_document())["plan_progress"] is None


@pytest.mark.parametrize(
    "change",
    [
        {"current_state": "ELSEWHERE"},
        {"current_state": None},
        {"states": []},
        {"ticket_type": "wish"},
        {"failure_log": [7]},
        {"failure_log": [{"actual_outcome": {"type": 1}}]},
        {"failure_summary": {"by_state": {"A": "many"}}},
        {"created_at": "yesterday"},
    ],
)
def test_an_invalid_state_is_refused_with_a_message(change: JsonObject) -> None:
    with pytest.raises(UnreadableState):
        task_of({**a_document(), **change})


def test_two_steps_with_one_number_are_refused() -> None:
    with pytest.raises(UnreadableState, match="same step_id"):
        task_of(in_steps(step(1), step(1)))


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"status": "pending"}, "step_id"),
        ({"step_id": True, "status": "pending"}, "step_id"),
        ({"step_id": 1, "status": "done"}, "status"),
        ({"step_id": 1, "status": "pending", "checkpoint": 7}, "checkpoint"),
        ({"step_id": 1, "status": "pending", "checkpoint": {"reason": "x"}}, "at"),
        ({"step_id": 1, "status": "pending", "checkpoint": {"at": "noon"}}, "at"),
        ({"step_id": 1, "status": "pending", "commits": "a1"}, "commits"),
    ],
)
def test_an_invalid_step_update_names_the_field(document: JsonObject, field: str) -> None:
    with pytest.raises(OperationRefused) as caught:
        step_of(document)
    assert (caught.value.document["error"], caught.value.document["field"]) == ("MALFORMED", field)


def test_a_null_checkpoint_is_cleared_and_an_omitted_one_stays() -> None:
    assert step_of({"step_id": 1, "status": "pending", "checkpoint": None}).forget_checkpoint
    assert not step_of({"step_id": 1, "status": "pending"}).forget_checkpoint
    told: JsonObject = {"at": stamp(START), "reason": "token_limit", "work_in_progress": "70 %"}
    checkpoint: JsonObject = {**told, "uncommitted_files": ["a.go"]}
    assert step_of({"step_id": 1, "status": "in_progress", "checkpoint": checkpoint}).checkpoint == NOTE


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({}, "actual_outcome.type"),
        ({"actual_outcome": {"type": "x"}}, "actual_outcome.summary"),
        ({"actual_outcome": {"type": "x", "summary": ["y"]}}, "summary"),
        ({"actual_outcome": {"type": "x", "summary": "y"}, "agent": {}}, "agent"),
        ({"actual_outcome": {"type": "x", "summary": "y"}, "occurred_at": "99999-01-01"}, "occurred_at"),
    ],
)
def test_an_incomplete_failure_names_the_field(document: JsonObject, field: str) -> None:
    with pytest.raises(OperationRefused) as caught:
        failure_of(document, "EVALUATION", START)
    assert caught.value.document["field"] == field


def test_a_complete_failure_is_kept_in_full_and_truncated_to_its_limits() -> None:
    given: JsonObject = {
        "step": 3,
        "attempted_action": {"description": "d", "related_design": "design-v2.md", "modified_files": ["a"] * 999},
        "actual_outcome": {"type": "x", "summary": "\udcff" + "y" * 99_999, "exit_code": 2},
        "agent_analysis": {"confidence": "mid"},
        "resolution": {"retry_count": 1, "transitioned_to": "ANALYSIS"},
    }
    failure = failure_of(given, "EVALUATION", START).failure
    assert (failure.step, failure.exit_code, failure.retry_count) == ("3", 2, 1)
    assert (len(failure.summary), failure.summary[0], len(failure.modified_files)) == (2000, "?", 100)
    assert failure.analysis is not None


def test_a_transition_is_parsed_from_json() -> None:
    move = transition_of({"from_state": "A", "to_state": "B", "artifacts": ["c.md"], "more": 1})
    assert move == Transition(from_state="A", to_state="B", artifacts=("c.md",))
    with pytest.raises(OperationRefused, match="to_state is missing"):
        transition_of({"from_state": "A"})


def test_transitions_and_step_updates_survive_being_passed_on() -> None:
    move = Transition(from_state="A", to_state="B", artifacts=("c.md",), reason="r")
    assert transition_of(show_transition(move)) == move
    plain = StepUpdate(step_id=1, status=StepStatus.FAILED, commits=("a",))
    for update in (plain, replace(plain, checkpoint=NOTE), replace(plain, forget_checkpoint=True)):
        assert step_of(show_step(update)) == update
