"""How a work is carried out, decided from its requirement and its plan alone."""

from orchestrator.pipelines.families.works.documents.names import Mode
from orchestrator.pipelines.families.works.documents.requirement import Requirement

MOST_DEMANDS = 2
MOST_CRITERIA = 5
LONGEST_CRITERION = 200
"""A small work has at most so many functional requirements and criteria, and no criterion is longer."""


def is_small(requirement: Requirement) -> bool:
    """Return whether the specifier plans the work itself, as one task: it has one or two functional requirements, no
    other ones, and simple criteria.
    """
    return (
        1 <= len(requirement.functional) <= MOST_DEMANDS
        and not requirement.non_functional
        and len(requirement.criteria) <= MOST_CRITERIA
        and all(len(text) <= LONGEST_CRITERION for text in requirement.criteria)
    )


def mode_of(requirement: Requirement, tasks: int) -> Mode:
    """Return the mode of a work whose plan has so many tasks; only a small work of one task is direct."""
    if tasks != 1:
        return Mode.FULL
    return Mode.DIRECT if is_small(requirement) else Mode.PIPELINE


def planner_mode(tasks: int) -> Mode:
    """Return the mode that a planner chooses: it never works without a verifier."""
    return Mode.PIPELINE if tasks == 1 else Mode.FULL
