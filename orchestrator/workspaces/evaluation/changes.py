"""What a branch changes, file by file, read from git's objects: a list with sizes, and the changes themselves.

Names and contents come from commits, which anybody may have composed by hand. Every reading is bounded: the number of
files, the length of lines, the time that git is given. No driver that a repository names is run (git.py).
"""

import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain
from typing import IO

from orchestrator.formats.diffs.unified_diff import LONGEST_LINE, ChangeKind, FileKind, Hunk, read_sections
from orchestrator.workspaces.git import Git, GitError

MOST_FILES = 2_000
LONGEST_TIME, LONGEST_PATCH_TIME = 10.0, 60.0
"""Seconds that git is given to list files or to compare one, and to write the whole patch."""
LARGEST_FILE, LARGEST_PATCHED = "1m", "8m"
"""A larger file counts as binary: in lists and by itself, and in the whole patch."""

_LARGEST_LIST = 8 * 1024 * 1024
_PIECE = 256 * 1024
_PLAIN = ("--literal-pathspecs", "-c", "diff.renameLimit=400")
_COMPARE = ("diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none")
_SUBMODULE, _LINK = "160000", "120000"


_CHANGES = {
    "A": ChangeKind.ADDED,
    "D": ChangeKind.REMOVED,
    "M": ChangeKind.MODIFIED,
    "R": ChangeKind.RENAMED,
    "T": ChangeKind.RETYPED,
}
_FILES = {_SUBMODULE: FileKind.SUBMODULE, _LINK: FileKind.LINK}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPath:
    """A file that differs; bytes of its name that are not UTF-8 are surrogates, and `old_path` is where it was before.

    `added` and `removed` are None where lines were not counted, as in a binary file. Modes are as git writes them.
    """

    path: str
    old_path: str
    change: ChangeKind
    kind: FileKind
    old_mode: str
    new_mode: str
    added: int | None = None
    removed: int | None = None
    binary: bool = False

    @property
    def id(self) -> str:
        """A name for the file that fits into any address."""
        return sha256(os.fsencode(self.path)).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeList:
    """Files that differ, in git's order, at most MOST_FILES; `complete` says whether these are all.

    `counted` says whether lines were counted.
    """

    files: tuple[ChangedPath, ...]
    complete: bool
    counted: bool


def list_changes(git: Git, base: str, head: str, *, count: bool = True) -> ChangeList:
    """Return the files that differ between two commits. Raises GitError."""
    listed, whole = _listed(git, base, head)
    files = tuple(_changed_paths(listed))
    complete = whole and len(files) <= MOST_FILES
    files = files[:MOST_FILES]
    if not (count and complete):
        return ChangeList(files=files, complete=complete, counted=False)
    try:
        said = git.run(*_comparison(LARGEST_FILE), "-z", "--numstat", base, head, "--", timeout=LONGEST_TIME)
    except GitError:
        return ChangeList(files=files, complete=complete, counted=False)
    counts = _counts(said)
    return ChangeList(files=tuple(_counted(file, counts) for file in files), complete=True, counted=True)


@contextmanager
def compare(
    git: Git, base: str, head: str, file: ChangedPath | None = None
) -> Generator[Iterator[str | Hunk], None, None]:
    """Give the sections of the diff between two commits, of one file or of all; git ends with the context.

    Reading them raises GitError if git fails, or takes longer than LONGEST_TIME; for all files LONGEST_PATCH_TIME.
    """
    paths = () if file is None else tuple(path for path in (file.old_path, file.path) if path)
    command = ("-p", "--src-prefix=a/", "--dst-prefix=b/", "--full-index", base, head, "--", *paths)
    longest, largest = (LONGEST_TIME, LARGEST_FILE) if file else (LONGEST_PATCH_TIME, LARGEST_PATCHED)
    with _talk(git, _comparison(largest) + command, longest) as (said, ended):
        yield chain(read_sections(_lines(said)), _after(ended))


def _comparison(largest: str) -> tuple[str, ...]:
    """Return the command that compares files, with those beyond a size as binary."""
    return (*_PLAIN, "-c", f"core.bigFileThreshold={largest}", *_COMPARE)


@contextmanager
def _talk(
    git: Git, command: tuple[str, ...], longest: float
) -> Generator[tuple[IO[bytes], Callable[[], None]], None, None]:
    """Give what git prints of a comparison, and what to call at its end: that raises GitError if git failed."""
    with git.talk(*command) as process:
        late = threading.Timer(longest, process.kill)
        late.start()

        def ended() -> None:
            if (code := process.wait()) != 0:
                said = f"limit {longest:.0f} s" if code < 0 else ""
                raise GitError("git diff-tree", code if code > 0 else None, said)

        try:
            if process.stdout is None:
                raise GitError("git diff-tree", None, "git was started without pipes")
            yield process.stdout, ended
        finally:
            late.cancel()


def _after(ended: Callable[[], None]) -> Iterator[str]:
    ended()
    yield from ()


def _lines(said: IO[bytes]) -> Iterator[tuple[str, int]]:
    """Yield lines without their ends, cut at LONGEST_LINE, and how many characters were cut."""
    while line := said.readline(_PIECE):
        beyond = 0
        piece = line
        while not piece.endswith(b"\n") and (piece := said.readline(_PIECE)):
            beyond += len(piece.removesuffix(b"\n"))
        text = line.removesuffix(b"\n").decode("utf-8", "replace")
        beyond += max(0, len(text) - 1 - LONGEST_LINE)
        yield text[: LONGEST_LINE + 1], beyond


def _listed(git: Git, base: str, head: str) -> tuple[list[str], bool]:
    """Return the rows of git's list and whether these are all."""
    command = (*_comparison(LARGEST_FILE), "-z", "--raw", "--no-abbrev", base, head, "--")
    with _talk(git, command, LONGEST_TIME) as (said, ended):
        content = said.read(_LARGEST_LIST + 1)
        whole = len(content) <= _LARGEST_LIST
        if whole:
            ended()
    rows = os.fsdecode(content).split("\0")
    return rows[:-1], whole


def _changed_paths(rows: list[str]) -> Iterator[ChangedPath]:
    """Yield the files of git's list; of one that was cut amid a file that file is left out."""
    left = iter(rows)
    for described in left:
        facts = described.removeprefix(":").split(" ")
        if len(facts) != 5:
            return
        old_mode, new_mode, status = facts[0], facts[1], facts[4][:1]
        old_path = next(left, "") if status in {"R", "C"} else ""
        path = next(left, "")
        if not path:
            return
        yield ChangedPath(
            path=path,
            old_path=old_path,
            change=_CHANGES.get(status, ChangeKind.MODIFIED),
            kind=_FILES.get(old_mode if status == "D" else new_mode, FileKind.FILE),
            old_mode=old_mode,
            new_mode=new_mode,
        )


def _counts(said: str) -> dict[str, tuple[str, str]]:
    """Return the counted lines of each file by its path."""
    counts: dict[str, tuple[str, str]] = {}
    rows = iter(said.split("\0"))
    for row in rows:
        added, _, rest = row.partition("\t")
        removed, _, path = rest.partition("\t")
        if added and not path:  # a renamed file: both names follow
            next(rows, "")
            path = next(rows, "")
        if path:
            counts[path] = (added, removed)
    return counts


def _counted(file: ChangedPath, counts: dict[str, tuple[str, str]]) -> ChangedPath:
    added, removed = counts.get(file.path, ("", ""))
    if added == "-":
        return replace(file, binary=True)
    if not (added.isdecimal() and removed.isdecimal()):
        return file
    return replace(file, added=int(added), removed=int(removed))
