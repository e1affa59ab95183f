"""A family of tasks at one instant: how far the journal of each went, and where the refs of each pointed.

A child's journal says that its commit is on its parent's branch, and the parent's that the child has ended; a sibling
began from both. So the parts of a family that are copied one after the other contradict each other: a parent's branch
that was read before a child's journal lacks the commit of a child that is complete, and nobody would ever miss it.

Journals only grow, and a ref is moved before the line that relies on it. So everything is read, and the lengths of the
journals are looked at again: if none has grown, what was read was true at one instant, up to a command under way. What
is then copied of the journals, however late, ends there.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.formats.files import read_file
from orchestrator.storage.backup.contents import REPOS, TASKS, is_left_out
from orchestrator.storage.backup.cut import Cut, cut_of
from orchestrator.storage.state_file import NAME as STATE
from orchestrator.storage.task_files import AGENTS

LOOKS = 20
"""How often a family is read whose journals grow meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refs:
    """The refs of a task: the folder of the clone, the folders below it and the files, by names in the data folder.

    Without a `clone`, the task has none yet.
    """

    clone: str = ""
    folders: tuple[str, ...] = ()
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """The journals and refs of a family's tasks, by their ids, parents before their children.

    `is_whole` says that all of it was true at once. Otherwise each was read before what it relies on.
    """

    cuts: Mapping[str, Cut]
    refs: Mapping[str, Refs]
    is_whole: bool


def families_of(data_dir: Path) -> dict[str, list[str]]:
    """Return the ids of all tasks by that of the oldest of their family, parents before their children."""
    try:
        with os.scandir(data_dir / TASKS) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return {}
    families, known = dict[str, list[str]](), set(names)
    for name in names:
        families.setdefault(_oldest(name, known), []).append(name)
    return families


def _oldest(name: str, known: set[str]) -> str:
    parts = name.split(".")
    above = (".".join(parts[:count]) for count in range(1, len(parts)))
    return next((one for one in above if one in known), name)


def instant_of(data_dir: Path, family: str, listed: Sequence[str]) -> Instant:
    """Return a family at one instant, or as it was read last if its journals grew all the time.

    `listed` are its tasks as they were known before; it is listed again only while one of them is alive, as nothing
    else makes more. A child without a journal is left out: its parent still has to make it. Raises OSError.
    """
    for _ in range(LOOKS):
        found = {task: cut_of(data_dir / TASKS / task) for task in _relying_first(listed)}
        tasks = [task for task in sorted(found) if not _is_being_made(data_dir, task, found)]
        refs = {task: refs_of(data_dir, task) for task in reversed(tasks)}
        now = listed if all(cut.is_ended for cut in found.values()) else families_of(data_dir).get(family, [])
        is_whole = now == listed and not grown(data_dir, found)
        if is_whole:
            break
        listed = now
    return Instant(cuts={task: found[task] for task in tasks}, refs=refs, is_whole=is_whole)


def grown(data_dir: Path, cuts: Mapping[str, Cut]) -> list[str]:
    """Return the tasks whose journals have changed since they were looked at."""
    return [task for task, cut in cuts.items() if cut_of(data_dir / TASKS / task) != cut]


def _relying_first(tasks: Iterable[str]) -> list[str]:
    """Return parents before their children, and of these the later ones first, which may have waited for others."""
    return sorted(sorted(tasks, reverse=True), key=lambda task: task.count("."))


def _is_being_made(data_dir: Path, task: str, family: Mapping[str, Cut]) -> bool:
    """Return whether a child has no decision and nothing that comes after one."""
    has_parent = task.rpartition(".")[0] in family
    after = (data_dir / TASKS / task / name for name in (STATE, AGENTS))
    return has_parent and not family[task].size and not any(path.exists() for path in after)


def refs_of(data_dir: Path, task_id: str) -> Refs:
    """Return the refs of a task. Raises OSError.

    `joined` is read before `head`, which takes over what is there before that one is removed.
    """
    try:
        clone = (data_dir / REPOS / TASKS / task_id).readlink().name
    except OSError:
        return Refs(files={})
    folders, files = list[str](), dict[str, bytes]()
    for folder, _, names in os.walk(data_dir / REPOS / clone / "refs/orchestrator" / task_id):
        within = os.path.relpath(folder, data_dir)
        folders.append(within)
        for name in (f"{within}/{one}" for one in sorted(names, reverse=True) if not is_left_out(f"{within}/{one}")):
            if content := read_file(data_dir / name):
                files[name] = content
    return Refs(clone=clone, folders=tuple(sorted(folders)), files=files)
