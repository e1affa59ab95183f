"""What of a task's work exists nowhere else, so that nobody may remove its copy here.

Work counts as safe where the user's repository has it in a branch or a tag, or once had it delivered. A person who
then removes it there has decided. Whatever cannot be looked at counts as unsafe.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from orchestrator.core.task.checkpoint import Checkpoint
from orchestrator.core.task.task import Source, Task
from orchestrator.errors import OrchestratorError
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.clone import EARLIER, Clone, WorkspaceError
from orchestrator.workspaces.git import Git, GitError
from orchestrator.workspaces.removal.tips import (
    Tips,
    commits_beyond,
    commits_unknown,
    git_with,
    own_refs,
    types_of,
)
from orchestrator.workspaces.repository import RepositoryError, open_repository
from orchestrator.workspaces.workspace import Workspace

_NAMED = 3
_LINKS = "repos/tasks"


def unmerged_worktree(workspace: Workspace, task_id: str, source: Source) -> str:
    """Return what keeps a task's worktree from being removed; empty if nothing does. Blocks.

    What was amended or reset there does not: the clone keeps it.
    """
    worktree = workspace.worktree(task_id)
    if not worktree.is_dir():
        return ""
    try:
        leftover = workspace.leftover(task_id)
        if leftover.uncommitted:
            return f"not committed: {_named(leftover.uncommitted)}"
        clone = workspace.clone_of(task_id)
        if unmerged := unmerged_head(clone, task_id, source):
            return unmerged
        lost = _not_theirs(clone, own_refs(clone, task_id), source, leftover.tips.named.values(), worktree)
        if names := _names_of(leftover.tips, lost):
            return f"commits that only its worktree has: {_named(names)}"
        unsaved = leftover.unsaved
        return f"ignored by git, but perhaps not rebuildable: {_named(unsaved)}" if unsaved else ""
    except (OrchestratorError, OSError) as error:
        return f"it cannot be looked at: {error}"


def lost_with_worktree(workspace: Workspace, task_id: str) -> str:
    """Return what a checkpoint of a task's worktree would not keep; empty if it keeps everything. Blocks.

    Raises WorkspaceError, GitError and OSError where not everything can be looked at.
    """
    leftover, clone = workspace.leftover(task_id), workspace.clone_of(task_id)
    if unsaved := leftover.unsaved:
        return _named(unsaved)
    git = git_with(clone, workspace.worktree(task_id))
    lost = commits_unknown(git, set(leftover.tips.named.values()), own_refs(clone, task_id).values())
    names = _names_of(leftover.tips, lost)
    return f"the commits of {_named(names)}" if names else ""


def unmerged_head(clone: Clone, task_id: str, source: Source) -> str:
    """Return why the task's newest commit, or that of its children, counts as unmerged; empty if both are safe.

    Raises GitError.
    """
    own = own_refs(clone, task_id)
    newest = [own[name] for name in ("head", "joined") if name in own]
    if not _not_theirs(clone, own, source, newest):
        return ""
    return f"its commits are in no branch of {escape_text(source.repo)}"


def unmerged_earlier(clone: Clone, task: Task) -> str:
    """Return which commits that were amended or reset count as unmerged; empty if there are none. Raises GitError."""
    lost = sorted(_not_theirs(clone, own_refs(clone, task.id), task.source, earlier_commits(clone, task)))
    if not lost:
        return ""
    named, refs = _named([commit[:12] for commit in lost]), f"refs/orchestrator/{task.id}/{EARLIER}*"
    return (
        f"commits that were amended or reset, and are in no branch of {escape_text(task.source.repo)}: {named};"
        f" `git fetch {escape_text(str(clone.folder))} '{refs}:refs/heads/{task.id}/*'` brings them there"
    )


def earlier_commits(clone: Clone, task: Task) -> list[str]:
    """Return the commits of a task that were amended or reset. Raises GitError.

    Those are left out that were dropped on the way to what a completed task delivered: they are older, and it does not
    follow from resetting them.
    """
    earlier = [commit for name, commit in own_refs(clone, task.id).items() if name.startswith(EARLIER)]
    if not earlier or task.timing.completed_at is None:
        return earlier
    below = f"refs/orchestrator/{task.id}/"
    result = clone.ref(f"{below}delivered") or clone.ref(f"{below}head")
    if result is None:
        return earlier
    wanted = ("--format=%(objectname) %(committerdate:unix)", f"{below}{EARLIER}")
    times = dict(line.split(" ") for line in clone.git.run("for-each-ref", *wanted).splitlines())
    undone = clone.git.run("for-each-ref", f"--contains={result}", *wanted).split()
    ended = int(clone.git.run("show", "--no-patch", "--format=%ct", result))
    return [commit for commit in earlier if commit in undone or int(times[commit]) > ended]


def unmerged_checkpoints(workspace: Workspace, task: Task, checkpoints: Sequence[Checkpoint]) -> str:
    """Return what keeps a task's checkpoints from being removed; empty if nothing does. Blocks.

    What was saved on the way to a change that was delivered whole is part of it, unless somebody pinned it.
    """
    saved = [one for one in checkpoints if one.work is not None and one.work.commit is not None]
    pinned = [str(one.number) for one in saved if one.pinned]
    if pinned:
        return f"uncommitted work in pinned checkpoints: {', '.join(pinned[:_NAMED])}"
    if saved and task.timing.completed_at is None:
        return f"uncommitted work of a task that was not completed, in {len(saved)} checkpoints"
    if not saved:
        return ""
    try:
        return unmerged_head(workspace.clone_of(task.id), task.id, task.source)
    except (OrchestratorError, OSError) as error:
        return f"its clone cannot be looked at: {error}"


def unmerged_clone(
    clone: Clone, repo: Path, tasks: Collection[str], task_of: Callable[[str], Task], *, is_removed: bool = False
) -> str:
    """Return what keeps a clone from being removed: commits of these tasks that its repository lacks. Blocks.

    With `is_removed` that was a copy of the daemon's own, of which all was elsewhere when it was removed.
    """
    try:
        owned = [(sha, *name.split("/", 3)[2:]) for sha, name in _refs(clone.git, "refs/orchestrator/")]
        mine = [sha for sha, task, kind in owned if task in tasks and (kind == "head" or kind.isdecimal())]
        for task in {task for _, task, kind in owned if task in tasks and kind.startswith(EARLIER)}:
            mine += earlier_commits(clone, task_of(task))
        if not mine:
            return ""
        places = ("refs/remotes/", "refs/tags/") if is_removed else ("refs/",)
        git = clone.git if is_removed else open_repository(repo)[0]
        theirs = {sha for place in places for sha, _ in _refs(git, place)}
        delivered = {sha for sha, _, kind in owned if kind == "delivered"}
        count = len(commits_beyond(clone.git, mine, theirs | delivered))
    except (OrchestratorError, OSError, ValueError) as error:
        return f"it cannot be compared with its repository: {error}"
    return f"{count} commits that {escape_text(str(repo))} does not have" if count else ""


def tasks_of_clones(data_dir: Path) -> dict[str, list[str]]:
    """Return the ids of the tasks that use each clone, by the clone's name."""
    found: dict[str, list[str]] = {}
    links = data_dir / _LINKS
    for link in links.iterdir() if links.is_dir() else ():
        if link.is_symlink():
            found.setdefault(link.readlink().name, []).append(link.name)
    return found


