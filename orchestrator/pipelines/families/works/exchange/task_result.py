"""A task-result: what an agent of a work says about its task, as XML. It is evidence, and never passes a gate alone."""

from dataclasses import dataclass
from enum import StrEnum
from xml.etree.ElementTree import Element

from orchestrator.pipelines.families.works.documents.plan import action_of
from orchestrator.pipelines.families.works.documents.progress import ChangedFile
from orchestrator.pipelines.families.works.exchange.dispatch import read_handoff, write_handoff
from orchestrator.pipelines.families.works.exchange.elements import (
    attribute,
    child_text,
    find_elements,
    leaf,
    said,
    tag,
)
from orchestrator.pipelines.families.works.exchange.handoff import Handoff

_KNOWN = frozenset(
    (
        *("task-result", "summary", "files-changed", "file", "verification", "check", "notes", "context-handoff"),
        *("what", "why", "caution", "incomplete", "self-check", "failure-details", "failure", "error"),
        *("suggested-fix", "reason", "commit", "hash", "message", "type", "result-file", "progress", "done", "total"),
        *("next-tasks", "task"),
    )
)
_VERBS = {"CREATE": "created", "MODIFY": "modified", "DELETE": "deleted"}
MOST_PARTS = 500


class Outcome(StrEnum):
    """How a check or a task came out."""

    PASS = "PASS"  # noqa: S105 - a verdict
    WARN = "WARN"
    FAIL = "FAIL"
    NOT_APPLICABLE = "N/A"


_WORDS = {
    "PASS": Outcome.PASS, "PASSED": Outcome.PASS, "OK": Outcome.PASS, "SUCCESS": Outcome.PASS, "DONE": Outcome.PASS,
    "WARN": Outcome.WARN, "WARNING": Outcome.WARN,
    "FAIL": Outcome.FAIL, "FAILED": Outcome.FAIL, "ERROR": Outcome.FAIL,
    "N/A": Outcome.NOT_APPLICABLE, "NA": Outcome.NOT_APPLICABLE, "SKIP": Outcome.NOT_APPLICABLE,
    "SKIPPED": Outcome.NOT_APPLICABLE,
}  # fmt: skip
ADVISORY = frozenset(("lint",))
"""Checks whose failure is a warning, as verifiers of works have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What an agent says about one check; `outcome` is None for a word that is not known."""

    name: str
    outcome: Outcome | None
    text: str = ""

    @property
    def is_failed(self) -> bool:
        """Whether the check stands in the way."""
        return self.outcome in (Outcome.FAIL, None) and self.name.casefold() not in ADVISORY


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureReport:
    """What failed, where, and what would mend it."""

    check: str
    error: str
    file: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """What an agent says about its task; `outcome` is None for a status that is not known."""

    work: str
    task: str
    agent: str
    outcome: Outcome | None
    summary: str = ""
    reason: str = ""
    notes: str = ""
    files: tuple[ChangedFile, ...] = ()
    checks: tuple[CheckReport, ...] = ()
    failures: tuple[FailureReport, ...] = ()
    handoff: Handoff | None = None
    commit: str = ""

    @property
    def is_passed(self) -> bool:
        """Whether the agent says that its task passed, and no check that it names contradicts that."""
        return self.outcome in (Outcome.PASS, Outcome.WARN) and not self.failures and not self.failed_checks

    @property
    def failed_checks(self) -> tuple[CheckReport, ...]:
        """The checks that stand in the way."""
        return tuple(check for check in self.checks if check.is_failed)


def read_task_results(text: str) -> tuple[TaskResult, ...]:
    """Return the task-results in the text of an agent, in its order. Raises ValueError if the text is too large."""
    return tuple(_result(element) for element in find_elements(text, "task-result", _KNOWN))


def last_task_result(text: str, agent: str) -> TaskResult:
    """Return the last task-result of that agent in a text. Raises ValueError, with words for its author."""
    found = [one for one in read_task_results(text) if one.agent in (agent, "")]
    if not found:
        raise ValueError(
            f'it has no readable <task-result work="WORK-NN" task="TASK-NN" agent="{agent}" status="PASS">'
        )
    return found[-1]


def write_task_result(result: TaskResult) -> str:
    """Return a result as XML; every text in it is escaped."""
    checks = [
        leaf("check", one.text, name=one.name, status=(one.outcome or Outcome.FAIL).value) for one in result.checks
    ]
    files = [tag("file", "", action=_VERBS.get(one.action, "modified"), path=one.path) for one in result.files]
    failures = [
        tag(
            "failure",
            leaf("error", one.error) + leaf("file", one.file) + leaf("suggested-fix", one.fix),
            check=one.check,
        )
        for one in result.failures
    ]
    parts = [
        leaf("summary", result.summary),
        leaf("reason", result.reason) if result.reason else "",
        _group("files-changed", files),
        _group("verification", checks),
        _group("failure-details", failures),
        leaf("notes", result.notes) if result.notes else "",
        write_handoff(result.handoff) if result.handoff else "",
        tag("commit", leaf("hash", result.commit)) if result.commit else "",
    ]
    content = "".join(f"\n  {part}" for part in parts if part)
    status = (result.outcome or Outcome.FAIL).value
    attributes = {"work": result.work, "task": result.task, "agent": result.agent, "status": status}
    return tag("task-result", f"{content}\n", **attributes) + "\n"


def _result(element: Element) -> TaskResult:
    handoff = element.find("context-handoff")
    return TaskResult(
        work=attribute(element, "work"),
        task=attribute(element, "task"),
        agent=attribute(element, "agent").casefold(),
        outcome=_WORDS.get(attribute(element, "status").upper()),
        summary=child_text(element, "summary"),
        reason=child_text(element, "reason"),
        notes=child_text(element, "notes"),
        files=tuple(_file(one) for one in element.findall("files-changed/file")[:MOST_PARTS]),
        checks=tuple(_check(one) for one in [*element.iter("check")][:MOST_PARTS]),
        failures=tuple(_failure(one) for one in element.findall("failure-details/failure")[:MOST_PARTS]),
        handoff=read_handoff(handoff) if handoff is not None else None,
        commit=said(element.find("commit/hash"), 100),
    )


def _file(element: Element) -> ChangedFile:
    path = attribute(element, "path", 1000) or said(element, 1000)
    return ChangedFile(path=path, action=action_of(attribute(element, "action")) or "MODIFY")


def _check(element: Element) -> CheckReport:
    count = attribute(element, "count")
    text = " ".join(filter(None, (said(element, 2000), f"({count})" if count else "")))
    return CheckReport(
        name=attribute(element, "name"), outcome=_WORDS.get(attribute(element, "status").upper()), text=text
    )


def _failure(element: Element) -> FailureReport:
    return FailureReport(
        check=attribute(element, "check"),
        error=child_text(element, "error") or said(element),
        file=child_text(element, "file", 1000),
        fix=child_text(element, "suggested-fix"),
    )


def _group(name: str, parts: list[str]) -> str:
    return tag(name, "".join(f"\n    {part}" for part in parts) + "\n  ") if parts else ""
