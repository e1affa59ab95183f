"""What people provided for a task, as its agents get it: in their environment, and nowhere else."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.asks import IS_SECRET, AskKind, AskStatus, variable_of
from orchestrator.core.model import Task
from orchestrator.core.stream.said import DependencyType
from orchestrator.files import make_private, write_atomically
from orchestrator.vault import Vault

FOLDER = "provided"


@dataclass(frozen=True, slots=True)
class Provisions:
    """The provided values of all tasks; every method blocks, and raises VaultError where a value cannot be had."""

    vault: Vault

    def keep(self, task: Task, name: str, value: str) -> None:
        """Keep a value for a dependency of that name."""
        self.vault.put(Path(task.folder), task.id, name, value)

    def environment(self, task: Task) -> Mapping[str, str]:
        """The variables in which an agent of the task finds what was provided; of a file, its path."""
        types = {
            ask.asking.name: DependencyType(ask.asking.type)
            for ask in task.asks
            if ask.kind is AskKind.DEPENDENCY and ask.status is AskStatus.PROVIDED
        }
        wanted = {name: kind for name, kind in types.items() if kind in IS_SECRET}
        values = self.vault.values(Path(task.folder), task.id) if wanted else {}
        return {
            variable_of(name): self._as_file(task, name, values[name]) if kind is DependencyType.FILE else values[name]
            for name, kind in wanted.items()
            if name in values
        }

    def forget(self, task_folder: Path) -> None:
        """Take everything provided for a task off the disk."""
        self.vault.forget(task_folder)
        folder = task_folder / FOLDER
        for file in folder.iterdir() if folder.is_dir() else ():
            file.unlink()

    def _as_file(self, task: Task, name: str, value: str) -> str:
        path = make_private(Path(task.folder) / FOLDER) / variable_of(name)
        write_atomically(path, value.encode())
        return str(path)
