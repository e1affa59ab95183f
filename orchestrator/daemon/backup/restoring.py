"""Restoring a backup into an empty folder, at any path, so that a daemon goes on with every task.

What is stored relative to the data folder needs nothing: repositories find each other by relative paths, and a task's
own paths follow its folder when it is loaded. What is left is done here: the CLI keeps a session under a name made of
the path of its worktree, and a run that was under way at the time of the backup has no processes here. It is written
down as lost, so that nobody looks for them by their numbers, which on the same machine are those of the original's.
And a commit that was being fetched may be there without its files.

The restored folder gets an id of its own and says where it comes from. It appears whole: everything is built in
`.restoring` inside it, which no daemon starts with.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO
from uuid import uuid4

from orchestrator.agents.claude_folder import OF_PROJECTS
from orchestrator.core.task.task import TaskStatus
from orchestrator.errors import NotPossibleNow, OrchestratorError
from orchestrator.formats.codec import JsonObject, stamp, to_json
from orchestrator.formats.fields import list_of, text_of
from orchestrator.formats.files import make_private, sync_folder
from orchestrator.formats.signing import signing_key
from orchestrator.processes import files as run_files
from orchestrator.processes.spec import Exit
from orchestrator.storage.backup.archive import DATA, SETTINGS, BackupError
from orchestrator.storage.backup.contents import REPOS, RUNS, SESSIONS, TASKS, VAULT_KEY, WORKTREES
from orchestrator.storage.backup.reading import Contents, counts_of, extract_backup
from orchestrator.storage.folder.format import CURRENT, RESTORING, read_format, require_readable, write_format
from orchestrator.storage.records import StoreError, TaskSummary, UncommittedTask
from orchestrator.storage.state_file import NAME as STATE
from orchestrator.storage.store import FolderStore
from orchestrator.workspaces.clone import Clone
from orchestrator.workspaces.workspace import Workspace

RESTORED_SETTINGS = "restored-settings"


class FolderNotEmpty(BackupError, NotPossibleNow):
    """A backup is restored into an empty folder only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a restore brought back: files, bytes, tasks by status, and runs that had no end.

    `problems` are what a look at the result found; each says what to do.
    """

    data_dir: Path
    header: JsonObject
    files: int
    size: int
    tasks: dict[str, int]
    lost_runs: int
    problems: list[str] = field(default_factory=list)


def restore_backup(file: IO[bytes], data_dir: Path, at: datetime, key_is_elsewhere: bool = False) -> Restored:
    """Restore a backup into an empty or new folder, and look at the result.

    `key_is_elsewhere` says that the key of sealed values does not come from the folder. Raises BackupError, StoreError
    and OSError; then the folder is as it was.
    """
    is_new = not data_dir.exists()
    _require_empty(data_dir)
    make_private(data_dir)
    building = data_dir / RESTORING
    try:
        contents = extract_backup(file, building)
        lost = _adapt(building / DATA, Path(text_of(contents.header.get("data_dir"))), data_dir, contents, at)
        _move_up(building, data_dir)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        if is_new:
            with suppress(OSError):
                data_dir.rmdir()
        raise
    _write_missing_states(data_dir)
    tasks, problems = look_at(data_dir, key_is_elsewhere=key_is_elsewhere)
    files, size = counts_of(contents)
    problems += [f"{name} could not be read when the backup was made" for name in _texts(contents, "unreadable")]
    return Restored(
        data_dir=data_dir,
        header=contents.header,
        files=files,
        size=size,
        tasks=tasks,
        lost_runs=lost,
        problems=problems,
    )


def _write_missing_states(data_dir: Path) -> None:
    """Write the state.json that the backup leaves out of a task that was at work: after its end nobody else would."""
    with closing(FolderStore(data_dir)) as store:
        for folder in sorted(store.files.root.iterdir()):
            if not (folder / STATE).exists():
                with suppress(StoreError, OSError):  # a task that cannot be read is among the problems
                    store.load(folder.name, keep_open=True)


def look_at(data_dir: Path, *, key_is_elsewhere: bool) -> tuple[dict[str, int], list[str]]:
    """Return how many tasks of each status a data folder has, and what would keep them from going on."""
    counts, problems = dict[str, int](), list[str]()
    store, workspace, sealed = FolderStore(data_dir), Workspace(data_dir), 0
    try:
        for found in store.summaries():
            if isinstance(found, UncommittedTask):
                continue  # nobody was told that it was accepted; a parent makes such a child again
            if isinstance(found, StoreError):
                problems.append(str(found))
                continue
            counts[found.status.value] = counts.get(found.status.value, 0) + 1
            sealed += "secrets" in found.files
            if not found.ended and found.status is not TaskStatus.DRAFT:
                problems += _missing(store, workspace, found)
    finally:
        store.close()
    if sealed and not key_is_elsewhere and not (data_dir / VAULT_KEY).exists():
        problems.append(
            f"{sealed} tasks have sealed values, whose key is in no backup: put the original's {VAULT_KEY} into"
            f" {data_dir}, or provide the values again when `orchestrator status` asks for them"
        )
    return counts, problems


def _missing(store: FolderStore, workspace: Workspace, found: TaskSummary) -> Iterator[str]:
    """Yield what a live task needs and the folder does not have."""
    try:
        source = store.load(found.id).task.source
        if source.worktree is not None and not workspace.clone_of(found.id).has(source.commit):
            yield f"{found.id}: its commit {source.commit} is not in the backup; it will be blocked"
        if not Path(source.repo).is_dir():
            yield f"{found.id}: its repository {source.repo} is not on this machine; clone it to that path"
    except (OrchestratorError, OSError) as error:
        yield f"{found.id}: {error}"


def _adapt(data: Path, old: Path, new: Path, contents: Contents, at: datetime) -> int:
    """Make a restored folder one of its own; return how many runs were lost."""
    if not (data / TASKS).is_dir():
        raise BackupError("the backup has no tasks/; it was not made by `orchestrator backup`")
    require_readable(data)
    lost = 0
    for folder in sorted((data / TASKS).iterdir()):
        _move_sessions(folder, old, new)
        lost += sum(_end_run(data, run, at) for run in _runs_of(folder))
    for clone in sorted((data / REPOS).glob("*/objects")):
        Clone(clone.parent).drop_incomplete()
    before = read_format(data)
    origin: JsonObject = {
        "id": before.get("id"),
        "host": contents.header.get("host"),
        "data_dir": str(old),
        "backed_up_at": contents.header.get("created_at"),
        "restored_at": stamp(at),
    }
    if before.get("format") == CURRENT:
        write_format(data, uuid4().hex, list_of(before.get("migrations")), restored_from=origin)
    return lost


def _move_sessions(task: Path, old: Path, new: Path) -> None:
    """Rename the folders of the CLI's sessions, whose names are made of the paths in which the agents worked."""
    projects, worktree = task / SESSIONS / OF_PROJECTS, Path(WORKTREES, task.name)
    if not projects.is_dir() or projects.is_symlink():
        return
    before, now = _project_name(old / worktree), _project_name(new / worktree)
    for folder in sorted(projects.iterdir()):
        rest = folder.name.removeprefix(before)
        if folder.name.startswith(before) and (not rest or rest.startswith("-")) and before != now:
            folder.rename(projects / (now + rest))


