"""What a caller may ask: each scope includes those before it."""

from enum import StrEnum


class Scope(StrEnum):
    """How much a caller may ask of the daemon."""

    VIEW = "view"
    """Read."""
    OPERATE = "operate"
    """Also submit, answer and move tasks."""
    ADMIN = "admin"
    """Also say who else may ask, and what cannot be undone."""

    def includes(self, other: "Scope") -> bool:
        """Return whether who has this scope may ask what needs the other."""
        order = tuple(Scope)
        return order.index(self) >= order.index(other)
