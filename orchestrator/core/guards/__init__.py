"""Every kind of guard that pipelines of all families may use, one class each, and the table of their names.

To add a guard, write its class and name it in GUARDS. The class says everything: its fields are its keys in a pipeline
file and in the JSON schema, `missing` judges, `describe` labels graphs.
"""

from orchestrator.core.guards.budgets import BudgetLeft, BudgetWithin
from orchestrator.core.guards.children import ChildrenEnded, ChildrenPlanned
from orchestrator.core.guards.files import (
    FileExists,
    FileMinChars,
    FileSays,
    FilesMinChars,
    FilesValid,
    GlobCount,
    HeadingCount,
    JsonNonempty,
    NoPlaceholders,
)
from orchestrator.core.guards.results import ChecksAcceptable, CommitCount, StepsCommitted, StepsCompleted, TreeClean
from orchestrator.core.guards.ticket import TicketFiltered
from orchestrator.core.task.guards import Guard

GUARDS: dict[str, type[Guard]] = {
    "ticket_filtered": TicketFiltered,
    "file_exists": FileExists,
    "file_min_chars": FileMinChars,
    "heading_count": HeadingCount,
    "file_says": FileSays,
    "glob_count": GlobCount,
    "files_min_chars": FilesMinChars,
    "files_valid": FilesValid,
    "no_placeholders": NoPlaceholders,
    "json_nonempty": JsonNonempty,
    "budget_left": BudgetLeft,
    "budget_within": BudgetWithin,
    "steps_completed": StepsCompleted,
    "steps_committed": StepsCommitted,
    "commit_count": CommitCount,
    "tree_clean": TreeClean,
    "checks_acceptable": ChecksAcceptable,
    "children_planned": ChildrenPlanned,
    "children_ended": ChildrenEnded,
}
"""The class of each guard by the name that pipeline files use."""
