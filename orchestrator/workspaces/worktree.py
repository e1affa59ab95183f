"""The files of an agent's worktree besides its commits: what is uncommitted, all of it as a tree, and restoring a tree.

Files are compared and stored with an index of the daemon's own, which is kept between looks for speed. The agent's
index, HEAD and configuration are neither read nor written, so that a look does not disturb a working agent, and no
agent can mark a file as unchanged.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.clone import Clone, WorkspaceError
from orchestrator.workspaces.git import Git
from orchestrator.workspaces.removal.tips import NO_TIPS, Tips
from orchestrator.workspaces.removal.unsaved import inner_repositories, not_rebuildable

MAX_KEPT_FILE = 64 * 1024 * 1024
"""Bytes; a larger file is left out of a tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Names of files of a worktree that no commit has: `uncommitted` ones without those that git ignores, and `unsaved`
    ones, which no tree takes in and no tool plainly makes again. `tips` are what leads to its commits.
    """

    uncommitted: tuple[str, ...]
    unsaved: tuple[str, ...]
    tips: Tips = NO_TIPS


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktree:
    """A worktree at `folder` that borrows from `clone`; `index` is the daemon's. For one user at a time."""

    clone: Clone
    folder: Path
    index: Path

    def uncommitted(self, head: str) -> list[str]:
        """Return the names of the files that differ from `head`; ignored ones do not count."""
        self.index.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for index in (self.index, self._aside):  # a lock file remains after a power cut
            index.with_name(index.name + ".lock").unlink(missing_ok=True)
        git = self._git(self.index)
        git.run("read-tree", "--reset", head)
        git.ask("update-index", "-q", "--refresh")
        kinds = ("--modified", "--deleted", "--others", "--exclude-standard", "--deduplicate")
        return items(git.run("ls-files", "-z", *kinds))

    def tree(self, head: str) -> str:
        """Return a tree of `head` with everything uncommitted added.

        Files above 64 MiB, special files and repositories inside the worktree are left out.
        """
        names = [name for name in self.uncommitted(head) if _can_be_kept(self.folder / name)]
        if not names:
            return self.clone.git.run("rev-parse", f"{head}^{{tree}}").strip()
        shutil.copyfile(self.index, self._aside)
        git = self._git(self._aside)
        listed = os.fsencode("".join(f"{name}\0" for name in names))
        git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=listed)
        return git.run("write-tree").strip()

    def leftover(self, head: str) -> Leftover:
        """Return what `head` does not have. Raises OSError and WorkspaceError where not everything can be looked at."""
        uncommitted = self.uncommitted(head)
        found = [name for name in uncommitted if not _can_be_kept(self.folder / name)]
        kinds = ("--others", "--ignored", "--exclude-standard")
        ignored = items(self._git(self.index).run("ls-files", "-z", *kinds))
        unsaved = sorted({*found, *not_rebuildable(ignored), *inner_repositories(self.folder)})
        return Leftover(uncommitted=tuple(uncommitted), unsaved=tuple(unsaved))

    def bring_to(self, present: str, wanted: str) -> None:
        """Turn the files of the tree `present` into those of the tree `wanted`; all other files stay.

        Raises WorkspaceError if a file that no tree has is in the way, and GitError if a file was changed meanwhile;
        then nothing was changed.
        """
        names = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--diff-filter=A", present, wanted)
        kept = set(items(self.clone.git.run("ls-tree", "-r", "-z", "--name-only", present)))
        obstacles = {name for new in items(self.clone.git.run(*names)) for name in self._at(new) if name not in kept}
        if obstacles:
            named = ", ".join(escape_text(name) for name in sorted(obstacles)[:5])
            raise WorkspaceError(
                f"{named} in {escape_text(str(self.folder))} would be overwritten, and no checkpoint has it;"
                " move it away, or restore the checkpoint as a branch"
            )
        git = self._git(self._aside)
        git.run("read-tree", "--reset", present)
        git.ask("update-index", "-q", "--refresh")
        git.run("read-tree", "-m", "-u", present, wanted, timeout=1800.0)

    @property
    def _aside(self) -> Path:
        return self.index.with_name(self.index.name + ".checkpoint")

    def _git(self, index: Path) -> Git:
        return Git.own(self.clone.folder, work_tree=self.folder, index=index)

    def _at(self, name: str) -> Iterator[str]:
        """Yield what is in the way of a file: itself, files below it, or a file in place of one of its folders."""
        for place in (name, *(str(above) for above in Path(name).parents if above.name)):
            path = self.folder / place
            if path.is_symlink() or path.is_file() or (os.path.lexists(path) and not path.is_dir()):
                yield place
        if (self.folder / name).is_dir() and not (self.folder / name).is_symlink():
            below = (path for path in (self.folder / name).rglob("*") if path.is_symlink() or not path.is_dir())
            yield from (str(path.relative_to(self.folder)) for path in below)


def items(listed: str) -> list[str]:
    """Return the parts of what git lists with -z."""
    return [item for item in listed.split("\0") if item]


def _can_be_kept(path: Path) -> bool:
    """Return whether a tree takes this file in; a missing file counts, as a deletion."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    if stat.S_ISREG(found.st_mode):
        return found.st_size <= MAX_KEPT_FILE
    return stat.S_ISLNK(found.st_mode)
