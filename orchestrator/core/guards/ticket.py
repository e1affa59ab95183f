"""The guard of a ticket as it was submitted."""

from dataclasses import dataclass, field

from orchestrator.core.task.guards import LOCAL_BYPASS, Evidence, Guard
from orchestrator.core.task.task import Task
from orchestrator.core.task.ticket import LOCAL

_ACCEPTABLE = ("CLEAN", "REDACTED", LOCAL_BYPASS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketFiltered(Guard):
    """The ticket was scanned for secrets, with one of the accepted results."""

    accept: tuple[str, ...] = field(default=_ACCEPTABLE, metadata={"choices": _ACCEPTABLE})

    def missing(self, task: Task, evidence: Evidence) -> tuple[str, ...]:
        """Return the result of the scan, if that keeps the ticket out."""
        del evidence
        check = task.ticket.sensitive_check
        if check is None:
            return ("the ticket was not checked for secrets",)
        result = f"the check of the ticket for secrets says {check.result}"
        if check.result not in self.accept:
            return (result,)
        if check.result == LOCAL_BYPASS and task.ticket.source != LOCAL:
            return (f"{result}, which is accepted for local tickets only",)
        return ()

    def describe(self) -> str:
        return f"the ticket is {' or '.join(self.accept)}"
