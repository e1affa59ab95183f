"""Whether a copy of a repository can be used."""

from enum import StrEnum


class SourceState(StrEnum):
    """Whether a copy can be used."""

    FETCHING = "fetching"
    READY = "ready"
