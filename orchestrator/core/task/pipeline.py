"""A pipeline: the declared state machine that a task walks through, and the closed vocabulary it is declared in.

A stage says what kind of work is done in it, who does it, what may be left behind, and which guards must hold before
the task goes on to `next`. A failed stage goes back by `on_fail` while the budget it names lasts. Here are the words;
`pipeline_file` reads them, `pipeline_rules` says which of them fit together, `guards` evaluates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from orchestrator.core.task.guards import Guard
from orchestrator.core.task.publication import Publish


class Work(StrEnum):
    """What is done in a stage."""

    INTAKE = "intake"
    """The ticket is taken in, already filtered for secrets."""
    AGENT = "agent"
    """One role leaves artifacts."""
    STEPS = "steps"
    """A role works through the steps of a plan, one commit or more for each."""
    CHECKS = "checks"
    """The daemon runs the checks; the role, if any, explains what failed."""
    DELIVER = "deliver"
    """The finished branch is brought to the user's repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A node of a pipeline; `line` is where its file declares it."""

    name: str
    work: Work
    role: str | None = None
    artifacts: tuple[str, ...] = ()
    """Names, with `*` for any run of characters, that an agent may leave; all else in its outbox is refused."""
    guards: tuple[Guard, ...] = ()
    """What must hold to leave the stage by `next`."""
    next: str | None = None
    on_fail: str | None = None
    budget: str | None = None
    """What one way back by `on_fail` is counted against."""
    plan: str | None = None
    """The artifact whose `## Step` headings are worked through (only for `Work.STEPS`)."""
    publish: Publish = Publish.BRANCH
    """What is made of the work (only for `Work.DELIVER`)."""
    mode: str | None = None
    """What its agent is told to be doing; without one, fresh, bugfix or review_cycle, as the case is."""
    review: bool = False
    """Whether somebody has to approve what it came to before the task goes on."""
    line: int = field(default=0, compare=False)


REVISIONS = "design_revisions"
"""The budget that counts the designs which their own review rejected."""
ENGINE_BUDGETS: Mapping[str, int] = MappingProxyType(
    {"gate_retries": 2, "agent_retries": 2, "reworks": 10, "escalations": 1}
)
"""Budgets every pipeline has: how often a closed gate goes back to its agent, a lost agent is started again, a
person asks for changes, and one last pass is made when every cycle is used up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What only the pipelines of one family share, as data for an engine that knows none of them by name."""

    name: str
    guards: Mapping[str, type[Guard]] = field(default_factory=dict)
    """Guards of its own, by the names that its pipeline files use."""


PLAIN = Family(name="plain")
"""A family that knows nothing of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A state machine that was checked when it was read; stages stand in the order of their file."""

    name: str
    description: str
    start: str
    stages: Mapping[str, Stage]
    budgets: Mapping[str, int]
    """Tries allowed beyond the first, by name."""
    branch: str
    """Template of the branch name; may use {ticket}, {task} and {type}."""
    family: Family = PLAIN
    source: str = field(default="", compare=False)
    text: str = field(default="", compare=False, repr=False)
    """Its declaration as it was read, from which a task keeps a copy of its own."""

    def stage(self, name: str) -> Stage:
        """The stage of that name; KeyError if the pipeline has none."""
        return self.stages[name]

    @property
    def roles(self) -> tuple[str, ...]:
        """Every role that plays in it, once, in the order of the stages."""
        return tuple(dict.fromkeys(stage.role for stage in self.stages.values() if stage.role))
