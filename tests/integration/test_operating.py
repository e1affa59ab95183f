"""State operations on folders: workspaces without a daemon, with real files, locks and git; and tasks at rest."""

import asyncio
import fcntl
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import orjson
import pytest
from jsonschema import Draft202012Validator

from orchestrator import clock
from orchestrator.core.events.operations import FailureReport, OperationRefused, StepUpdate, Transition
from orchestrator.core.task.failures import KEPT, Failure
from orchestrator.core.task.progress import StepCheckpoint, StepStatus
from orchestrator.core.task.ticket import TicketType
from orchestrator.daemon.offline_state import OLDER, NoWorkspace, OfflineTask, StandaloneWorkspace, is_task
from orchestrator.daemon.task_factory import Submission
from orchestrator.formats.codec import Json
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.definition_files import Folders
from orchestrator.pipelines.definitions import load_definitions
from orchestrator.pipelines.families.tickets.standalone_state import InitialState, UnreadableState
from orchestrator.pipelines.schemas import state_schema
from orchestrator.storage.records import StoreInUse
from orchestrator.storage.store import FolderStore
from orchestrator.workspaces.git import GitError
from tests.fakes.in_process_daemon import create_daemon
from tests.fakes.repositories import commit, git, repository
from tests.fakes.waiting import running
from tests.fakes.world import START

PIPELINES = load_definitions(Folders(pipelines=(bundled(Kind.PIPELINES),), roles=(bundled(Kind.AGENTS),))).pipelines
BEGINNING = InitialState(ticket_id="STABLE-1", ticket_type=TicketType.FEATURE, variant="full", source="local")

WRITERS = 2
REPORTS = 60
WRITE = """
import sys
from pathlib import Path
from tests.integration.test_operating import lone, report
workspace = lone(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    workspace.fail(report(f"{sys.argv[2]} broke at a/b.go:{number}"))
"""


def lone(folder: Path) -> StandaloneWorkspace:
    return StandaloneWorkspace(folder, PIPELINES, clock.now, "ada uid:1000")


def report(summary: str) -> FailureReport:
    failure = Failure(
        id="", occurred_at=START, state="EVALUATION", agent=None, step=None, attempted="", command=None, expected="",
        type="test_failure", summary=summary,
    )  # fmt: skip
    return FailureReport(failure=failure)


def move(origin: str, target: str, *artifacts: str) -> Transition:
    return Transition(from_state=origin, to_state=target, artifacts=artifacts)


def document(folder: Path) -> dict[str, Json]:
    return cast(dict[str, Json], json.loads((folder / "state.json").read_bytes()))


def states_of(folder: Path) -> dict[str, dict[str, Any]]:
    return cast(dict[str, dict[str, Any]], document(folder)["states"])


