"""What a branch changes, line by line, from a diff without context; and which file a report refers to."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.workspaces.git import Git

LARGEST_TEXT_FILE = "1m"
"""A larger file in a change counts as binary."""
_ESCAPED = re.compile(r"\\([0-7]{3}|.)")
_LETTERS = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The lines of every changed file that still exists: those added, path → line from 1 → text; and those removed."""

    added: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    removed: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def has(self, path: str, line: int) -> bool:
        """Return whether a line is new; line 0 is the file as a whole. The path may be longer than the repository's."""
        own = self.own_path(path)
        return own is not None and (line == 0 or line in self.added[own])

    def own_path(self, path: str) -> str | None:
        """Return the changed file that a report refers to, possibly with the folders of its checkout in front."""
        plain = path.replace("\\", "/").removeprefix("./")
        return max((own for own in self.added if plain == own or plain.endswith(f"/{own}")), key=len, default=None)


def parse_messages(log: str) -> Diff:
    """Return the commit messages that `git log -z --format=%H%n%B` prints, as if each were a new file."""
    messages = (one.partition("\n") for one in log.split("\0") if one)
    return Diff(
        added={
            f"the message of commit {commit[:12]}": dict(enumerate(message.split("\n"), start=1))
            for commit, _, message in messages
        }
    )


def read_diff(git: Git, base: str, head: str, paths: Iterable[str] = ()) -> Diff:
    """Return the change from one commit to another, of these paths or of all. Raises GitError."""
    flags = ("-r", "-p", "-U0", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
    plain = ("--literal-pathspecs", "-c", "core.quotePath=false", "-c", f"core.bigFileThreshold={LARGEST_TEXT_FILE}")
    prefixes = ("--src-prefix=a/", "--dst-prefix=b/", "--no-color")
    return parse_diff(git.run(*plain, "diff-tree", *flags, *prefixes, base, head, "--", *paths))


def parse_diff(diff: str) -> Diff:
    """Return the change that `git diff-tree -p -U0 --src-prefix=a/ --dst-prefix=b/` prints.

    Lines are counted by the hunk headers, so that no added line can be mistaken for a header.
    """
    added: dict[str, dict[int, str]] = {}
    removed: dict[str, list[str]] = {}
    path: str | None = None
    lines = iter(diff.split("\n"))
    for line in lines:
        if line.startswith("diff --git "):
            path = None
        elif line.startswith(("+++ b/", '+++ "b/')):
            path = _unquoted(line.removeprefix("+++ ").rstrip("\t")).removeprefix("b/")
            added[path] = {}
            removed[path] = []
        elif match := _HUNK.match(line):
            begin = int(match[2])
            gone, texts = _hunk(lines, int(match[1] or 1), int(match[3] or 1))
            if path is not None:
                added[path].update(enumerate(texts, start=begin))
                removed[path] += gone
    return Diff(added=added, removed=removed)


def _unquoted(path: str) -> str:
    """Return a path as it is; git puts one with quotes, backslashes or control characters in quotes."""
    return _ESCAPED.sub(_letter, path[1:-1]) if path.startswith('"') else path


def _letter(escaped: re.Match[str]) -> str:
    code = escaped[1]
    return chr(int(code, 8)) if code.isdigit() else _LETTERS.get(code, code)


def _hunk(lines: Iterable[str], removed: int, added: int) -> tuple[list[str], list[str]]:
    """Return the removed and the added lines of a hunk; notes such as "no newline at the end" belong to neither."""
    gone: list[str] = []
    texts: list[str] = []
    for line in lines if removed + added else ():
        if line.startswith("-"):
            removed -= 1
            gone.append(line[1:])
        elif line.startswith("+"):
            added -= 1
            texts.append(line[1:])
        if removed + added <= 0:
            break
    return gone, texts
