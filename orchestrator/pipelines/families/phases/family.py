"""What the pipelines of phased tasks share: how one begins, and what its agents are told about their phase."""

from types import MappingProxyType

from orchestrator.core.family.family import Begun, Family, Files, Submitted
from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.pipelines.families.phases.criteria import criteria_of
from orchestrator.pipelines.families.phases.guards import TriggerNamed
from orchestrator.pipelines.families.phases.preflight import require_sources

MODIFIES = "modify_app"
"""The pipeline that needs something to modify."""


def begin(submitted: Submitted, files: Files) -> Begun:
    """Ask people for approvals unless the submission says otherwise. Raises ValueError if there is no work."""
    if submitted.pipeline == MODIFIES:
        require_sources(files)
    return Begun(autonomy=Autonomy.INTERACTIVE)


def brief(task: Task, stage: str) -> str:
    """Return in which phase the task is, and what its verifier judges."""
    phase = task.stages[stage].phase
    where = f"This is phase {phase} of {task.total_phases}." if phase is not None else ""
    return "\n\n".join(filter(None, (where, criteria_of(stage))))


PHASES = Family(name="phases", guards=MappingProxyType({"trigger_named": TriggerNamed}), begin=begin, brief=brief)
