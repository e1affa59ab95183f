"""Send the callbacks of tasks, each until it arrives; no task waits for that.

What is owed follows from a task's state, so a restart loses nothing: `<data>/callbacks/` names the tasks that may owe
something, and `callbacks.json` in the folder of a task says what was sent. A callback that is killed between the two
is sent again, with the same Idempotency-Key.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import orjson
import structlog

from orchestrator import __version__
from orchestrator.core.events.callback import Callback, CallbackKind
from orchestrator.core.events.events import Event
from orchestrator.core.task.task import Task
from orchestrator.errors import NoSuchTask
from orchestrator.formats.codec import Json
from orchestrator.formats.fields import text_of
from orchestrator.formats.files import make_private, parsed, write_atomically
from orchestrator.integrations.callbacks.destinations import Destination
from orchestrator.integrations.tls import tls_context
from orchestrator.redaction.display import escape_text
from orchestrator.storage.task_files import TaskFiles

log = structlog.get_logger()

FOLDER, SENT = "callbacks", "callbacks.json"
AT_ONCE = 8
"""How many requests may be under way."""
NEVER_TAKEN = frozenset({400, 409, 410, 413, 422})
"""Statuses after which the same document is not sent again."""
LARGEST_BODY = 256 * 1024
TOKEN_HEADER = "X-Runner-Api-Key"  # noqa: S105 - the name of a header


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackPatience:
    """Seconds: for one request, between two tries (doubled each time up to `longest_pause`), between two reports of
    progress, and until a callback is given up.
    """

    request: float = 10.0
    connect: float = 3.0
    pause: float = 5.0
    longest_pause: float = 3600.0
    progress: float = 30.0
    give_up: float = 7 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxParts:
    """What the outbox asks: `owed`, `destination` and `load` block; `has_callbacks` must be quick.

    `destination` raises ValueError for an address that nothing is sent to, `load` NoSuchTask for a task that is gone.
    Whatever else they raise may pass, and is tried again.
    """

    files: TaskFiles
    folder: Path
    has_callbacks: Callable[[Task], bool]
    owed: Callable[[Task], tuple[Callback, ...]]
    destination: Callable[[Task, CallbackKind], Destination | None]
    load: Callable[[str], Task]
    redact: Callable[[str], str]
    clock: Callable[[], datetime]
    patience: CallbackPatience = CallbackPatience()


class _NotTaken(Exception):
    """The receiver did not take a callback; `again` says whether it may later."""

    def __init__(self, reason: str, *, again: bool) -> None:
        self.again = again
        super().__init__(reason)


@dataclass(slots=True)
class Outbox:
    """Sends what tasks owe, from `run` on."""

    parts: OutboxParts
    _newest: dict[str, Task] = field(default_factory=dict)
    _noted: set[str] = field(default_factory=set)
    _unread: set[str] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    _limit: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    def on_decision(self, task: Task, event: Event) -> None:
        """Note that a task may owe something."""
        del event
        if self.parts.has_callbacks(task):
            self._note(task.id)
            self._unread.discard(task.id)
            self._newest[task.id] = task
            self._changed.set()
            if task.status.is_final:
                self._ended[task.id].set()

    async def run(self) -> None:
        """Send what is owed, also from before a restart, until this is cancelled."""
        working: dict[str, asyncio.Task[None]] = {}
        async with self._client() as client:
            try:
                self._unread |= {*await asyncio.to_thread(self._pending)} - self._newest.keys()
                self._noted |= self._unread
                working[""] = asyncio.create_task(self._take_up(), name="callbacks from before the restart")
                while True:
                    self._changed.clear()
                    for task_id in [name for name in self._newest if name not in working]:
                        work = asyncio.create_task(self._serve(task_id, client), name=f"callbacks of {task_id}")
                        working[task_id] = work
                        work.add_done_callback(lambda _: self._changed.set())
                    await self._changed.wait()
                    for task_id in [name for name, work in working.items() if work.done()]:
                        working.pop(task_id).result()
            finally:
                for work in working.values():
                    work.cancel()
                await asyncio.gather(*working.values(), return_exceptions=True)

    def _pending(self) -> list[str]:
        folder = self.parts.folder
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    async def _take_up(self) -> None:
        """Look at the tasks from before the restart, again and again at those that cannot be read."""
        tries = 0
        while self._unread:
            for task_id in sorted(self._unread):
                await self._load(task_id)
            self._changed.set()
            if self._unread:
                await asyncio.sleep(self._pause(tries))
                tries += 1

    async def _load(self, task_id: str) -> None:
        """Read a task from before the restart, unless there is news of it."""
        try:
            task = await asyncio.to_thread(self.parts.load, task_id)
        except NoSuchTask as error:
            log.warning("callbacks_lost", task=task_id, reason=str(error))
            if task_id in self._unread:
                self._unread.discard(task_id)
                self._forget(task_id)
        except Exception:
            log.exception("callbacks_not_read", task=task_id)  # tried again
        else:
            if task_id in self._unread:
                self._unread.discard(task_id)
                self._newest[task_id] = task

    def _pause(self, tries: int) -> float:
        """Return the seconds until the next try after this many."""
        return min(self.parts.patience.pause * 2.0 ** min(tries, 32), self.parts.patience.longest_pause)

    async def _serve(self, task_id: str, client: httpx.AsyncClient) -> None:
        """Send what a task owes, with pauses, until it owes nothing."""
        patience, tries = self.parts.patience, 0
        while (task := self._newest.pop(task_id, None)) is not None:
            try:
                has_said = await self._send_owed(task, client)
            except _NotTaken as error:
                pause = self._pause(tries)
                tries += 1
                log.warning("callback_not_sent", task=task_id, reason=str(error), again_after=pause)
                self._newest.setdefault(task_id, task)
                await asyncio.sleep(pause)
                continue
            tries = 0
            if task.status.is_final and task_id not in self._newest:
                self._forget(task_id)
                return
            if has_said:
                with suppress(TimeoutError):  # the end of a task is told at once
                    async with asyncio.timeout(patience.progress):
                        await self._ended[task_id].wait()

    async def _send_owed(self, task: Task, client: httpx.AsyncClient) -> bool:
        """Send what was not sent yet; return whether there is anything to tell. Raises _NotTaken to be tried again."""
        try:
            owed = await asyncio.to_thread(self.parts.owed, task)
            sent = await asyncio.to_thread(self._sent, task.id)
        except Exception as error:
            raise _NotTaken(f"it cannot be composed: {error}", again=True) from error
        for callback in owed:
            if sent.get(callback.kind.value) == callback.key:
                continue
            try:
                is_called = await self._send(task, callback, client)
            except _NotTaken as error:
                is_late = self.parts.clock() - callback.at > timedelta(seconds=self.parts.patience.give_up)
                if error.again and not is_late:
                    raise
                log.warning("callback_given_up", task=task.id, key=callback.key, reason=str(error))
                is_called = True
            if is_called:
                sent[callback.kind.value] = callback.key
                await asyncio.to_thread(self._remember, task.id, sent)
        return bool(owed)

    async def _send(self, task: Task, callback: Callback, client: httpx.AsyncClient) -> bool:
        """Send a callback; return whether there is anybody to send it to. Raises _NotTaken."""
        try:
            to = await asyncio.to_thread(self.parts.destination, task, callback.kind)
        except Exception as error:
            raise _NotTaken(str(error), again=not isinstance(error, ValueError)) from error
        if to is None:
            return False
        headers = {"Content-Type": "application/json", "Idempotency-Key": f"{task.id}:{callback.key}"}
        if to.token:
            headers[TOKEN_HEADER] = to.token
        content = orjson.dumps(_masked(callback.body, self.parts.redact))
        if len(content) > LARGEST_BODY:
            raise _NotTaken(f"it has {len(content)} bytes; at most {LARGEST_BODY} are sent", again=False)
        status = await self._post(client, to.url, headers, content)
        if not 200 <= status < 300:
            what = "redirects, which is not followed" if 300 <= status < 400 else "refuses it"
            again = status not in NEVER_TAKEN and not 300 <= status < 400
            raise _NotTaken(f"{escape_text(to.url, 200)} answered {status}: it {what}", again=again)
        log.info("callback_sent", task=task.id, kind=callback.kind.value, key=callback.key)
        return True

    async def _post(self, client: httpx.AsyncClient, url: str, headers: dict[str, str], content: bytes) -> int:
        """Return the status of the answer, whose body is not read. Raises _NotTaken."""
        try:
            async with (
                self._limit,
                asyncio.timeout(self.parts.patience.request),
                client.stream("POST", url, headers=headers, content=content) as response,
            ):
                return response.status_code
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TimeoutError) as error:
            reason = f"{type(error).__name__}: {escape_text(str(error), 200)}"
            raise _NotTaken(f"{escape_text(url, 200)} cannot be reached ({reason})", again=True) from error

    def _client(self) -> httpx.AsyncClient:
        patience = self.parts.patience
        return httpx.AsyncClient(
            timeout=httpx.Timeout(patience.request, connect=patience.connect),
            follow_redirects=False,
            headers={"User-Agent": f"orchestrator/{__version__}", "Accept-Encoding": "identity"},
            verify=tls_context(),
        )

    def _note(self, task_id: str) -> None:
        """Remember on disk that a task may owe something, before it can end."""
        if task_id in self._noted:
            return
        self._noted.add(task_id)
        with _logged(task_id):
            write_atomically(make_private(self.parts.folder) / task_id, b"")

    def _forget(self, task_id: str) -> None:
        self._noted.discard(task_id)
        self._ended.pop(task_id, None)
        with _logged(task_id):
            (self.parts.folder / task_id).unlink(missing_ok=True)

    def _sent(self, task_id: str) -> dict[str, Json]:
        """Return the key of the newest callback of each kind that was sent, or that nobody takes."""
        document = parsed(self.parts.files.read(task_id, SENT)) or {}
        return {kind.value: text_of(document.get(kind.value)) for kind in CallbackKind if kind.value in document}

    def _remember(self, task_id: str, sent: dict[str, Json]) -> None:
        with _logged(task_id):
            self.parts.files.write(task_id, SENT, orjson.dumps(sent, option=orjson.OPT_INDENT_2))


@contextmanager
def _logged(task_id: str) -> Iterator[None]:
    """Log a note that cannot be written or removed: without it, a callback is sent again, or looked for in vain."""
    try:
        yield
    except OSError as error:
        log.warning("callback_not_noted", task=task_id, reason=str(error))


def _masked(value: Json, redact: Callable[[str], str]) -> Json:
    """Return a document with every text in it redacted."""
    match value:
        case str():
            return redact(value)
        case dict():
            return {key: _masked(one, redact) for key, one in value.items()}
        case list():
            return [_masked(one, redact) for one in value]
        case _:
            return value
