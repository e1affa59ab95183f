"""Metrics in Prometheus' text format: how the daemon is when asked, and what it has counted since its start.

Labels have few values: statuses, pipelines, usage windows. No metric names a task. help/metrics.md lists every metric.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from orchestrator import __version__
from orchestrator.core.schedule.trouble import TroubleKind
from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.inspection.attention import Attention, AttentionService
from orchestrator.daemon.inspection.doctor import DoctorService
from orchestrator.daemon.reporting.counted import OTHER, Counted, LoopLag
from orchestrator.daemon.services.limits import LimitService, LimitsReport
from orchestrator.daemon.services.status import DaemonStatus, StatusService

MOST_WINDOWS = 50
"""How many usage windows have series of their own."""
LONGEST_LABEL = 60
STATES = ("ok", "draining", "pressure", "paused", *TroubleKind)
"""What the daemon's health may be."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsService:
    """The use case of metrics."""

    status: StatusService
    limits: LimitService
    attention: AttentionService
    doctor: DoctorService
    redact: Callable[[str], str]
    counted: Counted = field(default_factory=Counted)
    lag: LoopLag = field(default_factory=LoopLag)

    async def scrape(self) -> bytes:
        """Return all metrics as they are now."""
        now, limits = await self.status.status(), self.limits.report()
        families = [
            *_of_daemon(now),
            *_of_tasks(now),
            *_of_people(self.attention.list()),
            *_of_runs(now, self.status.clock()),
            *_of_progress(now, self.counted, self.lag),
            *_of_limits(limits, self.redact),
            _gauge("orchestrator_doctor_findings", "What the last examination found.", "level", self.doctor.counts()),
            *_counted(self.counted, now.decisions),
        ]
        return await asyncio.to_thread(_exposed, families)


