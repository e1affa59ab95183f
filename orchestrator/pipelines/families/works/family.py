"""The family of works, as the engine sees it."""

from types import MappingProxyType

from orchestrator.core.family.family import Family
from orchestrator.pipelines.families.works.beginning import begin
from orchestrator.pipelines.families.works.callbacks import compose_callbacks
from orchestrator.pipelines.families.works.dispatching import brief, prepare
from orchestrator.pipelines.families.works.documents.names import PLAN, REQUIREMENT
from orchestrator.pipelines.families.works.guards import CommitSubject, PlannedIfSmall, ProgressCompleted, WorkIsSmall
from orchestrator.pipelines.families.works.projection import WorkProjection
from orchestrator.pipelines.families.works.reading import examine, read_children, read_verdict
from orchestrator.pipelines.families.works.recording import records

WORKS = Family(
    name="works",
    guards=MappingProxyType(
        {
            "work_is_small": WorkIsSmall,
            "planned_if_small": PlannedIfSmall,
            "progress_completed": ProgressCompleted,
            "commit_subject": CommitSubject,
        }
    ),
    analysis=REQUIREMENT,
    given=(REQUIREMENT, PLAN),
    begin=begin,
    read_children=read_children,
    read_verdict=read_verdict,
    examine=examine,
    prepare=prepare,
    brief=brief,
    records=records,
    projection=WorkProjection(),
    callbacks=compose_callbacks,
)
