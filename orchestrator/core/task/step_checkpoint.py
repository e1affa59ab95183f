"""Where work on a step of the plan was broken off (seed 000, last_checkpoint)."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCheckpoint:
    """A note of an agent's, or one made from what lies uncommitted, for whoever goes on with the step."""

    at: datetime
    reason: str = ""
    work_in_progress: str = ""
    uncommitted_files: tuple[str, ...] = ()
