"""Copies of repositories elsewhere: made and brought up to date when a task is to begin there."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import structlog

from orchestrator.daemon.sources.address import folder_name, parse_address
from orchestrator.daemon.sources.copy import Copy
from orchestrator.daemon.sources.in_use import SourcesInUse
from orchestrator.daemon.sources.state import SourceState
from orchestrator.errors import OrchestratorError
from orchestrator.integrations.credentials import Credentials

log = structlog.get_logger()

FOLDER = "sources"
"""Where the copies are, below the data folder."""
WAIT_SECONDS = 2.0
"""How long a request waits for the end of a fetch before it says how far that is."""
MOST_AT_ONCE = 4
"""Copies that are fetched at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A copy of a repository elsewhere: where it is, whether it is up to date, and how many bytes are here."""

    address: str
    path: Path
    state: SourceState
    size: int
    since: datetime


@dataclass(frozen=True, slots=True)
class _Fetch:
    task: "asyncio.Task[None]"
    since: datetime


@dataclass(slots=True, kw_only=True)
class SourceService:
    """The use case of repositories that are named by an address. `login_of` blocks.

    A fetch may take an hour, longer than the watchdog lets the daemon's worker threads be busy: it has threads here.
    """

    data_dir: Path
    login_of: Callable[[str], Credentials | None]
    clock: Callable[[], datetime]
    in_use: SourcesInUse = field(default_factory=SourcesInUse)
    _fetches: dict[str, _Fetch] = field(default_factory=dict)
    _free: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_AT_ONCE))
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="source")
    )

    async def fetch(self, text: str) -> Source:
        """Return the copy of a repository; it is made, or brought up to date, until `state` says that it is ready.

        Ask again while it is not: a fetch goes on whether anybody asks or not, and the next request after its end is
        answered with how it ended. Raises AddressRefused.
        """
        address = parse_address(text)
        path = self.data_dir / FOLDER / folder_name(address)
        fetch = self._fetches.get(address)
        if fetch is None:
            fetch = _Fetch(asyncio.create_task(self._run(address, path)), self.clock())
            self._fetches[address] = fetch
        done, _ = await asyncio.wait([fetch.task], timeout=WAIT_SECONDS)
        if done and self._fetches.get(address) is fetch:
            del self._fetches[address]
        if done:
            fetch.task.result()
        copy = Copy(address=address, folder=path, login=None)
        size = await asyncio.to_thread(lambda: copy.size)
        state = SourceState.READY if done else SourceState.FETCHING
        return Source(address=address, path=path, state=state, size=size, since=fetch.since)

    async def _run(self, address: str, path: Path) -> None:
        async with self._free:
            login = await asyncio.to_thread(self.login_of, address)
            try:
                copy = Copy(address=address, folder=path, login=login)
                await asyncio.get_running_loop().run_in_executor(self._threads, self._bring_up_to_date, copy)
            except (OrchestratorError, OSError) as error:
                log.info("source_not_fetched", address=address, reason=str(error))
                raise
            log.info("source_fetched", address=address, path=str(path))

    def _bring_up_to_date(self, copy: Copy) -> None:
        with self.in_use.using(copy.folder.name):
            copy.bring_up_to_date()
