"""A task's checkpoints: list them, keep one permanently, restore what one saved."""

import asyncio
from dataclasses import dataclass

from orchestrator.core.task.checkpoint import Checkpoint
from orchestrator.core.task.task import Task
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.workspaces.checkpoints import Checkpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredWork:
    """Where restored work is: at `branch` and `commit` in the task's repository, or in its worktree.

    What was in the worktree before is in the checkpoint `kept_as`.
    """

    task: Task
    number: int
    branch: str | None = None
    commit: str | None = None
    kept_as: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointService:
    """The use cases of checkpoints; each raises NoSuchTask and AmbiguousName, those with a number NoSuchCheckpoint."""

    index: TaskIndex
    checkpoints: Checkpoints

    async def list(self, name: str) -> list[Checkpoint]:
        """Return every checkpoint that is kept, newest first."""
        return await asyncio.to_thread(self.checkpoints.kept, await self.index.find(name))

    async def find(self, name: str, number: int) -> Checkpoint:
        """Return one checkpoint."""
        return await asyncio.to_thread(self.checkpoints.found, await self.index.find(name), number)

    async def pin(self, name: str, number: int, *, pinned: bool) -> Checkpoint:
        """Keep a checkpoint permanently, or no longer than others."""
        return self.checkpoints.pin(await self.index.find(name), number, pinned=pinned)

    async def restore(self, name: str, number: int, branch: str | None) -> RestoredWork:
        """Put saved work on a new branch of the user's repository. Raises NothingSaved and what git refuses."""
        task = await self.index.find(name)
        made = await self.checkpoints.restore(task, number, branch)
        return RestoredWork(task=task, number=number, branch=made.branch, commit=made.commit)

    async def restore_in_place(self, name: str, number: int) -> RestoredWork:
        """Put saved work into the task's worktree, after saving what is there. Raises NotAtRest and NothingSaved."""
        task = await self.index.find(name)
        before = await self.checkpoints.restore_in_place(task, number)
        return RestoredWork(task=task, number=number, kept_as=before.number)
