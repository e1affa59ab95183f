"""The state of a batch: the document `state.json` of the original tool, with canonical values.

What the original tool wrote is read with its legacy spellings: the phases `initialized` and `completed`, the statuses
of its command line, and the work folder as `context.work_dir`. Unknown values are refused with field and reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import cast

from orchestrator.formats.codec import JsonObject, to_json
from orchestrator.pipelines.families.issues.document import NAME, TEXT, Fields
from orchestrator.pipelines.families.issues.issue import ISSUE_STATUSES, IssueStatus

MOST_ACTIONS = 10_000


class BatchStatus(StrEnum):
    """How far a batch is as a whole."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"


class BatchPhase(StrEnum):
    """What a batch does at present."""

    INIT = "init"
    LISTING = "listing"
    PLANNING = "planning"
    EXECUTING = "executing"
    COMPLETE = "complete"


class QueueStatus(StrEnum):
    """How far the execution of a solution is."""

    PENDING = "pending"
    EXECUTING = "executing"
    COMPLETED = "completed"
    FAILED = "failed"


_STATUSES: Mapping[str, BatchStatus] = MappingProxyType({one.value: one for one in BatchStatus})
_PHASES: Mapping[str, BatchPhase] = MappingProxyType(
    {
        **{one.value: one for one in BatchPhase},
        "initialized": BatchPhase.INIT,
        "completed": BatchPhase.COMPLETE,
    }
)
_QUEUE: Mapping[str, QueueStatus] = MappingProxyType(
    {
        **{one.value: one for one in QueueStatus},
        "ready": QueueStatus.PENDING,
        "blocked": QueueStatus.PENDING,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueState:
    """An issue as the state has it. Times are texts, as they are written."""

    id: str
    title: str
    status: IssueStatus = IssueStatus.REGISTERED
    solution_id: str | None = None
    planned_at: str | None = None
    executed_at: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueItem:
    """A solution whose turn comes, in the order of the queue."""

    item_id: str
    issue_id: str
    solution_id: str
    status: QueueStatus = QueueStatus.PENDING


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchError:
    """What went wrong in an action."""

    timestamp: str
    action: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many issues there are, and how many of them ended which way."""

    total_issues: int = 0
    completed_count: int = 0
    failed_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchState:
    """The whole state; its fields are the keys of state.json, in its order."""

    status: BatchStatus = BatchStatus.PENDING
    phase: BatchPhase = BatchPhase.INIT
    work_dir: str = ""
    issues: Mapping[str, IssueState] = field(default_factory=dict)
    queue: tuple[QueueItem, ...] = ()
    completed_actions: tuple[str, ...] = ()
    context: Counts = field(default_factory=Counts)
    errors: tuple[BatchError, ...] = ()
    created_at: str = ""
    updated_at: str = ""

    @property
    def document(self) -> JsonObject:
        """The state as JSON."""
        return cast(JsonObject, to_json(self))


def counts_of(issues: Sequence[IssueState]) -> Counts:
    """Return how many issues there are, completed and failed."""
    return Counts(
        total_issues=len(issues),
        completed_count=sum(issue.status is IssueStatus.COMPLETED for issue in issues),
        failed_count=sum(issue.status is IssueStatus.FAILED for issue in issues),
    )


def read_state(text: str | bytes) -> BatchState:
    """Return the state in a state.json. Raises InvalidField.

    The folder of work may be missing while the batch has done nothing but begin, as in the initial state.
    """
    fields = Fields.parse(text)
    status, phase = fields.choice("status", _STATUSES), fields.choice("phase", _PHASES)
    context = fields.inner("context")
    work_dir = fields.text("work_dir", TEXT, default="") or context.text("work_dir", TEXT, default="")
    if not work_dir and phase is not BatchPhase.INIT:
        raise fields.refuse("work_dir", f"it is empty, which is allowed in the phase init only, and this is {phase}")
    listed = fields.inner("issues")
    issues = {named: _issue(named, Fields.of(one, f"issues.{named[:NAME]}")) for named, one in listed.content.items()}
    queue = tuple(_queue_item(one) for one in fields.objects("queue"))
    for number, item in enumerate(queue):
        if item.issue_id not in issues:
            raise fields.refuse(f"queue[{number}].issue_id", f"{item.issue_id!r:.60} is no issue of the state")
    return BatchState(
        status=status,
        phase=phase,
        work_dir=work_dir,
        issues=issues,
        queue=queue,
        completed_actions=fields.texts("completed_actions", MOST_ACTIONS, NAME),
        context=counts_of(tuple(issues.values())),
        errors=_errors(fields),
        created_at=fields.text("created_at", default=""),
        updated_at=fields.text("updated_at", default=""),
    )


def _issue(named: str, fields: Fields) -> IssueState:
    own = fields.text("id", default=named)
    if own != named:
        raise fields.refuse("id", f"{own!r:.60} is listed as {named!r:.60}")
    words = {name: fields.text(name, TEXT, default="") or None for name in ("solution_id", "error")}
    times = {name: fields.text(name, default="") or None for name in ("planned_at", "executed_at")}
    bound = words["solution_id"] or fields.text("bound_solution_id", default="") or None
    return IssueState(
        id=named,
        title=fields.text("title", TEXT, default=""),
        status=fields.choice("status", ISSUE_STATUSES),
        solution_id=bound,
        error=words["error"],
        **times,
    )


def _queue_item(fields: Fields) -> QueueItem:
    return QueueItem(
        item_id=fields.text("item_id"),
        issue_id=fields.text("issue_id"),
        solution_id=fields.text("solution_id"),
        status=fields.choice("status", _QUEUE),
    )


def _errors(fields: Fields) -> tuple[BatchError, ...]:
    """Return the errors; a bare text is one without time and action. Raises InvalidField."""
    found: list[BatchError] = []
    for number, one in enumerate(fields.entries("errors", MOST_ACTIONS)):
        if isinstance(one, str):
            found.append(BatchError(timestamp="", action="", message=one[:TEXT]))
            continue
        entry = Fields.of(one, fields.place(f"errors[{number}]"))
        parts = {name: entry.text(name, TEXT, default="") for name in ("timestamp", "action", "message")}
        found.append(BatchError(**parts))
    return tuple(found)
