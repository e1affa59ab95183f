"""What people provide is used and never shown: not in logs, artifacts or delivered work, and not afterwards."""

from pathlib import Path
from secrets import token_hex

from orchestrator.core.task.task import TaskStatus
from orchestrator.storage.vault import FILE
from tests.acceptance.harness import DaemonHarness, Json
from tests.fakes.repositories import git
from tests.folder_search import files_with

STRIPE: Json = {"type": "api_key", "name": "STRIPE_KEY", "description": "For the tests.", "required": "true"}
ASK = [{"dependency": STRIPE}, {"think_ms": 600_000}]


def provide(harness: DaemonHarness, task: str, value: str) -> None:
    ask = harness.wait_until_it_asks(task)
    harness.request("POST", f"/api/dependencies/{ask.id}/provide", {"value": value})


def test_an_agent_that_prints_what_was_provided_shows_its_name_alone(tmp_path: Path) -> None:
    value = token_hex(20)
    loud = [{"run": "env | grep STRIPE; echo $STRIPE_KEY | base64; echo again $STRIPE_KEY >&2"}]
    with DaemonHarness(tmp_path, {"PLANNING": [ASK, loud]}) as harness:
        task = harness.submit()
        provide(harness, task, value)
        harness.wait_for_end(task)
        assert "STRIPE_KEY=<STRIPE_KEY>" in (harness.folder(task) / "agents/2/stdout.jsonl").read_text()
        assert files_with(harness.data, value.encode()) == []
        assert not (harness.folder(task) / FILE).exists(), "what has ended needs it no more"


def test_a_plan_that_holds_what_was_provided_is_not_taken_and_the_agent_is_told_why(tmp_path: Path) -> None:
    value = token_hex(20)
    leak = {"run": "echo $STRIPE_KEY >> $ORCHESTRATOR_OUTBOX/plan.md"}
    mend = {"run": "rm -f $ORCHESTRATOR_OUTBOX/plan.md", "work": True}
    with DaemonHarness(tmp_path, {"PLANNING": [ASK, [{"work": True}, leak], [mend]]}) as harness:
        task = harness.submit()
        provide(harness, task, value)
        harness.wait_for_end(task)
        told = " ".join(harness.turn_texts(task, 2))
        assert [name for name in ("plan.md", "STRIPE_KEY") if name not in told] == []
        assert value not in (harness.folder(task) / "plan.md").read_text()


def test_work_that_holds_what_was_provided_is_not_delivered(tmp_path: Path) -> None:
    value = token_hex(20)
    leak = [{"work": True}, {"run": "echo $STRIPE_KEY > .env && git add -A && git commit -q --amend --no-edit"}]
    with DaemonHarness(tmp_path, {"PLANNING": [ASK], "IMPLEMENTATION": [leak]}) as harness:
        task = harness.submit()
        provide(harness, task, value)
        blocked = harness.wait_for_end(task, TaskStatus.BLOCKED)
        reason = blocked.block_reason or ""
        assert [name for name in ("STRIPE_KEY", ".env") if name not in reason] == []
        assert value not in reason
        assert git(harness.repo, "branch", "--list", blocked.branch) == ""


def test_what_was_lost_is_provided_again_and_the_task_goes_on(tmp_path: Path) -> None:
    value, seen = token_hex(20), tmp_path / "seen"
    with DaemonHarness(tmp_path, {"PLANNING": [ASK, {"run": f"printf %s $STRIPE_KEY > {seen}"}]}) as harness:
        task = harness.submit()
        ask = harness.wait_until_it_asks(task)
        harness.client.request(task, "pause")
        harness.request("POST", f"/api/dependencies/{ask.id}/provide", {"value": "the first one"})
        (harness.data / "vault.key").unlink()
        harness.client.request(task, "resume")
        blocked = harness.wait_for_end(task, TaskStatus.BLOCKED)
        assert f"orchestrator provide {task} STRIPE_KEY" in (blocked.block_reason or "")
        harness.request("POST", f"/api/dependencies/{ask.id}/provide", {"value": value})
        harness.client.request(task, "retry")
        harness.wait_for_end(task)
        assert seen.read_text() == value


def test_what_a_crash_left_of_an_ended_task_is_forgotten_at_the_next_start(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        task = harness.submit()
        harness.wait_for_end(task)
        harness.kill()
        (harness.folder(task) / FILE).write_text("{}")
        harness.start()
        assert not (harness.folder(task) / FILE).exists()
