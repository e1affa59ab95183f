"""What the tools return where the API's own views hold more than an assistant can use."""

from collections.abc import Mapping
from datetime import datetime

from orchestrator.core.task.task import NextAction, TaskStatus
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.server.schemas.base import View, Words
from orchestrator.server.schemas.tasks import (
    AgentView,
    CapsView,
    CheckResultView,
    ChildView,
    FailuresView,
    PublicationView,
    SpentView,
    StepView,
)
from orchestrator.server.schemas.user_requests import RequestView


class TaskSummary(View):
    """One task: where it is, what waits for a person, what was done and what it cost.

    `allowed` is what may be done with it; `closing` is the final message, once only a person can move it.
    """

    id: str
    title: Words
    status: TaskStatus
    block_reason: Words | None
    stage: str
    next_action: NextAction
    progress: int
    paused: bool
    allowed: tuple[str, ...]
    waiting: tuple[RequestView, ...]
    pipeline: str
    autonomy: Autonomy
    repo: str
    branch: str
    head: str | None
    worktree: str | None
    parent: str | None
    children: tuple[ChildView, ...]
    agent: AgentView
    steps: tuple[StepView, ...]
    results: Mapping[str, CheckResultView]
    failures: FailuresView
    publication: PublicationView
    caps: CapsView
    spent: SpentView
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    closing: Words | None
