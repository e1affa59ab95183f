"""Build a folder aside and rename it into place; remove one whatever its permissions are."""

from collections.abc import Callable
from pathlib import Path

from orchestrator.formats.disk.trees import remove_tree


def build_aside(place: Path, fill: Callable[[Path], None]) -> None:
    """Fill a new folder aside, then rename it into place."""
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    aside = place.with_name(f".{place.name}.new")
    erase(aside)
    aside.mkdir(mode=0o700)
    fill(aside)
    aside.rename(place)


def erase(folder: Path) -> None:
    """Remove a folder, also one with read-only folders in it; while it is removed it has another name."""
    gone = folder.with_name(f".{folder.name}.gone")
    for doomed in (gone, folder):
        if doomed.is_symlink():
            doomed.unlink()
        elif doomed.exists():
            doomed.rename(gone)
            remove_tree(gone)
