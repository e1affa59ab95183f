"""Executing commands: each checks first whether its effect is already there, then brings it about, then posts an event.

Commands of one task are executed in the order in which they were given, those of different tasks concurrently; only
freezing, thawing and notifying do not wait for earlier ones. A command that fails for a reason that a person can fix
becomes `CommandFailed`. A bug is not caught: it ends the daemon, which issues every outstanding command again when it
restarts.
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
from orchestrator.core.events.notice import Notice
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.daemon.child_tasks import ChildTasks
from orchestrator.daemon.reporting.projections import ProjectionWriter
from orchestrator.daemon.runs import RunExecutor
from orchestrator.daemon.timers import Timers
from orchestrator.errors import OrchestratorError
from orchestrator.integrations.publishing.publisher import Publisher
from orchestrator.supervisor.inbox import Inbox
from orchestrator.workspaces.checkpoints import Checkpoints
from orchestrator.workspaces.evaluation.gates import Gates
from orchestrator.workspaces.parent_branch import ParentBranch
from orchestrator.workspaces.plain_folder import bring_back
from orchestrator.workspaces.workspace import Workspace

log = structlog.get_logger()

PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN})
"""Shortages of the machine that end without anything being done about the task."""
RETRY_SECONDS = 5.0


class CommandTurns:
    """Lets one command of a task run at a time; whoever holds a task's turn keeps its other commands waiting."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, task_id: str) -> AsyncGenerator[None]:
        """Hold the task's turn: meanwhile none of its commands is executed except freezing and thawing."""
        lock = self._locks.setdefault(task_id, asyncio.Lock())  # it lives while anybody holds or awaits it
        async with lock:
            yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """What commands are executed with.

    `notify` stores a notice to be sent; it returns None if there is no channel, else why that failed, mostly empty.
    """

    running: RunExecutor
    workspace: Workspace
    checkpoints: Checkpoints
    gates: Gates
    publisher: Publisher
    children: ChildTasks
    projections: ProjectionWriter
    timers: Timers
    turns: CommandTurns
    notify: Callable[[Task, Notice], Awaitable[str | None]]
    pipeline_of: Callable[[Task], Pipeline]
    clock: Callable[[], datetime]
    redact: Callable[[str], str]


