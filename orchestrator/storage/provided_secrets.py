"""What people provided for a task, as its agents get it: in their environment, and nowhere else."""

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
"""What is in a task's folder while something is provided for it."""
ALWAYS_SECRET = frozenset({DependencyType.API_KEY, DependencyType.FILE})


@dataclass(frozen=True, slots=True)
class ProvidedSecrets:
    """The provided values of all tasks; every method blocks, and raises VaultError where a value cannot be had.

    May be used from several threads.
    """

    vault: Vault
    files: TaskFiles
    _in_use: Lock = field(default_factory=Lock, repr=False)

    def keep(self, task: Task, name: str, value: str) -> None:
        """Keep a value for a dependency of that name."""
        with self._in_use:
            self.vault.put(self.files.path_of(task.id), task.id, name, value)

    def environment(self, task: Task) -> Mapping[str, str]:
        """The variables in which an agent of the task finds what was provided; of a file, its path."""
        provided, types = self._provided(task), _types(task)
        return {
            variable_of(name): self._as_file(task, name, value) if types[name] is DependencyType.FILE else value
            for name, value in provided.items()
        }

    def values(self, task: Task) -> Mapping[str, str]:
        """What was provided for a task, a file's content too, by the variable that tells of it."""
        return {variable_of(name): value for name, value in self._provided(task).items()}

    def secrets(self, task: Task) -> Mapping[str, str]:
        """Those of them that no artifact and no commit may hold; by their names the rest are addresses and modes."""
        types = _types(task)
        return {
            variable_of(name): value
            for name, value in self._provided(task).items()
            if types[name] in ALWAYS_SECRET or is_secret(name, value)
        }

    def forget(self, task_id: str) -> None:
        """Take everything provided for a task off the disk."""
        with self._in_use:
            if self.files.has(task_id, FILE):
                self.vault.forget(self.files.path_of(task_id))
            folder = self.files.path_of(task_id, FOLDER)
            for file in folder.iterdir() if folder.is_dir() else ():
                file.unlink(missing_ok=True)

    def _provided(self, task: Task) -> Mapping[str, str]:
        """What was provided by the names of the dependencies; the vault is not asked for a task that has none."""
        wanted = _types(task)
        if not wanted:
            return {}
        with self._in_use:
            values = self.vault.values(self.files.path_of(task.id), task.id)
        lost = [name for name in wanted if name not in values]
        if lost:
            again = "; ".join(f"orchestrator provide {shlex.quote(task.id)} {shlex.quote(name)}" for name in lost)
            raise VaultError(f"what was provided for {task.id} is not there any more; provide it again: {again}", lost)
        return {name: values[name] for name in wanted}

    def _as_file(self, task: Task, name: str, value: str) -> str:
        file = f"{FOLDER}/{variable_of(name)}"
        self.files.write(task.id, file, value.encode())
        return str(self.files.path_of(task.id, file))


def _types(task: Task) -> Mapping[str, DependencyType]:
    """The kind of every dependency of a task that was provided as a value."""
    types = {
        ask.draft.name: DependencyType(ask.draft.type)
        for ask in task.requests
        if ask.kind is RequestKind.DEPENDENCY and ask.status is RequestStatus.PROVIDED
    }
    return {name: kind for name, kind in types.items() if kind in IS_SECRET}
