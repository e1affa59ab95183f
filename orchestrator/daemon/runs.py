"""Runs, which are agents and checks: starting them, talking to them, freezing them and reading what they say.

A run is named by its folder: `agents/<attempt>` or `logs/<cycle>-<check>`. Whatever happens to a run, its end is posted
exactly once per daemon process, and only after all of its output was read.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import structlog

from orchestrator.agents.exit_reason import final_output, reason_of
from orchestrator.agents.output_reader import LONGEST_REQUEST, OutputReader, ReaderCallbacks, last_message
from orchestrator.core.decide.obligations import agent_run_folder
from orchestrator.core.events import commands as do
from orchestrator.core.events import events, run_events
from orchestrator.core.events.agent_events import Asked
from orchestrator.core.schedule.trouble import Trouble, TroubleKind
from orchestrator.core.task.agent import ProcessState, SessionOrigin
from orchestrator.core.task.checks import Check, CheckResult
from orchestrator.core.task.task import Task
from orchestrator.core.task.user_requests import DECIDE_YOURSELF, Answer, RequestDraft
from orchestrator.daemon.callers import issue_token
from orchestrator.daemon.launching import LaunchConfig, order_of
from orchestrator.errors import OrchestratorError
from orchestrator.formats.files import make_private
from orchestrator.pipelines.role import answer_of
from orchestrator.processes.output import RunOutput
from orchestrator.processes.process_stats import holder_of, kill_run
from orchestrator.processes.run_state import has_begun, pid_of, seconds_of
from orchestrator.processes.runs import Runs
from orchestrator.processes.spec import Exit, RunGone, RunSpec, Stdin, StoppedBy, Usage
from orchestrator.redaction.masking import Masks, masks_of
from orchestrator.storage.task_files import AGENTS, TaskFiles
from orchestrator.supervisor.inbox import Inbox
from orchestrator.workspaces.evaluation.judge import CLEANUP_GRACE, REPORT, CheckRun, argv, environment
from orchestrator.workspaces.outbox import import_files

log = structlog.get_logger()


@dataclass(slots=True)
class _Followed:
    """A run whose output and end are watched: an agent with the reader of its output, or a check.

    `holder` identifies its holder if it is known to have begun. `reads_on` is set while more output waits than is read
    at a time.
    """

    task: Task
    run: str
    holder: str
    follower: OutputReader | None
    check: Check | None
    reads_on: bool = False


class RunExecutor:
    """All runs of all tasks; reports to the inbox what happens to them, and what agents say."""

    def __init__(
        self, runs: Runs, launching: LaunchConfig, inbox: Inbox, clock: Callable[[], datetime], files: TaskFiles
    ) -> None:
        self._runs, self.launching, self._inbox, self._clock, self._files = runs, launching, inbox, clock, files
        self._followed: dict[Path, _Followed] = {}
        self._answers: set[asyncio.Task[bool]] = set()
        self._judging: set[asyncio.Task[None]] = set()
        runs.watch(self._look, self._read)

    def launch_with(self, launching: LaunchConfig) -> None:
        """Start later runs with another configuration; present ones keep theirs."""
        self.launching = launching

    def alive(self, task: Task) -> bool:
        """Return whether the holder of the task's run is alive."""
        return task.run is not None and self._runs.is_alive(self._files.run_folder(task.id, task.run.folder))

    def usage(self, task: Task) -> Usage | None:
        """Return what the task's run takes of the machine; None without a run."""
        return self._runs.usage(self._files.run_folder(task.id, task.run.folder)) if task.run is not None else None

    def last_message(self, task: Task) -> str:
        """Return the last message of the task's present agent; empty if there is none. Blocks."""
        folder = self._files.run_folder(task.id, agent_run_folder(task.agent.attempt))
        return last_message(folder, task.agent.read_offset)

    async def start_agent(self, task: Task, command: do.StartAgent) -> None:
        """Start an agent in a role; do nothing if that attempt began before.

        An agent that resumes the session of the one before finds in its outbox what the session left there. If the
        program of agents is not fit for use, that is reported instead; then the task is paused, and the command given
        again later.
        """
        folder = self._files.run_folder(task.id, agent_run_folder(command.attempt))
        executable = None
        if self.launching.installation is not None and not has_begun(folder):
            try:
                executable = await asyncio.to_thread(self.launching.installation.usable)
            except OrchestratorError as error:
                self._inbox.report_agents(Trouble(kind=TroubleKind.INSTALLATION, reason=str(error)))
                return
        outbox = make_private(folder / "out")
        if task.agent.session.origin is SessionOrigin.RESUMED and not has_begun(folder):
            import_files(folder.with_name(str(command.attempt - 1)) / "out", ("*",), outbox)
        word = "" if has_begun(folder) else issue_token(folder)
        order = await asyncio.to_thread(order_of, self.launching, task, command, self._files, word)
        order = replace(order, executable=executable)
        process = self.launching.driver.launch(order)
        await asyncio.to_thread(process.prepare)
        isolation = self.launching.isolation
        spec = RunSpec(
            run=f"{task.id}/{agent_run_folder(command.attempt)}",
            wrap=await asyncio.to_thread(isolation.of_agent, task, command.attempt, order, process),
            argv=process.argv,
            cwd=order.cwd,
            env=process.env,
            secret=frozenset(order.provided),
            masks=await self._masks(task),
            limits=self.launching.limits,
        )
        await self._start(task, agent_run_folder(command.attempt), spec)

    async def start_check(self, task: Task, command: do.RunCheck, checkout: Path) -> None:
        """Start a check in its checkout; do nothing if that run began before."""
        limits, isolation = replace(self.launching.limits, orphan_after=None), self.launching.isolation
        report = self._files.run_folder(task.id, command.folder) / REPORT
        make_private(report.parent)
        spec = RunSpec(
            run=f"{task.id}/{command.folder}",
            wrap=await asyncio.to_thread(isolation.of_check, task, command.check, report, checkout),
            argv=argv(command.check),
            cwd=checkout,
            env=environment(self.launching.base_env) | {"ORCHESTRATOR_REPORT": str(report)},
            timeout=command.check.timeout,
            stdin=Stdin.NULL,
            masks=await self._masks(task),
            limits=replace(limits, term_grace=CLEANUP_GRACE) if command.check.cleanup else limits,
        )
        await self._start(task, command.folder, spec)

    async def inspect(self, task: Task, command: do.RunCheck) -> None:
        """Do a check that has no command, because the daemon looks by itself, and post its result."""
        result = await asyncio.to_thread(self.launching.judge.of_look, task, command.check)
        name = command.check.name
        self._inbox.post(
            task.id, run_events.CheckFinished(at=self._clock(), folder=command.folder, name=name, result=result)
        )

    async def send_turn(self, task: Task, command: do.SendTurn) -> None:
        """Send an agent its turn; the CLI runs the same uuid only once."""
        line = self.launching.driver.turn(command.text, command.uuid)
        await self._runs.send(self._files.run_folder(task.id, agent_run_folder(command.attempt)), line)

    async def send_answer(self, task: Task, command: do.SendAnswer) -> None:
        """Answer a request of an agent, whose line is found again in its output; post an event if it was sent.

        The request's offset may lie behind a line end that was cut off, so reading begins one byte before it.
        """
        folder = self._files.run_folder(task.id, agent_run_folder(command.attempt))
        before = max(0, command.requests[0].draft.start - 1)
        found, _ = RunOutput(folder).lines_from(before, LONGEST_REQUEST + 2)
        request = found.lstrip(b"\n").partition(b"\n")[0]
        if not await self._send(folder, self.launching.driver.answer(request, command.requests)):
            return
        sent = events.AnswerSent(at=self._clock(), attempt=command.attempt, request_id=command.request_id)
        self._inbox.post(task.id, sent)

    async def interrupt(self, task: Task, command: do.InterruptTurn) -> None:
        """Interrupt an agent's turn; the agent itself reports its end."""
        request = f"interrupt-{command.attempt}-{command.turn}"
        await self._send(
            self._files.run_folder(task.id, agent_run_folder(command.attempt)), self.launching.driver.interrupt(request)
        )

    async def freeze(self, task: Task, command: do.FreezeRun) -> None:
        """Freeze a run's process tree, and post that it is frozen or which processes did not stop."""
        folder = self._files.run_folder(task.id, command.folder)
        try:
            frozen = await self._runs.freeze(folder)
        except RunGone:
            self._look(folder)
            return
        event = (
            run_events.FreezeFailed(at=self._clock(), folder=command.folder, survivors=frozen.survivors)
            if frozen.survivors
            else run_events.RunFrozen(at=self._clock(), folder=command.folder, stopped=frozen.stopped)
        )
        self._inbox.post(task.id, event)

    async def thaw(self, task: Task, command: do.ThawRun) -> None:
        """Thaw a run's process tree, and post that it runs again."""
        folder = self._files.run_folder(task.id, command.folder)
        try:
            await self._runs.thaw(folder)
        except RunGone:
            self._look(folder)
            return
        self._inbox.post(task.id, run_events.RunThawed(at=self._clock(), folder=command.folder))

    async def stop(self, task: Task, command: do.StopRun) -> None:
        """Start to stop a run; its end is posted when it has ended."""
        folder = self._files.run_folder(task.id, command.folder)
        self.follow(task, command.folder)
        holder, limits = self._followed[folder].holder, self.launching.limits
        if not holder and not has_begun(folder) and not self._runs.is_alive(folder):
            kill_run(folder)  # the daemon may have ended while it started it
            self._end(folder, "it was never started", None)
            return
        running = task.run is not None and task.run.process is ProcessState.RUNNING
        if command.interrupt and running and self._runs.is_alive(folder):
            request = f"interrupt-{task.agent.attempt}-{task.agent.turn.number}"
            await self._send(folder, self.launching.driver.interrupt(request))
        is_agent = command.folder.startswith(f"{AGENTS}/")
        longest = limits.longest_stop if is_agent else replace(limits, term_grace=CLEANUP_GRACE).longest_stop
        await self._runs.stop(folder, holder, longest)
        self._look(folder)

    def follow(self, task: Task, run: str) -> None:
        """Watch a run from where reading stopped; do nothing if it is watched already."""
        folder = self._files.run_folder(task.id, run)
        if folder not in self._followed:
            is_agent = run.startswith("agents/")
            self._followed[folder] = _Followed(
                task=task,
                run=run,
                holder=task.run.holder if task.run is not None and task.run.folder == run else "",
                follower=self._follower(task, folder) if is_agent else None,
                check=None if is_agent else task.evaluation.next_check,
            )
            self._runs.adopt(folder)
        asyncio.get_running_loop().call_soon(self._look, folder)

    def abandon(self, task: Task) -> None:
        """Kill what is left of a task that can no longer be decided about."""
        holders = {folder: "" for folder in self._files.run_folders(task.id) if self._runs.is_alive(folder)}
        if task.run is not None:
            holders[self._files.run_folder(task.id, task.run.folder)] = task.run.holder
        for folder, holder in holders.items():
            self._followed.pop(folder, None)
            log.warning("processes_killed", task=task.id, pids=kill_run(folder, holder))

    async def _masks(self, task: Task) -> Masks:
        return masks_of(await asyncio.to_thread(self.launching.masked, task))

    async def _start(self, task: Task, run: str, spec: RunSpec) -> None:
        folder = self._files.run_folder(task.id, run)
        await self._runs.start(folder, spec)
        pid, holder = pid_of(folder), holder_of(folder)
        self._inbox.post(task.id, run_events.RunStarted(at=self._clock(), folder=run, pid=pid, holder=holder))

    def _follower(self, task: Task, folder: Path) -> OutputReader:
        def asked(request: Asked) -> None:
            line = self.launching.driver.refuse(request.request_id, DECIDE_YOURSELF)
            answer = asyncio.get_running_loop().create_task(self._send(folder, line))
            self._answers.add(answer)
            answer.add_done_callback(self._answers.discard)

        def by_role(draft: RequestDraft) -> Answer | None:
            return answer_of(self.launching.role(task.agent.role or ""), draft)

        callbacks = ReaderCallbacks(
            event=lambda event: self._inbox.post(task.id, event),
            telemetry=lambda change: self._inbox.note(task.id, task.agent.attempt, change),
            asked=asked,
            by_role=by_role,
            limit=self._inbox.record_limit,
            clock=self._clock,
        )
        return OutputReader(folder, task.agent, self.launching.driver.parser, callbacks)

    async def _send(self, folder: Path, line: bytes) -> bool:
        """Send a line and return whether the run took it; one that has ended needs it no more."""
        try:
            await self._runs.send(folder, line)
        except OrchestratorError as error:
            log.info("line_not_sent", run=str(folder), reason=str(error))
            return False
        return True

    def _read(self, folder: Path) -> None:
        """Read what a run has said: some of it now, and the rest after others had their turn."""
        followed = self._followed.get(folder)
        if followed is None or followed.follower is None or followed.reads_on:
            return
        if followed.follower.read():
            followed.reads_on = True
            asyncio.get_running_loop().call_soon(self._read_on, folder)

    def _read_on(self, folder: Path) -> None:
        followed = self._followed.get(folder)
        if followed is not None:
            followed.reads_on = False
            self._look(folder)

    def _look(self, folder: Path) -> None:
        """Read what a run has said; post its end when that was all, or that its holder froze it."""
        followed = self._followed.get(folder)
        if followed is None:
            return
        end = self._runs.exit_of(folder, followed.holder)
        self._read(folder)
        if followed.reads_on:
            return
        if end is not None:
            complaint = followed.follower.complaint if followed.follower else ""
            self._end(folder, reason_of(end, complaint or final_output(folder)), end)
        elif self._runs.froze_itself(folder):
            self._inbox.post(followed.task.id, run_events.RunFrozen(at=self._clock(), folder=followed.run))

    def _end(self, folder: Path, reason: str, end: Exit | None) -> None:
        followed = self._followed.pop(folder)
        if followed.follower is not None:
            self._post_agent_exit(followed.task, followed.follower, reason, end)
        elif followed.check is not None:
            self._post_check_end(followed, folder, followed.check, end)

    def _post_agent_exit(self, task: Task, follower: OutputReader, reason: str, end: Exit | None) -> None:
        event = events.AgentExited(
            at=self._clock(),
            attempt=task.agent.attempt,
            reason=reason,
            is_lost=end is not None and (end.lost or end.stopped_by is StoppedBy.SHUTDOWN),
            code=end.code if end else None,
            signal=end.signal if end else None,
            offset=follower.offset,
            swept=end.swept if end else (),
        )
        self._inbox.post(task.id, event)

    def _post_check_end(self, followed: _Followed, folder: Path, check: Check, end: Exit | None) -> None:
        """Post a check's end. One that was stopped, or ended with its holder or the machine, has no result.

        It is run again if it is still needed.
        """
        if end is None or end.lost or end.stopped_by in {StoppedBy.REQUEST, StoppedBy.SHUTDOWN}:
            self._post_result(followed.task, followed.run, check, None)
            return
        ended = _ended(followed.run, folder, end)
        judging = asyncio.get_running_loop().create_task(self._judge(followed.task, check, ended))
        self._judging.add(judging)
        judging.add_done_callback(self._judging.discard)

    async def _judge(self, task: Task, check: Check, ended: CheckRun) -> None:
        """Post the result of a check; one whose result cannot be read is run again, as a lost one is."""
        try:
            result = await asyncio.to_thread(self.launching.judge.of_run, task, check, ended)
        except Exception:  # without a result the task would wait for the check forever
            log.exception("check_not_judged", task=task.id, check=check.name)
            result = None
        self._post_result(task, ended.run, check, result)

    def _post_result(self, task: Task, run: str, check: Check, result: CheckResult | None) -> None:
        self._inbox.post(
            task.id, run_events.CheckFinished(at=self._clock(), folder=run, name=check.name, result=result)
        )


def _ended(run: str, folder: Path, end: Exit) -> CheckRun:
    return CheckRun(
        run=run,
        folder=folder,
        exit_code=-end.signal if end.signal else end.code,
        timed_out=end.timed_out,
        spawn_error=end.spawn_error,
        seconds=seconds_of(folder),
    )
