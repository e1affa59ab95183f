"""One at a time for each task: archiving it, deleting it, restoring it, and removing files of it."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Generator
from contextlib import asynccontextmanager, contextmanager


class RemovalTurns:
    """Whoever removes something of an ended task has it alone meanwhile; for one event loop.

    Who waits for several tasks waits for a parent before its children.
    """

    def __init__(self) -> None:
        self._held: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def of(self, task_id: str) -> AsyncGenerator[None]:
        """Wait until nobody else has the task, and hold it."""
        while held := self._held.get(task_id):
            await held.wait()
        with self.of_free([task_id]):
            yield

    @contextmanager
    def of_free(self, tasks: Collection[str]) -> Generator[frozenset[str], None, None]:
        """Hold those of the tasks that nobody else has now, and yield their ids."""
        free = frozenset(tasks) - self._held.keys()
        self._held |= {task_id: asyncio.Event() for task_id in free}
        try:
            yield free
        finally:
            for task_id in free:
                self._held.pop(task_id).set()
