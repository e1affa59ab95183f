"""List all tasks of a data folder: one summary each, read from the top of state.json if that is intact."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from orchestrator.core.task.budget import Spending
from orchestrator.core.task.children import ChildStatus
from orchestrator.core.task.task import Priority, Task, TaskStatus
from orchestrator.formats.codec import JsonObject, from_json
from orchestrator.formats.fields import list_of
from orchestrator.formats.files import parsed, read_file
from orchestrator.redaction.display import escape_text
from orchestrator.storage.journal import NAME
from orchestrator.storage.records import CopiedFolder, StoreError, TaskSummary, UncommittedTask, UnreadableTask
from orchestrator.storage.state_document import to_document
from orchestrator.storage.state_file import top_of

BEGUN_FILE = "given/begun.json"
"""Lists the names of the files that a task begins with, beside those that every task begins with."""
WRITTEN_BEFORE_COMMIT = frozenset({"ticket.json", "ticket-parsed.json", "pipeline.toml", "origin.json", "given", NAME})
"""What a submission writes into a task's folder before the task's first decision is committed."""


def summaries(root: Path, load: Callable[[str], Task]) -> Iterator[TaskSummary | StoreError]:
    """Yield the summary of every task below `root`, or why there is none.

    Only the top of an intact state.json is read; any other task is loaded with `load`.
    """
    for name in sorted(os.listdir(root)):  # noqa: PTH208 - names alone, here and below
        folder = f"{root}/{name}"  # to join paths for ten thousand tasks takes a tenth of a second
        try:
            files = frozenset(os.listdir(folder))  # noqa: PTH208
            document = top_of(folder)
            if document is None or document["task_id"] != name:
                document = None
                _require_committed(root / name, files)
            yield _summary(name, document or to_document(load(name)), files)
        except (UncommittedTask, CopiedFolder, NotADirectoryError) as error:
            yield error if isinstance(error, StoreError) else StoreError(f"{escape_text(folder)} is not a folder")
        except StoreError as error:
            yield UnreadableTask(name, str(error))
        except (OSError, KeyError, TypeError, ValueError) as error:
            yield UnreadableTask(name, f"{escape_text(folder)} cannot be read: {error!r}")


def require_own(name: str, task_id: str) -> None:
    """Raise StoreError if the folder of that name holds another task, as a copied folder does."""
    if task_id != name:
        raise CopiedFolder(
            f"the folder {escape_text(name)} holds the task {escape_text(task_id)}; rename it back, or delete the copy"
        )


def _require_committed(folder: Path, files: frozenset[str]) -> None:
    """Raise UncommittedTask for a folder that holds only what is written before the first decision is whole."""
    journal = read_file(folder / NAME)
    if journal is None or b"\n" in journal:
        return
    begun = list_of((parsed(read_file(folder / BEGUN_FILE) or b"") or {}).get("names"))
    known = WRITTEN_BEFORE_COMMIT | {name.partition("/")[0] for name in begun if isinstance(name, str)}
    if all(name.lstrip(".").removesuffix(".partial") in known for name in files):
        raise UncommittedTask(folder.name)


def _summary(name: str, document: JsonObject, files: frozenset[str]) -> TaskSummary:
    require_own(name, str(document["task_id"]))
    return TaskSummary(
        id=str(document["task_id"]),
        title=str(document["title"]),
        ticket=str(document["ticket_id"]),
        status=TaskStatus(str(document["status"])),
        stage=str(document["stage"]),
        repo=str(document["repo"]),
        created_at=str(document["created_at"]),
        updated_at=str(document["updated_at"]),
        pipeline=str(document["pipeline_variant"]),
        parent=str(document["parent"]) if document.get("parent") else None,
        priority=Priority(str(document["priority"])) if document.get("priority") else None,
        running=document.get("run") is not None or bool(document.get("notices")) or _has_open_children(document),
        spent=_spent(document),
        files=files,
    )


def _has_open_children(document: JsonObject) -> bool:
    """Return whether a child of the task has to end; there are none in files of versions that did not have children."""
    children = document.get("children")
    found = [one.get("status") for one in children if isinstance(one, dict)] if isinstance(children, list) else []
    return any(ChildStatus(str(status)).is_open for status in found)


def _spent(document: JsonObject) -> Mapping[str, Spending]:
    """Return the task's spending by day; nothing in files of versions that did not record it."""
    spending = document.get("spending")
    found = spending.get("by_day") if isinstance(spending, dict) else None
    return {day: from_json(Spending, one) for day, one in found.items()} if isinstance(found, dict) else {}
