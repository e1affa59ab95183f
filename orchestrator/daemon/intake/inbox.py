"""The inbox: takes whole files from a folder, in the order of their times, and makes each a task exactly once.

A file is whole when nobody has it open for writing and it has not changed for a while. It is moved to `taking/` first,
so that no other program changes what is being judged, and from there to `done/` or `refused/`. What stands in `taking/`
after a crash is gone on with: its key leads to the task that was made of it, if one was.

What is nobody's fault, such as a full disk or a tracker that is down, refuses no file: the inbox waits and tries again.
A file with which that happens again and again while others become tasks is refused, so that none can block the others.
"""

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import orjson
import structlog

from orchestrator.daemon.intake.folder import Folder, FoundFile, InboxRefused, NotYet, objection_to, opened, safe_name
from orchestrator.daemon.intake.once import SubmitsOnce
from orchestrator.daemon.intake.records import LONGEST_REASON, IntakeKind, IntakeRecords, record_of
from orchestrator.daemon.intake.ticket_file import Origin, submission_in
from orchestrator.daemon.intake.waiting import Hold, is_common_fault
from orchestrator.daemon.task_factory import Submission
from orchestrator.daemon.watch import Watch
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import stamp
from orchestrator.redaction.display import escape_text
from orchestrator.settings.sections.intake import InboxSettings
from orchestrator.workspaces.repository import RepositoryError

log = structlog.get_logger()

