"""An inventory added up: by kind, by task, and what becomes due when."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest

from orchestrator.core.retention.plan import Action, Item, due_at
from orchestrator.core.retention.policy import Kind
from orchestrator.core.retention.words import size_in_words
from orchestrator.core.schedule.disk_level import NEAR
from orchestrator.daemon.housekeeping.service import DiskReport


@dataclass(frozen=True, slots=True, kw_only=True)
class KindUsage:
    """What one kind of files takes, and what of it is due now and next."""

    kind: Kind
    size: int
    items: int
    due_size: int
    due_items: int
    next_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskUsage:
    """What the files of one task take, by their kind."""

    task: str
    title: str
    size: int
    kinds: Mapping[Kind, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUsage:
    """Everything added up; `tasks` are the largest ones, and `warning` says that free space is near the floor."""

    used: int
    due_size: int
    uncompressed: int
    kinds: tuple[KindUsage, ...]
    tasks: tuple[TaskUsage, ...]
    tasks_with_files: int
    warning: str


def usage(report: DiskReport, most_tasks: int, now: datetime) -> DiskUsage:
    """Return a report added up, with the largest tasks."""
    items = report.inventory.items
    by_task: dict[str, dict[Kind, int]] = defaultdict(dict)
    for item in items:
        if item.task:
            of_task = by_task[item.task]
            of_task[item.kind] = of_task.get(item.kind, 0) + item.size
    sizes = {task: sum(kinds.values()) for task, kinds in by_task.items()}
    largest = nlargest(most_tasks, sizes, key=lambda task: (sizes[task], task))
    kinds = (_kind(kind, [one for one in items if one.kind is kind], report, now) for kind in Kind)
    return DiskUsage(
        used=sum(item.size for item in items) + sum(size for _, size in report.inventory.others),
        due_size=report.plan.size,
        uncompressed=sum(item.plain_size for item in items),
        kinds=tuple(sorted(kinds, key=lambda one: -one.size)),
        tasks=tuple(
            TaskUsage(task=task, title=report.titles.get(task, ""), size=sizes[task], kinds=by_task[task])
            for task in largest
        ),
        tasks_with_files=len(by_task),
        warning=_warning(report),
    )


def _kind(kind: Kind, items: Sequence[Item], report: DiskReport, now: datetime) -> KindUsage:
    due = [one.item for one in report.plan.removals if one.action is Action.REMOVE and one.item.kind is kind]
    times = (at for item in items if (at := due_at(item, report.policy)) is not None and at > now)
    return KindUsage(
        kind=kind,
        size=sum(item.size for item in items),
        items=len(items),
        due_size=sum(item.size for item in due),
        due_items=len(due),
        next_at=min(times, default=None),
    )


def _warning(report: DiskReport) -> str:
    if report.free >= report.floor * NEAR:
        return ""
    frozen = "every agent is frozen" if report.free < report.floor else "agents are frozen below the floor"
    return f"only {size_in_words(report.free)} are free, the floor is {size_in_words(report.floor)}: {frozen}"
