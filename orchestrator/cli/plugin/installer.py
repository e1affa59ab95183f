"""Write the plugin into a folder of Claude Code, bring it up to date, and remove it.

The folder's record lists the digest of every file that was written. A file that differs from all of them is the user's:
it is never overwritten and never removed. The record is written before the files, so that an installation which was
cut off half-way can be repeated.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from orchestrator import __version__
from orchestrator.agents.claude_folder import OUR_PLUGIN
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.fields import list_of, object_of, text_of
from orchestrator.formats.files import parsed, read_file, write_atomically

MANIFEST, RECORD = ".claude-plugin/plugin.json", ".orchestrator.json"
DIGEST_CHARS = 64


class NotOurs(OrchestratorError):
    """Something in the plugin's place was not written by this program, or has been changed since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The folder of the plugin, and the files in it that were written, removed, or left because they were changed."""

    folder: Path
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def plugin_files() -> dict[str, bytes]:
    """Return the files of the plugin by their paths in its folder."""
    manifest = {
        "name": OUR_PLUGIN,
        "version": __version__,
        "description": "Hand work to the orchestrator daemon, follow it, answer its agents and approve what they made.",
        "author": {"name": "orchestrator"},
        "license": "Apache-2.0",
        "keywords": ["daemon", "pipeline", "unattended"],
    }
    found = dict(_tree(files("orchestrator.cli.plugin") / "files", ""))
    return {MANIFEST: json.dumps(manifest, indent=2).encode() + b"\n", **found}


def install(base: Path, below: str) -> Outcome:
    """Write the plugin's files into a folder below `base`, which may be reached by links, unlike what is in it.

    Raises NotOurs before anything is written, and OSError.
    """
    folder = base / below
    wanted = plugin_files()
    _refuse_links(base, below, wanted)
    known = _record(folder)
    if known is None and folder.exists() and any(folder.iterdir()):
        raise NotOurs(f"{folder} was not written by `orchestrator plugin install`; move it away and try again")
    known = known or {}
    new = {name: (_digest(content),) for name, content in wanted.items()}
    both = {name: (*known.get(name, ()), *new[name]) for name in wanted}
    changed = [name for name in sorted(wanted) if _is_changed(folder / name, both[name])]
    if changed:
        where = ", ".join(str(folder / name) for name in changed)
        raise NotOurs(f"changed since it was installed: {where}; move it away and try again")
    stale = [name for name in known if name not in wanted]
    outdated = [name for name, content in wanted.items() if read_file(folder / name) != content]
    if outdated or stale:
        _write(folder / RECORD, _document({**known, **both}))
    for name in outdated:
        _write(folder / name, wanted[name])
    removed, left = _remove(folder, {name: known[name] for name in stale})
    if outdated or stale or known != new:
        _write(folder / RECORD, _document(new))
    return Outcome(folder=folder, written=tuple(sorted(outdated)), removed=removed, left=left)


def uninstall(base: Path, below: str) -> Outcome:
    """Remove what `install` has written, except for files that were changed since. Raises NotOurs and OSError."""
    folder = base / below
    _refuse_links(base, below, ())
    known = _record(folder)
    if known is None:
        raise NotOurs(f"there is no plugin of `orchestrator plugin install` in {folder}")
    _refuse_links(base, below, known)
    removed, left = _remove(folder, known)
    (folder / RECORD).unlink()
    _remove_empty(folder)
    return Outcome(folder=folder, removed=removed, left=left)


def _tree(folder: Traversable, path: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        name = f"{path}{entry.name}"
        found += _tree(entry, f"{name}/") if entry.is_dir() else [(name, entry.read_bytes())]
    return found


def _refuse_links(base: Path, below: str, names: Iterable[str]) -> None:
    """Raise NotOurs if a file would be written or removed through a link."""
    for name in ("", *names):
        path = base
        for part in (*Path(below).parts, *Path(name).parts):
            path /= part
            if path.is_symlink():
                raise NotOurs(f"{path} is a link, and nothing is written through one; move it away and try again")


def _record(folder: Path) -> dict[str, tuple[str, ...]] | None:
    """Return the digests that files have been written with; None where there is no record that can be read."""
    document: JsonObject | None = parsed(read_file(folder / RECORD) or b"")
    if document is None:
        return None
    listed = object_of(document.get("files"))
    return {
        name: tuple(text_of(digest, DIGEST_CHARS) for digest in list_of(digests))
        for name, digests in listed.items()
        if not Path(name).is_absolute() and ".." not in Path(name).parts and Path(name).parts
    }


def _document(digests: Mapping[str, tuple[str, ...]]) -> bytes:
    document = {"version": __version__, "files": {name: list(dict.fromkeys(known)) for name, known in digests.items()}}
    return json.dumps(document, indent=2).encode() + b"\n"


def _is_changed(path: Path, digests: tuple[str, ...]) -> bool:
    """Return whether there is something at the path that is not a file with one of these digests."""
    if not os.path.lexists(path):
        return False
    content = read_file(path)
    return content is None or _digest(content) not in digests


def _remove(folder: Path, known: Mapping[str, tuple[str, ...]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Remove the files that have these digests; return the removed ones, and those that were changed and left."""
    there = [name for name in sorted(known) if os.path.lexists(folder / name)]
    left = tuple(name for name in there if _is_changed(folder / name, known[name]))
    removed = tuple(name for name in there if name not in left)
    for name in removed:
        (folder / name).unlink()
    return removed, left


def _remove_empty(folder: Path) -> None:
    for path, _, _ in os.walk(folder, topdown=False):
        if not any(Path(path).iterdir()):
            Path(path).rmdir()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
