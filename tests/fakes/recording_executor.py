"""An executor that carries out nothing and records the commands."""

from orchestrator.core.events.commands import Command
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.task import Task


class RecordingExecutor:
    """Satisfies the supervisor's `CommandExecutor`: tasks change only by the events that a test posts."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Command]] = []

    def execute(self, task: Task, command: Command) -> None:
        """Record it."""
        self.asked.append((task.id, command))

    def run_alive(self, task: Task) -> bool:  # noqa: ARG002 - the protocol's
        """Nothing ever runs."""
        return False

    def abandon(self, task: Task) -> None:
        """There is nothing to abandon."""

    def checkpoint(self, task: Task, reason: Reason) -> None:
        """There is nothing to save."""