def rewritten(folder: Path, **changes: Json) -> None:
    (folder / "state.json").write_bytes(orjson.dumps({**document(folder), **changes}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a new workspace in a repository with the layout of the original system."""
    repository(tmp_path / "repo")
    folder = tmp_path / "repo/.coding-agent/tickets/STABLE-1"
    lone(folder).init(BEGINNING)
    return folder


@pytest.mark.parametrize("key", ["foo bar/../..", "", "../x", "a/b", "-x", "a\nb", "x" * 101])
def test_a_workspace_is_begun_only_for_what_can_be_a_ticket_key(tmp_path: Path, key: str) -> None:
    with pytest.raises(OperationRefused, match="is no ticket key") as refused:
        lone(tmp_path / "w").init(replace(BEGINNING, ticket_id=key))
    assert refused.value.document["error"] == "MALFORMED"
    assert not (tmp_path / "w").exists()


def in_implementation(folder: Path, commit: str = "a1") -> None:
    """Bring the workspace to its second step with the documents of the original system."""
    states = cast(dict[str, dict[str, Json]], document(folder)["states"])
    steps: list[Json] = [
        {"step_id": 1, "description": "Do it", "status": "completed", "commits": [commit]},
        {"step_id": 2, "description": "Test it", "status": "in_progress", "commits": []},
    ]
    progress: Json = {"total_steps": 2, "steps": steps}
    record: Json = {**states["IMPLEMENTATION"], "status": "in_progress", "plan_progress": progress}
    rewritten(folder, current_state="IMPLEMENTATION", states=cast(Json, {**states, "IMPLEMENTATION": record}))


def test_a_workspace_is_moved_from_its_ticket_to_its_plan_by_its_files(folder: Path) -> None:
    workspace = lone(folder)
    with pytest.raises(OperationRefused, match=r"ticket\.json not found"):
        workspace.transition(move("TICKET_INTAKE", "ANALYSIS"))
    (folder / "ticket.json").write_text("{}")
    states = cast(dict[str, dict[str, Json]], document(folder)["states"])
    states["TICKET_INTAKE"]["sensitive_check"] = {"result": "LOCAL_BYPASS"}
    rewritten(folder, states=cast(Json, states))
    assert workspace.transition(move("TICKET_INTAKE", "ANALYSIS")) == {"ok": True, "new_state": "ANALYSIS"}
    intake = cast(dict[str, dict[str, Json]], document(folder)["states"])["TICKET_INTAKE"]
    assert cast(dict[str, Json], intake["sensitive_check"])["allowed_by"] == "ada uid:1000"
    (folder / "analysis.md").write_text("x" * 201)
    (folder / "related-code.json").write_text('{"ckv": [1]}')
    workspace.transition(move("ANALYSIS", "PLANNING", "notes.md"))
    analysis = cast(dict[str, dict[str, Json]], document(folder)["states"])["ANALYSIS"]
    assert set(cast(list[str], analysis["artifacts"])) == {"notes.md", "analysis.md", "related-code.json"}
    assert workspace.resume_point()["sub_status"] == "fresh"
    (folder / "plan.md").write_text("## Step 1: Do it\n\nLike this.\n")
    (folder / "design-v1.md").write_text("as it is")
    workspace.transition(move("PLANNING", "DESIGN"))
    assert workspace.resume_point()["sub_status"] == "review_pending"
    workspace.transition(move("DESIGN", "IMPLEMENTATION"))
    assert workspace.get()["plan_progress"] == {"total_steps": 1, "completed_steps": 0, "current_step": "Do it"}


def test_every_state_of_a_workspace_without_a_daemon_is_valid(folder: Path) -> None:
    schema = Draft202012Validator(state_schema())
    schema.validate(document(folder))
    head = git(folder, "rev-parse", "HEAD")
    in_implementation(folder, head)
    workspace = lone(folder)
    checkpoint = StepCheckpoint(at=START, reason="milestone", work_in_progress="half of it", uncommitted_files=())
    workspace.step(StepUpdate(step_id=2, status=StepStatus.IN_PROGRESS, checkpoint=checkpoint))
    workspace.fail(report("nil pointer in a/b.go:1"))
    workspace.fail(report("nil pointer in a/b.go:2"))
    schema.validate(document(folder))
    workspace.step(StepUpdate(step_id=2, status=StepStatus.COMPLETED, commits=(head[:10],)))
    for origin, target in (("IMPLEMENTATION", "EVALUATION"), ("EVALUATION", "BLOCKED"), ("BLOCKED", "EVALUATION")):
        workspace.transition(move(origin, target))
        schema.validate(document(folder))


def test_uncommitted_files_block_the_evaluation_except_those_of_the_workspace_itself(
    folder: Path,
) -> None:
    repo = folder.parents[2]
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "commit", "--quiet", "--allow-empty", "--message", "Test it")
    head = git(repo, "rev-parse", "HEAD")
    in_implementation(folder, first)
    workspace = lone(folder)
    (repo / "new.py").write_text("1")
    (repo / "a.txt").write_text("two")
    git(repo, "add", "new.py")
    checkpoint = cast(dict[str, Json], workspace.resume_point()["checkpoint"])
    assert set(cast(list[str], checkpoint["uncommitted_files"])) == {"new.py", "a.txt"}
    workspace.step(StepUpdate(step_id=2, status=StepStatus.COMPLETED, commits=(head,)))
    with pytest.raises(OperationRefused, match=r"uncommitted changes: a\.txt, new\.py"):
        workspace.transition(move("IMPLEMENTATION", "EVALUATION"))
    commit(repo, {"new.py": "1", "a.txt": "two"})
    assert workspace.transition(move("IMPLEMENTATION", "EVALUATION"))["new_state"] == "EVALUATION"


def test_a_step_is_not_done_by_a_commit_that_does_not_exist(folder: Path) -> None:
    head = git(folder, "rev-parse", "HEAD")
    tree = git(folder, "rev-parse", "HEAD^{tree}")
    in_implementation(folder, head)
    workspace = lone(folder)
    made_up = ("feedc0ffee", tree, "HEAD", "b2\n")
    workspace.step(StepUpdate(step_id=2, status=StepStatus.COMPLETED, commits=(head[:8], *made_up)))
    with pytest.raises(OperationRefused) as refused:
        workspace.transition(move("IMPLEMENTATION", "EVALUATION"))
    assert refused.value.document["missing"] == [f"commit {one} of step 2 is not in the repository" for one in made_up]
    second = states_of(folder)["IMPLEMENTATION"]["plan_progress"]["steps"][1]
    assert second["commits"] == [head[:8], *made_up]


def test_outside_of_a_repository_work_can_be_resumed_but_not_evaluated(tmp_path: Path) -> None:
    lone(tmp_path / "w").init(BEGINNING)
    in_implementation(tmp_path / "w")
    workspace = lone(tmp_path / "w")
    assert workspace.resume_point()["checkpoint"] is None
    workspace.step(StepUpdate(step_id=2, status=StepStatus.COMPLETED, commits=("b2",)))
    with pytest.raises(GitError):
        workspace.transition(move("IMPLEMENTATION", "EVALUATION"))


def test_a_document_of_the_original_system_keeps_its_keys_and_gets_no_new_ones(folder: Path) -> None:
    rewritten(folder, mcp_preflight={"servers_registered": ["jira"]})
    before = document(folder)
    lone(folder).fail(report("nil pointer at a/b.go:1"))
    after = document(folder)
    assert after.keys() == before.keys()
    assert after["mcp_preflight"] == before["mcp_preflight"]
    assert after["states"] == before["states"]


def test_failures_beyond_the_newest_200_move_to_a_file_and_ids_continue(folder: Path) -> None:
    outcome: Json = {"type": "test_failure", "summary": "nil pointer", "owner": "me"}
    old: list[Json] = [{"id": f"fail-{n:03d}", "state": "EVALUATION", "actual_outcome": outcome} for n in range(1, 251)]
    rewritten(folder, failure_log=old)
    assert lone(folder).fail(report("nil pointer")) == {"ok": True, "failure_id": "fail-251"}
    kept = cast(list[dict[str, Json]], document(folder)["failure_log"])
    older = [json.loads(line) for line in (folder / OLDER).read_text().splitlines()]
    assert (len(kept), len(older), kept[0]["id"], older[-1]["id"]) == (KEPT, 51, "fail-052", "fail-051")
    assert older[0] == old[0]
    summary = cast(dict[str, Json], document(folder)["failure_summary"])
    assert summary["total_failures"] == 251


def test_two_concurrent_writers_lose_nothing(folder: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root)}
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITE, str(folder), name, str(REPORTS)], env=env)
        for name in ("this", "that")
    ]
    assert [writer.wait(120) for writer in writers] == [0] * WRITERS
    found = document(folder)
    ids = [entry["id"] for entry in cast(list[dict[str, Json]], found["failure_log"])]
    assert ids == [f"fail-{number:03d}" for number in range(1, WRITERS * REPORTS + 1)]
    assert cast(dict[str, Json], found["failure_summary"])["total_failures"] == WRITERS * REPORTS


def test_a_writer_waits_for_the_holder_of_the_lock(folder: Path) -> None:
    with (folder / ".state.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        writer = threading.Thread(target=lambda: lone(folder).fail(report("x")))
        writer.start()
        writer.join(0.2)
        assert writer.is_alive()
        assert document(folder)["failure_log"] == []
    writer.join()
    assert len(cast(list[Json], document(folder)["failure_log"])) == 1


@pytest.mark.parametrize("content", [None, b"", b"[]", b"{", b'{"current_state": "NOWHERE"}', b'{"failure_log": 7}'])
def test_a_folder_without_a_state_is_reported_with_instructions(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "state.json").write_bytes(content)
    with pytest.raises((NoWorkspace, UnreadableState), match=r"state\.json"):
        lone(tmp_path).get()


def test_a_state_that_is_a_link_is_not_followed(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w/state.json").symlink_to(folder / "state.json")
    with pytest.raises(NoWorkspace, match="no plain file"):
        lone(tmp_path / "w").get()
    with pytest.raises(NoWorkspace, match="no folder"):
        lone(tmp_path / "nowhere").fail(report("x"))


def test_a_workspace_is_created_once_and_with_an_existing_pipeline(folder: Path) -> None:
    with pytest.raises(OperationRefused) as caught:
        lone(folder).init(BEGINNING)
    assert caught.value.document["error"] == "STATE_EXISTS"
    odd = InitialState(ticket_id="A-1", ticket_type=TicketType.FEATURE, variant="\x1b[31m", source="local")
    with pytest.raises(NoWorkspace, match=r"there is no pipeline '\\\\x1b\[31m'"):
        lone(folder.with_name("other")).init(odd)


@pytest.fixture
def at_rest(tmp_path: Path) -> Path:
    """Return the folder of an accepted task whose daemon has stopped."""
    repository(tmp_path / "repo")
    daemon = create_daemon(tmp_path / "data")

    async def begin() -> Path:
        async with running(daemon.supervisor.run()):
            task = await daemon.accept(Submission(text="Say hello", repo=tmp_path / "repo"), "ada")
            await daemon.inbox.settled()
            return Path(task.folder)

    folder = asyncio.run(begin())
    daemon.store.close()
    return folder


def journal(folder: Path) -> list[Mapping[str, Json]]:
    return [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]


def test_a_task_whose_daemon_is_stopped_is_changed_by_a_decision_in_its_journal(at_rest: Path) -> None:
    assert is_task(at_rest)
    task = OfflineTask(at_rest, clock.now, "ada uid:1000")
    assert task.fail(report("it broke"))["failure_id"] == "fail-001"
    last = journal(at_rest)[-1]
    assert (last["trigger"], cast(dict[str, Json], last["event"])["by"]) == ("OperationRequested", "ada uid:1000")
    assert task.get()["current_state"] == "TICKET_INTAKE"
    assert task.resume_point()["state"] == "TICKET_INTAKE"
    with pytest.raises(OperationRefused, match="UNKNOWN_STEP"):
        task.step(StepUpdate(step_id=1, status=StepStatus.FAILED))
    with pytest.raises(OperationRefused, match="worktree"):
        task.transition(move("TICKET_INTAKE", "ANALYSIS"))
    assert task.transition(move("TICKET_INTAKE", "BLOCKED"))["new_state"] == "BLOCKED"


def test_a_task_whose_daemon_runs_is_left_to_it(at_rest: Path) -> None:
    store = FolderStore(at_rest.parent.parent)
    with pytest.raises(StoreInUse):
        OfflineTask(at_rest, clock.now, "ada").fail(report("x"))
    store.close()