class _Collected(Collector):
    """Gives a registry metrics that were collected already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def _exposed(families: Iterable[Metric]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(families))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def _of_daemon(now: DaemonStatus) -> Iterator[Metric]:
    yield InfoMetricFamily("orchestrator", "The program.", {"version": __version__})
    health = dict.fromkeys(STATES, 0) | {now.health: 1}
    yield _gauge("orchestrator_health", "1 for the state that the daemon is in.", "state", health)
    yield _one("orchestrator_slots", "Slots for tasks.", now.capacity.places)
    yield _one("orchestrator_slots_taken", "Slots that are taken.", now.places_taken)
    yield _one("orchestrator_data_free_bytes", "Free space on the disk of the data folder.", now.free_bytes)
    floor = int(now.settings.free_space_floor)
    yield _one("orchestrator_data_free_floor_bytes", "Below this much free space every agent is frozen.", floor)
    under_pressure = int(now.capacity.pressure is not None)
    yield _one("orchestrator_pressure", "1 while the machine is short of disk, memory or processor.", under_pressure)


def _of_tasks(now: DaemonStatus) -> Iterator[Metric]:
    counts = {status.value: now.counts.get(status, 0) for status in TaskStatus}
    yield _gauge("orchestrator_tasks", "Tasks by status.", "status", counts)
    yield _one("orchestrator_queue_tasks", "Tasks that wait for a slot.", len(now.queue))
    reasons = Counter(task.agent.blocked_by.value if task.agent.blocked_by else OTHER for task in now.paused)
    yield _gauge("orchestrator_paused_tasks", "Paused tasks by what they wait for.", "reason", reasons)


def _of_people(waiting: Iterable[Attention]) -> Iterator[Metric]:
    """Yield what waits for a person; `waiting` has the oldest first."""
    counts, oldest = Counter[str](), dict[str, float]()
    for one in waiting:
        kind = one.request.kind.value if one.request else TaskStatus.BLOCKED.value
        counts[kind] += 1
        oldest.setdefault(kind, one.since.timestamp())
    yield _gauge("orchestrator_waiting_for_person", "What waits for a person, by kind.", "kind", counts)
    text = "Since when the oldest of them waits, by kind."
    yield _gauge("orchestrator_waiting_for_person_oldest_time_seconds", text, "kind", oldest)


def _of_progress(now: DaemonStatus, counted: Counted, lag: LoopLag) -> Iterator[Metric]:
    heard = (one.task.agent.last_update for one in now.running)
    newest = max(filter(None, (now.started_at, counted.progress_at, *heard)))
    text = "When something last went on: a decision was made, or an agent was heard of."
    yield _one("orchestrator_last_progress_time_seconds", text, newest.timestamp())
    yield _one("orchestrator_loop_lag_seconds", "How late the event loop ran at worst, in the last minute.", lag.worst)
    for family in counted.commits.collect():
        family.samples = [one for one in family.samples if not one.name.endswith("_created")]
        yield family


def _of_runs(now: DaemonStatus, at: datetime) -> Iterator[Metric]:
    agents = [one for one in now.running if one.task.run is not None and one.task.run.is_of_agent]
    used = [one.usage for one in now.running if one.usage is not None]
    yield _one("orchestrator_agents_running", "Agents that have a process.", len(agents))
    yield _one("orchestrator_checks_running", "Checks that have a process.", len(now.running) - len(agents))
    seconds = sum(one.cpu_seconds for one in used)
    yield _one("orchestrator_runs_cpu_seconds", "Processor time of all runs alive, since each began.", seconds)
    memory = sum(one.rss_bytes for one in used)
    yield _one("orchestrator_runs_memory_bytes", "Resident memory of all runs alive.", memory)
    saved = [one.task.agent.last_saved or one.task.timing.started_at or at for one in agents]
    age = max(((at - one).total_seconds() for one in saved), default=0.0)
    yield _one("orchestrator_checkpoint_age_seconds", "Age of the oldest newest checkpoint of running agents.", age)


def _of_limits(limits: LimitsReport, redact: Callable[[str], str]) -> Iterator[Metric]:
    windows = {redact(name)[:LONGEST_LABEL]: one for name, one in sorted(limits.windows.items())[:MOST_WINDOWS]}
    used = {name: one.utilization for name, one in windows.items() if one.utilization is not None}
    yield _gauge("orchestrator_limit_window_used_ratio", "How much of a usage window is used.", "window", used)
    resets = {name: one.resets_at.timestamp() for name, one in windows.items() if one.resets_at is not None}
    yield _gauge("orchestrator_limit_window_reset_time_seconds", "When a usage window resets.", "window", resets)
    yield _one("orchestrator_limits_active", "Usage windows that are used up.", len(limits.active))
    yield _one("orchestrator_day_cost_dollars", "What was spent today (UTC).", limits.spent_today.usd)
    cap = limits.snapshot.capacity.day.usd
    yield _gauge("orchestrator_day_cost_limit_dollars", "The day's budget.", "", {} if cap is None else {"": cap})


def _counted(counted: Counted, decisions: int) -> Iterator[Metric]:
    yield CounterMetricFamily("orchestrator_decisions", "Decisions since the daemon's start.", decisions)
    ended = {status.value: count for status, count in counted.ended.items()}
    yield _counter("orchestrator_tasks_ended", "Tasks that ended or were blocked, by status.", "status", ended)
    spent = counted.spent
    cost = {name: one.usd for name, one in spent.items()}
    yield _counter("orchestrator_cost_dollars", "What agents cost, by pipeline.", "pipeline", cost)
    tokens = {name: one.tokens for name, one in spent.items()}
    yield _counter("orchestrator_tokens", "Tokens that agents used, by pipeline.", "pipeline", tokens)
    turns = {name: one.turns for name, one in spent.items()}
    yield _counter("orchestrator_turns", "Turns of agents, by pipeline.", "pipeline", turns)
    seconds = {name: one.seconds for name, one in spent.items()}
    yield _counter("orchestrator_work_seconds", "Time that agents worked, by pipeline.", "pipeline", seconds)
    yield _counter("orchestrator_notices", "Notices to people, by outcome.", "outcome", counted.notices)


def _one(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value)


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label] if label else [])
    for key, value in values.items():
        family.add_metric([key] if label else [], value)
    return family


def _counter(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
