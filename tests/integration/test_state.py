"""The state operations as programs and agents use them: over the socket, and as commands."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from orchestrator import clock
from orchestrator.core.events.events import WorkspaceReady
from orchestrator.core.task.task import Task
from orchestrator.daemon import callers
from orchestrator.daemon.task_factory import Submission
from orchestrator.processes.spec import MARKER
from tests import fork_server
from tests.fakes.in_process_daemon import PATIENCE, InProcessDaemon, create_daemon, serving
from tests.fakes.repositories import repository

ROOT = Path(__file__).resolve().parents[2]
OUTCOME = {"type": "test_failure", "summary": "nil pointer at a/b.go:3"}
SECRET = "AKIA" + "ABCDEFGHIJKLMNOP"


@pytest_asyncio.fixture
async def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[InProcessDaemon]:
    """A daemon without processes, running."""
    for name in [name for name in os.environ if name.startswith("ORCHESTRATOR_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    repository(tmp_path / "repo")
    daemon = create_daemon(tmp_path / "data")
    async with serving(daemon):
        yield daemon
    daemon.store.close()


@pytest_asyncio.fixture
async def client(daemon: InProcessDaemon) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.AsyncHTTPTransport(uds=str(daemon.settings.socket))
    async with httpx.AsyncClient(transport=transport, base_url="http://orchestrator", timeout=PATIENCE) as client:
        yield client


@pytest_asyncio.fixture
async def task(daemon: InProcessDaemon) -> Task:
    """A task with a workspace in its first stage."""
    repo = daemon.settings.data_dir.parent / "repo"
    task = await daemon.accept(Submission(text="Say hello", repo=repo), "ada")
    await daemon.inbox.settled()
    prepared = await asyncio.to_thread(
        daemon.workspace.prepare, task.id, repo, task.source.base_commit, task.source.branch
    )
    ready = WorkspaceReady(
        at=clock.now(), worktree=str(prepared.worktree), branch=prepared.branch, head=prepared.base_commit
    )
    daemon.inbox.post(task.id, ready)
    await daemon.inbox.settled()
    return daemon.supervisor.tasks[task.id]


async def run(
    home: Path, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Run `orchestrator` to its end: its exit code and what it said.

    With more variables it runs in an interpreter of its own: the daemon knows agents by those that they began with.
    """
    given = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(ROOT)}
    if env is None:
        done = await asyncio.to_thread(fork_server.run, *arguments, stdin=stdin, cwd=home, env=given, timeout=PATIENCE)
        return done.returncode, done.stdout, done.stderr
    pipe, given = asyncio.subprocess.PIPE, {**given, **env}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "orchestrator", *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=given, cwd=home
    )
    out, err = await asyncio.wait_for(process.communicate(stdin), PATIENCE)
    return process.returncode or 0, out.decode(), err.decode()


def files_with(text: str, folder: Path) -> list[Path]:
    """Return the files of a task that contain a text."""
    return [path for path in folder.glob("*.json*") if text in path.read_text()]


async def test_a_refused_operation_is_a_problem_with_the_members_of_the_original_format(
    client: httpx.AsyncClient, task: Task
) -> None:
    moved = await client.post(
        f"/api/tasks/{task.id}/state/transition", json={"from_state": "ANALYSIS", "to_state": "PLANNING"}
    )
    assert (moved.status_code, moved.headers["content-type"]) == (409, "application/problem+json")
    found = moved.json()
    assert (found["error"], found["expected"], found["actual"]) == ("STATE_MISMATCH", "ANALYSIS", "TICKET_INTAKE")
    malformed = await client.post(f"/api/tasks/{task.id}/state/step", json={"step_id": "one"})
    assert (malformed.status_code, malformed.json()["field"]) == (400, "step_id")
    unknown = await client.post(f"/api/tasks/{task.id}/state/step", json={"step_id": 1, "status": "failed"})
    assert (unknown.status_code, unknown.json()["error"]) == (409, "UNKNOWN_STEP")


async def test_a_failure_is_recorded_once_per_key_and_without_secrets(
    client: httpx.AsyncClient, task: Task, daemon: InProcessDaemon
) -> None:
    entry = {"actual_outcome": {**OUTCOME, "details": f"key {SECRET}"}, "agent": "evaluator"}
    path, key = f"/api/tasks/{task.id}/state/fail", {"Idempotency-Key": "one"}
    first = await client.post(path, json=entry, headers=key)
    again = await client.post(path, json=entry, headers=key)
    other = await client.post(path, json=entry)
    assert [found.json()["failure_id"] for found in (first, again, other)] == ["fail-001", "fail-001", "fail-002"]
    failures = daemon.supervisor.tasks[task.id].failures
    assert (failures.total, failures.entries[0].state) == (2, "TICKET_INTAKE")
    assert failures.patterns[0].pattern == "nil_pointer:a/b.go"
    assert not files_with(SECRET, Path(task.folder))
    shown = (await client.get(f"/api/tasks/{task.id}/state/current")).json()
    assert (shown["current_state"], shown["failure_summary"]["total_failures"]) == ("TICKET_INTAKE", 2)


