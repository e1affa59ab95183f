"""The history of a task: what its journal tells, also where lines are damaged, lost or of another version."""

from typing import Any

import pytest

from orchestrator.core.task.budget import Spending
from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.reporting.history import KEPT_INCIDENTS, IncidentKind, TaskHistory, spent_in
from orchestrator.formats.codec import JsonObject

DAY, NEXT = "2026-11-21", "2026-11-22"


def line(
    seq: int, trigger: str, *changes: tuple[str, Any], at: str = f"{DAY}T22:00:00.000Z", **event: Any
) -> JsonObject:
    return {
        "seq": seq,
        "timestamp": at,
        "task_id": "T-1",
        "from": "PLANNING",
        "to": "PLANNING",
        "trigger": trigger,
        "metadata": {"stage": "PLANNING", "status": event.pop("status", "in_progress"), "attempt": 1},
        "event": {"at": at, **event},
        "change": [{"op": "replace", "path": path, "value": value} for path, value in changes],
    }


def begun() -> JsonObject:
    changes: list[tuple[str, Any]] = [("/spending", {"by_day": {}}), ("/agent", {"role": None}), ("/requests", [])]
    return line(1, "TaskSubmitted", *changes, ("/failure_summary", {"total_failures": 0}), status="pending")


def history(*lines: JsonObject) -> TaskHistory:
    found = TaskHistory()
    for one in lines:
        found.add(one)
    return found


def spent(usd: float, tokens: int) -> dict[str, object]:
    return {"usd": usd, "tokens": tokens, "turns": 1, "seconds": 0.0}


def test_a_turn_is_charged_to_the_role_that_worked_although_the_same_decision_starts_another() -> None:
    found = history(
        begun(),
        line(2, "GateLooked", ("/agent/role", "planner")),
        line(3, "SessionStarted", model="opus"),
        line(4, "TurnFinished", (f"/spending/by_day/{DAY}", spent(0.5, 100)), ("/agent/role", "implementer")),
        line(5, "SessionStarted", model="haiku"),
        line(6, "TurnFinished", (f"/spending/by_day/{DAY}/usd", 0.7)),
    )
    assert [(one.role, one.model, one.spent.usd) for one in found.charges] == [
        ("planner", "opus", 0.5),
        ("implementer", "haiku", 0.2),
    ]
    assert spent_in(found.charges) == Spending(usd=0.7, tokens=100, turns=1)


def test_a_line_with_the_whole_state_is_charged_to_its_days() -> None:
    state = {"spending": {"by_day": {DAY: spent(1, 10), NEXT: spent(2, 20)}}, "agent": {"role": "planner"}}
    recovered = line(40, "Recovered", ("", state), at=f"{NEXT}T05:00:00.000Z")
    recovered["metadata"] = {}
    found = history(begun(), recovered)
    assert [(one.at[:10], one.role, one.spent.usd) for one in found.charges] == [
        (DAY, "planner", 1),
        (NEXT, "planner", 2),
    ]
    assert found.unread == 0


def test_statuses_are_kept_as_they_changed() -> None:
    later = f"{NEXT}T01:00:00.000Z"
    found = history(
        begun(), line(2, "TaskAdmitted"), line(3, "AlarmRang"), line(4, "Done", at=later, status="completed")
    )
    assert [status for _, status in found.statuses] == [
        TaskStatus.PENDING,
        TaskStatus.IN_PROGRESS,
        TaskStatus.COMPLETED,
    ]


@pytest.mark.parametrize(
    ("trigger", "event", "kind"),
    [
        ("TurnFinished", {"error_class": "usage_limit", "window": "five_hour"}, IncidentKind.LIMIT),
        ("TurnFinished", {"error_class": "overloaded"}, IncidentKind.SERVICE),
        ("AgentExited", {"is_lost": True, "signal": 9}, IncidentKind.LOST),
        ("AgentExited", {"is_lost": False, "signal": 9}, IncidentKind.KILL),
        ("StallSeen", {"evidence": "no output"}, IncidentKind.STALL),
        ("RunFrozen", {}, IncidentKind.FREEZE),
        ("FreezeFailed", {}, IncidentKind.UNFREEZABLE),
        ("ForeignEditFound", {"kept_as": "x"}, IncidentKind.FOREIGN_EDIT),
    ],
)
def test_an_unusual_event_is_an_incident(trigger: str, event: dict[str, Any], kind: IncidentKind) -> None:
    (found,) = history(begun(), line(2, trigger, **event)).incidents
    assert (found.kind, found.seq, found.stage) == (kind, 2, "PLANNING")
    assert found.window == event.get("window", "")


@pytest.mark.parametrize(
    ("trigger", "event"), [("AgentExited", {"signal": None}), ("TurnFinished", {"error_class": None})]
)
def test_a_usual_event_is_none(trigger: str, event: dict[str, Any]) -> None:
    assert not history(begun(), line(2, trigger, **event)).incidents


def test_failures_are_counted_once_although_their_entries_are_changed_later() -> None:
    entry = {"actual_outcome": {"type": "test_failure", "summary": "3 failed"}}
    found = history(
        begun(),
        line(2, "CheckFinished", ("/failure_log/-", entry), ("/failure_summary/total_failures", 1)),
        line(3, "TurnFinished", ("/failure_log", [{**entry, "agent_analysis": {}}])),
    )
    assert [(one.kind, one.text) for one in found.incidents] == [(IncidentKind.FAILURE, "test_failure: 3 failed")]


def test_a_used_try_is_a_retry_and_a_renewed_budget_is_not() -> None:
    found = history(
        begun(),
        line(2, "GateLooked", ("/budgets/eval_cycles/used", 2)),
        line(3, "GateLooked", ("/budgets/eval_cycles/used", 0)),
    )
    assert [(one.kind, one.seq) for one in found.incidents] == [(IncidentKind.RETRY, 2)]


def test_damaged_lines_are_counted_and_the_others_are_read() -> None:
    broken: list[JsonObject] = [{}, {"seq": "x"}, {**begun(), "metadata": {"status": "unheard of"}}]
    found = history(begun(), *broken, line(2, "StallSeen", evidence="x"))
    assert (found.unread, found.seq, len(found.incidents)) == (3, 2, 1)


def test_of_very_many_incidents_the_newest_stay_and_the_others_are_counted() -> None:
    found = history(begun(), *(line(seq, "RunFrozen") for seq in range(2, KEPT_INCIDENTS + 12)))
    assert (len(found.incidents), found.incidents_left_out) == (KEPT_INCIDENTS, 10)
    assert found.incidents[-1].seq == KEPT_INCIDENTS + 11
