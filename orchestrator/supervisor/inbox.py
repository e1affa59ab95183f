"""The supervisor's inbox: facts, telemetry and requests, in the order in which they arrived.

The inbox is made before everything that uses it. Adapters and use cases put messages in; the supervisor's loop takes
them out one at a time. All of them run in one event loop.

A decision that cannot be written to disk is treated by what caused it: a fact must not be lost and is retried every
second, a request is refused with the reason.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from orchestrator.core.events.agent_events import Limit
from orchestrator.core.events.events import DaemonStarted, Event, TaskSubmitted
from orchestrator.core.schedule.trouble import Trouble
from orchestrator.core.task.agent import Agent
from orchestrator.core.task.task import Task
from orchestrator.errors import NotCommitted, OrchestratorError

log = structlog.get_logger()

COMMIT_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class PostedEvent:
    """A fact about a task; its sender does not wait for the result."""

    task_id: str
    event: Event


@dataclass(frozen=True, slots=True)
class Telemetry:
    """A change to an agent's figures that needs no decision; it counts only for the attempt it names."""

    task_id: str
    attempt: int
    change: Callable[[Agent], Agent]


@dataclass(frozen=True, slots=True)
class LimitSeen:
    """A report about a usage window of the account."""

    limit: Limit


@dataclass(frozen=True, slots=True)
class AgentsChecked:
    """Somebody checked whether agents can work; `trouble` says why not."""

    trouble: Trouble | None


@dataclass(frozen=True, slots=True)
class Wakeup:
    """Nothing to decide, but something changed that admission depends on."""


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """An event whose sender waits for the resulting task; `ended` is the task if it has ended and was loaded for it."""

    task_id: str
    event: Event
    answer: asyncio.Future[Task]
    ended: Task | None = None

    def resolve(self, decide: Callable[[], Task]) -> None:
        """Answer with what `decide` returns or raises; do nothing if the sender no longer waits."""
        if self.answer.cancelled():
            return
        try:
            self.answer.set_result(decide())
        except OSError as error:
            self.answer.set_exception(NotCommitted(f"nothing was changed: the decision could not be written: {error}"))
        except Exception as error:  # noqa: BLE001 - the sender gets the error, even a bug; nobody else is affected
            self.answer.set_exception(error)


Message = PostedEvent | Telemetry | LimitSeen | AgentsChecked | Wakeup | PendingRequest


class Inbox:
    """A queue with one reader, the supervisor's loop, and any number of senders in the same thread.

    `tries` counts how often the reader tried to process something; other threads may read it, and `is_settled`.
    """

    def __init__(self) -> None:
        self.tries = 0
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self._is_processing = False

    @property
    def is_settled(self) -> bool:
        """Whether no message waits or is being processed."""
        return not self._is_processing and self._messages.empty()

    @property
    def is_empty(self) -> bool:
        """Whether no message waits."""
        return self._messages.empty()

    def is_start_under_way(self, message: Message) -> bool:
        """Return whether a message tells a task that the daemon started, and others wait to be told."""
        return isinstance(message, PostedEvent) and isinstance(message.event, DaemonStarted) and not self.is_empty

    def post(self, task_id: str, event: Event) -> None:
        """Report a fact. One about a task that is no longer live is ignored."""
        self._messages.put_nowait(PostedEvent(task_id, event))

    def note(self, task_id: str, attempt: int, change: Callable[[Agent], Agent]) -> None:
        """Report telemetry of a task's current attempt, in order with the events; it is not a decision."""
        self._messages.put_nowait(Telemetry(task_id, attempt, change))

    def record_limit(self, limit: Limit) -> None:
        """Report the state of a usage window of the account."""
        self._messages.put_nowait(LimitSeen(limit))

    def report_agents(self, trouble: Trouble | None) -> None:
        """Report whether agents can work, or why not."""
        self._messages.put_nowait(AgentsChecked(trouble))

    def wake(self) -> None:
        """Make the loop run admission again."""
        self._messages.put_nowait(Wakeup())

    async def submit(self, event: TaskSubmitted) -> Task:
        """Accept a new task and return it. Raises NotCommitted."""
        return await self.request(event.task.id, event)

    async def request(self, task_id: str, event: Event, ended: Task | None = None) -> Task:
        """Have an event decided and return the task after it.

        A task that has ended must have been loaded for writing and be given as `ended`. Raises NoSuchTask,
        InvalidTransition and NotCommitted; then nothing has changed.
        """
        return await self.send(task_id, event, ended)

    def send(self, task_id: str, event: Event, ended: Task | None = None) -> asyncio.Future[Task]:
        """Send a request as `request` does, and return its answer to come."""
        answer: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        self._messages.put_nowait(PendingRequest(task_id, event, answer, ended))
        return answer

    async def take(self) -> Message:
        """Return the next message; waits for one."""
        message = await self._messages.get()
        self._is_processing = True
        return message

    def done(self) -> None:
        """Mark the message taken last as fully processed."""
        self._is_processing = False
        self._messages.task_done()

    async def settled(self) -> None:
        """Wait until every message sent so far is processed."""
        await self._messages.join()

    async def retry_until_committed(self, act: Callable[[], None]) -> None:
        """Call `act` again every second while the disk refuses to be written."""
        self.tries += 1
        refusal = _try(act)
        while refusal is not None:
            log.error("commit_failed", error=str(refusal), retry_seconds=COMMIT_RETRY_SECONDS)
            await asyncio.sleep(COMMIT_RETRY_SECONDS)
            self.tries += 1
            refusal = _try(act)


def _try(act: Callable[[], None]) -> OSError | None:
    """Return the disk's refusal, if any. An event that its task cannot take any more is logged and dropped."""
    try:
        act()
    except OSError as error:
        return error
    except OrchestratorError as error:
        log.warning("event_refused", error=str(error))
    return None
