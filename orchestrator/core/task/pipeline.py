"""A pipeline: the declared state machine that a task walks through.

A stage says what kind of work is done in it, by which role, which files may be left, and which guards must hold before
the task goes on to `next`. A stage that fails goes back by `on_fail` while the budget that it names lasts.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

from orchestrator.core.family.family import PLAIN, Family
from orchestrator.core.task.children import OnChildFailure
from orchestrator.core.task.failures import Analysis
from orchestrator.core.task.guards import Evidence, Guard
from orchestrator.core.task.progress import StageFacts
from orchestrator.core.task.publication import Publish
from orchestrator.core.task.task import Task
from orchestrator.formats.codec import JsonObject


class Work(ABC):
    """A kind of work that stages do: how it begins, how its result is judged, and what follows from a failure.

    The state machine asks a stage's work and knows no kind by name. The kinds are in core/decide/work, one module each;
    pipeline files choose one with `work = "…"`.
    """

    name: ClassVar[str]
    """Its name in pipeline files."""
    is_done_by_agent: ClassVar[bool] = False
    """Whether an agent does it; otherwise the daemon does, though it may start an agent on the way."""
    needs_role: ClassVar[bool] = False
    takes_role: ClassVar[bool] = True
    has_steps: ClassVar[bool] = False
    """Whether the stage works through the steps of a plan."""
    commits: ClassVar[bool] = False
    """Whether its agent commits to the branch, so that a gate looks at commits and at the worktree."""
    judges_new_files_only: ClassVar[bool] = False
    """Whether guards see only the files that its agent has left since the last look."""
    verifies: ClassVar[bool] = False
    """Whether its agent judges what an earlier stage left."""
    has_children: ClassVar[bool] = False
    """Whether tasks of their own, which a plan names, do the work of the stage."""
    records: ClassVar[bool] = False
    """Whether the daemon puts files that the family composes on the branch."""
    publishes: ClassVar[bool] = False
    """Whether the stage publishes the work; only such a stage may be the last."""
    facts: ClassVar[StageFacts | None] = None
    """Which facts of the task state.json shows in the record of such a stage."""
    wanted_title: ClassVar[str] = ""
    """The heading of requested changes in a turn's text; empty if the agent does not get them."""
    shape: ClassVar[tuple[str, str, str]] = ("[", "]", "box")
    """How graphs draw the stage: Mermaid's brackets, and Graphviz's shape."""

    @abstractmethod
    def begin(self, pipeline: "Pipeline", task: Task, at: datetime) -> Task:
        """Return the task with the next action of its stage owed, when nothing of it is running."""

    @abstractmethod
    def judge(self, pipeline: "Pipeline", task: Task, evidence: Evidence, at: datetime) -> Task:
        """Return the task after the results of its stage were examined."""

    @abstractmethod
    def give_up(self, pipeline: "Pipeline", task: Task, reason: str, at: datetime) -> Task:
        """Return the task after its agent failed as often as the pipeline allows."""

    @abstractmethod
    def instructions(self, pipeline: "Pipeline", task: Task) -> str:
        """Return what an agent is told about the work itself, as one paragraph of its turn."""

    @abstractmethod
    def resume_point(self, pipeline: "Pipeline", task: Task, evidence: Evidence, at: datetime) -> JsonObject:
        """Return how much of the stage's work exists, for `state resume-point`."""

    def reason(self) -> str:
        """Return why an agent is started; empty if the kind of work alone does not tell."""
        return ""

    def enter(self, task: Task) -> Task:
        """Return the task as a new visit of the stage finds it."""
        return task

    def begin_turn(self, task: Task, at: datetime) -> Task:
        """Return the task as an agent's next turn finds it."""
        del at
        return task

    def unfinished(self, task: Task) -> tuple[str, ...]:
        """Return what else has to be done before the task can leave the stage, besides its guards."""
        del task
        return ()

    def under_review(self, task: Task) -> str:
        """Return the names of the files that a person reviews."""
        return ", ".join(task.stages[task.stage].artifacts)

    def record_failures(
        self, stage: "Stage", task: Task, cause: Analysis | None, back: str | None, at: datetime
    ) -> Task:
        """Return the task with what failed in the stage on record; `back` is the stage that it returns to, if any."""
        del stage, cause, back, at
        return task


