"""What no checkpoint of a worktree takes in, and so would be lost with it: ignored files, large ones, repositories.

Ignored files count unless a tool plainly makes them again: those below the folders of FOLDERS, and those with SUFFIXES.
Folders such as build and dist are not among them, because results are written there too.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from orchestrator.workspaces.clone import WorkspaceError

FOLDERS = frozenset(
    {
        "node_modules",
        ".venv",
        "venv",
        "__pycache__",
        ".pytest_cache",
        ".mypy_cache",
        ".ruff_cache",
        "target",
        ".tox",
        ".nox",
        ".gradle",
        ".cache",
    }
)
"""Folders of installed packages and caches."""
SUFFIXES = frozenset({".pyc", ".pyo", ".o", ".class"})
MOST_FILES = 2_000_000
_GIT, _MODULES = ".git", ".git/modules"


def not_rebuildable(ignored: Iterable[str]) -> Iterator[str]:
    """Yield those of the ignored files that no tool makes again; a folder's name ends with a slash."""
    for name in ignored:
        path = PurePosixPath(name)
        folders = path.parts if name.endswith("/") else path.parts[:-1]
        if FOLDERS.isdisjoint(folders) and path.suffix not in SUFFIXES:
            yield name


def inner_repositories(worktree: Path) -> Iterator[str]:
    """Yield the folders below a worktree that are repositories of their own, wherever they lie; follows no link.

    Raises OSError for what cannot be read, and WorkspaceError where there is more than can be looked at.
    """
    pending, seen = [""], 0
    while pending:
        folder = pending.pop()
        with os.scandir(worktree / folder) as entries:
            for entry in entries:
                seen += 1
                name = f"{folder}{entry.name}"
                if entry.name == _GIT:
                    yield from [folder] if folder else _modules(worktree)
                elif entry.is_dir(follow_symlinks=False):
                    pending.append(f"{name}/")
        if seen > MOST_FILES:
            raise WorkspaceError(f"{worktree} has more than {MOST_FILES} files")


def _modules(worktree: Path) -> Iterator[str]:
    """Yield the folder of the repositories of submodules, if there are any: they stay when their files are gone."""
    modules = worktree / _MODULES
    if modules.is_symlink() or (modules.is_dir() and any(modules.iterdir())):
        yield f"{_MODULES}/"
