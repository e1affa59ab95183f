"""Recording: the daemon puts files that the family composes on the branch, in one commit."""

from typing import ClassVar

from orchestrator.core.decide.work.stage_work import StageWork


class RecordWork(StageWork):
    """Go on from the commit that the daemon made when it looked at the stage."""

    name = "record"
    takes_role = False
    records = True
    commits = True
    shape: ClassVar[tuple[str, str, str]] = ("[/", "/]", "note")
