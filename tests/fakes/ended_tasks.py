"""Tasks that ended a while ago, with all that they leave on the disk: worktrees, transcripts, sessions, checkpoints.

ended = EndedTasks(data_dir, repo)
ended.add("T-1", days=20)                     # completed and delivered
ended.add("T-2", days=20, delivered=False)    # its commits are nowhere else
ended.close()
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from orchestrator.core.decide import machine
from orchestrator.core.events.events import TaskSubmitted
from orchestrator.core.task.checkpoint import CheckpointContext, Reason, SavedWork, checkpoint_of
from orchestrator.core.task.children import Child, ChildPlan, ChildStatus
from orchestrator.core.task.task import NextAction, Source, Task, TaskStatus, Timing
from orchestrator.core.task.ticket import SensitiveCheck, Ticket
from orchestrator.formats.files import make_private
from orchestrator.storage.store import FolderStore
from orchestrator.workspaces.workspace import Workspace
from tests.fakes.repositories import commit, git, repository
from tests.fakes.seeded_history import accepted, write_inputs
from tests.fakes.seeded_texts import Words, write_transcript
from tests.fakes.tasks import bundled_pipeline

FILES = {"README.md": "# textkit\n", ".gitignore": "build/\n"}


class EndedTasks:
    """Makes ended tasks in a new data folder; `without_git` makes many quickly, which have no workspaces."""

    def __init__(self, data_dir: Path, repo: Path, files: Mapping[str, str] = FILES) -> None:
        self.data, self.repo = make_private(data_dir), repo
        self.base = git(repo, "rev-parse", "HEAD") if repo.exists() else repository(repo, files)
        self.store, self.workspace = FolderStore(data_dir), Workspace(data_dir)
        self.now = datetime.now(UTC)

    def close(self) -> None:
        """Write everything, and let a daemon have the folder."""
        self.store.close()

    def add(  # noqa: PLR0913 - one parameter for each thing that a test may want otherwise
        self,
        task_id: str,
        *,
        days: float,
        status: TaskStatus = TaskStatus.COMPLETED,
        delivered: bool = True,
        transcript: int = 20_000,
        parent: str | None = None,
        children: Sequence[str] = (),
    ) -> str:
        """Make a task that ended so many days ago, with one commit on its branch."""
        task = self._task(task_id, days, status, parent)
        task = replace(task, children=tuple(map(_completed, children)))
        made = self.workspace.prepare(task_id, self.repo, self.base, f"feature/{task_id}")
        head = commit(made.worktree, {f"{task_id}.txt": task_id}, f"Work on {task_id}")
        self.workspace.facts(task_id, self.base, self.base)
        if delivered:
            self.workspace.deliver(task_id, self.repo, made.branch, head)
        self._commit(replace(task, source=replace(task.source, worktree=str(made.worktree), head=head)), status)
        self._leave(task_id, days, transcript)
        return task_id

    def without_git(self, task_id: str, *, days: float, transcript: int = 0, worktree: int = 0) -> str:
        """Make a task that ended so many days ago, with files of these sizes and no repository."""
        task = self._task(task_id, days, TaskStatus.COMPLETED, None)
        self._commit(task, TaskStatus.COMPLETED)
        self._leave(task_id, days, transcript)
        if worktree:
            place = self.data / "worktrees" / task_id
            place.mkdir(parents=True)
            (place / "file").write_bytes(os.urandom(worktree))
            self._age(place, days)
        return task_id

    def save(self, task_id: str, *, pinned: bool = False) -> str | None:
        """Take a checkpoint of what is in the worktree; return the commit of what was not committed."""
        number = self.store.load(task_id).task.seq
        work = self.workspace.checkpoint(task_id, number, "saved")
        self.save_work(task_id, work, pinned=pinned)
        return work.commit

    def save_work(self, task_id: str, work: SavedWork, *, pinned: bool = False) -> int:
        """Write a checkpoint with this work, and return its number."""
        task = self.store.load(task_id, keep_open=True).task
        made = checkpoint_of(task, task.seq, task.updated_at, Reason.USER, CheckpointContext(work=work))
        self.store.save_checkpoint(task, replace(made, pinned=pinned))
        self.store.release(task_id)
        return task.seq

    def age(self, task_id: str, days: float) -> None:
        """Make all files of a task so old."""
        self._age(self.store.files.path_of(task_id), days)
        self._age(self.workspace.worktree(task_id), days)

    def age_clones(self, days: float) -> None:
        """Make the stores of commits so old."""
        self._age(self.data / "repos", days)

    def _task(self, task_id: str, days: float, status: TaskStatus, parent: str | None) -> Task:
        at = self.now - timedelta(days=days)
        begun = at - timedelta(hours=1)
        task = Task(
            id=task_id,
            title=f"The work of {task_id}",
            folder=str(self.store.files.path_of(task_id)),
            ticket=Ticket(key=task_id, source="text", sensitive_check=SensitiveCheck(result="CLEAN", scanned_at=at)),
            pipeline="custom",
            source=Source(repo=str(self.repo), base_branch="main", base_commit=self.base, branch=f"feature/{task_id}"),
            timing=Timing(created_at=begun, completed_at=at if status is TaskStatus.COMPLETED else None),
            updated_at=at,
            parent=parent,
        )
        return accepted(task)

    def _commit(self, task: Task, status: TaskStatus) -> None:
        pipeline = bundled_pipeline(task.pipeline)
        event = TaskSubmitted(at=task.updated_at, task=task, by="ada")
        begun, _ = machine.begin(pipeline, event)
        ended = replace(
            begun, status=status, next_action=NextAction.NOTHING, source=task.source, timing=task.timing, run=None
        )
        with patch.object(os, "fsync"), patch.object(os, "fdatasync"):
            self.store.commit(None, ended, event)
            write_inputs(self.store, ended, pipeline, "")
            self.store.release(ended.id)

    def _leave(self, task_id: str, days: float, transcript: int) -> None:
        folder = self.store.files.path_of(task_id)
        if transcript:
            write_transcript(folder / "agents/1", transcript, Words())
            (folder / "agents/1/stdin.jsonl").write_text('{"type":"user"}\n')
            (folder / "agents/1/stderr.log").write_text("a warning\n")
        for name in ("claude/projects/session.jsonl", "logs/1-unit_test/stdout.jsonl"):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("output\n" * 100)
        (folder / "state.json.foreign-3").write_text("{}")
        self.age(task_id, days)

    def _age(self, folder: Path, days: float) -> None:
        at = (self.now - timedelta(days=days)).timestamp()
        for top, folders, files in os.walk(folder):
            for name in (*folders, *files):
                os.utime(f"{top}/{name}", (at, at), follow_symlinks=False)
        if folder.exists():
            os.utime(folder, (at, at))


def _completed(child: str) -> Child:
    return Child(plan=ChildPlan(key=child, title=child), task=child, status=ChildStatus.COMPLETED)
