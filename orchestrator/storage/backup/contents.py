"""What of a data folder belongs to a backup: which entries are left out always, and which on request."""

import os
from enum import StrEnum
from pathlib import PurePosixPath

TASKS, WORKTREES, REPOS = "tasks", "worktrees", "repos"
VAULT_KEY = "vault.key"
MADE_HERE = "backups"
"""A folder for backups inside the data folder; it is in none of them."""
LEFT_OUT = frozenset({
    "lock", "alive", "doorbell", "orchestrator.sock", "orchestrator.d",  # of the running daemon
    "watchdog.run", "watchdog.stacks",  # how its last run ended
    "checkouts", "login",  # made again; the second is a copy of the CLI's login
    "trash",  # removed, and emptied bit by bit
    VAULT_KEY,  # it would open the sealed values that are in the same archive
    MADE_HERE,
})  # fmt: skip
"""Entries of the data folder that no backup has."""
DEEPEST = 256
"""Folders within each other in a backup."""
RUNS = ("agents", "logs")
"""The folders of a task that have a folder for each run."""
OF_RUNS = frozenset({"lock", "control"})
"""Files of a run that only its living holder uses."""
SESSIONS = "claude"
"""The folder of a task in which its agents' CLI keeps their sessions."""


class Part(StrEnum):
    """What can be left out on request."""

    WORKTREES = "worktrees"
    """Uncommitted work since the newest checkpoint is lost; the worktrees are made again from the checkpoints."""
    TRANSCRIPTS = "transcripts"
    """What agents of ended tasks said, and their sessions."""
    LOGS = "logs"
    """Output of checks of ended tasks."""


def is_left_out(name: str) -> bool:
    """Return whether an entry below the data folder is in no backup; the name is relative to that folder."""
    path = PurePosixPath(name)
    if path.parts[0] in LEFT_OUT or (path.name.startswith(".") and path.name.endswith(".partial")):
        return True
    if path.parts[0] == REPOS or (path.parts[0] == WORKTREES and ".git" in path.parts):
        return path.name.endswith(".lock") or path.name.startswith(("tmp_obj_", "tmp_pack_", "tmp_idx_", "index-"))
    is_of_run = len(path.parts) == 5 and path.parts[0] == TASKS and path.parts[2] in RUNS
    return is_of_run and path.name in OF_RUNS


def part_of(name: str) -> Part | None:
    """Return to what part a file of an ended task belongs that can be left out on request."""
    parts = PurePosixPath(name).parts
    if parts[0] == WORKTREES:
        return Part.WORKTREES
    if parts[0] != TASKS or len(parts) < 4:
        return None
    if parts[2] == SESSIONS or (parts[2] == "agents" and len(parts) > 4 and parts[4].startswith(("stdout", "stderr"))):
        return Part.TRANSCRIPTS
    return Part.LOGS if parts[2] == "logs" else None


def may_lead(name: str, target: str) -> bool:
    """Return whether a backup has a link: in worktrees to anywhere, as agents make them; else within its own folder.

    The name is relative to the data folder. The link of a task to its clone leads to the folder beside.
    """
    parts = PurePosixPath(name).parts
    if parts[0] == WORKTREES:
        return len(parts) > 2
    if parts[:2] == (REPOS, TASKS):
        clone = PurePosixPath(target)
        return len(parts) == 3 and len(clone.parts) == 2 and clone.parts[0] == ".." and clone.name != ".."
    above = 2 if parts[0] == TASKS else 1
    if PurePosixPath(target).is_absolute() or len(parts) <= above:
        return False
    joined = os.path.normpath(os.path.join(*parts[:-1], target)).split("/")  # noqa: PTH118 - text alone
    return joined[:above] == list(parts[:above])
