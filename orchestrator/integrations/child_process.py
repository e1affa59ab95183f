"""Commands of the user's own that are run for a while: their last output, and their end with all that they started."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from orchestrator.processes.process_stats import kill_run
from orchestrator.redaction.display import escape_text

REAP_LIMIT = 5.0
"""Seconds for a killed process to be gone."""

_KEPT = 2048  # bytes; escaped, up to four times as many characters
_WHOLE_PIPE = 64 * 1024  # bytes that a pipe holds, pipe(7)


class OutputTail:
    """The last of what a process writes into `theirs`; it is read as it comes, so the process never waits for us."""

    def __init__(self) -> None:
        self._ours, self.theirs = os.pipe()
        os.set_blocking(self._ours, False)
        self._kept = b""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._ours, self._read)

    def last(self) -> str:
        """Return the end of it, escaped."""
        self._read()
        return escape_text(self._kept.decode("utf-8", "replace").strip(), 4 * _KEPT)

    def close(self) -> None:
        """Stop reading."""
        self._loop.remove_reader(self._ours)
        os.close(self._ours)
        os.close(self.theirs)

    def _read(self) -> None:
        with suppress(BlockingIOError):
            self._kept = (self._kept + os.read(self._ours, _WHOLE_PIPE))[-_KEPT:]


async def end_command(process: asyncio.subprocess.Process, mark: Path) -> tuple[int, ...]:
    """Kill a command's process group and every process with `mark` in its environment; return the pids of those."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    killed = await asyncio.to_thread(kill_run, mark)
    with suppress(TimeoutError):
        async with asyncio.timeout(REAP_LIMIT):
            await process.wait()
    return killed
