"""What can be asked of several tasks by name, and of how many at once."""

from enum import StrEnum

MOST_NAMES = 500
"""How many tasks may be named at once."""


class Verb(StrEnum):
    """What can be asked of several tasks by name."""

    APPROVE = "approve"
    ARCHIVE = "archive"
    CANCEL = "cancel"
    CHANGE = "change"
    DELETE = "delete"
    EXECUTE = "execute"
    PAUSE = "pause"
    RESUME = "resume"
    RETRY = "retry"
    REVIEW = "review"
    START = "start"
    SUBMIT = "submit"
