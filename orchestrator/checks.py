"""Which commands judge a task's work, fixed at submit, and what their exit codes mean (law 4).

Three sources, the later winning by name: what the repository itself declares in `.orchestrator.toml` at the base
commit, or else what its files give away; then what the submitter gives. The branch is never asked. All checks are shell
commands, run at the top of a fresh checkout.
"""

import json
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.escape import shown
from orchestrator.core.model import Check, Verdict
from orchestrator.core.table import DefinitionError, Table
from orchestrator.core.toml import read_toml
from orchestrator.git import Git

FILE = ".orchestrator.toml"
DEFAULT_TIMEOUT = 600.0
MAX_FILE = 256 * 1024
LONGEST_COMMAND = 30_000  # characters; the kernel takes an argument of 128 KiB
_BROKEN = re.compile("[\ud800-\udfff]")  # bytes that were no UTF-8
_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_-]{0,40}$")
_PYTEST_FILE = re.compile(r"(^|/)(test_[^/]*|[^/]*_test)\.py$")
_PYTEST = re.compile(r"(^|[\s/;&|])(pytest|py\.test)(\s|$)")
# fmt: off
_PASSED_ON = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "XDG_CACHE_HOME",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "ORCHESTRATOR_RUN", "VIRTUAL_ENV", "PYENV_ROOT", "CARGO_HOME", "RUSTUP_HOME",
    "GOPATH", "GOCACHE", "GOMODCACHE", "GOROOT", "JAVA_HOME", "NVM_DIR",
})
# fmt: on


class CheckError(OrchestratorError):
    """A check that was given or declared cannot be used as it stands."""


def resolve(
    git: Git, base_commit: str, given: Mapping[str, str], default_timeout: float = DEFAULT_TIMEOUT
) -> tuple[Check, ...]:
    """The checks for work that begins at `base_commit`; `given` are the submitter's, command by name.

    Raises DefinitionError (file, line, nearest known name) or CheckError for what cannot be used.
    """
    tree = _Tree(git=git, commit=base_commit)
    found = _declared(tree, default_timeout)
    if found is None:
        found = _detected(tree, default_timeout)
    checks = {check.name: check for check in found}
    for name, command in given.items():
        wrong = _wrong_with(name, command)
        if wrong:
            raise CheckError(f"the check {shown(name)!r} cannot be used: {wrong}; give it as NAME=COMMAND")
        checks[name] = Check(name=name, command=command, timeout=default_timeout, source="submitter")
    return tuple(checks.values())


def changed_on_branch(git: Git, base_commit: str, head: str) -> bool:
    """Whether the branch would declare other checks than those that judge it."""
    return _Tree(git=git, commit=base_commit).entry(FILE) != _Tree(git=git, commit=head).entry(FILE)


def environment(base_env: Mapping[str, str]) -> dict[str, str]:
    """What a check gets of an environment: by name where tools and caches are, and so never a token."""
    kept = {name: value for name, value in base_env.items() if name in _PASSED_ON or name.startswith("LC_")}
    return kept | {"CI": "true", "GIT_TERMINAL_PROMPT": "0"}


def judge(
    check: Check, exit_code: int | None, timed_out: bool = False, spawn_error: str | None = None
) -> tuple[Verdict, str]:
    """What a check's end means; what is not required fails as WARN.

    A negative exit code is a signal, as in `subprocess`. No tests (pytest, exit code 5) is a failure: the check was
    chosen when the base commit had tests, or was meant to have some.
    """
    if exit_code == 0 and not timed_out and not spawn_error:
        return Verdict.PASS, "exit code 0"
    verdict = Verdict.FAIL if check.required else Verdict.WARN
    if spawn_error:
        return verdict, f"it could not be started: {shown(spawn_error)}"
    if timed_out:
        return verdict, f"it was not done after {check.timeout:g} s and was stopped"
    if exit_code is None:
        return verdict, "it ended without an exit code"
    return verdict, f"exit code {exit_code}{_meaning(check, exit_code)}"


def _meaning(check: Check, exit_code: int) -> str:
    if exit_code == 127:
        return ": command not found; install it, or give another check"
    if exit_code == 126:
        return ": the command is there but cannot be executed"
    if exit_code == 5 and _PYTEST.search(check.command):
        return ": pytest found no tests"
    number = -exit_code if exit_code < 0 else exit_code - 128
    if number in {known.value for known in signal.Signals}:
        return f": ended by {signal.Signals(number).name}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tree:
    """The files of one commit, read without a checkout."""

    git: Git
    commit: str

    def entry(self, path: str) -> str | None:
        """Mode, kind and object of a file or folder."""
        listed = self.git.run("ls-tree", "-z", "--full-tree", self.commit, "--", path).rstrip("\0")
        return listed.partition("\t")[0] or None

    def text(self, path: str) -> str | None:
        """The text of a regular UTF-8 file of at most MAX_FILE bytes; None for anything else."""
        entry = self.entry(path)
        if entry is None or not entry.startswith("100"):
            return None
        blob = entry.split(" ")[2]
        if int(self.git.run("cat-file", "-s", blob)) > MAX_FILE:
            return None
        text = self.git.run("cat-file", "blob", blob)
        return text if _BROKEN.search(text) is None else None

    def names(self, *under: str) -> list[str]:
        """The names at the top, or of everything below the folders `under`."""
        flags = ("-r",) if under else ()
        return self.git.run("ls-tree", "-z", "--name-only", "--full-tree", *flags, self.commit, "--", *under).split(
            "\0"
        )


