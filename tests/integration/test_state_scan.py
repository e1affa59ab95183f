"""The documented example of the state operations, from `init` to a new cycle, as commands without a daemon."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.repositories import commit, repository
from tests.fakes.shell import Shell, only_error

KEY = "-----BEGIN " + "PRIVATE KEY-----"


@pytest.fixture
def orchestrator(tmp_path: Path) -> Shell:
    """The program, in the user's repository."""
    repository(tmp_path / "repo")
    return Shell(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "repo/.coding-agent/tickets/STABLE-1234_20260528_120000"


def state_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "state.json").read_text())
    return found


async def begun(orchestrator: Shell, folder: Path, **ticket: object) -> None:
    done = await orchestrator("state", "init", str(folder), "--ticket", "STABLE-1234", "--type", "feature")
    assert done.code == 0, done.err
    (folder / "ticket.json").write_text(json.dumps({"ticket_id": "STABLE-1234", **ticket}))


async def test_the_documented_example_runs_to_its_end(orchestrator: Shell, folder: Path) -> None:
    at = str(folder)
    await begun(orchestrator, folder, description="Mask 10.1.2.3, please", labels=["a", "10.1.2.4"])
    scanned = json.loads((await orchestrator("state", "scan", at)).out)
    assert (scanned["ok"], scanned["sensitive_check"]["result"]) == (True, "REDACTED")
    assert scanned["sensitive_check"]["redacted_count"] == 2
    ticket = json.loads((folder / "ticket.json").read_text())
    assert ticket["description"] == "Mask [REDACTED:ip_address_internal], please"
    assert ticket["labels"] == ["a", "[REDACTED:ip_address_internal]"]
    moved = await orchestrator("state", "transition", at, "TICKET_INTAKE", "ANALYSIS", "--artifact", "ticket.json")
    assert json.loads(moved.out) == {"ok": True, "new_state": "ANALYSIS"}
    (folder / "analysis.md").write_text("x" * 201)
    (folder / "related-code.json").write_text('{"ckv": [1]}')
    (folder / "plan.md").write_text("## Step 1: Do it\n\nSo.\n\n## Step 2: Test it\n\nSo.\n")
    (folder / "design-v1.md").write_text("As it is.\n")
    (folder / "design-v2.md").write_text("As it is, but shorter.\n")
    for origin, target in (("ANALYSIS", "PLANNING"), ("PLANNING", "DESIGN"), ("DESIGN", "IMPLEMENTATION")):
        assert (await orchestrator("state", "transition", at, origin, target)).code == 0
    assert state_of(folder)["states"]["DESIGN"]["revision"] == 1
    (orchestrator.home / "repo/.git/info/exclude").write_text(".coding-agent/\n")
    for number, name in ((1, "a.py"), (2, "b.py")):
        made = commit(orchestrator.home / "repo", {name: "1\n"}, f"STABLE-1234: step {number}")
        assert (await orchestrator("state", "step", at, str(number), "completed", "--commit", made[:7])).code == 0
    assert (await orchestrator("state", "transition", at, "IMPLEMENTATION", "EVALUATION")).code == 0
    state = state_of(folder)
    state["states"]["EVALUATION"]["results"] = {"unit_test": "FAIL"}
    (folder / "state.json").write_text(json.dumps(state))
    failed = await orchestrator("state", "fail", at, "--summary", "panic: nil pointer", "--type", "test_failure")
    assert json.loads(failed.out) == {"ok": True, "failure_id": "fail-001"}
    back = await orchestrator("state", "transition", at, "EVALUATION", "ANALYSIS")
    assert json.loads(back.out) == {"ok": True, "new_state": "ANALYSIS"}


async def test_a_clean_ticket_stays_as_it_is_and_one_with_a_key_goes_nowhere(orchestrator: Shell, folder: Path) -> None:
    at = str(folder)
    await begun(orchestrator, folder, description="Say hello")
    before = (folder / "ticket.json").read_bytes()
    assert json.loads((await orchestrator("state", "scan", at)).out)["sensitive_check"]["result"] == "CLEAN"
    assert (folder / "ticket.json").read_bytes() == before
    (folder / "ticket.json").write_text(json.dumps({"description": f"one\n{KEY}\n"}))
    done = await orchestrator("state", "scan", at)
    assert (done.code, json.loads(done.out)["sensitive_check"]["result"]) == (1, "BLOCKED")
    refused = await orchestrator("state", "transition", at, "TICKET_INTAKE", "ANALYSIS")
    assert "the check of the ticket for secrets says BLOCKED" in json.loads(refused.out)["missing"]


async def test_a_workspace_without_a_ticket_is_not_scanned(orchestrator: Shell, folder: Path) -> None:
    assert (await orchestrator("state", "init", str(folder))).code == 0
    done = await orchestrator("state", "scan", str(folder))
    assert "write the ticket there first" in only_error(done, 1)
