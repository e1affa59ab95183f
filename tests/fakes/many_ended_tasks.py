"""Thousands of ended tasks with real worktrees, made in minutes: one is made as a daemon does, the others copy it.

    make_many_ended_tasks(data_dir, repo, 10_000, days=300)     # T-00000 ended last

Each has a checkpoint with a file that was not committed then. Of every twentieth the commits are nowhere else. A
worktree takes about 0.6 MB, with what git ignores.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

from orchestrator.core.task.checkpoint import SavedWork
from orchestrator.daemon.reporting.summary import SUMMARY_FILE
from tests.fakes.ended_tasks import EndedTasks
from tests.fakes.repositories import commit

TRANSCRIPT = 60_000
IGNORED = {f"node_modules/module{number}.js": 30_000 for number in range(10)}
"""Files that an installer makes again, and how many bytes they have."""
NOT_DELIVERED_EVERY = 20
FIRST = "T-00000"
NUMBER = 1
"""Of each task's checkpoint."""
SUMMARY = "# Summary\n\nThe work is done.\n"


def make_many_ended_tasks(data_dir: Path, repo: Path, number: int, days: float) -> None:
    """Make so many tasks in a new data folder, which ended one after the other over so many days."""
    with patch.object(os, "fsync"), patch.object(os, "fdatasync"):
        ended = EndedTasks(data_dir, repo, {".gitignore": "node_modules/\n"})
        step = days / (number + 1)
        head, saved = _make_first(ended)
        ended.age(FIRST, step)
        heads = {f"T-{count:05d}": head for count in range(1, number)}
        for count, task in enumerate(heads, 1):
            _copy_first(ended, task, step * (count + 1), SavedWork(head=head, commit=saved))
            if count % NOT_DELIVERED_EVERY == 0:
                heads[task] = commit(ended.workspace.worktree(task), {}, f"Nobody has this of {task}")
            ended.age(task, step * (count + 1))
        ended.close()
        _set_refs(ended, heads, head, f"{NUMBER} {saved}")


def _make_first(ended: EndedTasks) -> tuple[str, str | None]:
    """Make the first task; return its newest commit, and that of its checkpoint."""
    ended.add(FIRST, days=0, transcript=TRANSCRIPT)
    worktree = ended.workspace.worktree(FIRST)
    files = {f"src/module{count}.py": "x = 1\n" * 500 for count in range(12)}
    head = commit(worktree, files, f"Work more on {FIRST}")
    for name, size in IGNORED.items():
        (worktree / name).parent.mkdir(exist_ok=True)
        (worktree / name).write_bytes(os.urandom(size))
    ended.workspace.facts(FIRST, ended.base, ended.base)
    ended.workspace.deliver(FIRST, ended.repo, f"feature/{FIRST}", head)
    (worktree / "note.txt").write_text("not committed")
    saved = ended.save(FIRST)
    (worktree / "note.txt").unlink()
    (ended.store.files.path_of(FIRST) / SUMMARY_FILE).write_text(SUMMARY)
    return head, saved


def _copy_first(ended: EndedTasks, task: str, days: float, work: SavedWork) -> None:
    ended.without_git(task, days=days)
    if ended.save_work(task, work) != NUMBER:
        raise ValueError(f"the checkpoint of {task} is not the {NUMBER}st one")
    folder = ended.store.files.path_of
    (folder(task) / SUMMARY_FILE).write_text(SUMMARY)
    shutil.copytree(folder(FIRST) / "agents", folder(task) / "agents")
    shutil.copytree(ended.workspace.worktree(FIRST), ended.workspace.worktree(task), symlinks=True)
    links = ended.data / "repos/tasks"
    (links / task).symlink_to((links / FIRST).readlink())


def _set_refs(ended: EndedTasks, heads: Mapping[str, str], delivered: str, checkpoint: str) -> None:
    """Give every task refs in the clone. So many are packed, as git does after a while."""
    git, orders = ended.workspace.git_of(FIRST), []
    for task, head in heads.items():
        if head == delivered:
            orders.append(f"create refs/orchestrator/{task}/delivered {head}\n")
        else:
            git.run("fetch", "--quiet", str(ended.workspace.worktree(task) / ".git"), head)
        orders.append(f"create refs/orchestrator/{task}/{checkpoint}\n")
        orders.append(f"create refs/orchestrator/{task}/base {ended.base}\n")
        orders.append(f"create refs/orchestrator/{task}/head {head}\n")
    git.run("update-ref", "--stdin", stdin="".join(orders).encode(), timeout=600)
    git.run("pack-refs", "--all", timeout=600)
