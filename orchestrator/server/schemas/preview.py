"""Schemas of what a submission would become."""

from orchestrator.core.task.task import Priority
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.core.task.ticket import TicketType
from orchestrator.server.schemas.base import View, Words
from orchestrator.server.schemas.daemon import PipelineView
from orchestrator.server.schemas.tasks import CheckView


class PreviewView(View):
    """What a submission would become now; `remarks` do not prevent it.

    What is null or empty is only known when it is submitted. `key` is empty where the task's id will be the key.
    """

    pipeline: PipelineView | None
    title: Words | None = None
    key: str = ""
    type: TicketType | None = None
    priority: Priority | None = None
    autonomy: Autonomy | None = None
    repo: str | None = None
    base_branch: str | None = None
    base_commit: str | None = None
    checks: tuple[CheckView, ...] = ()
    remarks: tuple[Words, ...]