def clone_paths(data_dir: Path, name: str, tasks: Sequence[str]) -> list[Path]:
    """Return a clone and the links of the tasks that use it."""
    return [data_dir / "repos" / name, *(data_dir / _LINKS / task for task in tasks)]


def drop_checkpoints(workspace: Workspace, tasks: Iterable[str]) -> None:
    """Drop the work of all checkpoints of these tasks from their clones; some may have none. Blocks.

    Each clone is changed once: git writes all its packed refs again for that.
    """
    clones: dict[Clone, list[str]] = {}
    for task in tasks:
        with suppress(WorkspaceError):
            clones.setdefault(workspace.clone_of(task), []).append(task)
    for clone, ids in clones.items():
        numbers = ((task, name) for task in ids for name in own_refs(clone, task) if name.isdecimal())
        orders = "".join(f"delete refs/orchestrator/{task}/{number}\n" for task, number in numbers)
        if orders:
            clone.git.run("update-ref", "--stdin", stdin=orders.encode())


def _not_theirs(
    clone: Clone,
    own: Mapping[str, str],
    source: Source,
    commits: Collection[str],
    worktree: Path | None = None,
) -> set[str]:
    """Return those of these commits that the user's repository does not have, and was never given.

    `own` are the refs of the task. Commits that the clone does not have are read from the worktree.
    """
    git = git_with(clone, worktree) if worktree else clone.git
    known = [commit for commit in (own.get("base"), own.get("delivered"), source.base_commit) if commit]
    left = set(commits).intersection(commits_unknown(git, set(commits), known))
    return left - _had_by(Path(source.repo), left)


def _had_by(repo: Path, commits: Collection[str]) -> set[str]:
    """Return those of these commits that a ref of the user's repository leads to."""
    if not commits:
        return set()
    try:
        user, _ = open_repository(repo)
        there = types_of(user, commits)
        return there.keys() - commits_beyond(user, there, (), "--not", "--glob=refs/*")
    except (RepositoryError, GitError):
        return set()


def _names_of(tips: Tips, lost: Container[str]) -> list[str]:
    """Return what leads to lost commits, and to objects that the clone does not have."""
    return [*(escape_text(name) for name, commit in tips.named.items() if commit in lost), *tips.objects]


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else "")


def _refs(git: Git, below: str) -> Iterator[tuple[str, str]]:
    for line in git.run("for-each-ref", "--format=%(objectname) %(refname)", below).splitlines():
        sha, _, name = line.partition(" ")
        yield sha, name
