"""Intake: the daemon has written the ticket's files already, and the guards judge them."""

from typing import ClassVar

from orchestrator.core.decide.work.stage_work import StageWork
from orchestrator.core.task.progress import StageFacts


class IntakeWork(StageWork):
    """Accept the ticket, already filtered for secrets."""

    name = "intake"
    facts = StageFacts.TICKET
    takes_role = False
    shape: ClassVar[tuple[str, str, str]] = ("[/", "/]", "parallelogram")
