"""Carries out commands against the simulated world: each is skipped if its effect exists, and reports a little later.

Commands of one task are carried out in order, as the real dispatcher does it; only freezing, thawing and notices pass
the others. What is in flight when the daemon dies is lost with it, whether its effect has happened or not.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import assert_never

from orchestrator.core.decide.work import following
from orchestrator.core.events import commands as do
from orchestrator.core.events import events, run_events
from orchestrator.core.events.agent_events import Limit
from orchestrator.core.events.child_events import ChildrenSubmitted
from orchestrator.core.events.publish_events import BranchReplayed
from orchestrator.core.task.agent import Agent
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.task import Task
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.protocols import TaskLookups
from orchestrator.supervisor.simulation.agents import AgentTree, SimulatedLine, SimulatedProgress
from orchestrator.supervisor.simulation.clockwork.virtual_clock import ScheduledCall
from orchestrator.supervisor.simulation.memory import FaultInjector
from orchestrator.supervisor.simulation.trees import CheckTree, SimulatedTree
from orchestrator.supervisor.simulation.world import World


@dataclass(slots=True)
class _Reader:
    """The reader of a run, and how many of its lines it has read."""

    tree: SimulatedTree
    lines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMachine:
    """What a daemon process finds when it starts; `stored` is every task on its disk."""

    world: World
    faults: FaultInjector
    stored: Mapping[str, Task]
    lookups: TaskLookups


class SimulatedExecutor:
    """Executes the commands of one daemon process, from its start to its crash; `has_news` is set with every event."""

    def __init__(
        self,
        machine: SimulatedMachine,
        inbox: Inbox,
        on_command: Callable[[Task, do.Command], None],
    ) -> None:
        self.has_news = True
        self.abandoned: list[str] = []
        self.alarms: dict[str, ScheduledCall] = {}
        self.in_flight: Counter[str] = Counter()
        self._world, self._faults, self._on_command = machine.world, machine.faults, on_command
        self._stored, self._lookups = machine.stored, machine.lookups
        self._inbox = inbox
        self._crashed = False
        self._ready_at: dict[str, datetime] = {}
        self._readers: dict[tuple[str, str], _Reader] = {}
        self._checkpoints: Counter[str] = Counter()
        machine.world.on_change = lambda tree: self._schedule(tree.task_id, 0.1, lambda: self._read(tree))

    def crash(self) -> None:
        """Drop everything that is in flight."""
        self._crashed = True
        self._world.on_change = lambda _: None

    def run_alive(self, task: Task) -> bool:
        """Whether the holder of the task's run is alive."""
        tree = self._world.tree(task.id, task.run.folder) if task.run else None
        return tree is not None and tree.alive

    def abandon(self, task: Task) -> None:
        """Record that the supervisor abandoned a task because of a bug."""
        self.abandoned.append(task.id)

    def checkpoint(self, task: Task, reason: Reason) -> None:  # noqa: ARG002 - the reason makes no difference here
        """Save a checkpoint, a little later."""
        self._checkpoints[task.id] += 1
        number = self._checkpoints[task.id]
        self._schedule(task.id, 2.0, lambda: self._post(task.id, events.CheckpointSaved(at=self._now, number=number)))

    def execute(self, task: Task, command: do.Command) -> None:
        """Begin to carry out a command."""
        self._faults.step()
        self._on_command(task, command)
        match command:
            case do.WakeAt():
                self._wake(task, command.at)
            case do.FollowRun():
                self._schedule(task.id, 0.0, lambda: self._follow(task, command.folder))
            case do.FreezeRun() | do.ThawRun() | do.TellPerson():
                self._schedule(task.id, 0.5, lambda: self._carry_out(task, command))
            case _:
                now = self._now
                start = max(now, self._ready_at.get(task.id, now))
                self._ready_at[task.id] = start + timedelta(seconds=0.5)
                wait = (self._ready_at[task.id] - now).total_seconds()
                self._schedule(task.id, wait, lambda: self._carry_out(task, command))

    def _schedule(self, task_id: str, seconds: float, action: Callable[[], None]) -> None:
        """Schedule an action of this daemon process; it is dropped if the daemon crashes before."""
        self.in_flight[task_id] += 1

        def run() -> None:
            if not self._crashed:
                self.in_flight[task_id] -= 1
                action()

        self._world.clock.schedule_after(seconds, run)

    def report_stalls(self, tasks: Mapping[str, Task], stall_after: float) -> None:
        """Post an event for every agent that has printed nothing in its turn for that many seconds."""
        for (task_id, _), reader in list(self._readers.items()):
            task, tree = tasks.get(task_id), reader.tree
            if task is None or not isinstance(tree, AgentTree) or not tree.hung or tree.frozen:
                continue
            if (self._now - tree.last_activity).total_seconds() >= stall_after:
                tree.last_activity = self._now
                agent = task.agent
                seen = events.StallSeen(
                    at=self._now, attempt=agent.attempt, turn=agent.turn.number, evidence="no output"
                )
                self._post(task.id, seen)

    @property
    def _now(self) -> datetime:
        return self._world.clock.now

    def _post(self, task_id: str, event: events.Event) -> None:
        self.has_news = True
        self._inbox.post(task_id, event)

    def _report(self, task: Task, event: Callable[[datetime], events.Event]) -> None:
        """Report an effect a moment after it happened: the daemon may crash in between."""
        self._schedule(task.id, 0.5, lambda: self._post(task.id, event(self._now)))

    def _wake(self, task: Task, at: datetime) -> None:
        """Set the alarm of a task, which replaces its earlier alarm."""
        if task.id in self.alarms:
            self.alarms[task.id].cancelled = True

        def ring() -> None:
            if not self._crashed:
                self._post(task.id, events.AlarmRang(at=self._now))

        self.alarms[task.id] = self._world.clock.schedule_at(at, ring)

    def _carry_out(self, task: Task, command: do.Command) -> None:  # noqa: C901, PLR0912 - one case for each command
        world = self._world
        match command:
            case do.PrepareWorkspace():
                self._prepare(task, command)
            case do.StartAgent():
                world.start_agent(task, command, self._lookups.model_of(task))
                self._started(task, f"agents/{command.attempt}")
            case do.RunCheck():
                world.start_check(task, command)
                self._started(task, command.folder)
            case do.SendTurn():
                tree = world.tree(task.id, f"agents/{command.attempt}")
                if isinstance(tree, AgentTree):
                    tree.accept(task, command)
            case do.SendAnswer():
                self._answer(task, command)
            case do.InterruptTurn():
                tree = world.tree(task.id, f"agents/{command.attempt}")
                if isinstance(tree, AgentTree) and tree.alive:
                    tree.interrupt()
            case do.StopRun():
                self._stop(task, command)
            case do.FreezeRun():
                self._freeze(task, command)
            case do.ThawRun():
                self._thaw(task, command)
            case do.LookAtGate():
                self._inspect_gate(task, command)
            case do.DeliverBranch():
                self._deliver(task, command)
            case (
                do.OpenPullRequest()
                | do.LookAtPullRequest()
                | do.MergePullRequest()
                | do.PrepareRelease()
                | do.TagRelease()
                | do.PostReport()
            ):
                self._report(task, world.forge.execute(task.id, command))
            case do.JoinParent():
                self._join(task, command)
            case do.SubmitChildren():
                self._submit_children(task, command)
            case do.FollowChildren():
                for name in command.tasks:
                    child = self._stored.get(name)
                    if child is None or child.is_over:
                        self._post(task.id, following.end_of(child, name, self._now))
            case do.CancelChildren():
                for name in command.tasks:
                    self._post(name, events.CancelRequested(at=self._now, by=task.id))
            case do.TellPerson():
                world.notify(task.id, command.notice.key)
                self._report(task, lambda at: events.PersonTold(at=at, key=command.notice.key))
            case do.WakeAt() | do.FollowRun():
                self.execute(task, command)
            case _:
                assert_never(command)

    def _submit_children(self, task: Task, command: do.SubmitChildren) -> None:
        stage = self._lookups.pipeline_of(task).stage(task.stage)
        for child in command.children:
            if child.task not in self._stored:
                made = following.task_of(task, stage, child, self._now)
                event = events.TaskSubmitted(at=self._now, task=made, by=task.id)
                self._inbox.send(made.id, event).add_done_callback(_ignore)
        self._report(task, lambda at: ChildrenSubmitted(at=at, tasks=tuple(one.task for one in command.children)))

    def _join(self, task: Task, command: do.JoinParent) -> None:
        replayed = self._world.join(task, command)
        if replayed is not None:
            conflicts = ("src/both.py",) if self._world.rng.random() < self._world.probabilities.command_fails else ()
            commit = None if conflicts else replayed
            self._report(task, lambda at: BranchReplayed(at=at, onto="d" * 40, commit=commit, conflicts=conflicts))
            return
        branch = task.source.branch
        self._report(task, lambda at: events.BranchDelivered(at=at, branch=branch, commit=command.commit))

    def _prepare(self, task: Task, command: do.PrepareWorkspace) -> None:
        if self._world.rng.random() < self._world.probabilities.command_fails:
            reason = "the repository cannot be cloned"
            self._report(task, lambda at: events.CommandFailed(at=at, command=command, reason=reason))
            return
        self._world.begin_on_parent(task)
        self._report(
            task,
            lambda at: events.WorkspaceReady(
                at=at, worktree=f"/w/{task.id}", branch=command.branch, head=task.source.base_commit
            ),
        )

    def _deliver(self, task: Task, command: do.DeliverBranch) -> None:
        if self._world.rng.random() < self._world.probabilities.command_fails:
            reason = "the branch of that name has diverged"
            self._report(task, lambda at: events.CommandFailed(at=at, command=command, reason=reason))
            return
        self._world.deliver(task.id, command.commit)
        self._report(task, lambda at: events.BranchDelivered(at=at, branch=command.branch, commit=command.commit))

    def _started(self, task: Task, folder: str) -> None:
        self._report(task, lambda at: run_events.RunStarted(at=at, folder=folder, pid=1))

    def _answer(self, task: Task, command: do.SendAnswer) -> None:
        tree = self._world.tree(task.id, f"agents/{command.attempt}")
        if isinstance(tree, AgentTree):
            tree.answer(command.request_id)
        self._report(task, lambda at: events.AnswerSent(at=at, attempt=command.attempt, request_id=command.request_id))

    def _inspect_gate(self, task: Task, command: do.LookAtGate) -> None:
        evidence = self._world.inspect(task, command)
        self._report(
            task,
            lambda at: events.GateLooked(
                at=at, stage=command.stage, visit=command.visit, turn=command.turn, evidence=evidence
            ),
        )

    def _stop(self, task: Task, command: do.StopRun) -> None:
        self._follow(task, command.folder)
        tree = self._world.tree(task.id, command.folder)
        if tree is None:
            self._post_end(task.id, command.folder, None)
        elif isinstance(tree, AgentTree) and tree.alive:
            tree.stop(command.interrupt)
        elif tree.alive:
            tree.exit(None)

    def _freeze(self, task: Task, command: do.FreezeRun) -> None:
        tree = self._world.tree(task.id, command.folder)
        if tree is None or not tree.alive:
            self._follow(task, command.folder)
        elif not tree.frozen and self._world.rng.random() < self._world.probabilities.freeze_fails:
            self._report(task, lambda at: run_events.FreezeFailed(at=at, folder=command.folder, survivors=(7,)))
        else:
            tree.freeze()
            tree.self_frozen = False
            self._report(task, lambda at: run_events.RunFrozen(at=at, folder=command.folder, stopped=(1,)))

    def _thaw(self, task: Task, command: do.ThawRun) -> None:
        tree = self._world.tree(task.id, command.folder)
        if tree is None or not tree.alive:
            self._follow(task, command.folder)
            return
        tree.thaw()
        self._report(task, lambda at: run_events.RunThawed(at=at, folder=command.folder))

    def _follow(self, task: Task, folder: str) -> None:
        """Read a run from where reading stopped, unless it is being read already."""
        tree = self._world.tree(task.id, folder)
        if tree is None:
            return
        if (task.id, folder) not in self._readers:
            read = task.agent.read_offset if folder == f"agents/{task.agent.attempt}" else 0
            lines = sum(line.end <= read for line in tree.lines) if isinstance(tree, AgentTree) else 0
            self._readers[task.id, folder] = _Reader(tree, lines)
        self._read(tree)

    def _read(self, tree: SimulatedTree) -> None:
        """Read the new lines of a run, and post its end."""
        reader = self._readers.get((tree.task_id, tree.folder))
        if reader is None:
            return
        if isinstance(tree, AgentTree):
            for line in tree.lines[reader.lines :]:
                reader.lines += 1
                self._read_line(tree, line)
        if not tree.alive:
            del self._readers[tree.task_id, tree.folder]
            self._post_end(tree.task_id, tree.folder, tree)
        elif tree.self_frozen:
            self._post(tree.task_id, run_events.RunFrozen(at=self._now, folder=tree.folder))

    def _read_line(self, tree: AgentTree, line: SimulatedLine) -> None:
        match line.content:
            case Limit():
                self.has_news = True
                self._inbox.record_limit(line.content)
            case SimulatedProgress():
                offset, used = line.end, line.content

                def progressed(agent: Agent) -> Agent:
                    turn = replace(agent.turn, tokens=used.tokens, usd=used.usd)
                    return replace(agent, read_offset=offset, turn=turn)

                self.has_news = True
                self._inbox.note(tree.task_id, tree.attempt, progressed)
            case event:
                self._post(tree.task_id, replace(event, at=self._now))

    def _post_end(self, task_id: str, folder: str, tree: SimulatedTree | None) -> None:
        """Post that a run ended, or that it never started."""
        if folder.startswith("agents/"):
            code = tree.exit_code if tree is not None else None
            offset = tree.lines[-1].end if isinstance(tree, AgentTree) and tree.lines else 0
            attempt = int(folder.removeprefix("agents/"))
            ended: events.Event = events.AgentExited(
                at=self._now, attempt=attempt, reason="the agent ended", code=code, offset=offset
            )
        else:
            result = tree.result if isinstance(tree, CheckTree) else None
            name = tree.name if isinstance(tree, CheckTree) else ""
            ended = run_events.CheckFinished(at=self._now, folder=folder, name=name, result=result)
        self._post(task_id, ended)


def _ignore(answer: "asyncio.Future[Task]") -> None:
    """Read a refusal, so that it is not reported: the parent no longer waits for its children."""
    if not answer.cancelled():
        answer.exception()
