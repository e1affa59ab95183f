"""What linters and scanners report, in one form, and the verdict on a change.

Only findings in lines that the change added fail: a repository that had problems before is not blocked by them.
Findings that a tool calls a warning, or of medium severity, warn wherever they are.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.core.task.checks import ResultSource, Verdict
from orchestrator.formats.codec import Json
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.evaluation.diff import Diff

NAMED = 3
"""Findings that are listed in a reason."""


class Severity(StrEnum):
    """How bad a finding is; HIGH includes what a tool calls an error, or critical."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFinding:
    """A problem that a tool, or the daemon, found in one place; line 0 means the file as a whole."""

    path: str
    line: int
    severity: Severity
    text: str

    def __str__(self) -> str:
        return escape_text(f"{self.path}:{self.line}: {self.text}" if self.line else f"{self.path}: {self.text}", 160)


def read_findings(reading: ResultSource, report: str) -> tuple[CodeFinding, ...]:
    """Return the findings of a tool's JSON report. Raises ValueError if it is not a report of that tool."""
    try:
        return tuple(_READERS[reading](json.loads(report)))
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"this is not a report of {reading.replace('_', ' ')}") from error


def verdict_on(found: Iterable[CodeFinding], change: Diff) -> tuple[Verdict, str]:
    """Return FAIL if the change added a bad finding, WARN for any other finding worth a look, PASS for none."""
    counted = [one for one in found if one.severity is not Severity.LOW]
    added = [one for one in counted if change.has(one.path, one.line)]
    bad = [one for one in added if one.severity is Severity.HIGH]
    if bad:
        return Verdict.FAIL, f"{_number(bad)} in changed lines: {_named(bad)}"
    if added:
        return Verdict.WARN, f"{_number(added)} in changed lines, none of them serious: {_named(added)}"
    if counted:
        return Verdict.WARN, f"{_number(counted)}, none in changed lines: {_named(counted)}"
    return Verdict.PASS, "no findings"


def _number(found: list[CodeFinding]) -> str:
    return f"{len(found)} finding{'s' * (len(found) != 1)}"


def _named(found: list[CodeFinding]) -> str:
    return "; ".join(map(str, found[:NAMED])) + ("; …" if len(found) > NAMED else "")


def _ruff(report: Json) -> Iterator[CodeFinding]:
    """One object for each violation; ruff has no severities."""
    for one in _objects(report):
        place = _object(one["location"])
        yield _finding(one["filename"], place["row"], Severity.HIGH, f"{one['code']} {one['message']}")


def _eslint(report: Json) -> Iterator[CodeFinding]:
    """One object for each file; severity 1 is a warning, 2 an error."""
    for file in _objects(report):
        for one in _objects(file["messages"]):
            severity = Severity.HIGH if one["severity"] == 2 else Severity.MEDIUM
            yield _finding(file["filePath"], one.get("line") or 0, severity, f"{one.get('ruleId')} {one['message']}")


def _bandit(report: Json) -> Iterator[CodeFinding]:
    for one in _objects(_object(report)["results"]):
        text = f"{one['test_id']} {one['issue_text']}"
        yield _finding(one["filename"], one["line_number"], _severity(one["issue_severity"]), text)


def _gosec(report: Json) -> Iterator[CodeFinding]:
    """Lines are strings, `12` or `12-14`."""
    for one in _objects(_object(report)["Issues"] or []):
        line = int(str(one["line"]).partition("-")[0])
        yield _finding(one["file"], line, _severity(one["severity"]), f"{one['rule_id']} {one['details']}")


def _npm_audit(report: Json) -> Iterator[CodeFinding]:
    """A finding about a dependency belongs to the lock file, wherever the dependency is used."""
    for name, one in _object(_object(report)["vulnerabilities"]).items():
        severity = _severity(_object(one)["severity"])
        yield _finding("package-lock.json", 0, severity, f"{name}: {_object(one)['severity']}")


_READERS: Mapping[ResultSource, Callable[[Json], Iterator[CodeFinding]]] = {
    ResultSource.RUFF: _ruff,
    ResultSource.ESLINT: _eslint,
    ResultSource.BANDIT: _bandit,
    ResultSource.GOSEC: _gosec,
    ResultSource.NPM_AUDIT: _npm_audit,
}


def _finding(path: Json, line: Json, severity: Severity, text: str) -> CodeFinding:
    if not isinstance(path, str) or not isinstance(line, int):
        raise TypeError("a finding has no place")
    return CodeFinding(path=path, line=line, severity=severity, text=text)


def _severity(word: Json) -> Severity:
    match str(word).lower():
        case "critical" | "high":
            return Severity.HIGH
        case "medium" | "moderate":
            return Severity.MEDIUM
        case _:
            return Severity.LOW


def _object(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise TypeError("an object was expected")
    return value


def _objects(value: Json) -> Iterator[Mapping[str, Json]]:
    if not isinstance(value, list):
        raise TypeError("a list was expected")
    return map(_object, value)