async def test_a_transition_is_allowed_by_the_daemons_evidence_or_forced_with_a_reason(
    client: httpx.AsyncClient, task: Task, daemon: InProcessDaemon
) -> None:
    path = f"/api/tasks/{task.id}"
    moved = await client.post(f"{path}/state/transition", json={"from_state": "TICKET_INTAKE", "to_state": "ANALYSIS"})
    assert moved.json() == {"ok": True, "new_state": "ANALYSIS"}
    assert (await client.get(f"{path}/resume-point")).json()["sub_status"] == "fresh"
    assert (await client.post(f"{path}/transition", json={"stage": "DESIGN", "reason": " "})).status_code == 400
    forced = (await client.post(f"{path}/transition", json={"stage": "DESIGN", "reason": "I know"})).json()
    assert forced["new_state"] == "DESIGN"
    assert forced["waived"] == ["analysis.md not found", "related-code.json not found"]
    lines = (Path(task.folder) / "journal.jsonl").read_text().splitlines()
    event = json.loads(lines[-1])["event"]
    assert (event["operation"]["reason"], event["operation"]["waived"]) == ("I know", forced["waived"])
    assert f"uid:{os.getuid()}" in event["by"]
    await client.post(f"{path}/cancel")
    ended = await client.post(f"{path}/transition", json={"stage": "DESIGN", "reason": "again"})
    assert (ended.status_code, ended.json()["taskStatus"]) == (409, "cancelled")
    assert ended.json()["allowed"] == ["archive", "delete"]
    late = (await client.post(f"{path}/state/step", json={"step_id": 1, "status": "failed"})).json()
    assert (late["error"], late["status"], late["task_status"]) == ("NOT_AT_WORK", 409, "cancelled")


def agents(task: Task, attempt: int) -> dict[str, str]:
    """Return the environment of an agent of the task: its marker and its token."""
    run = Path(task.folder) / f"agents/{attempt}"
    run.mkdir(parents=True, exist_ok=True)
    return {MARKER: str(run), "ORCHESTRATOR_TOKEN": callers.issue_token(run)}


async def test_an_agents_token_allows_reports_on_its_own_task_and_nothing_else(
    client: httpx.AsyncClient, daemon: InProcessDaemon, task: Task
) -> None:
    await client.post(
        f"/api/tasks/{task.id}/state/transition", json={"from_state": "TICKET_INTAKE", "to_state": "ANALYSIS"}
    )
    attempt = daemon.supervisor.tasks[task.id].agent.attempt
    assert attempt == 1
    home, env = daemon.settings.data_dir.parent, agents(task, attempt)
    socket = ("--socket", str(daemon.settings.socket))
    code, out, err = await run(home, *socket, "state", "get", task.folder, env=env)
    assert (code, json.loads(out)["current_state"]) == (0, "ANALYSIS"), err
    code, out, err = await run(home, *socket, "state", "fail", task.folder, "--summary", "lost", env=env)
    assert (code, json.loads(out)["failure_id"]) == (0, "fail-001"), err
    for refused in (
        ("state", "transition", task.folder, "ANALYSIS", "PLANNING"),
        ("state", "resume-point", task.folder),
    ):
        assert (await run(home, *socket, *refused, env=env))[0] == 1
    assert (await run(home, *socket, "cancel", task.id, env=env))[0] == 1
    wrong = {**env, "ORCHESTRATOR_TOKEN": "guessed"}
    assert (await run(home, *socket, "state", "get", task.folder, env=wrong))[0] == 1
    of_another = agents(replace(task, folder=f"{task.folder}-2"), 1)
    assert (await run(home, *socket, "state", "get", task.folder, env=of_another))[0] == 1


async def test_a_token_of_an_ended_attempt_is_refused(
    client: httpx.AsyncClient, daemon: InProcessDaemon, task: Task
) -> None:
    await client.post(
        f"/api/tasks/{task.id}/state/transition", json={"from_state": "TICKET_INTAKE", "to_state": "ANALYSIS"}
    )
    home, env = daemon.settings.data_dir.parent, agents(task, 7)
    code, _, err = await run(home, "--socket", str(daemon.settings.socket), "state", "get", task.folder, env=env)
    assert code == 1
    assert "attempt 7" in err


async def test_commands_read_and_write_json_in_a_workspace_and_report_refusals_by_exit_code(tmp_path: Path) -> None:
    where = str(tmp_path / "w")
    code, out, _ = await run(tmp_path, "state", "init", where, "--ticket", "STABLE-1")
    assert (code, json.loads(out)["state"]["config"]["autonomy"]["mode"]) == (0, "interactive")
    code, out, _ = await run(tmp_path, "state", "transition", where, "TICKET_INTAKE", "ANALYSIS")
    assert (code, json.loads(out)["error"]) == (1, "TRANSITION_BLOCKED")
    entry = json.dumps({"actual_outcome": OUTCOME, "state": "EVALUATION"}).encode()
    code, out, _ = await run(tmp_path, "state", "fail", where, stdin=entry)
    assert (code, json.loads(out)) == (0, {"ok": True, "failure_id": "fail-001"})
    code, out, _ = await run(tmp_path, "state", "step", where, stdin=b'{"step_id": 3, "status": "completed"}')
    assert (code, json.loads(out)) == (1, {"error": "UNKNOWN_STEP", "step_id": 3, "known": []})
    for bad in (("state", "step", where, "1"), ("transition", "ABC-1", "DESIGN"), ("transition", "A", "B", "--force")):
        assert (await run(tmp_path, *bad))[0] == 2
    assert (await run(tmp_path, "state", "step", where, stdin=b"{"))[0] == 2
    code, out, err = await run(tmp_path, "state", "get", str(tmp_path / "nowhere"))
    assert (code, out) == (1, "")
    assert "state init" in err


async def test_a_user_forces_a_task_by_a_command(daemon: InProcessDaemon, task: Task) -> None:
    home = daemon.settings.data_dir.parent
    given = ("--socket", str(daemon.settings.socket), "transition", task.id)
    code, out, err = await run(home, *given, "DESIGN", "--force", "--reason", "I know")
    assert (code, out) == (0, f"{task.id} is in DESIGN\n"), err
    code, out, _ = await run(home, *given, "NOWHERE", "--force", "--reason", "I know", "--json")
    assert (code, json.loads(out)["to"]) == (1, "NOWHERE")
