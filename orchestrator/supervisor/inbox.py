"""What wants to change a task, in the order in which it came: facts, requests that are answered, and telemetry.

What cannot be put on disk is treated by what it is: a fact may not be lost and is taken in again each second, a request
is refused with the reason.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import structlog

from orchestrator.core.task.task import Task
from orchestrator.errors import NotCommitted, OrchestratorError

log = structlog.get_logger()

COMMIT_RETRY_SECONDS = 1.0


class _Item(NamedTuple):
    take: Callable[[], None]
    is_telemetry: bool


class Inbox:
    """One loop takes out of it; anybody in the same thread puts into it."""

    def __init__(self) -> None:
        self._items: asyncio.Queue[_Item] = asyncio.Queue()

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return self._items.empty()

    def put(self, take: Callable[[], None], *, is_telemetry: bool = False) -> None:
        """Have this done in its turn."""
        self._items.put_nowait(_Item(take, is_telemetry))

    def wake(self) -> None:
        """Have it followed up that something around the tasks has changed."""
        self.put(lambda: None)

    async def ask(self, take: Callable[[], Task]) -> Task:
        """What comes of this when its turn is there. Raises NotCommitted, and whatever it raises itself."""
        answer: asyncio.Future[Task] = asyncio.get_running_loop().create_future()

        def answered() -> None:
            if answer.cancelled():
                return
            try:
                answer.set_result(take())
            except OSError as error:
                answer.set_exception(NotCommitted(f"nothing was changed, for it could not be written down: {error}"))
            except Exception as error:  # noqa: BLE001 - whoever asked gets the answer, be it a bug; nobody else does
                answer.set_exception(error)

        self.put(answered)
        return await answer

    async def take_next(self) -> bool:
        """Do what is next, once it is there; whether it may have changed more than telemetry."""
        item = await self._items.get()
        await retry_until_committed(item.take)
        return not item.is_telemetry

    def done(self) -> None:
        """What was taken has been followed up."""
        self._items.task_done()

    async def settled(self) -> None:
        """Wait until everything put so far is done."""
        await self._items.join()


async def retry_until_committed(take: Callable[[], None]) -> None:
    """Take a fact in, again and again while the disk refuses it: facts may not be lost."""
    refusal = _refusal(take)
    while refusal is not None:
        log.error("commit_failed", error=str(refusal), retry_seconds=COMMIT_RETRY_SECONDS)
        await asyncio.sleep(COMMIT_RETRY_SECONDS)
        refusal = _refusal(take)


def _refusal(take: Callable[[], None]) -> OSError | None:
    """Why the disk did not take what was to be written. A fact that its task cannot take any more is put on the log."""
    try:
        take()
    except OSError as error:
        return error
    except OrchestratorError as error:
        log.warning("event_refused", error=str(error))
    return None
