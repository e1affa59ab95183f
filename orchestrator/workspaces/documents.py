"""Files of the work, read through git: no link is followed, and nothing that is not in the tree can be read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from orchestrator.core.records.projection import RECORDS
from orchestrator.workspaces.git import Git
from orchestrator.workspaces.outbox import OutboxError, read_text
from orchestrator.workspaces.worktree import items

LARGEST_DOCUMENT = 2 * 1024 * 1024
"""Bytes."""
MOST_DOCUMENTS, MOST_NAMES = 200, 1000
_REGULAR = ("100644", "100755")


@dataclass(frozen=True, slots=True)
class TreeFiles:
    """The files of one tree, and the artifacts in `folder`; it is what a family may read of a task."""

    git: Git
    tree: str
    folder: Path | None = None

    def artifact(self, name: str) -> str | None:
        """Return the text of a file in the task's folder, or in `records` below it; None if it is not regular UTF-8."""
        below, _, plain = name.rpartition("/")
        if self.folder is None or below not in {"", RECORDS}:
            return None
        try:
            return read_text(self.folder / below, plain, LARGEST_DOCUMENT)
        except OutboxError:
            return None

    def committed(self, path: str) -> str | None:
        """Return the text of a file of the tree; None if it is no regular UTF-8 file of a usual size."""
        found = self._listed((path,)).get(path) if is_inner(path) else None
        return None if found is None else self._text(found)

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the paths of the regular files below a folder of the tree, sorted, at most 1,000; "." is its top."""
        below = "" if folder == "." else f"{folder.rstrip('/')}/"
        listed = self._listed((below,)) if not below or is_inner(folder) else {}
        return tuple(sorted(listed))[:MOST_NAMES]

    def matching(self, patterns: Iterable[str]) -> Mapping[str, str]:
        """Return the texts of the files that a pattern admits, by path, at most 200; `*` matches within one folder."""
        wanted = tuple(patterns)
        listed = self._listed(tuple(dict.fromkeys(map(_fixed_part, wanted))))
        names = [path for path in sorted(listed) if any(is_match(path, pattern) for pattern in wanted)]
        texts = ((path, self._text(listed[path])) for path in names[:MOST_DOCUMENTS])
        return {path: text for path, text in texts if text is not None}

    def _listed(self, paths: tuple[str, ...]) -> dict[str, str]:
        """Return the object of each regular file at or below these paths that is not too large, by path.

        A name that is not UTF-8, or has control characters, is left out.
        """
        fixed = () if "" in paths else paths
        listed = self.git.run("ls-tree", "-r", "-z", "-l", "--full-tree", self.tree, "--", *fixed)
        rows = (item.partition("\t") for item in items(listed))
        facts = ((path, *left.split()) for left, _, path in rows)
        return {
            path: name
            for path, mode, _, name, size in facts
            if mode in _REGULAR and int(size) <= LARGEST_DOCUMENT and path.isprintable()
        }

    def _text(self, name: str) -> str | None:
        text = self.git.run("cat-file", "blob", name)
        try:
            text.encode()
        except UnicodeEncodeError:  # bytes that are not UTF-8
            return None
        return text


def is_inner(path: str) -> bool:
    """Return whether a path names a file that a repository may hold, and none of git's own."""
    names = path.split("/")
    return "\0" not in path and not {"", ".", "..", ".git"} & {name.lower() for name in names}


def is_match(path: str, pattern: str) -> bool:
    """Return whether a path has the form of a pattern, in which `*` stands for any characters of one name."""
    names, wanted = path.split("/"), pattern.split("/")
    return len(names) == len(wanted) and all(map(fnmatchcase, names, wanted))


def _fixed_part(pattern: str) -> str:
    """Return the path of the folder, or of the file, below which everything lies that a pattern admits."""
    before = pattern.partition("*")[0]
    return before if before == pattern else before[: before.rfind("/") + 1]
