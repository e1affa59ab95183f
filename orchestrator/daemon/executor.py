"""Carrying commands out: each one looks for its effect first, then brings it about, then tells of it as an event.

Commands of one task are carried out in the order in which they were given, those of different tasks side by side; only
freezing and thawing do not wait behind what goes before. What cannot be carried out for a reason that a person can mend
becomes `CommandFailed`. A bug is not caught: it ends the daemon, which comes back and asks for everything again.
"""

import asyncio
import errno
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from weakref import WeakValueDictionary

import structlog

from orchestrator.clock import not_before
from orchestrator.core.events import commands as do
from orchestrator.core.events import events
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.notice import Notice
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.daemon.runs import HeardLimit, Note, Post, RunExecutor
from orchestrator.daemon.timers import Timers
from orchestrator.errors import OrchestratorError
from orchestrator.integrations.publishing.publisher import Publisher
from orchestrator.workspaces.checkpoints import Checkpoints
from orchestrator.workspaces.evaluation.gates import Gates
from orchestrator.workspaces.workspace import Workspace

log = structlog.get_logger()

PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN})
"""Shortages of the machine that pass without anybody's help to the task."""
PUT_OFF_SECONDS = 5.0
TELL_AGAIN_SECONDS = (30.0, 300.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """What commands are carried out with.

    `tell` answers with why people were not told, empty if they were, None where nobody is to be.
    """

    running: RunExecutor
    workspace: Workspace
    checkpoints: Checkpoints
    gates: Gates
    publisher: Publisher
    timers: Timers
    tell: Callable[[Task, Notice], Awaitable[str | None]]
    pipeline_of: Callable[[Task], Pipeline]
    clock: Callable[[], datetime]
    redact: Callable[[str], str]


class CommandExecutor:
    """Hands each command to the adapter that can carry it out; `failed` ends when a bug has shown itself."""

    def __init__(self, adapters: Adapters) -> None:
        self._with = adapters
        self._queues: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._working: set[asyncio.Task[None]] = set()
        self._post: Post
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(self, post: Post, note: Note, heard_limit: HeardLimit) -> None:
        """Say whom to tell of what happens."""
        self._post = post
        self._with.running.tell(post, note, heard_limit)

    def execute(self, task: Task, command: do.Command) -> None:
        """Begin to carry a command out; what comes of it is told as an event."""
        match command:
            case do.WakeAt():
                self._wake(task, command)
            case do.FollowRun():
                self._with.running.follow(task, command.folder)
            case do.FreezeRun() | do.ThawRun() | do.TellPerson():
                self._begin(self._guarded(task, command))
            case _:
                self._begin(self._in_turn(task, command))

    @property
    def workspace(self) -> Workspace:
        """Where tasks have their worktrees."""
        return self._with.workspace

    def run_alive(self, task: Task) -> bool:
        """Whether the task's run has a living holder."""
        return self._with.running.alive(task)

    def abandon(self, task: Task) -> None:
        """End whatever is left of a task whose folder is gone."""
        self._with.running.abandon(task)

    def checkpoint(self, task: Task, reason: Reason) -> None:
        """Begin to save what recovery needs beyond the state; of a burst one is taken."""
        if self._with.checkpoints.ask(task, reason):
            self._begin(self._with.checkpoints.take(task.id))

    @asynccontextmanager
    async def turn(self, task_id: str) -> AsyncGenerator[None]:
        """Until it is left, no command of the task is carried out but for freezing and thawing."""
        queue = self._queues.setdefault(task_id, asyncio.Lock())  # it lives while anybody holds or awaits it
        async with queue:
            yield

    async def settled(self) -> None:
        """Wait until nothing is under way."""
        while self._working:
            await asyncio.wait(set(self._working))

    async def close(self) -> None:
        """Let go of what is under way; what was cut short is owed still, and asked for at the next start."""
        for working in list(self._working):
            working.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        working = asyncio.get_running_loop().create_task(work)
        self._working.add(working)
        working.add_done_callback(self._done)

    def _done(self, working: asyncio.Task[None]) -> None:
        self._working.discard(working)
        error = None if working.cancelled() else working.exception()
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)

    async def _in_turn(self, task: Task, command: do.Command) -> None:
        async with self.turn(task.id):
            await self._guarded(task, command)

    async def _guarded(self, task: Task, command: do.Command) -> None:
        try:
            await self._insist(task, command)
        except (OrchestratorError, OSError) as error:
            reason = self._with.redact(str(error))
            log.warning("command_failed", task=task.id, command=type(command).__name__, reason=reason)
            self._post(task.id, events.CommandFailed(at=self._with.clock(), command=command, reason=reason))

    async def _insist(self, task: Task, command: do.Command) -> None:
        """Carry a command out, again and again while the machine is only short of something."""
        while True:
            try:
                return await self._effect(task, command)
            except OSError as error:
                if error.errno not in PASSING:
                    raise
                log.warning("command_put_off", task=task.id, command=type(command).__name__, reason=str(error))
            await asyncio.sleep(PUT_OFF_SECONDS)

    async def _effect(self, task: Task, command: do.Command) -> None:  # noqa: C901, PLR0912 - one case for each command
        running = self._with.running
        match command:
            case do.PrepareWorkspace():
                await self._prepare(task, command)
            case do.StartAgent():
                await running.start_agent(task, command)
            case do.SendTurn():
                await running.send_turn(task, command)
            case do.SendAnswer():
                await running.send_answer(task, command)
            case do.InterruptTurn():
                await running.interrupt(task, command)
            case do.TellPerson():
                await self._tell(task, command)
            case do.StopRun():
                await running.stop(task, command)
            case do.FreezeRun():
                await running.freeze(task, command)
            case do.ThawRun():
                await running.thaw(task, command)
            case do.LookAtGate():
                await self._look_at_gate(task, command)
            case do.RunCheck() if not command.check.command:
                await running.look(task, command)
            case do.RunCheck():
                checkout = await asyncio.to_thread(self._checked_out, task, command)
                await running.start_check(task, command, checkout)
            case do.DeliverBranch():
                await self._deliver(task, command)
            case do.FollowRun() | do.WakeAt():
                self.execute(task, command)
            case _:
                self._post(task.id, await self._with.publisher.execute(task, command))

    async def _tell(self, task: Task, command: do.TellPerson) -> None:
        """Tell it, some times if it fails; in the end that is on record, and no reason to hold the task up."""
        notice = replace(command.notice, text=self._with.redact(command.notice.text))
        for pause in (*TELL_AGAIN_SECONDS, None):
            failure = await self._with.tell(task, notice)
            if not failure or pause is None:
                break
            await asyncio.sleep(pause)
        said = "no notify_command is set" if failure is None else failure
        self._post(task.id, events.PersonTold(at=self._with.clock(), key=notice.key, failure=said))

    def _wake(self, task: Task, command: do.WakeAt) -> None:
        def ring() -> None:
            self._post(task.id, events.AlarmRang(at=self._with.clock()))

        self._with.timers.ring_at(f"wake {task.id}", not_before(command.at), ring)

    async def _prepare(self, task: Task, command: do.PrepareWorkspace) -> None:
        prepare, at = self._with.workspace.prepare, f"{task.timing.created_at:%Y%m%d_%H%M%S}"
        made = await asyncio.to_thread(
            prepare, task.id, Path(task.source.repo), task.source.base_commit, command.branch, at
        )
        ready = events.WorkspaceReady(
            at=self._with.clock(), worktree=str(made.worktree), branch=made.branch, head=made.base_commit
        )
        self._post(task.id, ready)

    async def _look_at_gate(self, task: Task, command: do.LookAtGate) -> None:
        pipeline = self._with.pipeline_of(task)
        evidence = await asyncio.to_thread(self._with.gates.look, task, pipeline, command)
        looked = events.GateLooked(
            at=self._with.clock(), stage=command.stage, visit=command.visit, turn=command.turn, evidence=evidence
        )
        self._post(task.id, looked)

    def _checked_out(self, task: Task, command: do.RunCheck) -> Path:
        """The folder for a check; those of the checks before it go, the last one stays for a person to look at."""
        checkout = self._with.workspace.checkout(task.id, command.commit, Path(command.folder).name)
        self._with.workspace.discard(task.id, keep=checkout)
        return checkout

    async def _deliver(self, task: Task, command: do.DeliverBranch) -> None:
        done = await asyncio.to_thread(self._delivered, task, command)
        self._post(task.id, events.BranchDelivered(at=self._with.clock(), branch=done, commit=command.commit))

    def _delivered(self, task: Task, command: do.DeliverBranch) -> str:
        workspace = self._with.workspace
        self._with.gates.refuse_leaks(task, command.commit)
        delivered = workspace.deliver(task.id, Path(task.source.repo), command.branch, command.commit)
        workspace.discard(task.id)
        return delivered.branch
