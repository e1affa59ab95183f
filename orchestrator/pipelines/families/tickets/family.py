"""What the pipelines for tickets share: names of their stages and files that the engine must be told about."""

from types import MappingProxyType

from orchestrator.core.task.pipeline import Family
from orchestrator.pipelines.families.tickets.guards import TicketFiltered

TICKETS = Family(
    name="tickets",
    guards=MappingProxyType({"ticket_filtered": TicketFiltered}),
    analysis_file="failure-analysis.json",
    draft="design-v*.md",
    draft_review="design-changelog.md",
    plan_details="the newest design-v*.md",
)
