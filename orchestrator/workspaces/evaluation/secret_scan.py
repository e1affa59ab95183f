"""Find what a branch must not contain: provided values in its files, their names and commit messages; and messages that
contain secrets of a known form.

Values are searched in the objects themselves, which git writes to us; none of them is ever passed to git.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.errors import OrchestratorError
from orchestrator.redaction.display import escape_text
from orchestrator.redaction.masking import names_in
from orchestrator.redaction.rules import Redactor
from orchestrator.workspaces.evaluation.diff import Diff, parse_messages
from orchestrator.workspaces.evaluation.findings import Severity
from orchestrator.workspaces.evaluation.secret_patterns import find_secrets
from orchestrator.workspaces.git import Git

AT_ONCE = 32 * 1024 * 1024
LARGEST = 512 * 1024 * 1024
"""Bytes that are read together, and the largest object that is scanned at all."""
READING = 600.0
"""Seconds."""
NAMED = 5


class SecretLeaked(OrchestratorError):
    """The work itself contains a provided value, so it is delivered nowhere; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    """One git object: `path` is where a file or folder was first met, empty for a commit."""

    name: str
    size: int
    path: str


def refuse_leaks(git: Git, base: str, commit: str, values: Mapping[str, str]) -> None:
    """Raise SecretLeaked if a commit since `base` contains one of the values in any known form."""
    if not values:
        return
    for batch in _batches(_new_objects(git, base, commit)):
        for one, content in _contents(git, batch):
            found = names_in(content, values)
            if found:
                where = f"in {escape_text(one.path)}" if one.path else f"in the message of commit {one.name[:12]}"
                raise SecretLeaked(
                    f"the commits of the branch contain the provided value of {', '.join(found)} {where}, so nothing "
                    f"was delivered; the work is safe at {commit} in {escape_text(str(git.folder))}: remove the value "
                    "from every commit there, deliver it by hand, and replace the value wherever it is used"
                )


def messages(git: Git, base: str, commit: str) -> Diff:
    """Return the messages of all commits since `base`, as if each were a new file. Raises GitError."""
    return parse_messages(git.run("log", "-z", "--format=%H%n%B", f"{base}..{commit}", "--", timeout=READING))


def refuse_secrets_in_messages(git: Git, base: str, commit: str, redactor: Redactor) -> None:
    """Raise SecretLeaked if the message of a commit since `base` contains a secret of a known form."""
    found = [one for one in find_secrets(messages(git, base, commit), redactor) if one.severity is Severity.HIGH]
    if found:
        raise SecretLeaked(
            f"commits of the branch contain secrets ({'; '.join(map(str, found[:NAMED]))}), so nothing was published; "
            f"the work is safe at {commit} in {escape_text(str(git.folder))}: reword those commits, then publish the "
            "branch by hand, and replace the secrets wherever they are used"
        )


def _new_objects(git: Git, base: str, commit: str) -> list[_Object]:
    listed = git.run("rev-list", "--objects", f"{base}..{commit}", "--", timeout=READING)
    paths = dict(row.partition(" ")[::2] for row in listed.split("\n") if row)
    asked = "".join(f"{name}\n" for name in paths).encode()
    sizes = git.run("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=asked, timeout=READING)
    rows = (row.split(" ") for row in sizes.split("\n") if row)
    return [_Object(name=name, size=int(size), path=paths[name]) for name, size in rows]


def _batches(objects: Sequence[_Object]) -> Iterator[list[_Object]]:
    batch: list[_Object] = []
    for one in objects:
        if one.size > LARGEST:
            raise SecretLeaked(
                f"{escape_text(one.path)} on the branch has {one.size} bytes, too many to scan for provided values, so "
                "nothing was delivered; remove it from every commit and deliver the branch by hand"
            )
        if batch and sum(other.size for other in batch) + one.size > AT_ONCE:
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch


def _contents(git: Git, batch: Sequence[_Object]) -> Iterator[tuple[_Object, bytes]]:
    """Read what `git cat-file --batch` answers: a line about each object, then its bytes and a newline."""
    asked = "".join(f"{one.name}\n" for one in batch).encode()
    answer = os.fsencode(git.run("cat-file", "--batch", stdin=asked, timeout=READING))
    at = 0
    for one in batch:
        begin = answer.index(b"\n", at) + 1
        at = begin + one.size + 1
        yield one, answer[begin : begin + one.size]
