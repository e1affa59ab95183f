"""Hands that carry nothing out and remember what they were asked for."""

from orchestrator.core.events.commands import Command
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.task import Task


class StillExecutor:
    """Satisfies the supervisor's `CommandExecutor`: with these no task moves but by what a test posts."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Command]] = []

    def execute(self, task: Task, command: Command) -> None:
        """Remember it."""
        self.asked.append((task.id, command))

    def run_alive(self, task: Task) -> bool:  # noqa: ARG002 - the protocol's
        """Nothing ever runs."""
        return False

    def abandon(self, task: Task) -> None:
        """Nothing is there to be abandoned."""

    def checkpoint(self, task: Task, reason: Reason) -> None:
        """Nothing is there to be saved."""
