"""What a branch changes of that which judges it, for the person who reviews it: "Look at this first".

A checkout of the branch is what checks run in. So whoever may change the build files, the tests or a module that the
tests load can make a check pass without the work being right. Such a change is often needed; it is never hidden.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from orchestrator.core.task.checks import Check
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.evaluation.check_file import FILE
from orchestrator.workspaces.evaluation.diff import Diff, read_diff
from orchestrator.workspaces.git import Git

MOST = 30
"""Notes that are made; the rest is counted."""
_MOST_READ = 200
"""Files with tests that are read."""
_LINES = 5
"""Lines of one file that are named."""
_CONFIGURATION = (
    *("makefile", "gnumakefile", "*.mk", "cmakelists.txt", "justfile", "taskfile.y*ml", "rakefile", "noxfile.py"),
    *("pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "pytest.ini", ".coveragerc", "mypy.ini", "*ruff.toml"),
    *("package.json", "jest.config.*", "vitest.config.*", ".mocharc*", "karma.conf.*", "playwright.config.*"),
    *("tsconfig*.json", ".eslintrc*", "eslint.config.*", "pom.xml", "build.gradle*", "settings.gradle*", "cargo.toml"),
    *(".golangci.*", ".rspec", "phpunit.xml*", ".gitlab-ci.yml", ".pre-commit-config.yaml", ".gitattributes"),
)
_LOADED_BY_TESTS = frozenset({"conftest.py", "sitecustomize.py", "usercustomize.py"})
_MODULES = sys.stdlib_module_names | {"pytest", "_pytest", "pluggy", "coverage", "hypothesis", "mypy", "ruff", "nose"}
_IS_TEST = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|/)test_[^/]*$|[._-](?:test|spec)s?\.[^/.]*$|Tests?\.(?:java|kt|cs|swift)$"
)
_TEST = re.compile(
    r"\s*+(?:(?:async\s++)?def\s++test|(?:it|test)(?:\.each)?\s?\(|func\sTest|@(?:Parameterized)?Test\b|#\[(?:tokio::)?test\]"
    r"|TEST(?:_F|_P)?\()"
)
_SKIP = re.compile(
    r"\bmark\.(?:skip|xfail)|\bpytest\.(?:skip|xfail|importorskip)\(|\bunittest\.(?:skip|expectedFailure)|\bskipTest\("
    r"|\b(?:it|test|describe)\.(?:skip|todo|only)\b|\bx(?:it|describe|test)\(|\bt\.Skip|@(?:Disabled|Ignore)\b|#\[ignore"
    r"|\bcollect_ignore"
)


def look_first(git: Git, base: str, head: str, checks: Sequence[Check]) -> tuple[str, ...]:
    """Return one line for each change of what judges the branch, tests last. Raises GitError."""
    flags = ("-r", "-z", "--name-status", "--no-renames", "--ignore-submodules=all")
    listed = git.run("diff-tree", *flags, base, head, "--").split("\0")
    kinds = dict(zip(listed[1::2], listed[::2], strict=False))
    tests = [path for path, kind in kinds.items() if _IS_TEST.search(path) and kind != "D"][:_MOST_READ]
    change = read_diff(git, base, head, tests) if tests else Diff()
    found = list(notes(kinds, change, [check.command for check in checks]))
    return (*found[:MOST], *([f"and {len(found) - MOST} more of the kind"] if len(found) > MOST else ()))


def notes(kinds: Mapping[str, str], change: Diff, commands: Sequence[str]) -> Iterator[str]:
    """Yield the notes on a change: path → A, M or D, as git names them, and its lines."""
    words = {word.removeprefix("./") for command in commands for word in re.split(r"[\s;&|()\"'=]+", command)}
    done = {"A": "was added", "D": "was deleted"}
    for path, kind in kinds.items():
        reason = _judging(path, words, added=kind == "A")
        if reason:
            yield f"{escape_text(path)} {done.get(kind, 'was changed')}: {reason}"
    for path, kind in kinds.items():
        if not _IS_TEST.search(path):
            continue
        if kind == "D":
            yield f"{escape_text(path)} was deleted: it had tests"
            continue
        fewer = _tests(change.removed.get(path, ())) - _tests(change.added.get(path, {}).values())
        if fewer > 0:
            yield f"{escape_text(path)} has {fewer} {'test' if fewer == 1 else 'tests'} fewer than before"
        skips = [number for number, line in change.added.get(path, {}).items() if _SKIP.search(line[:1000])]
        if skips:
            more = "" if len(skips) <= _LINES else " and more"
            yield f"{escape_text(path)} skips tests, in line {', '.join(map(str, skips[:_LINES]))}{more}"


def _judging(path: str, words: set[str], *, added: bool) -> str:
    """Return why a file takes part in judging the branch, empty if it does not."""
    name = PurePosixPath(path).name
    if path == FILE:
        return "it declares the checks; those that ran are of the base commit"
    if name in _LOADED_BY_TESTS:
        return "the tests load it and do what it says"
    if path in words:
        return "a check runs it"
    if any(fnmatchcase(name.lower(), known) for known in _CONFIGURATION) or path.startswith(".github/"):
        return "it says how the project is built, tested or checked"
    module = _module(path)
    if added and module in _MODULES:
        return f"the tests may load it in place of the module {module}"
    return "dependencies that were installed, not written" if "node_modules" in path.split("/") else ""


def _module(path: str) -> str:
    """Return the name by which tests that run in the root, in src or beside it can import a file."""
    parts = PurePosixPath(path).parts
    parts = parts[1:] if len(parts) > 1 and parts[0] in {"src", "lib", "test", "tests"} else parts
    if len(parts) == 1 and parts[0].endswith(".py"):
        return parts[0].removesuffix(".py")
    return parts[0] if len(parts) == 2 and parts[1] == "__init__.py" else ""


def _tests(lines: Iterable[str]) -> int:
    return sum(bool(_TEST.match(line[:1000])) for line in lines)
