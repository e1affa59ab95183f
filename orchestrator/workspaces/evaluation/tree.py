"""The files of one commit, read without a checkout."""

import re
from dataclasses import dataclass
from functools import cached_property

from orchestrator.workspaces.git import Git

MAX_FILE = 256 * 1024
"""Bytes; a larger file is not read."""
_BROKEN = re.compile("[\ud800-\udfff]")  # bytes that were no UTF-8


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The tree of a commit, which anybody may have written."""

    git: Git
    commit: str

    def entry(self, path: str) -> str | None:
        """Return mode, kind and object of a file or folder."""
        listed = self.git.run("ls-tree", "-z", "--full-tree", self.commit, "--", path).rstrip("\0")
        return listed.partition("\t")[0] or None

    def text(self, path: str) -> str | None:
        """Return the text of a regular UTF-8 file of at most MAX_FILE bytes; None for anything else."""
        entry = self.entry(path)
        if entry is None or not entry.startswith("100"):
            return None
        blob = entry.split(" ")[2]
        if int(self.git.run("cat-file", "-s", blob)) > MAX_FILE:
            return None
        text = self.git.run("cat-file", "blob", blob)
        return text if _BROKEN.search(text) is None else None

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Return the path of every file."""
        listed = self.git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", self.commit)
        return tuple(path for path in listed.split("\0") if path)
