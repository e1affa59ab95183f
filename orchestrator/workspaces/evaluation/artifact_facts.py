"""What guards ask about files: their length, their headings, the words and values in them."""

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

import orjson

from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.task import Task
from orchestrator.workspaces.outbox import read_text

LARGEST_ARTIFACT = 2 * 1024 * 1024
"""Bytes."""
MOST_HEADINGS, LONGEST_HEADING = 500, 300


def seen_in(folder: Path) -> Evidence:
    """Return the facts about the files of a task's or a workspace's own folder; nothing is imported."""
    return Evidence(files=facts_of_files(folder, names_in(folder)))


def seen_of(task: Task) -> Evidence:
    """Return the facts about the files in the task's own folder; nothing is imported."""
    return seen_in(Path(task.folder))


def names_in(folder: Path) -> list[str]:
    """Return the names of the task's own files that guards may ask for."""
    return [path.name for path in folder.iterdir() if path.suffix in {".md", ".json", ".jsonl"} and path.is_file()]


def facts_of_files(folder: Path, names: Iterable[str], sought: Sequence[str] = ()) -> dict[str, FileFacts]:
    """Return the facts about these files of a folder, by name, as far as they are there."""
    found = ((name, read_text(folder, name, LARGEST_ARTIFACT)) for name in names)
    return {name: facts_of(name, content, sought) for name, content in found if content is not None}


def facts_of(name: str, content: str, sought: Sequence[str] = ()) -> FileFacts:
    """Return the facts about a file with this content; `sought` are the words to look for in it."""
    headings, digests = _sections(content)
    return FileFacts(
        chars=len(content.strip()),
        headings=headings,
        digests=digests,
        json_filled=_filled(content) if name.endswith(".json") else None,
        digest=sha256(content.encode()).hexdigest(),
        found=tuple(word for word in sought if _has_word(content, word)),
    )


def _has_word(content: str, word: str) -> bool:
    """Return whether a text has this word, letter for letter and not as a part of a longer one."""
    before, after = (r"\b" if edge.isalnum() else "" for edge in (word[:1], word[-1:]))
    return re.search(f"{before}{re.escape(word)}{after}", content) is not None


def _sections(content: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the headings of a text, and a hash of the text below each."""
    parts: list[list[str]] = []
    for line in content.splitlines():
        if line.startswith("#") and len(parts) < MOST_HEADINGS:
            parts.append([line[:LONGEST_HEADING]])
        elif parts:
            parts[-1].append(line.strip())
    below = (sha256("\n".join(part[1:]).strip().encode()).hexdigest()[:16] for part in parts)
    return tuple(part[0] for part in parts), tuple(below)


def _filled(content: str) -> tuple[str, ...] | None:
    """Return the keys of a JSON object whose values are not empty; None if it is not an object."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return tuple(str(key)[:100] for key, item in value.items() if item)[:100] if isinstance(value, dict) else None
