"""Whether the disk has room for what is to be done, judged by what earlier tasks took."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.inspection.doctor_checks import DoctorFinding, Level
from orchestrator.formats.files import parsed, read_file
from orchestrator.formats.units import size
from orchestrator.settings.settings import Settings

MOST_READ, MOST_MEASURED, MOST_FILES = 500, 20, 20_000
"""How many of the newest tasks are looked at, how many ended ones are measured, and how many files of each."""
TASKS, WORKTREES = "tasks", "worktrees"
_OVER = frozenset(status.value for status in TaskStatus if status.is_final) | {TaskStatus.ARCHIVED.value}


@dataclass(frozen=True, slots=True)
class _Known:
    """What the newest tasks show: how many are not over, and what those took that are, in bytes."""

    live: int
    sizes: tuple[int, ...]


def check_space_for_night(settings: Settings) -> Iterator[DoctorFinding]:
    """Check that the tasks that are not over fit on the disk; nothing can be said before some have ended."""
    known = _look_at(settings.data_dir)
    if not known.sizes or not known.live:
        return
    each = max(sum(known.sizes) // len(known.sizes), sorted(known.sizes)[len(known.sizes) * 3 // 4])
    wanted = each * known.live
    room = shutil.disk_usage(settings.data_dir).free - int(settings.free_space_floor)
    text = (
        f"{known.live} tasks to do may take {size(wanted)}, as the last {len(known.sizes)} took {size(each)} each; "
        f"{size(max(room, 0))} are free above the floor"
    )
    if wanted <= room:
        yield DoctorFinding(name="night's disk", level=Level.OK, text=text)
        return
    mend = f"du -xh --max-depth=2 {quote(str(settings.data_dir))} | sort -h | tail"
    yield DoctorFinding(name="night's disk", level=Level.WARN, text=text, mend=mend)


def _look_at(data_dir: Path) -> _Known:
    try:
        with os.scandir(data_dir / TASKS) as found:
            folders = [one for one in found if one.is_dir(follow_symlinks=False)]
    except OSError:
        return _Known(0, ())
    newest = sorted(folders, key=lambda one: one.stat(follow_symlinks=False).st_mtime, reverse=True)[:MOST_READ]
    live, sizes = 0, list[int]()
    for one in newest:
        status = (parsed(read_file(Path(one.path) / "state.json") or b"") or {}).get("status")
        if status in _OVER:
            if len(sizes) < MOST_MEASURED:
                sizes.append(_bytes_below(Path(one.path)) + _bytes_below(data_dir / WORKTREES / one.name))
        elif status is not None:
            live += 1
    return _Known(live, tuple(sizes))


def _bytes_below(folder: Path) -> int:
    """Return what the files of a folder take of the disk; of many files only of the first ones."""
    total = seen = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_blocks * 512  # noqa: PTH118 - for many files
            except OSError:
                continue
            seen += 1
            if seen >= MOST_FILES:
                return total
    return total
