"""Notify people with a command of their own, which gets one notice as JSON on its standard input.

A notice is sent once: after the command succeeded, a file named by the notice's key is written. If the daemon is killed
between the two, the notice is sent again. When the command ends or its time is up, all processes that it started are
killed too, even in another session: a variable in their environment marks them. Only the end of the command's output
is kept. One command runs at a time, so notices keep their order.
"""

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import assert_never

import structlog

from orchestrator.core.events.notice import Notice, NoticeKind
from orchestrator.core.task.task import Task
from orchestrator.formats.codec import Json, stamp
from orchestrator.integrations.child_process import OutputTail, end_command
from orchestrator.processes.spec import MARKER
from orchestrator.redaction.display import escape_text
from orchestrator.storage.task_files import TaskFiles
from orchestrator.workspaces.evaluation.judge import environment

log = structlog.get_logger()

FOLDER = "notices"
DEFAULT_LIMIT = 30.0

_TO_REACH_PEOPLE = frozenset({"DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR"})


class DeliveryResult(StrEnum):
    """The outcome of sending a notice."""

    SENT = "sent"
    ALREADY_SENT = "already_sent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationResult:
    """Whether people were notified, and if not, why."""

    told: DeliveryResult
    reason: str = ""


class Notifier:
    """Runs the user's `notify_command`, program and arguments; `limit` in seconds, `base_env` is the daemon's own.

    Raises ValueError for an empty command.
    """

    def __init__(
        self, command: tuple[str, ...], base_env: Mapping[str, str], files: TaskFiles, limit: float = DEFAULT_LIMIT
    ) -> None:
        self._program, *self._arguments = command
        self._files, self._limit = files, limit
        desktop = {name: value for name, value in base_env.items() if name in _TO_REACH_PEOPLE}
        self._env = environment(base_env) | desktop
        self._one_at_a_time = asyncio.Lock()

    async def tell(self, task: Task, notice: Notice) -> NotificationResult:
        """Send a notice unless it was sent before; a failed one may be sent again."""
        name = f"{FOLDER}/{notice.key}"
        async with self._one_at_a_time:
            if self._files.has(task.id, name):
                return NotificationResult(told=DeliveryResult.ALREADY_SENT)
            document = announcement(task, notice)
            try:
                reason, output = await self._run(document, mark=Path(f"/dev/null/{task.id}/{name}"))
            except (OSError, ValueError) as error:
                said = error.strerror if isinstance(error, OSError) else str(error)
                reason, output = f"notify_command could not start {escape_text(self._program)}: {said}", ""
            if reason:
                log.warning("notice_not_sent", task=task.id, key=notice.key, reason=reason, output=output)
                return NotificationResult(told=DeliveryResult.FAILED, reason=reason)
            self._remember(task, name, document)
            log.info("notice_sent", task=task.id, key=notice.key, kind=notice.kind.value)
            return NotificationResult(told=DeliveryResult.SENT)

    async def _run(self, document: Mapping[str, Json], mark: Path) -> tuple[str, str]:
        """Return why the command failed, "" if it did not, and the end of its output.

        Raises OSError or ValueError if it cannot be started. `mark` is not a task's folder, else the API would take
        the command for an agent.
        """
        with closing(OutputTail()) as output, _as_file(document) as stdin:
            process = await asyncio.create_subprocess_exec(
                self._program,
                *self._arguments,
                stdin=stdin,
                stdout=output.theirs,
                stderr=output.theirs,
                env=self._env | {MARKER: str(mark)},
                start_new_session=True,
            )
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._limit):
                        await process.wait()
                code = process.returncode
            finally:
                if killed := await end_command(process, mark):
                    log.info("notify_command_swept", pids=killed)
            return self._meaning(code), output.last()

    def _remember(self, task: Task, name: str, document: Mapping[str, Json]) -> None:
        """Record a delivered notice; if that fails, the notice will be delivered again."""
        try:
            self._files.write(task.id, name, json.dumps(document).encode() + b"\n")
        except OSError as error:
            log.warning("notice_not_remembered", task=task.id, file=name, error=str(error))

    def _meaning(self, code: int | None) -> str:
        if code is None:
            return f"notify_command did not end within {self._limit:g} s and was stopped; make it faster"
        return f"notify_command failed with exit code {code}; the log has its output" if code else ""


@dataclass(slots=True)
class Messenger:
    """Notifies people as the current settings say; without a notifier, nobody is notified."""

    notifier: Notifier | None

    def use(self, notifier: Notifier | None) -> None:
        """Use this notifier from now on."""
        self.notifier = notifier

    async def tell(self, task: Task, notice: Notice) -> str | None:
        """Return why sending failed, which may be repeated; "" if it succeeded, None without a notifier."""
        if self.notifier is None:
            return None
        return (await self.notifier.tell(task, notice)).reason


@contextmanager
def _as_file(document: Mapping[str, Json]) -> Iterator[int]:
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


def announcement(task: Task, notice: Notice) -> dict[str, Json]:
    """Return a notice as JSON, with its task and the command that a person may want to run next."""
    return {
        "key": notice.key,
        "event": notice.kind.value,
        "task_id": task.id,
        "title": task.title,
        "status": task.status.value,
        "stage": task.stage,
        "text": notice.text,
        "at": stamp(notice.at),
        "what_to_do": what_to_do(notice.kind, task.id),
    }


def what_to_do(kind: NoticeKind, task_id: str) -> str:
    """Return the command that shows what a notice is about, or answers it; none decides anything by itself."""
    match kind:
        case NoticeKind.REVIEW_ASKED | NoticeKind.COMPLETED:
            return f"orchestrator show {task_id}"
        case NoticeKind.QUESTION_ASKED:
            return f"orchestrator answer {task_id}"
        case (
            NoticeKind.DEPENDENCY_ASKED
            | NoticeKind.LIMIT_REACHED
            | NoticeKind.LOGIN_MISSING
            | NoticeKind.INSTALLATION_BROKEN
            | NoticeKind.REMINDER
        ):
            return f"orchestrator why {task_id}"
        case NoticeKind.BLOCKED | NoticeKind.FAILED:
            return f"orchestrator logs {task_id}"
        case _:
            assert_never(kind)
