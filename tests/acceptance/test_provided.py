"""What people provide is used and never shown: not in logs, artifacts or delivered work, and not afterwards."""

from pathlib import Path
from secrets import token_hex

from orchestrator.core.task.task import TaskStatus
from orchestrator.storage.vault import FILE
from tests.acceptance.house import House, Json
from tests.fakes.repositories import git
from tests.looking import files_with

STRIPE: Json = {"type": "api_key", "name": "STRIPE_KEY", "description": "For the tests.", "required": "true"}
ASK = [{"dependency": STRIPE}, {"think_ms": 600_000}]


def provide(house: House, task: str, value: str) -> None:
    ask = house.wait_until_it_asks(task)
    house.say("POST", f"/api/dependencies/{ask.id}/provide", {"value": value})


def test_an_agent_that_prints_what_was_provided_shows_its_name_alone(tmp_path: Path) -> None:
    value = token_hex(20)
    loud = [{"run": "env | grep STRIPE; echo $STRIPE_KEY | base64; echo again $STRIPE_KEY >&2"}]
    with House(tmp_path, {"PLANNING": [ASK, loud]}) as house:
        task = house.submit()
        provide(house, task, value)
        house.wait_for_end(task)
        assert "STRIPE_KEY=<STRIPE_KEY>" in (house.folder(task) / "agents/2/stdout.jsonl").read_text()
        assert files_with(house.data, value.encode()) == []
        assert not (house.folder(task) / FILE).exists(), "what has ended needs it no more"


def test_a_plan_that_holds_what_was_provided_is_not_taken_and_the_agent_is_told_why(tmp_path: Path) -> None:
    value = token_hex(20)
    leak = {"run": "echo $STRIPE_KEY >> $ORCHESTRATOR_OUTBOX/plan.md"}
    mend = {"run": "rm -f $ORCHESTRATOR_OUTBOX/plan.md", "work": True}
    with House(tmp_path, {"PLANNING": [ASK, [{"work": True}, leak], [mend]]}) as house:
        task = house.submit()
        provide(house, task, value)
        house.wait_for_end(task)
        told = " ".join(house.turn_texts(task, 2))
        assert [name for name in ("plan.md", "STRIPE_KEY") if name not in told] == []
        assert value not in (house.folder(task) / "plan.md").read_text()


def test_work_that_holds_what_was_provided_is_not_delivered(tmp_path: Path) -> None:
    value = token_hex(20)
    leak = [{"work": True}, {"run": "echo $STRIPE_KEY > .env && git add -A && git commit -q --amend --no-edit"}]
    with House(tmp_path, {"PLANNING": [ASK], "IMPLEMENTATION": [leak]}) as house:
        task = house.submit()
        provide(house, task, value)
        blocked = house.wait_for_end(task, TaskStatus.BLOCKED)
        reason = blocked.block_reason or ""
        assert [name for name in ("STRIPE_KEY", ".env") if name not in reason] == []
        assert value not in reason
        assert git(house.repo, "branch", "--list", blocked.branch) == ""


def test_what_was_lost_is_provided_again_and_the_task_goes_on(tmp_path: Path) -> None:
    value, seen = token_hex(20), tmp_path / "seen"
    with House(tmp_path, {"PLANNING": [ASK, {"run": f"printf %s $STRIPE_KEY > {seen}"}]}) as house:
        task = house.submit()
        ask = house.wait_until_it_asks(task)
        house.client.request(task, "pause")
        house.say("POST", f"/api/dependencies/{ask.id}/provide", {"value": "the first one"})
        (house.data / "vault.key").unlink()
        house.client.request(task, "resume")
        blocked = house.wait_for_end(task, TaskStatus.BLOCKED)
        assert f"orchestrator provide {task} STRIPE_KEY" in (blocked.block_reason or "")
        house.say("POST", f"/api/dependencies/{ask.id}/provide", {"value": value})
        house.client.request(task, "retry")
        house.wait_for_end(task)
        assert seen.read_text() == value


def test_what_a_crash_left_of_an_ended_task_is_forgotten_at_the_next_start(tmp_path: Path) -> None:
    with House(tmp_path) as house:
        task = house.submit()
        house.wait_for_end(task)
        house.kill()
        (house.folder(task) / FILE).write_text("{}")
        house.start()
        assert not (house.folder(task) / FILE).exists()
