"""How much room the disk of the data folder has, compared with the least that work needs."""

from enum import StrEnum

from orchestrator.core.schedule.pressure import MARGIN

NEAR = 1.5
"""Times the floor: with less free space it is low, old files are removed at once, and transcripts compressed early."""


class DiskLevel(StrEnum):
    """How the disk is: with room, low, or so full that no task goes on."""

    ENOUGH = "enough"
    LOW = "low"
    FULL = "full"

    def is_worse_than(self, other: "DiskLevel") -> bool:
        """Return whether there is less room than at another level."""
        order = list(DiskLevel)
        return order.index(self) > order.index(other)


def disk_level(free: int, floor: int, before: DiskLevel) -> DiskLevel:
    """Return the level for bytes that are free; it gets better only by a tenth more, as work goes on only then too."""
    for level, times in ((DiskLevel.FULL, 1.0), (DiskLevel.LOW, NEAR)):
        margin = 0.0 if level.is_worse_than(before) else MARGIN
        if free < floor * times * (1 + margin):
            return level
    return DiskLevel.ENOUGH
