"""Find secrets in what a branch adds: private keys, and literals assigned to names of secrets.

A key of a known form is serious wherever it is. A literal that only looks like a secret because of the name beside it
(16 characters or more) is a warning in tests and examples, which are full of invented ones.
"""

import re
from collections.abc import Iterator, Mapping

from orchestrator.redaction.rules import Action, Redactor
from orchestrator.workspaces.evaluation.diff import Diff
from orchestrator.workspaces.evaluation.findings import CodeFinding, Severity

LARGEST_PIECE = 256 * 1024
"""Characters that are scanned together."""
_BY_NAME = frozenset({"secret_assignment", "password_assignment", "password_option"})
_NO_SECRETS = frozenset({"ip_address_internal", "ipv6_address_internal"})
_MADE_UP = re.compile(
    r"(?:^|[/_.-])(?:tests?|spec|fixtures?|examples?|samples?|mocks?|testdata|docs?)(?:[/_.-]|$)", re.IGNORECASE
)
_ASSIGNED = re.compile(
    r"""(?ix) \b [a-z0-9_]{0,40} (?:secret|token|passw(?:or)?d|passphrase|api_?key|access_?key|private_?key|credential)
    [a-z0-9_]{0,40} ["']? \s{0,8} (?::=|=>|[:=]) \s{0,8}
    (?P<quote>["'`]) (?P<literal>[^"'`\s$<>{}]{16,512}) (?P=quote)"""
)


def find_secrets(change: Diff, redactor: Redactor) -> Iterator[CodeFinding]:
    """Return what of the added lines belongs in no repository; the texts themselves are not reported."""
    for path, lines in change.added.items():
        for piece in _pieces(lines):
            yield from _in_piece(path, piece, redactor)


def _in_piece(path: str, lines: list[tuple[int, str]], redactor: Redactor) -> Iterator[CodeFinding]:
    reported: set[int] = set()
    for found in redactor.scan("\n".join(text for _, text in lines)).findings:
        if found.action is Action.WARN or found.rule in _NO_SECRETS or found.line < 1:
            continue
        line = lines[found.line - 1][0]
        reported.add(line)
        yield CodeFinding(path=path, line=line, severity=_severity(path, found.rule), text=f"{found.rule} was added")
    for line, text in lines:
        if line not in reported and _ASSIGNED.search(text[:4096]):
            severity = _severity(path, "secret_assignment")
            yield CodeFinding(path=path, line=line, severity=severity, text="a literal is assigned to a secret's name")


def _severity(path: str, rule: str) -> Severity:
    return Severity.MEDIUM if rule in _BY_NAME and _MADE_UP.search(path) else Severity.HIGH


def _pieces(lines: Mapping[int, str]) -> Iterator[list[tuple[int, str]]]:
    """Yield the lines in runs short enough to be scanned as one text; a longer line is cut."""
    piece: list[tuple[int, str]] = []
    size = 0
    for line, text in lines.items():
        if piece and size + len(text) > LARGEST_PIECE:
            yield piece
            piece, size = [], 0
        piece.append((line, text[:LARGEST_PIECE]))
        size += len(text) + 1
    if piece:
        yield piece
