"""What a submission would become, before it is made: its pipeline, where work begins, its checks, and what to know."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.daemon.services.submissions import SubmissionService
from orchestrator.daemon.task_factory import Submission
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.git import Git, GitError
from orchestrator.workspaces.repository import RepositoryError, uncommitted

NAMED = 5
"""Uncommitted files that are named one by one."""
LONGEST_LOOK = 10.0
"""Seconds that a search for uncommitted files may take."""
NO_TEXT = "(nothing is written yet)"
"""Stands for a ticket whose text is not there yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a submission would become now; `remarks` are worth knowing before it is made, but do not prevent it.

    `task` has no id. It is None where a repository is only made when the submission is; then its checks are not known.
    """

    pipeline: Pipeline | None
    task: Task | None
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewService:
    """The use case of looking at a submission before it is made."""

    submissions: SubmissionService

    async def preview(self, submission: Submission, after: Sequence[str]) -> Preview:
        """Return what `submissions.submit` would make; nothing is written, and a text may be missing.

        Raises what it raises, except for a second task of a ticket, which is a remark.
        """
        wanted = replace(submission, text=submission.text if submission.text.strip() else NO_TEXT)
        pipelines = self.submissions.factory.pipelines()
        declared = pipelines.get(submission.pipeline or "")
        if submission.no_git:
            remark = "the folder is kept as it is when this is submitted; only then its checks are found"
            return Preview(pipeline=declared, task=None, remarks=(remark,))
        try:
            task, same = await self.submissions.preview(wanted, after)
        except RepositoryError:
            if declared is None or not declared.new_repository or not await asyncio.to_thread(_is_vacant, wanted.repo):
                raise
            remark = "a repository is made of this empty folder when this is submitted"
            return Preview(pipeline=declared, task=None, remarks=(remark,))
        if not (submission.text.strip() or submission.title):
            task = replace(task, title="")
        remarks = (*_remarks(task, same), *await asyncio.to_thread(lambda: tuple(_left_out(Path(task.source.repo)))))
        return Preview(pipeline=pipelines.get(task.pipeline), task=task, remarks=remarks)


def _remarks(task: Task, same: Task | None) -> Iterator[str]:
    if same is not None:
        yield f"{task.ticket.key} already has a task in this repository: {same.id} ({same.status.value})"
    if not any(check.command for check in task.evaluation.checks):
        yield "no command checks the work: the repository declares none, and none was recognized"
    if task.ticket.preflight and task.ticket.preflight.env_unset:
        yield f"MCP servers need variables that are not set: {', '.join(task.ticket.preflight.env_unset)}"


def _left_out(repo: Path) -> Iterator[str]:
    """Say which files the work would begin without, because they are not committed. Blocks."""
    with suppress(GitError):  # a bare repository has no such files, and a huge one may take too long
        names = uncommitted(Git.foreign(repo), LONGEST_LOOK)
        if names:
            named = ", ".join(escape_text(name) for name in names[:NAMED]) + (", …" if len(names) > NAMED else "")
            count = "1 file is" if len(names) == 1 else f"{len(names)} files are"
            yield f"{count} not committed, and the work begins without: {named}"


def _is_vacant(folder: Path) -> bool:
    """Whether a folder is empty, or could be made because only it is missing. Blocks."""
    try:
        return not any(folder.iterdir()) if folder.is_dir() else not folder.exists() and folder.parent.is_dir()
    except (OSError, ValueError):
        return False