def _declared(tree: _Tree, default_timeout: float) -> tuple[Check, ...] | None:
    """What `.orchestrator.toml` says; None where there is no such file, or it says nothing of checks."""
    if tree.entry(FILE) is None:
        return None
    text = tree.text(FILE)
    if text is None:
        problem = f"is no regular UTF-8 file of at most {MAX_FILE} bytes"
        raise CheckError(f"{FILE} at {tree.commit[:12]} {problem}; commit one that is")
    table = read_toml(text, FILE)
    said = table.has("checks")
    declared = table.table("checks")
    checks = tuple(_check(name, declared.table(name), default_timeout) for name in declared.names())
    table.done()
    if table.report.problems:
        raise DefinitionError(table.report.in_order())
    return checks if said else None


def _check(name: str, table: Table, default_timeout: float) -> Check:
    command = table.text("command")
    required = table.everything().get("required", True)
    if table.has("required") and not isinstance(required, bool):
        table.note("required", f"required = {required!r:.80} must be true or false")
    timeout = table.number("timeout", default=default_timeout)
    if not timeout:
        table.note("timeout", "timeout = 0 leaves the check no time; give seconds")
    wrong = _wrong_with(name, command)
    if wrong and table.has("command"):
        table.note("command", wrong)
    table.done()
    return Check(name=name, command=command, required=required is True, timeout=float(timeout), source=FILE)


def _wrong_with(name: str, command: str) -> str:
    if not _NAME.fullmatch(name):
        return f"{shown(name)!r} must be a letter, then up to 40 letters, digits, dashes or underscores"
    if not command.strip() or "\0" in command:
        return "its command must be text that a shell can run"
    if len(command) > LONGEST_COMMAND:
        return f"its command is longer than {LONGEST_COMMAND} characters; put it into a script of the repository"
    return ""


def _detected(tree: _Tree, timeout: float) -> tuple[Check, ...]:
    """The usual commands of the tools whose files stand in the tree; the first test command is `unit_test`."""
    top = frozenset(tree.names())
    commands = {tool: command for tool, find in _TOOLS.items() if (command := find(tree, top))}
    if len(commands) > 1:
        commands.pop("make", None)  # its test target will be one of the others
    checks = [
        Check(name=f"unit_test_{tool}" if number else "unit_test", command=command, timeout=timeout, source="detected")
        for number, (tool, command) in enumerate(commands.items())
    ]
    if top & {"ruff.toml", ".ruff.toml"} or "[tool.ruff" in _text(tree, top, "pyproject.toml"):
        lint = "ruff check ."
        checks.append(Check(name="lint", command=lint, required=False, timeout=timeout, source="detected"))
    return tuple(checks)


def _text(tree: _Tree, top: frozenset[str], name: str) -> str:
    return (tree.text(name) or "") if name in top else ""


def _pytest(tree: _Tree, top: frozenset[str]) -> str:
    configured = {
        "pytest.ini": "",
        "pyproject.toml": "[tool.pytest",
        "setup.cfg": "[tool:pytest]",
        "tox.ini": "[pytest]",
    }
    if (
        any(name in top and mark in _text(tree, top, name) for name, mark in configured.items())
        or any(map(_PYTEST_FILE.search, top))
        or any(map(_PYTEST_FILE.search, tree.names("tests", "test")))
    ):
        return "python3 -m pytest -q"
    return ""


def _npm(tree: _Tree, top: frozenset[str]) -> str:
    try:
        package: object = json.loads(_text(tree, top, "package.json") or "null")
    except (ValueError, RecursionError):
        return ""
    scripts = package.get("scripts") if isinstance(package, dict) else None
    test = scripts.get("test") if isinstance(scripts, dict) else None
    if not isinstance(test, str) or not test.strip() or "no test specified" in test:
        return ""
    return "npm ci --no-audit --no-fund && npm test" if "package-lock.json" in top else "npm test"


def _cargo(_tree: _Tree, top: frozenset[str]) -> str:
    return "cargo test" if "Cargo.toml" in top else ""


def _go(_tree: _Tree, top: frozenset[str]) -> str:
    return "go test ./..." if "go.mod" in top else ""


def _make(tree: _Tree, top: frozenset[str]) -> str:
    files = (name for name in ("GNUmakefile", "makefile", "Makefile") if name in top)
    return (
        "make test" if any(re.search(r"^test\s*:(?!=)", _text(tree, top, name), re.MULTILINE) for name in files) else ""
    )


_TOOLS: Mapping[str, Callable[[_Tree, frozenset[str]], str]] = {
    "pytest": _pytest,
    "npm": _npm,
    "cargo": _cargo,
    "go": _go,
    "make": _make,
}
