"""The checks that a repository declares in `.orchestrator.toml`."""

import re
from dataclasses import replace

from orchestrator.core.task.checks import MOST_CHECKS, Check, CheckKind, ResultSource
from orchestrator.errors import OrchestratorError
from orchestrator.formats.table import DefinitionError, Table
from orchestrator.formats.toml import read_toml
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.evaluation.tree import MAX_FILE, Tree
from orchestrator.workspaces.git import Git

FILE = ".orchestrator.toml"
LONGEST_PROBE = 60.0  # seconds
LONGEST_COMMAND = 30_000  # characters; the kernel takes an argument of 128 KiB
_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_-]{0,40}$")


class CheckError(OrchestratorError):
    """A check that was given or declared cannot be used as it stands."""


def read_checks(tree: Tree, default_timeout: float) -> tuple[Check, ...] | None:
    """Return the declared checks in the file's order; None if there is no such file, or it declares no checks.

    Raises DefinitionError (file, line, nearest known name) or CheckError.
    """
    if tree.entry(FILE) is None:
        return None
    text = tree.text(FILE)
    if text is None:
        problem = f"is not a regular UTF-8 file of at most {MAX_FILE} bytes"
        raise CheckError(f"{FILE} at {tree.commit[:12]} {problem}; commit one that is")
    table = read_toml(text, FILE)
    has_checks = table.has("checks")
    inner = table.table("checks")
    names = inner.names()
    if len(names) > MOST_CHECKS:
        table.note("checks", f"{len(names)} checks are too many; declare at most {MOST_CHECKS}")
    checks = [check for name in names[:MOST_CHECKS] for check in _checks(name, inner.table(name), default_timeout)]
    table.done()
    if table.report.problems:
        raise DefinitionError(table.report.in_order())
    return tuple(checks) if has_checks else None


def changed_on_branch(git: Git, base_commit: str, head: str) -> bool:
    """Return whether the branch declares other checks than those that judge it."""
    return Tree(git=git, commit=base_commit).entry(FILE) != Tree(git=git, commit=head).entry(FILE)


def check_problem(name: str, command: str) -> str:
    """Return why this cannot be a check, empty if it can."""
    if not _NAME.fullmatch(name):
        return f"{escape_text(name)!r} must be a letter, then up to 40 letters, digits, dashes or underscores"
    if not command.strip() or "\0" in command:
        return "its command must be text that a shell can run"
    if len(command) > LONGEST_COMMAND:
        return f"its command is longer than {LONGEST_COMMAND} characters; put it into a script of the repository"
    return ""


def add_probe(check: Check, preflight: str, *, required: bool) -> tuple[Check, ...]:
    """Return the check after the probe that tells whether it can run here; a `required` one fails if it cannot."""
    if not preflight:
        return (check,)
    name = f"{check.name}_probe"
    probe = Check(
        name=name,
        command=preflight,
        required=required,
        timeout=min(LONGEST_PROBE, check.timeout),
        source=check.source,
        kind=CheckKind.PROBE,
        network=check.network,
    )
    return probe, replace(check, needs=name)


def _checks(name: str, table: Table, default_timeout: float) -> tuple[Check, ...]:
    reads = table.choice("reads", {one.value: one for one in ResultSource}, "reads") or ResultSource.EXIT_CODE
    command = "" if reads.by_daemon and not table.has("command") else table.text("command")
    timeout = table.number("timeout", default=default_timeout)
    if table.has("timeout") and not timeout:
        table.note("timeout", "timeout = 0 leaves the check no time; give seconds")
    wrong = check_problem(name, command if table.has("command") else "true")
    if wrong:
        table.note("command", wrong)
    if reads.by_daemon and command:
        table.note("command", f"reads = {reads.value!r} is read by the daemon itself; leave the command out")
    check = Check(
        name=name,
        command=command,
        required=table.flag("required", default=True),
        timeout=float(timeout),
        source=FILE,
        kind=CheckKind.of(name),
        reads=reads,
        cleanup=table.maybe_text("cleanup") or "",
        floor=float(table.number("floor", default=0.0)),
        network=table.flag("network", default=True),
    )
    preflight = table.maybe_text("preflight") or ""
    found = add_probe(check, preflight, required=table.flag("preflight_required", default=False))
    table.done()
    return found