SOURCE = "inbox"
LOOK_EVERY = 5.0
"""Seconds after which the folder is looked at even if nothing was noticed."""
LOOK_AGAIN = 0.2
"""Seconds until files are looked at again that may not be whole yet."""
MOST_TRIES = 3
"""After so many failures a file is refused, if others become tasks meanwhile."""
MOST_AT_ONCE, MOST_LOOKED_AT = 100, 1000
"""Files that are taken between two looks at the folder, and how many of the oldest are looked at for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxState:
    """How the inbox is: how many files wait in the folder, and why none is taken, "" if they are.

    `tasks_waiting` of its tasks wait for a slot, of `most_waiting` that may.
    """

    folder: Path | None = None
    waiting: int = 0
    tasks_waiting: int = 0
    most_waiting: int = 0
    trouble: str = ""


@dataclass(slots=True, kw_only=True)
class Inbox:
    """Takes files as long as `run` runs. `settings` returns those in force now, `tasks_waiting` how many
    tasks of each source wait for a slot.
    """

    settings: Callable[[], InboxSettings]
    once: SubmitsOnce
    records: IntakeRecords
    tasks_waiting: Callable[[], Awaitable[Mapping[str, int]]]
    redact: Callable[[str], str]
    clock: Callable[[], datetime]
    state: InboxState = InboxState()
    _hold: Hold = field(default_factory=lambda: Hold(SOURCE))
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _seen: dict[str, tuple[FoundFile, float]] = field(default_factory=dict)
    _left: set[tuple[int, ...]] = field(default_factory=set)
    _failed: dict[str, int] = field(default_factory=dict)
    """How often each file that is being taken failed as any other might have."""
    _has_taken: bool = False
    """Whether this look at the folder has made a task."""

    def wake(self) -> None:
        """Look at the folder now."""
        self._woken.set()

    def hurry(self) -> None:
        """Try again now whatever is waited for, because the settings have changed."""
        self._hold.until = 0.0
        self.wake()

    def status(self, tasks_waiting: Mapping[str, int]) -> InboxState:
        """Return how the inbox is, given how many tasks of each source wait for a slot."""
        most = self.settings().most_waiting
        return replace(self.state, tasks_waiting=tasks_waiting.get(SOURCE, 0), most_waiting=most)

    async def run(self) -> None:
        """Take files until cancelled."""
        watch = Watch(lambda _: self.wake())
        async with asyncio.TaskGroup() as group:
            group.create_task(watch.run())
            group.create_task(self._run(watch))

    async def _run(self, watch: Watch) -> None:
        while True:
            self._woken.clear()
            settings = self.settings()
            await watch.look_at([settings.folder] if settings.folder else [])
            soon = await self._look(settings)
            try:
                async with asyncio.timeout(LOOK_AGAIN if soon else LOOK_EVERY):
                    await self._woken.wait()
            except TimeoutError:
                continue

    async def _look(self, settings: InboxSettings) -> bool:
        """Take what can be taken; return whether to look again soon."""
        if settings.folder is None:
            self.state = InboxState()
            return False
        try:
            async with _folder(settings.folder) as folder:
                soon = await self._pass(folder, settings)
        except (InboxRefused, OSError) as error:
            reason = str(error) if isinstance(error, InboxRefused) else _os_reason(settings.folder, error)
            await self._wait_for(reason, None)
            self.state = InboxState(folder=settings.folder, trouble=reason)
            return False
        return soon

    async def _pass(self, folder: Folder, settings: InboxSettings) -> bool:
        begun = await asyncio.to_thread(folder.begun)
        found = await asyncio.to_thread(folder.listing, MOST_LOOKED_AT)
        self._forget_gone(found.oldest)
        for file in found.folders:
            await self._leave(file, "it is a folder; only regular files are taken")
        self._has_taken, reason = False, self._hold.reason(time.monotonic())
        for file in begun:
            if not reason and file.name not in self._failed:
                reason = await self._process(folder, file, settings)
        taken = room = 0
        for file in found.oldest:
            if reason or taken == MOST_AT_ONCE:
                break
            if not await self._is_whole(folder, file, settings.settle):
                continue
            if room == 0:
                queued = (await self.tasks_waiting()).get(SOURCE, 0)
                room = settings.most_waiting - queued
            if room <= 0:
                reason = f"{queued} of its tasks wait to begin, and it adds none beyond {settings.most_waiting}"
            else:
                taken, room = taken + 1, room - 1
                reason = await self._take(folder, file, settings)
        for file in begun:
            if not reason and file.name in self._failed:
                reason = await self._process(folder, file, settings)
        left = found.count - taken
        self.state = InboxState(folder=settings.folder, waiting=left, trouble=reason)
        if not reason and not self._failed:
            await self._go_on()
        return bool(left) and not reason

    async def _is_whole(self, folder: Folder, file: FoundFile, settle: float) -> bool:
        """Return whether a file has not changed for a while, and nobody has it open for writing."""
        now = time.monotonic()
        before, since = self._seen.get(file.name, (file, now))
        if before.version != file.version:
            since = now
        self._seen[file.name] = file, since
        return now - since >= settle and not await asyncio.to_thread(folder.is_open_for_writing, file)

    async def _take(self, folder: Folder, file: FoundFile, settings: InboxSettings) -> str:
        """Take a file and return why the inbox must wait, "" if it need not."""
        try:
            moved = await asyncio.to_thread(folder.take, file)
        except FileNotFoundError:
            return ""  # somebody took it away again
        except PermissionError as error:
            await self._leave(file, f"it cannot be moved ({error.strerror})")
            return ""
        self._seen.pop(file.name, None)
        return await self._process(folder, moved, settings, file.name)

    async def _process(self, folder: Folder, file: FoundFile, settings: InboxSettings, called: str = "") -> str:
        """Make a file that is being taken a task, or refuse it; return why the inbox must wait, "" if it need not."""
        called = called or file.name
        objection = await asyncio.to_thread(objection_to, replace(file, name=called), settings.users, settings.groups)
        if objection:
            await self._refuse(folder, file, objection, _evidence(file))
            return ""
        try:
            content = await asyncio.to_thread(folder.content, file)
            evidence = await asyncio.to_thread(_evidence, file, content)
            origin = Origin(name=file.name, is_own=file.uid in {os.geteuid(), 0})
            submission = await asyncio.to_thread(submission_in, content, origin, settings, self.clock())
        except NotYet:
            return ""
        except OrchestratorError as error:
            await self._refuse(folder, file, str(error), _evidence(file))
            return ""
        return await self._submit(folder, file, submission, evidence)

    async def _submit(self, folder: Folder, file: FoundFile, submission: Submission, evidence: str) -> str:
        key = _key(file, evidence)
        try:
            task = await self.once.submit(key, submission, f"{SOURCE} {file.name}")
        except (OrchestratorError, OSError) as error:
            is_default = submission.repo == self.settings().repo and submission.base is None
            is_of_all = isinstance(error, RepositoryError) and is_default
            if (is_of_all or is_common_fault(error)) and not self._is_its_own_fault(file.name):
                return "" if self._has_taken else await self._wait_for(str(error), error)
            await self._refuse(folder, file, str(error), evidence)
            return ""
        except Exception:
            log.exception("inbox_file_failed", name=escape_text(file.name))
            await self._refuse(folder, file, "there is a bug in the daemon; its log has the details", evidence)
            return ""
        note = {"task": task, "takenAt": stamp(self.clock()), "evidence": evidence}
        await self._record(IntakeKind.TAKEN, file.name, task=task, title=submission.title, evidence=evidence)
        await asyncio.to_thread(folder.finish, file, orjson.dumps(note, option=orjson.OPT_INDENT_2))
        await self.once.forget(key)
        self._has_taken = True
        self._failed.pop(file.name, None)
        log.info("inbox_file_taken", name=escape_text(file.name), task=task)
        return ""

    def _is_its_own_fault(self, name: str) -> bool:
        """Count a failure that looks like everybody's; return whether it is the file's, as others are taken."""
        self._failed[name] = self._failed.get(name, 0) + 1
        return self._has_taken and self._failed[name] >= MOST_TRIES

    async def _refuse(self, folder: Folder, file: FoundFile, reason: str, evidence: str) -> None:
        reason = self.redact(reason)
        self._failed.pop(file.name, None)
        await self._record(IntakeKind.REFUSED, file.name, reason=reason, evidence=evidence)
        await asyncio.to_thread(folder.refuse, file, reason)
        log.warning("inbox_file_refused", name=escape_text(file.name), reason=reason)

    async def _leave(self, file: FoundFile, reason: str) -> None:
        """Say once why something stays in the folder."""
        if file.version not in self._left and len(self._left) < 1000:
            self._left.add(file.version)
            await self._record(IntakeKind.REFUSED, safe_name(file.name), reason=reason, evidence=_evidence(file))
            log.warning("inbox_file_left", name=escape_text(file.name), reason=reason)

    async def _wait_for(self, reason: str, error: Exception | None) -> str:
        """Wait because of a reason, which is told once; return it."""
        reason = self.redact(reason)
        if self._hold.begin(reason, error, time.monotonic()):
            await self._note(IntakeKind.FAILED, reason)
        return reason

    async def _go_on(self) -> None:
        if ended := self._hold.end():
            await self._note(IntakeKind.RECOVERED, ended)

    async def _record(self, kind: IntakeKind, name: str, **about: str) -> None:
        cleaned = {field: escape_text(self.redact(value), LONGEST_REASON) for field, value in about.items()}
        record = record_of(self.clock(), SOURCE, kind, escape_text(name), cleaned)
        await asyncio.to_thread(self.records.add, record)

    async def _note(self, kind: IntakeKind, reason: str) -> None:
        """Record what concerns no file, if that is possible."""
        try:
            await self._record(kind, "", reason=reason)
        except OSError as error:
            log.warning("intake_not_recorded", reason=error.strerror)

    def _forget_gone(self, files: list[FoundFile]) -> None:
        there = {file.name for file in files}
        self._seen = {name: seen for name, seen in self._seen.items() if name in there}


@asynccontextmanager
async def _folder(path: Path) -> AsyncGenerator[Folder]:
    with ExitStack() as stack:
        yield await asyncio.to_thread(stack.enter_context, opened(path))


def _key(file: FoundFile, evidence: str) -> str:
    """Return what a file is submitted under, also after a reboot: numbers of devices and inodes may be others then."""
    return f"{SOURCE}:{file.name}:{file.version[2]}:{evidence.rpartition(' ')[2]}"


def _evidence(file: FoundFile, content: bytes | None = None) -> str:
    """Return what identifies a file."""
    inode, size, changed, device = file.version
    digest = f" sha256 {hashlib.sha256(content).hexdigest()}" if content is not None else ""
    return f"inode {device}:{inode} size {size} mtime {changed}{digest}"


def _os_reason(folder: Path, error: OSError) -> str:
    return f"{folder} cannot be used: {error.strerror or error}"
