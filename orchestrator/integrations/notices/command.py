"""A command of the user's own, which gets one notice as JSON on its standard input.

When the command ends or its time is up, all processes that it started are killed too, even in another session: a
variable in their environment marks them. Only the end of the command's output is kept. One command runs at a time.
"""

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from orchestrator.integrations.child_process import OutputTail, end_command
from orchestrator.integrations.notices.channel import NotDelivered
from orchestrator.integrations.notices.entries import Entry
from orchestrator.processes.spec import MARKER
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.evaluation.judge import environment

log = structlog.get_logger()

NAME = "notify_command"
"""The channel's name, and the setting that makes it."""
DEFAULT_LIMIT = 30.0

_TO_REACH_PEOPLE = frozenset({"DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandChannel:
    """Runs `command`, program and arguments; `limit` in seconds, `base_env` is the daemon's own."""

    command: tuple[str, ...]
    base_env: Mapping[str, str] = field(repr=False)
    limit: float = DEFAULT_LIMIT

    async def send(self, entry: Entry) -> str:
        """Give the notice to the command. Raises NotDelivered."""
        try:
            reason, output = await self._run(entry.document, mark=Path(f"/dev/null/notices/{entry.key}"))
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) else str(error)
            raise NotDelivered(f"{NAME} could not start {escape_text(self.command[0])}: {said}") from error
        if reason:
            log.warning("notice_not_sent", key=entry.key, reason=reason, output=output)
            raise NotDelivered(reason)
        return ""

    async def _run(self, document: Mapping[str, object], mark: Path) -> tuple[str, str]:
        """Return why the command failed, "" if it did not, and the end of its output.

        Raises OSError or ValueError if it cannot be started. `mark` is not a task's folder, else the API would take
        the command for an agent.
        """
        desktop = {name: value for name, value in self.base_env.items() if name in _TO_REACH_PEOPLE}
        with closing(OutputTail()) as output, _as_file(document) as stdin:
            process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=stdin,
                stdout=output.theirs,
                stderr=output.theirs,
                env=environment(self.base_env) | desktop | {MARKER: str(mark)},
                start_new_session=True,
            )
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.limit):
                        await process.wait()
                code = process.returncode
            finally:
                if killed := await end_command(process, mark):
                    log.info("notify_command_swept", pids=killed)
            return self._meaning(code), output.last()

    def _meaning(self, code: int | None) -> str:
        if code is None:
            return f"{NAME} did not end within {self.limit:g} s and was stopped; make it faster"
        return f"{NAME} failed with exit code {code}; the log has its output" if code else ""


@contextmanager
def _as_file(document: Mapping[str, object]) -> Iterator[int]:
    """Provide a file in memory with a document: unlike a pipe, it blocks nobody if it is not read."""
    descriptor = os.memfd_create("notice")
    try:
        with open(descriptor, "w", encoding="ascii", closefd=False) as file:
            json.dump(document, file)
            file.write("\n")
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)
