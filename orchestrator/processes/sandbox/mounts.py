"""What a sandboxed run sees of the machine: the paths that differ for it. Everything else is there, read-only.

A deeper path wins over the folders above it, so a worktree can be writable inside a data folder that is hidden. For the
same path, whoever names it last wins.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Access(StrEnum):
    """What a run may do with a path and everything below it."""

    HIDDEN = "hidden"  # it is empty and read-only
    PRIVATE = "private"  # it is empty at the start, writable, and gone at the end
    READABLE = "readable"
    WRITABLE = "writable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """An existing path without links, and what a run may do with it."""

    path: Path
    access: Access
    is_folder: bool = True


Rules = Iterable[tuple[Path, Access]]
"""Paths and what a run may do with them; a later rule for the same path wins."""


def rules(access: Access, paths: Iterable[Path]) -> list[tuple[Path, Access]]:
    """Return the rules that give all these paths the same access."""
    return [(path, access) for path in paths]


def mounts_of(wanted: Rules) -> tuple[Mount, ...]:
    """Return the mounts that make these rules true on this machine, in the order in which they must be made.

    Links are followed, and what does not exist is left out: it cannot be mounted over. So is what already is as it
    should be, because of the folder above it: each mount takes time.
    """
    found: dict[Path, Mount] = {}
    for path, access in wanted:
        try:
            real = path.resolve(strict=True)
            is_folder = real.is_dir()
        except (OSError, RuntimeError):  # missing, unreadable, or a circle of links
            continue
        if is_folder or access is not Access.PRIVATE:
            found[real] = Mount(path=real, access=access, is_folder=is_folder)
    needed = [mount for mount in found.values() if not _is_as_above(mount, found)]
    return tuple(sorted(needed, key=lambda mount: mount.path.parts))


def _is_as_above(mount: Mount, found: Mapping[Path, Mount]) -> bool:
    """Return whether the nearest mount above gives the same access; the whole machine is readable."""
    above = next((found[folder].access for folder in mount.path.parents if folder in found), Access.READABLE)
    return mount.access in (Access.READABLE, Access.WRITABLE) and mount.access is above
