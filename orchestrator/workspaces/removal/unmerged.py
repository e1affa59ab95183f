"""What of a task's work exists nowhere else, so that nobody may remove its copy here.

Work counts as safe where the user's repository has it in a branch or a tag, or once had it delivered. A person who
then removes it there has decided. Whatever cannot be looked at counts as unsafe.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from orchestrator.core.task.checkpoint import Checkpoint
from orchestrator.core.task.task import Source, Task
from orchestrator.errors import OrchestratorError
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.clone import Clone, WorkspaceError
from orchestrator.workspaces.git import SERVER, Git, GitError
from orchestrator.workspaces.repository import RepositoryError, open_repository
from orchestrator.workspaces.workspace import Workspace

_NAMED = 3
_LINKS = "repos/tasks"


def unmerged_worktree(workspace: Workspace, task_id: str, source: Source) -> str:
    """Return what keeps a task's worktree from being removed; empty if nothing does. Blocks."""
    worktree = workspace.worktree(task_id)
    if not worktree.is_dir():
        return ""
    try:
        clone = workspace.clone_of(task_id)
        leftover = workspace.leftover(task_id)
        if leftover.uncommitted:
            return f"not committed: {_named(leftover.uncommitted)}"
        if lost := _branches_not_in(clone, worktree):
            return f"commits that only its worktree has: {', '.join(lost[:_NAMED])}"
        if unmerged := unmerged_head(clone, task_id, source):
            return unmerged
        unsaved = leftover.unsaved
        return f"ignored by git, but perhaps not rebuildable: {_named(unsaved)}" if unsaved else ""
    except (OrchestratorError, OSError) as error:
        return f"it cannot be looked at: {error}"


def lost_with_worktree(workspace: Workspace, task_id: str) -> str:
    """Return what a checkpoint of a task's worktree would not keep; empty if it keeps everything. Blocks.

    Raises WorkspaceError, GitError and OSError where not everything can be looked at.
    """
    if unsaved := workspace.leftover(task_id).unsaved:
        return _named(unsaved)
    lost = _branches_not_in(workspace.clone_of(task_id), workspace.worktree(task_id))
    return f"the commits of {_named(lost)}" if lost else ""


def unmerged_head(clone: Clone, task_id: str, source: Source) -> str:
    """Return why the task's newest commit counts as unmerged; empty if it is safe. Raises GitError."""
    head = clone.ref(f"refs/orchestrator/{task_id}/head")
    if head is None or head == source.base_commit:
        return ""
    delivered = clone.ref(f"refs/orchestrator/{task_id}/delivered")
    if delivered is not None and clone.git.ask("merge-base", "--is-ancestor", head, delivered) is not None:
        return ""
    if _has_in_a_branch(Path(source.repo), head):
        return ""
    return f"its commits are in no branch of {escape_text(source.repo)}"


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


def unmerged_clone(clone: Clone, repo: Path, tasks: Collection[str], *, is_removed: bool = False) -> str:
    """Return what keeps a clone from being removed: commits of these tasks that its repository lacks. Blocks.

    With `is_removed` that was a copy of the daemon's own, of which all was elsewhere when it was removed.
    """
    try:
        mine = [sha for sha, name in _refs(clone.git, "refs/orchestrator/") if _belongs(name, tasks)]
        if not mine:
            return ""
        places = ("refs/remotes/", "refs/tags/") if is_removed else ("refs/",)
        git = clone.git if is_removed else open_repository(repo)[0]
        theirs = {sha for place in places for sha, _ in _refs(git, place)}
        delivered = {sha for sha, name in _refs(clone.git, "refs/orchestrator/") if name.endswith("/delivered")}
        count = commits_beyond(clone.git, mine, theirs | delivered)
    except (OrchestratorError, OSError, ValueError) as error:
        return f"it cannot be compared with its repository: {error}"
    return f"{count} commits that {escape_text(str(repo))} does not have" if count else ""


def commits_beyond(git: Git, commits: Collection[str], known: Collection[str]) -> int:
    """Return how many commits lead to these and are no part of the known ones, of which some may not be here."""
    if not commits:
        return 0
    listed = "".join(f"{sha}\n" for sha in sorted(known)).encode()
    kinds = git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=listed).splitlines()
    here = [row.split(" ")[0] for row in kinds if row.endswith((" commit", " tag"))]
    asked = "".join(f"{sha}\n" for sha in commits) + "".join(f"^{sha}\n" for sha in here)
    return int(git.run("rev-list", "--count", "--stdin", stdin=asked.encode()).strip())


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
        refs = (name for task in ids for _, name in _refs(clone.git, f"refs/orchestrator/{task}/"))
        orders = "".join(f"delete {name}\n" for name in refs if name.rsplit("/", 1)[1].isdecimal())
        if orders:
            clone.git.run("update-ref", "--stdin", stdin=orders.encode())


def _branches_not_in(clone: Clone, worktree: Path) -> list[str]:
    """Return the refs of an agent's repository whose commits the clone does not have."""
    listed = clone.git.run("ls-remote", "--upload-pack", SERVER, str(worktree / ".git"))
    rows = [line.split("\t", 1) for line in listed.splitlines() if "\t" in line]
    asked = "".join(f"{sha}\n" for sha, _ in rows).encode()
    answers = clone.git.run("cat-file", "--batch-check", stdin=asked).splitlines()
    there = zip(rows, answers, strict=True)
    return [escape_text(name) for (_, name), answer in there if answer.endswith(" missing")]


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (" …" if len(names) > _NAMED else "")


def _has_in_a_branch(repo: Path, commit: str) -> bool:
    try:
        user, _ = open_repository(repo)
        return bool(user.run("for-each-ref", "--count=1", f"--contains={commit}", "refs/").strip())
    except (RepositoryError, GitError):
        return False


def _refs(git: Git, below: str) -> Iterator[tuple[str, str]]:
    for line in git.run("for-each-ref", "--format=%(objectname) %(refname)", below).splitlines():
        sha, _, name = line.partition(" ")
        yield sha, name


def _belongs(name: str, tasks: Collection[str]) -> bool:
    """Whether a ref holds work of one of these tasks: its newest commit or a checkpoint."""
    _, _, task, kind = name.split("/", 3)
    return task in tasks and (kind == "head" or kind.isdecimal())
