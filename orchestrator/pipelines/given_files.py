"""Files that a task begins with: those that its submission brought, and those that its family composed from them.

What a submission brought is kept apart as well, in a folder that no agent writes: a changed draft and a retry begin
with that, never with what a family composed from the old text or an agent left under the same name.
"""

from collections.abc import Iterable, Mapping

import orjson

from orchestrator.formats.fields import list_of
from orchestrator.formats.files import parsed
from orchestrator.redaction.documents import mask_document
from orchestrator.redaction.rules import Redactor
from orchestrator.storage.task_files import TaskFiles
from orchestrator.storage.task_list import BEGUN_FILE

GIVEN = "given"
"""The folder of a task that holds the files its submission brought."""


def write_given(
    files: TaskFiles, task_id: str, brought: Mapping[str, str], composed: Mapping[str, str], redactor: Redactor
) -> None:
    """Write the files that a task begins with, secrets masked, in place of those that a draft began with before.

    Blocks. Raises OSError.
    """
    begun = {**brought, **composed}
    listed = list_of((parsed(files.read(task_id, BEGUN_FILE)) or {}).get("names"))
    before = {name for name in listed if isinstance(name, str)}
    if before or begun:  # before the files, so that what a crash leaves of a new task is known as that
        _list_begun(files, task_id, before | set(begun))
    for name in before:
        if name not in begun:
            files.remove(task_id, name)
    kept = {f"{GIVEN}/{name}": text for name, text in brought.items()}
    for name, text in {**kept, **begun}.items():
        files.write(task_id, name, mask_document(text, redactor.masked).encode())
    if before - set(begun):
        _list_begun(files, task_id, set(begun))


def _list_begun(files: TaskFiles, task_id: str, names: set[str]) -> None:
    files.write(task_id, BEGUN_FILE, orjson.dumps({"names": sorted(names)}))


def read_given(files: TaskFiles, task_id: str, names: Iterable[str]) -> dict[str, str]:
    """Return those of these files that the task's submission brought. Blocks."""
    kept = {name: f"{GIVEN}/{name}" for name in names}
    return {name: files.read_text(task_id, path) for name, path in kept.items() if files.has(task_id, path)}
