"""Values that people provided for a task, as its agents get them: in their environment, and nowhere else."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from orchestrator.core.events.agent_messages import DependencyType
from orchestrator.core.task.task import Task
from orchestrator.core.task.user_requests import IS_SECRET, RequestKind, RequestStatus, variable_of
from orchestrator.redaction.masking import is_secret
from orchestrator.storage.task_files import TaskFiles
from orchestrator.storage.vault import FILE, Vault, VaultError

FOLDER = "provided"
PROVIDED = frozenset({FILE, FOLDER})
"""The files in a task's folder while values are provided for it."""
ALWAYS_SECRET = frozenset({DependencyType.API_KEY, DependencyType.FILE})


@dataclass(frozen=True, slots=True)
class ProvidedSecrets:
    """The provided values of all tasks. Methods block, and raise VaultError for one that cannot be read or written.

    Methods may be called from several threads.
    """

    vault: Vault
    files: TaskFiles
    _in_use: Lock = field(default_factory=Lock, repr=False)

    def keep(self, task: Task, name: str, value: str) -> None:
        """Keep a value for the dependency of that name."""
        with self._in_use:
            self.vault.put(self.files.path_of(task.id), task.id, name, value)

    def environment(self, task: Task) -> Mapping[str, str]:
        """Return the variables in which an agent of the task finds the values; for a file, its path."""
        provided, types = self._provided(task), _types(task)
        return {
            variable_of(name): self._as_file(task, name, value) if types[name] is DependencyType.FILE else value
            for name, value in provided.items()
        }

    def values(self, task: Task) -> Mapping[str, str]:
        """Return the provided values, including the contents of files, by variable."""
        return {variable_of(name): value for name, value in self._provided(task).items()}

    def secrets(self, task: Task) -> Mapping[str, str]:
        """Return the values that no artifact and no commit may contain: all but addresses and modes, by their names."""
        types = _types(task)
        return {
            variable_of(name): value
            for name, value in self._provided(task).items()
            if types[name] in ALWAYS_SECRET or is_secret(name, value)
        }

    def forget(self, task_id: str) -> None:
        """Delete everything provided for a task from the disk."""
        with self._in_use:
            if self.files.has(task_id, FILE):
                self.vault.forget(self.files.path_of(task_id))
            folder = self.files.path_of(task_id, FOLDER)
            for file in folder.iterdir() if folder.is_dir() else ():
                file.unlink(missing_ok=True)

    def _provided(self, task: Task) -> Mapping[str, str]:
        """Return the provided values by dependency; the vault is not read for a task without any."""
        wanted = _types(task)
        if not wanted:
            return {}
        with self._in_use:
            values = self.vault.values(self.files.path_of(task.id), task.id)
        lost = [name for name in wanted if name not in values]
        if lost:
            again = "; ".join(f"orchestrator provide {shlex.quote(task.id)} {shlex.quote(name)}" for name in lost)
            raise VaultError(f"values provided for {task.id} are missing; provide them again: {again}", lost)
        return {name: values[name] for name in wanted}

    def _as_file(self, task: Task, name: str, value: str) -> str:
        file = f"{FOLDER}/{variable_of(name)}"
        self.files.write(task.id, file, value.encode())
        return str(self.files.path_of(task.id, file))


def _types(task: Task) -> Mapping[str, DependencyType]:
    """Return the type of every dependency of a task that was provided as a value."""
    types = {
        request.draft.name: DependencyType(request.draft.type)
        for request in task.requests
        if request.kind is RequestKind.DEPENDENCY and request.status is RequestStatus.PROVIDED
    }
    return {name: kind for name, kind in types.items() if kind in IS_SECRET}
