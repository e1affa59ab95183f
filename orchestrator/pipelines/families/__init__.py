"""Families of pipelines, one folder each.

Only a family knows the names of its stages, its file formats and guards of its own. Families do not know each other.
"""

from orchestrator.core.family.family import Family
from orchestrator.pipelines.families.issues.family import ISSUES
from orchestrator.pipelines.families.phases.family import PHASES
from orchestrator.pipelines.families.tickets.family import TICKETS
from orchestrator.pipelines.families.works.family import WORKS

FAMILIES: dict[str, Family] = {family.name: family for family in (TICKETS, WORKS, PHASES, ISSUES)}
"""Every family, by the name that a pipeline file may give as `family`."""
DEFAULT_FAMILY = TICKETS
"""The family of a pipeline file that names none."""
