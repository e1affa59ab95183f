"""Files of the work, read and recorded through git: what an agent plants there cannot lead elsewhere."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.core.events.commands import LookAtGate
from orchestrator.core.family.family import Examined, Family, Files, Records
from orchestrator.core.guards.files import FilesValid
from orchestrator.core.task.guards import missing
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.progress import StageRecord
from orchestrator.core.task.task import Task
from orchestrator.errors import OrchestratorError
from orchestrator.pipelines.pipeline_file import parse_pipeline
from orchestrator.workspaces.clone import WorkspaceError
from orchestrator.workspaces.documents import LARGEST_DOCUMENT, MOST_DOCUMENTS
from orchestrator.workspaces.evaluation.gates import Gates
from orchestrator.workspaces.recording import record
from orchestrator.workspaces.workspace import Workspace
from tests.fakes.repositories import commit, git, repository
from tests.fakes.tasks import submitted

AT = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)
PIPELINE = """
name = "documents"
description = "Documents in the worktree."
start = "PLANNING"
branch = "{task}"

[stages.PLANNING]
work = "agent"
role = "planner"
answer = "end.txt"
documents = ["docs/planning/*.md", "works/{ticket}/PLAN.md"]
guards = [
    { guard = "glob_count", pattern = "docs/planning/*.md", at_least = 2 },
    { guard = "files_min_chars", pattern = "docs/planning/*.md", more_than = 5 },
    { guard = "no_placeholders", pattern = "docs/planning/*.md" },
    { guard = "file_exists", file = "works/{ticket}/PLAN.md" },
    { guard = "file_says", file = "end.txt", text = "=== PHASE 1 COMPLETE ===" },
]
next = "DONE"

