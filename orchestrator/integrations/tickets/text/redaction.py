"""A requirement as it may be passed on to agents: every text of it went through the filter for secrets.

And ticket.json, which is what an agent reads of it (sources.md §1.2, §1.5).
"""

from dataclasses import dataclass, field, replace
from datetime import datetime

from orchestrator.core.task.task import Task
from orchestrator.core.task.ticket import SensitiveCheck
from orchestrator.formats.codec import JsonObject, stamp
from orchestrator.integrations.tickets.text.ticket import Requirement
from orchestrator.redaction.rules import Redactor, Result, Scan

MOST_TOLD = 10
"""Findings that a refusal names one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedTicket:
    """A requirement without secrets, and what was found in it as it was; `redacted` and `warnings` name rules."""

    requirement: Requirement
    redacted: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def check(self, at: datetime) -> SensitiveCheck:
        """The result in the seed's words."""
        result = Result.REDACTED if self.redacted else Result.CLEAN
        return SensitiveCheck(result=result.value, redacted_count=len(self.redacted), scanned_at=at)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionBlocked:
    """The first text of a requirement that must not be passed on, whole; `scan` says why."""

    text: str = field(repr=False)
    scan: Scan

    @property
    def reasons(self) -> str:
        """Rules and lines, for people."""
        found = [f"{one.rule} in line {one.line}" if one.line else one.rule for one in self.scan.findings]
        told = found[:MOST_TOLD]
        return ", ".join(told) + (f" and {len(found) - len(told)} more" if len(found) > len(told) else "")


def redact_ticket(requirement: Requirement, redactor: Redactor) -> RedactedTicket | RedactionBlocked:
    """The requirement with its secrets masked, or the text for whose sake it must not be taken in."""
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
    """ticket.json: the tracker's variant has what the tracker tells, the local one what a person handed in."""
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