class OnExhausted(StrEnum):
    """What follows when a stage failed and no way back is left: BLOCK the task, FAIL it, or ask a person for a REVIEW
    of the work as it is, where the task may ask.
    """

    BLOCK = "block"
    REVIEW = "review"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A way on that is taken if every one of its guards holds."""

    next: str
    when: tuple[Guard, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A node of a pipeline; `line` is where its file declares it."""

    name: str
    work: Work
    role: str | None = None
    artifacts: tuple[str, ...] = ()
    """Names of the files that an agent may leave, with `*` for any characters; others in its outbox are refused."""
    answer: str | None = None
    """The artifact that the agent's last message becomes if the agent leaves no file of that name."""
    documents: tuple[str, ...] = ()
    """Paths in the worktree that guards and reviews look at, with `*` for any characters of one name."""
    commits: bool = False
    """Whether its agent commits to the branch although the kind of work does not."""
    resume_session: bool = False
    """Whether its agent continues the session in which its role last worked, even if another role worked since."""
    guards: tuple[Guard, ...] = ()
    """What must hold to leave the stage by `next`."""
    next: str | None = None
    choices: tuple[Choice, ...] = ()
    """Ways on that take the place of `next`: the first one whose guards hold."""
    on_fail: str | None = None
    budget: str | None = None
    """The budget that each return by `on_fail` is counted against."""
    on_exhausted: OnExhausted = OnExhausted.BLOCK
    """What follows when the stage fails and the budget is used up."""
    plan: str | None = None
    """The artifact whose `## Step` headings are worked through (only where the work has steps)."""
    children: str | None = None
    """The artifact that names the children (only where the work has children)."""
    child_pipelines: tuple[str, ...] = ()
    """The pipelines that children may have, the usual one first (only where the work has children)."""
    on_child_failure: OnChildFailure = OnChildFailure.STOP
    """What a failed child means for the others (only where the work has children)."""
    publish: Publish = Publish.BRANCH
    """How the result is published (only where the work publishes)."""
    squash: bool = False
    """Whether the work comes home to the parent's branch as one commit, however many it took (only where the work is
    published there).
    """
    recheck: str | None = None
    """The stage that judges the work again after it was put on top of the parent's branch (only where the work
    publishes).
    """
    mode: str | None = None
    """The mode that its agent is told; without one it is fresh, bugfix or review_cycle, depending on the task."""
    phase: int | None = None
    """The number of the phase that the stage belongs to, if the pipeline has phases."""
    review: bool = False
    """Whether the result has to be approved before the task continues."""
    line: int = field(default=0, compare=False)

    @property
    def shows_branch(self) -> bool:
        """Whether its gate looks at commits and at the worktree."""
        return self.work.commits or self.commits or bool(self.documents)

    @property
    def ways_on(self) -> tuple[str, ...]:
        """The stages that may follow when the gate is passed."""
        return (*((self.next,) if self.next else ()), *(choice.next for choice in self.choices))


ENGINE_BUDGETS: Mapping[str, int] = MappingProxyType(
    {"gate_retries": 2, "agent_retries": 2, "reworks": 10, "escalations": 1}
)
"""Budgets of every pipeline: how often a closed gate goes back to its agent, a lost agent is started again, a person
asks for changes, and one last pass is made when every cycle is used up.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A state machine, checked when it was read; its stages are in the order of the file."""

    name: str
    description: str
    start: str
    stages: Mapping[str, Stage]
    budgets: Mapping[str, int]
    """Tries allowed beyond the first, by name."""
    branch: str
    """Template of the branch name; may use {ticket}, {task} and {type}."""
    family: Family = PLAIN
    new_repository: bool = False
    """Whether a submission may name an empty folder, of which a repository is made."""
    is_manual: bool = False
    """Whether people and other programs do the work, and state operations only record it: nothing is ever owed."""
    source: str = field(default="", compare=False)
    text: str = field(default="", compare=False, repr=False)
    """The text of its file; each task keeps a copy."""

    @property
    def plans(self) -> tuple[str, ...]:
        """The files whose steps are worked through."""
        return tuple(dict.fromkeys(stage.plan for stage in self.stages.values() if stage.plan))

    def stage(self, name: str) -> Stage:
        """Return the stage of that name. Raises KeyError."""
        return self.stages[name]

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of all stages, each once, in the order of the stages."""
        return tuple(dict.fromkeys(stage.role for stage in self.stages.values() if stage.role))