[stages.DONE]
work = "deliver"
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A task with its worktree."""

    workspace: Workspace
    task: Task

    @property
    def worktree(self) -> Path:
        return self.workspace.worktree(self.task.id)

    def look(self, said: str = "") -> tuple[str, ...]:
        """What the gate of PLANNING misses, when the agent's last words were these."""
        gates = Gates(self.workspace, lambda _: {}, lambda _: said)
        pipeline = parse_pipeline(PIPELINE, "documents.toml")
        look = LookAtGate(stage="PLANNING", visit=1, turn=1, attempt=1, since=self.task.source.base_commit)
        return missing(pipeline.stage("PLANNING").guards, self.task, gates.look(self.task, pipeline, look))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A task whose worktree is ready."""
    base = repository(tmp_path / "repo", {"a.txt": "one\n", "docs/old.md": "old\n"})
    workspace = Workspace(tmp_path / "data")
    task = submitted()
    made = workspace.prepare(task.id, tmp_path / "repo", base, "work")
    (tmp_path / "data/tasks" / task.id / "agents/1/out").mkdir(parents=True)
    source = replace(task.source, repo=str(tmp_path / "repo"), base_commit=base, branch=made.branch, head=base)
    return Place(workspace, replace(task, folder=str(tmp_path / "data/tasks" / task.id), source=source))


def leave(place: Place, files: Mapping[str, str]) -> None:
    for name, body in files.items():
        (place.worktree / name).parent.mkdir(parents=True, exist_ok=True)
        (place.worktree / name).write_text(body)


def test_a_gate_sees_documents_whether_they_are_committed_or_not(place: Place) -> None:
    leave(place, {"docs/planning/01_idea.md": "an idea\n", "docs/planning/sub/x.md": "not looked at: TODO\n"})
    commit(place.worktree, {"docs/planning/02_market.md": "a market\n"})
    leave(place, {f"works/{place.task.ticket.key}/PLAN.md": "# Plan\n"})
    assert place.look() == ("end.txt not found",)
    assert place.look("All done.\n=== PHASE 1 COMPLETE ===") == ()
    kept = Path(place.task.folder) / "end.txt"
    assert kept.read_text() == "All done.\n=== PHASE 1 COMPLETE ===\n"


def test_what_documents_lack_is_named_by_their_path(place: Place) -> None:
    leave(place, {"docs/planning/01_idea.md": "TODO: think", "docs/planning/02_market.md": "hm"})
    assert place.look("=== PHASE 1 COMPLETE ===") == (
        "docs/planning/02_market.md has 2 characters, more than 5 needed",
        "docs/planning/01_idea.md still says TODO",
        f"works/{place.task.ticket.key}/PLAN.md not found",
    )


def test_a_link_a_huge_file_and_broken_text_are_no_documents(place: Place, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("a secret of the server\n")
    planning = place.worktree / "docs/planning"
    planning.mkdir(parents=True)
    (planning / "link.md").symlink_to(secret)
    (planning / "huge.md").write_bytes(b"x" * (LARGEST_DOCUMENT + 1))
    (planning / "latin.md").write_bytes(b"caf\xe9 au lait\n")
    files = place.workspace.files(place.task.id, Path(place.task.folder))
    assert files.matching(["docs/planning/*.md"]) == {}
    assert files.committed("docs/planning/link.md") is None
    assert files.committed("../../secret.md") is None
    (place.worktree / "elsewhere").symlink_to(tmp_path)
    assert files.names("elsewhere") == ()
    assert files.names("..") == files.names("") == ()
    assert set(files.names("docs")) < set(files.names("."))
    assert files.artifact("../secret.md") is None


def test_a_family_may_read_what_was_projected_for_others_and_nothing_below_it(place: Place, tmp_path: Path) -> None:
    records = Path(place.task.folder) / "records"
    records.mkdir()
    (records / "PROGRESS.md").write_text("how far\n")
    (tmp_path / "secret.md").write_text("a secret of the server\n")
    (records / "link.md").symlink_to(tmp_path / "secret.md")
    files = place.workspace.files(place.task.id, Path(place.task.folder))
    assert files.artifact("records/PROGRESS.md") == "how far\n"
    for name in (
        "records/link.md",
        "records/../records/PROGRESS.md",
        "records/none.md",
        "agents/1/spec.json",
        "records/",
    ):
        assert files.artifact(name) is None, name


def examined(task: Task, name: str, text: str, files: Files) -> Examined:
    """Find fault with a word, as a family does."""
    del task
    return Examined(problems=("it is late",) if "late" in text else (), marks=(name, str(files.artifact("end.txt"))))


def test_a_family_examines_what_an_agent_left_in_the_outbox_and_in_the_worktree(place: Place) -> None:
    pipeline = replace(parse_pipeline(PIPELINE, "documents.toml"), family=Family(name="test", examine=examined))
    leave(place, {"docs/planning/01_idea.md": "late", "docs/planning/02_market.md": "early"})
    look = LookAtGate(stage="PLANNING", visit=1, turn=1, attempt=1, since=place.task.source.base_commit)
    seen = Gates(place.workspace, lambda _: {}, lambda _: "the end").look(place.task, pipeline, look)
    guard = FilesValid(pattern="docs/planning/*.md")
    assert guard.missing(place.task, seen) == ("docs/planning/01_idea.md: it is late",)
    assert seen.files["end.txt"].marks == ("end.txt", "the end\n")


def test_a_name_that_no_journal_could_hold_is_left_out(place: Place) -> None:
    planning = place.worktree / "docs/planning"
    planning.mkdir(parents=True)
    for name in (b"\xff.md", b"a\nb\x1b[31m.md", "\u202e.md".encode(), b"fine.md"):
        Path(os.fsdecode(os.fsencode(planning) + b"/" + name)).write_text("a text\n")
    files = place.workspace.files(place.task.id, Path(place.task.folder))
    assert list(files.matching(["docs/planning/*.md"])) == ["docs/planning/fine.md"]
    assert files.names("docs/planning") == ("docs/planning/fine.md",)


def test_a_family_that_fails_on_a_file_costs_its_own_task_only(place: Place) -> None:
    def careless(task: Task, stage: str, files: Files) -> Mapping[str, str]:
        return {"brief.md": str(int("no number"))}

    family = Family(name="careless", prepare=careless)
    pipeline: Pipeline = replace(parse_pipeline(PIPELINE, "documents.toml"), family=family)
    with pytest.raises(OrchestratorError, match="the family 'careless' cannot cope with a file of this task"):
        Gates(place.workspace, lambda _: {}, lambda _: "").prepare(replace(place.task, stage="PLANNING"), pipeline)


def test_no_more_documents_are_read_than_the_limit(place: Place) -> None:
    leave(place, {f"docs/planning/{number:04}.md": "a text\n" for number in range(MOST_DOCUMENTS + 50)})
    files = place.workspace.files(place.task.id, Path(place.task.folder))
    assert len(files.matching(["docs/planning/*.md"])) == MOST_DOCUMENTS
    assert files.names("docs")[:2] == ("docs/old.md", "docs/planning/0000.md")


def test_records_are_one_commit_however_often_they_are_put_down(place: Place) -> None:
    records = Records(
        message="docs(WORK-01): plan\n\nTwo files.", files={"works/WORK-01/계획.md": "하나\n", "a.txt": "two\n"}
    )
    for _ in range(2):
        record(place.workspace, place.task, records, AT)
    base = place.task.source.base_commit
    assert git(place.worktree, "rev-list", "--count", f"{base}..HEAD") == "1"
    assert git(place.worktree, "log", "-1", "--format=%B") == "docs(WORK-01): plan\n\nTwo files."
    assert git(place.worktree, "-c", "core.quotePath=false", "diff", "--name-only", base).split() == [
        "a.txt",
        "works/WORK-01/계획.md",
    ]
    assert (place.worktree / "works/WORK-01/계획.md").read_text() == "하나\n"
    assert git(place.worktree, "status", "--porcelain") == ""
    git(place.worktree, "fsck", "--strict", "--no-dangling")


def test_a_lock_that_a_killed_git_left_hinders_no_records(place: Place) -> None:
    (place.workspace.clone_of(place.task.id).folder / f"index-records-{place.task.id}.lock").touch()
    record(place.workspace, place.task, Records(message="m", files={"b.txt": "x\n"}), AT)
    assert (place.worktree / "b.txt").read_text() == "x\n"


@pytest.mark.parametrize("path", ["/etc/passwd", "../up.md", "a/../../b", ".git/config", "sub/.GIT/hooks/x", ""])
def test_records_stay_in_the_repository(place: Place, path: str) -> None:
    with pytest.raises(WorkspaceError, match="is not a path in the repository"):
        record(place.workspace, place.task, Records(message="m", files={path: "x"}), AT)
    assert git(place.worktree, "rev-parse", "HEAD") == place.task.source.base_commit


def test_records_are_not_put_over_uncommitted_work(place: Place) -> None:
    leave(place, {"half.txt": "half\n"})
    with pytest.raises(WorkspaceError, match=r"half\.txt .* is not committed"):
        record(place.workspace, place.task, Records(message="m", files={"b.txt": "x"}), AT)
    assert (place.worktree / "half.txt").read_text() == "half\n"


def prepared(task: Task, stage: str, files: Files) -> Mapping[str, str]:
    """Compose a file from what stands on the branch, as a family does."""
    return {"brief.md": f"{stage} of {task.ticket.key}: {files.committed('a.txt')}"}


def test_a_family_prepares_files_for_an_agent_from_the_work_as_it_is(place: Place) -> None:
    pipeline: Pipeline = replace(
        parse_pipeline(PIPELINE, "documents.toml"), family=Family(name="test", prepare=prepared)
    )
    leave(place, {"a.txt": "not committed\n"})
    Gates(place.workspace, lambda _: {}, lambda _: "").prepare(replace(place.task, stage="PLANNING"), pipeline)
    brief = (Path(place.task.folder) / "brief.md").read_text()
    assert brief == f"PLANNING of {place.task.ticket.key}: not committed\n"


def dated(task: Task, stage: str, files: Files, at: datetime) -> Records:
    """Compose a file with a time in it, as a family does."""
    del files
    return Records(message=f"{stage} of {task.ticket.key}", files={"log.txt": f"{at.isoformat()}\n"})


def test_a_stage_that_records_the_time_records_it_once_however_often_it_is_looked_at(place: Place) -> None:
    pipeline = replace(parse_pipeline(PIPELINE, "documents.toml"), family=Family(name="test", records=dated))
    gates = Gates(place.workspace, lambda _: {}, lambda _: "")
    entered = replace(place.task, stages={**place.task.stages, "PLANNING": StageRecord(started_at=AT)})
    for _ in range(2):
        gates.record(entered, pipeline, "PLANNING")
    assert git(place.worktree, "rev-list", "--count", f"{place.task.source.base_commit}..HEAD") == "1"
    assert (place.worktree / "log.txt").read_text() == f"{AT.isoformat()}\n"
