"""A requirement as agents may see it: all its texts are filtered for secrets; and ticket.json, which they read."""

from dataclasses import dataclass, field, replace
from datetime import datetime

from orchestrator.core.task.task import Task
from orchestrator.core.task.ticket import SensitiveCheck
from orchestrator.formats.codec import JsonObject, stamp
from orchestrator.integrations.tickets.text.ticket import Requirement
from orchestrator.redaction.rules import Redactor, Result, Scan

MOST_LISTED = 10
"""Findings that a refusal lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedTicket:
    """A requirement without secrets; `redacted` and `warnings` name the rules that matched."""

    requirement: Requirement
    redacted: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def check(self, at: datetime) -> SensitiveCheck:
        """Return the result as ticket.json records it."""
        result = Result.REDACTED if self.redacted else Result.CLEAN
        return SensitiveCheck(result=result.value, redacted_count=len(self.redacted), scanned_at=at)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionBlocked:
    """The whole text of a requirement that must not be passed on; `scan` says why."""

    text: str = field(repr=False)
    scan: Scan

    @property
    def reasons(self) -> str:
        """The rules and lines, for people."""
        found = [f"{one.rule} in line {one.line}" if one.line else one.rule for one in self.scan.findings]
        listed = found[:MOST_LISTED]
        return ", ".join(listed) + (f" and {len(found) - len(listed)} more" if len(found) > len(listed) else "")


def redact_ticket(requirement: Requirement, redactor: Redactor) -> RedactedTicket | RedactionBlocked:
    """Return the requirement with its secrets masked, or the text because of which it must be refused."""
    texts = (requirement.text, requirement.title, requirement.status, requirement.assignee, *requirement.labels)
    scans = [redactor.scan(text) for text in texts]
    for text, scan in zip(texts, scans, strict=True):
        if scan.result is Result.BLOCKED:
            return RedactionBlocked(text=text, scan=scan)
    text, title, status, assignee, *labels = (scan.text for scan in scans)
    return RedactedTicket(
        requirement=replace(
            requirement, text=text, title=title, status=status, assignee=assignee, labels=tuple(labels)
        ),
        redacted=tuple(rule for scan in scans for rule in scan.redacted),
        warnings=tuple(dict.fromkeys(warning for scan in scans for warning in scan.warnings)),
    )


def ticket_document(task: Task, taken: RedactedTicket) -> JsonObject:
    """Return ticket.json: the data of the tracker, or of a locally submitted text."""
    requirement, check = taken.requirement, taken.check(task.timing.created_at)
    return {
        "ticket_id": task.ticket.key,
        "type": task.ticket.type.value,
        "summary": task.title,
        "description": requirement.text,
        "requirement_source": task.ticket.source,
        "priority": task.schedule.priority.value,
        "labels": [*requirement.labels],
        **(_of_tracker(requirement) if requirement.tracker else {"created": stamp(task.timing.created_at)}),
        "repository": {"path": task.source.repo, "base": task.source.base_branch, "commit": task.source.base_commit},
        "_filter_metadata": {
            "scan_result": check.result,
            "redacted_count": check.redacted_count,
            "redacted_patterns": [*sorted(set(taken.redacted))],
            "blocked_patterns": [],
            "warnings": [*taken.warnings],
            "scanned_at": stamp(task.timing.created_at),
        },
    }


def _of_tracker(requirement: Requirement) -> JsonObject:
    return {
        "url": requirement.url,
        "status": requirement.status,
        "assignee": requirement.assignee or None,
        "created": stamp(requirement.created) if requirement.created else None,
        "updated": stamp(requirement.updated) if requirement.updated else None,
    }
