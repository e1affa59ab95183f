"""The files that a task added or changed, read from git's objects and never from a worktree.

So no link is followed, and what an agent does meanwhile changes nothing. A name comes from a commit, which anybody may
have composed by hand; `refusal_of` says which names must not stand in an archive.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.clone import WorkspaceError
from orchestrator.workspaces.git import Git
from orchestrator.workspaces.worktree import items

MOST_FILES = 10_000
MOST_BYTES = 500 * 1024 * 1024
"""Of all files together, before compression."""
CHUNK = 1024 * 1024

_LONGEST_NAME, _LONGEST_PATH = 255, 4096
_DRIVE = re.compile(r"[A-Za-z]:")
_REGULAR, _EXECUTABLE = "100644", "100755"


class TooMuch(WorkspaceError):
    """A task changed more than one archive may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file as a commit has it; `blob` is the object with its content, `size` in bytes."""

    name: str
    blob: str
    size: int
    is_executable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFiles:
    """The files that differ between two commits, and a line for each that is left out, with the reason."""

    files: tuple[ChangedFile, ...]
    left_out: tuple[str, ...]


def changed_files(git: Git, base: str, head: str) -> ChangedFiles:
    """Return the files that `head` has and `base` has not, or has otherwise.

    Links, submodules and names that lead elsewhere are left out. Raises TooMuch above MOST_FILES or MOST_BYTES.
    """
    flags = ("-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=AMT", "--ignore-submodules=none")
    rows = items(git.run("diff-tree", *flags, base, head, "--"))
    found: list[tuple[str, str, str]] = []
    left_out: list[str] = []
    for described, name in zip(rows[::2], rows[1::2], strict=True):
        _, mode, _, blob, _ = described.split(" ")
        if refusal := refusal_of(name) or _refusal_of_mode(mode):
            left_out.append(f"{escape_text(name)}: {refusal}")
        else:
            found.append((name, blob, mode))
    if len(found) > MOST_FILES:
        raise TooMuch(f"{len(found)} files were changed, and an archive holds {MOST_FILES}; use the branch instead")
    sizes = _sizes(git, [blob for _, blob, _ in found])
    if sum(sizes) > MOST_BYTES:
        raise TooMuch(f"{sum(sizes)} bytes were changed, and an archive holds {MOST_BYTES}; use the branch instead")
    files = tuple(
        ChangedFile(name=name, blob=blob, size=size, is_executable=mode == _EXECUTABLE)
        for (name, blob, mode), size in zip(found, sizes, strict=True)
    )
    return ChangedFiles(files=files, left_out=tuple(left_out))


def contents(git: Git, files: Sequence[ChangedFile]) -> Iterator[tuple[ChangedFile, Iterator[bytes]]]:
    """Yield each file with its content in pieces, to be read before the next file is taken. Raises WorkspaceError."""
    if not files:
        return
    with git.talk("cat-file", "--batch") as process:
        requests, answers = process.stdin, process.stdout
        if requests is None or answers is None:
            raise WorkspaceError("git was started without pipes")
        for file in files:
            requests.write(f"{file.blob}\n".encode())
            requests.flush()
            if answers.readline() != f"{file.blob} blob {file.size}\n".encode():
                raise WorkspaceError(f"the object {file.blob} of {escape_text(file.name)} cannot be read any more")
            yield file, _pieces(answers, file.size)
            answers.read(1)


def refusal_of(name: str) -> str:
    """Return why a path must not stand in an archive; empty if it may."""
    parts = name.split("/")
    if any("\udc80" <= letter <= "\udcff" for letter in name):
        return "its name is not UTF-8"
    if any(not letter.isprintable() for letter in name):
        return "its name has control characters"
    if "" in parts or ".." in parts or "." in parts or "\\" in name or _DRIVE.match(name):
        return "its name leads out of the archive"
    if any(part.lower() == ".git" for part in parts):
        return "it would be a part of a repository"
    if len(name.encode()) > _LONGEST_PATH:
        return f"its path is longer than {_LONGEST_PATH} bytes"
    if any(len(part.encode()) > _LONGEST_NAME for part in parts):
        return f"its name is longer than {_LONGEST_NAME} bytes"
    return ""


def _refusal_of_mode(mode: str) -> str:
    if mode in {_REGULAR, _EXECUTABLE}:
        return ""
    return {"120000": "it is a link", "160000": "it is a submodule"}.get(mode, f"its mode is {mode}")


def _sizes(git: Git, blobs: Sequence[str]) -> list[int]:
    """Return the size of each object in bytes."""
    asked = "".join(f"{blob}\n" for blob in blobs).encode()
    rows = git.run("cat-file", "--batch-check=%(objectsize)", stdin=asked).splitlines()
    if not all(row.isdecimal() for row in rows) or len(rows) != len(blobs):
        raise WorkspaceError("objects of the task's commits are missing")
    return [int(row) for row in rows]


def _pieces(answers: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0:
        piece = answers.read(min(CHUNK, size))
        if not piece:
            raise WorkspaceError("git ended before it had given all of a file")
        size -= len(piece)
        yield piece
