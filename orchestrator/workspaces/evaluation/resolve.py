"""Which checks a task gets: what its base commit declares or needs, then the settings, then the submitter."""

from collections.abc import Mapping
from dataclasses import replace

from orchestrator.core.task.checks import DEFAULT_RULES, Check, CheckKind, Integration, Rules
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.evaluation.check_file import CheckError, add_probe, check_problem, read_checks
from orchestrator.workspaces.evaluation.languages import detect_checks
from orchestrator.workspaces.evaluation.tree import Tree
from orchestrator.workspaces.git import Git

SUBMITTER = "submitter"
"""The source of a check that was given with the ticket."""


def resolve(git: Git, base_commit: str, given: Mapping[str, str], rules: Rules = DEFAULT_RULES) -> tuple[Check, ...]:
    """Return the checks for work that begins at `base_commit`; `given` are the submitter's, command by name.

    Builds come first. Raises DefinitionError (file, line, nearest known name), and CheckError if a check cannot be
    used.
    """
    tree = Tree(git=git, commit=base_commit)
    found = read_checks(tree, rules.timeout)
    checks = {
        check.name: check for check in (detect_checks(tree, rules.timeout, rules.path) if found is None else found)
    }
    if rules.integration is not None:
        checks |= {check.name: check for check in _integration(rules.integration)}
    for source, commands in (("settings", rules.commands), (SUBMITTER, given)):
        for name, command in commands.items():
            _without(checks, name)
            if source == SUBMITTER or command:
                checks[name] = _given(name, command, source, rules.timeout)
    in_order = sorted(checks.values(), key=lambda check: check.kind is not CheckKind.BUILD)
    return tuple(_ruled(check, rules) for check in in_order)


def _integration(offered: Integration) -> tuple[Check, ...]:
    check = Check(
        name=CheckKind.INTEGRATION.value,
        command=offered.command,
        timeout=offered.timeout,
        source="settings",
        kind=CheckKind.INTEGRATION,
        cleanup=offered.cleanup,
    )
    return add_probe(check, offered.preflight, required=offered.required)


def _without(checks: dict[str, Check], name: str) -> None:
    """Remove a check and its probe."""
    gone = checks.pop(name, None)
    if gone is not None and gone.needs:
        checks.pop(gone.needs, None)


def _given(name: str, command: str, source: str, timeout: float) -> Check:
    wrong = check_problem(name, command)
    if wrong:
        raise CheckError(
            f"the check {escape_text(name)!r} of the {source} cannot be used: {wrong}; give it as NAME=COMMAND"
        )
    return Check(name=name, command=command, timeout=timeout, source=source, kind=CheckKind.of(name))


def _ruled(check: Check, rules: Rules) -> Check:
    if check.reads.of_tests and not check.floor:
        return replace(check, floor=rules.changed_coverage, required=rules.coverage_required)
    tries = 1 + rules.retry_failed if check.required and check.command else 1
    return replace(check, tries=tries)
