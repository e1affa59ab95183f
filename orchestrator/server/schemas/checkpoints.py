"""Schemas of checkpoints, and of what may be asked of one."""

from datetime import datetime

from pydantic import ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from orchestrator.core.task.agent import AgentStatus
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.task import TaskStatus
from orchestrator.server.schemas.base import RequestBody, Utf8, View, Words


class TaskThenView(View):
    """Where the task stood; `progress` in percent."""

    status: TaskStatus
    stage: str
    step: int | None
    progress: int


class AgentThenView(View):
    """The agent at that time, and what the task had used so far."""

    status: AgentStatus
    role: str | None
    attempt: int
    session_id: str | None
    turn: int
    tokens_used: int
    cost_usd: float


class SavedWorkView(View):
    """The worktree's head, a commit of what was uncommitted (null if nothing was), and how much that is."""

    head: str
    commit: str | None
    files: int
    added: int
    removed: int


class CheckpointView(View):
    """One checkpoint; `environment` has names only. Without `work` the worktree could not be read."""

    number: int
    at: datetime
    reason: Reason
    pinned: bool
    task: TaskThenView
    agent: AgentThenView
    work: SavedWorkView | None
    environment: tuple[Words, ...]
    artifacts: tuple[Words, ...]


class CheckpointList(View):
    """Every checkpoint of a task, newest first."""

    checkpoints: tuple[CheckpointView, ...]


EITHER: JsonDict = {
    "required": ["branch", "inPlace"],
    "properties": {"branch": {"type": "string"}, "inPlace": {"const": True}},
}
"""What `RestoreBody` does not take, as a schema."""


class RestoreBody(RequestBody):
    """Where to restore saved work: on a new branch of the user's repository, or in the worktree with `in_place`."""

    model_config = ConfigDict(json_schema_extra={"not": EITHER})

    branch: Utf8 | None = Field(default=None, min_length=1, max_length=200)
    in_place: bool = False

    @model_validator(mode="after")
    def _either(self) -> "RestoreBody":
        if self.in_place and self.branch is not None:
            raise ValueError("give either a branch or in_place, not both")
        return self


class PinBody(RequestBody):
    """Whether to keep a checkpoint permanently."""

    pinned: bool = True


class RestoredView(View):
    """Where restored work is: at `branch` and `commit`, or in the worktree, whose former files are in `kept_as`."""

    task: str
    number: int
    repo: str
    worktree: str | None
    branch: str | None = None
    commit: str | None = None
    kept_as: int | None = None


class RecoveredView(View):
    """A task that is worked on again: the file that its state was restored from, and the names of those set aside."""

    task: str
    status: TaskStatus
    stage: str
    source: str
    set_aside: tuple[str, ...]
