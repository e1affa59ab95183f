"""Schemas of the daemon's status and of what is declared."""

from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter
from typing import Annotated

from pydantic import BeforeValidator

from orchestrator.core.task.agent import ProcessState
from orchestrator.core.task.task import TaskStatus
from orchestrator.server.schemas.base import View, Words
from orchestrator.server.schemas.limits import RunWindowView, WaitView
from orchestrator.server.schemas.tasks import CapsView, SpentView, TaskLine


class RunningView(View):
    """An agent or check that has a process now; CPU in seconds since its start, memory in bytes.

    `cgroup` is the path of its own control group, empty if it has none.
    """

    task: str
    title: Words
    stage: str
    role: str | None
    attempt: int
    process: ProcessState
    pid: int | None
    cpu_seconds: float | None
    rss_bytes: int | None
    cgroup: str
    tokens_used: int
    cost_usd: float


class SharedBudgetView(View):
    """The caps of a parent, and what it and its children have used."""

    parent: str
    caps: CapsView
    spent: SpentView


class DoctorBriefView(View):
    """How many problems the last examination found: bad ones would stop the night, others are worth knowing."""

    checked_at: datetime
    bad: int
    warn: int


class StatusView(View):
    """The daemon's status: `health` is ok, draining, pressure, paused, account or installation.

    Sizes are in bytes, times in seconds. `trouble` says why agents cannot work. `queue` waits for a slot, `standing` is
    paused for another reason; `places` are the slots for tasks, `unreadable` has the reason for each task about which
    nothing can be decided. `isolation` is bubblewrap, or says why runs are without it. `budgets` are those that parents
    share with live children. `intake` says why sources of work bring none, `deadChannels` why channels of notices do
    not work, and since when, `brokenParts` which parts of the daemon fail and are begun again; `runWindows` are the
    hours that the settings give tasks, `waits` counts the tasks that wait by what they wait for, `doctor` is what the
    last examination found: null before the first.
    """

    health: str
    pid: int
    version: str
    started_at: datetime
    uptime_seconds: float
    data_dir: str
    socket: str
    isolation: str
    places: int
    places_taken: int
    pressure: str | None
    paused_by: str | None
    trouble: str | None
    free_bytes: int
    free_space_floor: int
    decisions: int
    counts: Mapping[TaskStatus, int]
    queue: tuple[TaskLine, ...]
    standing: tuple[TaskLine, ...]
    unreadable: Mapping[str, Words]
    dead_channels: Mapping[str, Words]
    broken_parts: Mapping[str, Words]
    running: tuple[RunningView, ...]
    budgets: tuple[SharedBudgetView, ...]
    intake: tuple[Words, ...]
    run_windows: tuple[RunWindowView, ...] = ()
    waits: tuple[WaitView, ...] = ()
    doctor: DoctorBriefView | None = None


class PipelineStageView(View):
    """A node of a pipeline."""

    name: str
    work: Annotated[str, BeforeValidator(attrgetter("name"))]
    role: str | None
    next: str | None
    on_fail: str | None
    budget: str | None
    artifacts: tuple[str, ...]


class PipelineView(View):
    """A pipeline as it is declared now."""

    name: str
    description: str
    start: str
    stages: tuple[PipelineStageView, ...]
    budgets: Mapping[str, int]
    source: str


class PipelineList(View):
    """Every pipeline, by name."""

    pipelines: tuple[PipelineView, ...]


class RoleView(View):
    """A role as it is declared now, without its prompt."""

    name: str
    description: str
    model: str | None
    permission_mode: str | None
    tools: tuple[str, ...]
    source: str


class RoleList(View):
    """Every role, by name."""

    roles: tuple[RoleView, ...]
