"""What a task leaves in the user's repository: its finished branch, and the tag of a release."""

from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.clone import FETCH, Clone
from orchestrator.workspaces.git import Git, GitError
from orchestrator.workspaces.repository import open_repository


class DeliveryError(OrchestratorError):
    """The finished branch cannot be delivered to the user's repository; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredBranch:
    """The branch in the user's repository; `already` if it pointed to this commit before."""

    branch: str
    commit: str
    already: bool


def put_branch(task_id: str, clone: Clone, repo: Path, branch: str, commit: str) -> DeliveredBranch:
    """Fetch `commit` into the user's repository as a branch, as `Workspace.deliver` promises."""
    user, _ = open_repository(repo)
    ref, brought = f"refs/heads/{branch}", f"refs/orchestrator/{task_id}/delivered"
    there, is_forward = user.ask("rev-parse", "--verify", "--quiet", ref), False
    if there == commit:
        return DeliveredBranch(branch=branch, commit=commit, already=True)
    if there is not None:
        is_known = clone.ref(brought) == there
        was_restored = not is_known and _was_left_by(user, ref, task_id)
        is_forward = (
            (is_known or was_restored)
            and clone.has(there)
            and clone.git.ask("merge-base", "--is-ancestor", there, commit) is not None
        )
        may_move = is_forward or was_restored
        if not may_move or user.ask("symbolic-ref", "--quiet", "HEAD") == ref:
            raise DeliveryError(
                f"{escape_text(str(repo))} has a branch {branch} already, at {there}; rename it there"
                f" (`git branch -m {branch} {branch}-old`) and retry: the work itself is safe at {commit}"
            )
    try:
        user.run(*FETCH, str(clone.folder), commit, timeout=1800.0)
        if there is not None and not is_forward:
            user.run("update-ref", "-m", f"orchestrator: {task_id}", f"{ref}-before-restore-{there[:12]}", there)
        user.run("update-ref", "-m", f"orchestrator: {task_id}", ref, commit, there or "0" * len(commit))
        clone.git.run("update-ref", brought, commit)
    except GitError as error:
        raise DeliveryError(
            f"branch {branch} could not be created in {escape_text(str(repo))}: {error}; correct that and retry: "
            f"the work itself is safe at {commit} in {escape_text(str(clone.folder))}"
        ) from error
    return DeliveredBranch(branch=branch, commit=commit, already=False)


def put_tag(repo: Path, tag: str, commit: str) -> None:
    """Set a new tag in the user's repository, as `Workspace.set_tag` promises."""
    user, _ = open_repository(repo)
    ref = f"refs/tags/{tag}"
    there = user.ask("rev-parse", "--verify", "--quiet", ref)
    if there not in {None, commit}:
        raise DeliveryError(f"{escape_text(str(repo))} has a tag {tag} already, at {there}; choose another version")
    if there is None:
        user.run("update-ref", "-m", "orchestrator: release", ref, commit, "0" * len(commit))


def _was_left_by(user: Git, ref: str, task_id: str) -> bool:
    """Return whether the task put a branch of the user's where it is; a restored data folder may not know of that."""
    return (user.ask("log", "-g", "-1", "--format=%gs", ref, "--") or "").strip() == f"orchestrator: {task_id}"
