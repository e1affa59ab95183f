"""The policy of a task: its times, caps and permissions, fixed when the task is submitted.

A change of the settings applies to tasks that are submitted later, not to those that exist.
"""

from dataclasses import dataclass
from enum import StrEnum

from orchestrator.core.task.budget import NO_CAPS, Caps


class Autonomy(StrEnum):
    """Who answers what an agent asks: a person, or the policy alone."""

    INTERACTIVE = "interactive"
    AUTO = "auto"


class OnBlocked(StrEnum):
    """What happens when every try is used up: a person has to look, one smaller attempt is made, or the task fails."""

    HALT = "halt"
    ESCALATE = "escalate"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPolicy:
    """How a task is run. Times are in seconds.

    `impl_model` and `planning_model` replace the models of these tiers. `look_every` is the interval between checks of
    an open pull request, 0 for none; with `follow_reviews` the agent handles comments without a person's request.

    `auto_resume` says whether the task resumes by itself after a usage limit, and `latest_resume` how long it may wait
    for that; `usd_after_limit` is what it may spend after its first usage limit.
    """

    autonomy: Autonomy = Autonomy.AUTO
    turn_timeout: float = 3600.0
    retry_delay: float = 10.0
    limit_margin: float = 30.0
    park_after: float = 1800.0
    question_timeout: float = 1800.0
    reminders: tuple[float, ...] = (1800.0, 86_400.0, 172_800.0, 259_200.0, 604_800.0)
    auto_resume: bool = True
    latest_resume: float | None = None
    usd_after_limit: float | None = None
    caps: Caps = NO_CAPS
    on_blocked: OnBlocked = OnBlocked.HALT
    auto_merge: bool = False
    approvals: int = 1
    look_every: float = 0.0
    follow_reviews: bool = False
    impl_model: str | None = None
    planning_model: str | None = None


DEFAULT_POLICY = TaskPolicy()
