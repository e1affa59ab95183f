"""When tasks stood still and why, as the simulation saw it, compared with what the morning reports say."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.integrations.notices.entries import Entry

KEPT = timedelta(days=25)
"""The journal in memory is that long, at least: what was decided before cannot be reported."""
PRECISION = 1.0
_FOREVER = datetime.max.replace(tzinfo=UTC)


@dataclass(slots=True)
class Stops:
    """Every stop of every task: its reason, its begin and its end; `checked` counts what reports said of them."""

    checked: int = 0
    _of: dict[str, list[tuple[str, datetime, datetime]]] = field(default_factory=dict)
    _known_since: dict[str, datetime] = field(default_factory=dict)

    def note(self, task: Task, at: datetime) -> None:
        """Take note of a task after a decision."""
        known, reason = self._of.setdefault(task.id, []), _reason(task)
        self._known_since.setdefault(task.id, at)
        if known and known[-1][2] == _FOREVER:
            if known[-1][0] == reason:
                return
            known[-1] = (known[-1][0], known[-1][1], at)
        if reason:
            known.append((reason, at, _FOREVER))

    def reasons(self, task: str) -> set[str]:
        """Return for what reasons a task has stood still."""
        return {reason for reason, _, _ in self._of.get(task, ())}

    def wrong(self, reports: list[Entry]) -> Iterator[str]:
        """Yield each stop that a report leaves out, or of which it says something else."""
        for entry in reports:
            report = entry.document.get("report")
            if not isinstance(report, Mapping):
                yield f"{entry.key} has no document"
                continue
            since, until = (datetime.fromisoformat(str(report[name])) for name in ("since", "until"))
            said = {(one["task"], one["reason"]): float(one["seconds"]) for one in report["stops"]}
            happened = self._between(since, until)
            self.checked += len(happened)
            for task, reason in said.keys() | happened.keys():
                one, other = said.get((task, reason)), happened.get((task, reason))
                if since - self._known_since[task] < KEPT and (
                    one is None or other is None or abs(one - other) > PRECISION
                ):
                    yield f"{entry.key} says of {task} {reason} {one} s, and it stood still {other} s"

    def _between(self, since: datetime, until: datetime) -> dict[tuple[str, str], float]:
        found: dict[tuple[str, str], float] = {}
        for task, stops in self._of.items():
            for reason, begin, end in stops:
                seconds = (min(end, until) - max(begin, since)).total_seconds()
                if begin < until and end > since:
                    found[task, reason] = found.get((task, reason), 0.0) + seconds
        return found


def _reason(task: Task) -> str:
    if task.status is TaskStatus.BLOCKED:
        return "blocked"
    if task.status.is_final or not task.is_paused:
        return ""
    return task.agent.blocked_by.value if task.agent.blocked_by else "slot"
