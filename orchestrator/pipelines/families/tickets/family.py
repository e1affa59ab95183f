"""What the pipelines for tickets share: the names of stages and files that the engine must be told."""

from types import MappingProxyType

from orchestrator.core.family.family import Family, StateAlias

TICKETS = Family(
    name="tickets",
    aliases=MappingProxyType(
        {
            "READY_FOR_IMPL": StateAlias(stage="DESIGN"),
            "EVALUATION_PASS": StateAlias(stage="EVALUATION"),
            "EVALUATION_FAIL": StateAlias(stage="EVALUATION", failed=True),
        }
    ),
    analysis="analysis.md",
    related_code="related-code.json",
    release_summary="release-summary.md",
    failure_analysis="failure-analysis.json",
    plan_fix="plan-fix-*.md",
    draft="design-v*.md",
    draft_review="design-changelog.md",
    draft_budget="design_revisions",
    plan_details="the newest design-v*.md",
)
