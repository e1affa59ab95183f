"""The timeline of a real task: paused, killed in the middle, limited, asked, checked, and read over the API."""

from datetime import datetime
from pathlib import Path

from orchestrator.core.task.agent import PauseReason
from tests.acceptance.harness import DaemonHarness, Json
from tests.acceptance.test_asking import ASKING, QUESTION


def test_a_timeline_shows_what_a_task_went_through(tmp_path: Path) -> None:
    scenario = {
        "ANALYSIS": [[{"question": QUESTION}, {"no_work": True}]],
        "PLANNING": [{"limit": {"resets_in": 1}}],
    }
    with DaemonHarness(tmp_path, scenario, limits={"margin": 0.2}) as harness:
        task = harness.submit(**ASKING)
        ask = harness.wait_until_it_asks(task)
        harness.kill()
        harness.start()
        harness.request("POST", f"/api/questions/{ask.id}/answer", {"answer": "Latin"})
        harness.wait_until(task, lambda now: now.agent.blocked_by is PauseReason.RATE_LIMIT)
        harness.wait_for_end(task)
        found = harness.request("GET", f"/api/tasks/{task}/timeline")
        lanes: dict[str, list[Json]] = {}
        for one in found["intervals"]:
            lanes.setdefault(one["lane"], []).append(one)
        journal = {line["seq"]: line for line in harness.journal(task)}

    stages = [one["label"] for one in lanes["stage"]]
    assert stages == ["TICKET_INTAKE", "ANALYSIS", "PLANNING", "DESIGN", "IMPLEMENTATION", "EVALUATION", "COMPLETION"]
    question = lanes["request"][0]
    assert (question["label"], question["outcome"]) == ("question: Which alphabet?", "answered")
    assert journal[question["endSeq"]]["trigger"] == "AskAnswered"
    assert [one["label"] for one in lanes["limit"]] == ["rate_limit"]
    assert [(one["label"], one["outcome"]) for one in lanes["check"]] == [("unit_test", "PASS")]
    assert "restart" in [one["kind"] for one in found["moments"]]
    assert found["moments"][-1] | {"at": "", "seq": 0} == {"kind": "end", "label": "completed", "at": "", "seq": 0}
    assert sum(one["tokens"] for one in lanes["turn"]) == now_tokens(harness, task)
    for one in found["intervals"]:
        assert one["end"] is not None
        assert datetime.fromisoformat(journal[one["seq"]]["timestamp"]) == datetime.fromisoformat(one["begin"])
    assert (found["isCut"], found["unread"]) == (False, 0)


def now_tokens(harness: DaemonHarness, task: str) -> int:
    """What the task's agents have used by its state.json."""
    return int(harness.state(task)["agent"]["tokens_used"])