class CommandExecutor:
    """Gives each command to the adapter that can execute it; `failed` is done when a bug has occurred."""

    def __init__(self, adapters: Adapters, inbox: Inbox) -> None:
        self._with, self._inbox = adapters, inbox
        self._working: set[asyncio.Task[None]] = set()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def execute(self, task: Task, command: do.Command) -> None:
        """Start to execute a command; the result is posted as an event."""
        match command:
            case do.WakeAt():
                self._wake(task, command)
            case do.FollowRun():
                self._with.running.follow(task, command.folder)
            case do.FreezeRun() | do.ThawRun() | do.TellPerson():
                self._begin(self._guarded(task, command))
            case _:
                self._begin(self._in_turn(task, command))

    def run_alive(self, task: Task) -> bool:
        """Return whether the holder of the task's run is alive."""
        return self._with.running.alive(task)

    def abandon(self, task: Task) -> None:
        """Kill what is left of a task that can no longer be decided about."""
        self._with.running.abandon(task)

    def checkpoint(self, task: Task, reason: Reason) -> None:
        """Start to save what recovery needs beyond the state; a burst of calls takes one checkpoint."""
        if self._with.checkpoints.ask(task, reason):
            self._begin(self._with.checkpoints.take(task.id))

    async def settled(self) -> None:
        """Wait until no command is being executed."""
        while self._working:
            await asyncio.wait(set(self._working))

    async def close(self) -> None:
        """Cancel the commands being executed; they stay outstanding and are issued again at the next start."""
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
        async with self._with.turns.turn(task.id):
            await self._guarded(task, command)

    async def _guarded(self, task: Task, command: do.Command) -> None:
        try:
            await self._retry(task, command)
        except (OrchestratorError, OSError) as error:
            reason = self._with.redact(str(error))
            log.warning("command_failed", task=task.id, command=type(command).__name__, reason=reason)
            self._inbox.post(task.id, events.CommandFailed(at=self._with.clock(), command=command, reason=reason))

    async def _retry(self, task: Task, command: do.Command) -> None:
        """Execute a command, again and again while it fails for a passing shortage of the machine."""
        while True:
            try:
                return await self._execute(task, command)
            except OSError as error:
                if error.errno not in PASSING:
                    raise
                log.warning("command_postponed", task=task.id, command=type(command).__name__, reason=str(error))
            await asyncio.sleep(RETRY_SECONDS)

    async def _execute(self, task: Task, command: do.Command) -> None:  # noqa: C901, PLR0912 - one case for each command
        running = self._with.running
        match command:
            case do.PrepareWorkspace():
                await self._prepare(task, command)
            case do.StartAgent():
                await self._restore_worktree(task)
                await self._with.projections.written(task)
                await running.start_agent(task, command)
            case do.SendTurn():
                await asyncio.to_thread(self._with.gates.prepare, task, self._with.pipeline_of(task))
                await running.send_turn(task, command)
            case do.SendAnswer():
                await running.send_answer(task, command)
            case do.InterruptTurn():
                await running.interrupt(task, command)
            case do.TellPerson():
                await self._notify(task, command)
            case do.StopRun():
                await running.stop(task, command)
            case do.FreezeRun():
                await running.freeze(task, command)
            case do.ThawRun():
                await running.thaw(task, command)
            case do.LookAtGate():
                await self._look_at_gate(task, command)
            case do.RunCheck() if not command.check.command:
                await running.inspect(task, command)
            case do.RunCheck():
                checkout = await asyncio.to_thread(self._checkout, task, command)
                await running.start_check(task, command, checkout)
            case do.DeliverBranch():
                await self._deliver(task, command)
            case do.JoinParent():
                await asyncio.to_thread(self._with.gates.refuse_leaks, task, command.commit)
                await self._with.children.join(task, command)
            case do.SubmitChildren():
                await self._with.children.submit(task, command)
            case do.FollowChildren():
                await self._with.children.follow(task, command)
            case do.CancelChildren():
                self._with.children.cancel(task, command)
            case do.FollowRun() | do.WakeAt():
                self.execute(task, command)
            case _:
                self._inbox.post(task.id, await self._with.publisher.execute(task, command))

    async def _notify(self, task: Task, command: do.TellPerson) -> None:
        """Store a notice in the outbox, which sends it; a task has nothing more to do with that."""
        notice = replace(command.notice, text=self._with.redact(command.notice.text))
        try:
            failure = await self._with.notify(task, notice)
        except OSError as error:
            if error.errno in PASSING:
                raise
            failure = f"it could not be stored: {self._with.redact(str(error))}"
        recorded = "no channel is set" if failure is None else failure
        self._inbox.post(task.id, events.PersonTold(at=self._with.clock(), key=notice.key, failure=recorded))

    def _wake(self, task: Task, command: do.WakeAt) -> None:
        def ring() -> None:
            self._inbox.post(task.id, events.AlarmRang(at=self._with.clock()))

        self._with.timers.ring_at(f"wake {task.id}", not_before(command.at), ring)

    async def _prepare(self, task: Task, command: do.PrepareWorkspace) -> None:
        prepare, at = self._with.workspace.prepare, f"{task.timing.created_at:%Y%m%d_%H%M%S}"
        base = ""
        if task.parent is not None:
            base = await asyncio.to_thread(ParentBranch(self._with.workspace, task.parent).tip)
        begin = base or task.source.commit
        made = await asyncio.to_thread(prepare, task.id, Path(task.source.repo), begin, command.branch, at)
        ready = events.WorkspaceReady(
            at=self._with.clock(), worktree=str(made.worktree), branch=made.branch, head=made.base_commit, base=base
        )
        self._inbox.post(task.id, ready)

    async def _restore_worktree(self, task: Task) -> None:
        """Restore a worktree that somebody removed, and record that."""
        restored_from = await asyncio.to_thread(self._with.checkpoints.restore_worktree, task)
        if restored_from is None:
            return
        log.warning("worktree_restored", task=task.id, restored_from=restored_from)
        source = task.source
        ready = events.WorkspaceReady(
            at=self._with.clock(),
            worktree=source.worktree or "",
            branch=source.branch,
            head=source.commit,
            restored_from=restored_from,
        )
        self._inbox.post(task.id, ready)

    async def _look_at_gate(self, task: Task, command: do.LookAtGate) -> None:
        await self._restore_worktree(task)
        pipeline = self._with.pipeline_of(task)
        if pipeline.stage(command.stage).work.has_children:
            await self._with.children.bring_home(task)
        if pipeline.stage(command.stage).work.records:
            await self._with.projections.written(task)
            await asyncio.to_thread(self._with.gates.record, task, pipeline, command.stage)
        evidence = await asyncio.to_thread(self._with.gates.look, task, pipeline, command)
        looked = events.GateLooked(
            at=self._with.clock(), stage=command.stage, visit=command.visit, turn=command.turn, evidence=evidence
        )
        self._inbox.post(task.id, looked)

    def _checkout(self, task: Task, command: do.RunCheck) -> Path:
        """Return the checkout for a check; earlier ones are removed, the last one is kept for people to look at."""
        checkout = self._with.workspace.checkout(task.id, command.commit, Path(command.folder).name)
        self._with.workspace.discard(task.id, keep=checkout)
        return checkout

    async def _deliver(self, task: Task, command: do.DeliverBranch) -> None:
        done = await asyncio.to_thread(self._deliver_now, task, command)
        self._inbox.post(task.id, events.BranchDelivered(at=self._with.clock(), branch=done, commit=command.commit))

    def _deliver_now(self, task: Task, command: do.DeliverBranch) -> str:
        workspace = self._with.workspace
        self._with.gates.refuse_leaks(task, command.commit)
        source = task.source
        delivered = workspace.deliver(task.id, Path(source.repo), command.branch, command.commit)
        if source.plain_folder:
            bring_back(Path(source.repo), Path(source.plain_folder), source.base_commit, command.commit)
        workspace.discard(task.id)
        return delivered.branch
