"""A guard that only phased tasks have: the requirements of a workflow name what starts it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from orchestrator.core.task.guards import Evidence, FileFacts, Guard
from orchestrator.core.task.task import Task

TRIGGERS = ("schedule", "webhook", "manual", "event")
"""What may start a workflow, as the original system calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerNamed(Guard):
    """A document has a line that says which trigger starts the workflow: `Trigger: schedule`."""

    file_keys: ClassVar[tuple[str, ...]] = ("file",)
    file: str

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return that the line was not found."""
        facts = evidence.files.get(task.fill(self.file))
        if facts is not None and set(self.sought()) & set(facts.found):
            return ()
        return (f"{self.file} has no line `Trigger: …` that names one of {', '.join(TRIGGERS)}",)

    def describe(self) -> str:
        return f"{self.file} names its trigger"

    def sought(self) -> tuple[str, ...]:
        """Return the lines, one of which must be there."""
        return tuple(f"Trigger: {trigger}" for trigger in TRIGGERS)

    def sample_files(self) -> Mapping[str, FileFacts]:
        """Return a file with such a line."""
        return {self.file: FileFacts(chars=1000, found=self.sought()[:1])}
