"""Which model a task's next turn uses: found once for all tasks that are alike, anew when what decides it changes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.formats.table import definition_error
from orchestrator.pipelines.definitions import UnknownRole
from orchestrator.pipelines.role import Role, Tier
from orchestrator.wiring.launching import ModelsOfTasks
from tests.fakes.tasks import full_pipeline, submitted

STAGE = "ANALYSIS"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Every role wants the deep tier."""

    role: Callable[[str], Role] = lambda name: Role(name=name, description="", prompt="", tier=Tier.DEEP)
    tiers: Mapping[Tier, str] = field(default_factory=lambda: {Tier.DEEP: "opus"})
    model: str = "sonnet"


class Site:
    """Pipelines that count how often they are read; those of some tasks are lost."""

    def __init__(self) -> None:
        self.read = list[str]()
        self.lost = set[str]()
        self.definitions, self.choice = object(), Choice()
        self.models = ModelsOfTasks(self.pipeline_of, lambda: self.definitions, lambda: self.choice)

    def pipeline_of(self, task: Task) -> Pipeline:
        self.read.append(task.id)
        if task.id in self.lost:
            raise definition_error(task.id, "gone")
        return full_pipeline()


def a_task(number: int, digest: str = "d") -> Task:
    return submitted(f"T-{number}", stage=STAGE, pipeline_digest=digest)


def test_a_pipeline_is_read_once_for_all_tasks_that_share_it() -> None:
    site = Site()
    assert {site.models.model_of(a_task(number)) for number in range(1000)} == {"opus"}
    assert site.read == ["T-0"]
    assert site.models.model_of(a_task(1, digest="another")) == "opus"
    own = replace(a_task(2), policy=replace(a_task(2).policy, planning_model="haiku"))
    assert site.models.model_of(own) == "haiku"
    assert site.read == ["T-0", "T-1", "T-2"]


def test_tasks_of_earlier_versions_without_a_digest_are_asked_one_by_one() -> None:
    site = Site()
    assert [site.models.model_of(a_task(number, digest="")) for number in (1, 2, 1)] == ["opus"] * 3
    assert site.read == ["T-1", "T-2"]


def test_changed_settings_and_definitions_count_at_once() -> None:
    site = Site()
    assert site.models.model_of(a_task(1)) == "opus"
    site.choice = Choice(tiers={})
    assert site.models.model_of(a_task(1)) == "sonnet"
    site.definitions = object()
    assert site.models.model_of(a_task(2)) == "sonnet"
    assert site.read == ["T-1", "T-1", "T-2"]


def test_a_lost_pipeline_or_role_names_no_model_and_spoils_no_other_task() -> None:
    site = Site()
    site.lost.add("T-1")
    assert [site.models.model_of(a_task(number)) for number in (1, 2, 1)] == ["", "opus", "opus"]

    def unknown(_: str) -> Role:
        raise UnknownRole("gone")

    site.choice = Choice(role=unknown)
    assert [site.models.model_of(a_task(number)) for number in (1, 2, 3)] == ["", "", ""]
    assert site.read.count("T-3") == 0