def _project_name(path: Path) -> str:
    """Return the name that the CLI gives to the folder of sessions of a path."""
    return re.sub(r"[^A-Za-z0-9]", "-", str(path))


def _runs_of(task: Path) -> Iterator[Path]:
    for kind in RUNS:
        if (task / kind).is_dir() and not (task / kind).is_symlink():
            yield from (run for run in sorted((task / kind).iterdir()) if run.is_dir() and not run.is_symlink())


def _end_run(data: Path, run: Path, at: datetime) -> bool:
    """Write a run without an end down as lost; return whether it had none."""
    if (run / run_files.EXIT).exists() or not (run / run_files.PID).exists():
        return False
    key = signing_key(data, f"exit of {run.relative_to(data)}").hex()
    end = Exit(lost=True, ended_at=at.strftime("%Y-%m-%dT%H:%M:%SZ"))
    run_files.replace(str(run / run_files.EXIT), run_files.signed_exit(to_json(end), key), durable=True)
    (run / run_files.PID).unlink()
    return True


def _move_up(building: Path, data_dir: Path) -> None:
    """Move what was built into the folder itself, the tasks last."""
    if (building / SETTINGS).is_dir():
        (building / SETTINGS).rename(data_dir / RESTORED_SETTINGS)
    for entry in sorted((building / DATA).iterdir(), key=lambda one: one.name == TASKS):
        entry.rename(data_dir / entry.name)
    sync_folder(data_dir)
    shutil.rmtree(building)
    sync_folder(data_dir)


def _require_empty(data_dir: Path) -> None:
    """Refuse a folder that has anything in it. Raises FolderNotEmpty."""
    if not data_dir.exists():
        return
    if not data_dir.is_dir():
        raise FolderNotEmpty(f"{data_dir} is no folder; name a new or an empty one with --data-dir")
    inside = sorted(entry.name for entry in data_dir.iterdir())
    if inside:
        which = "the data folder of a daemon" if {"tasks", "lock"} & set(inside) else f"not empty: it has {inside[0]}"
        raise FolderNotEmpty(
            f"{data_dir} is {which}; nothing is restored over it; name a new folder with --data-dir, or move it away"
        )


def _texts(contents: Contents, name: str) -> list[str]:
    return [text_of(one) for one in list_of(contents.summary.get(name))]
