"""What carries commands out in a simulated world: each one looks for its effect first, and tells of it a little later.

Commands of one task are carried out in their order, as dispatch.py does it; only freezing, thawing and telling go by.
What is under way when the daemon dies is gone with it, whether the world has felt it or not.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import assert_never

from orchestrator.core.events import commands as do
from orchestrator.core.events import events
from orchestrator.core.events.agent_events import Limit
from orchestrator.core.task.agent import Agent
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.task import Task
from orchestrator.supervisor.simulation.agents import AgentTree, Line, Progress
from orchestrator.supervisor.simulation.memory import Plug
from orchestrator.supervisor.simulation.trees import CheckTree, Tree
from orchestrator.supervisor.simulation.virtual_clock import Due
from orchestrator.supervisor.simulation.world import World
from orchestrator.supervisor.supervisor import Supervisor


@dataclass(slots=True)
class _Listening:
    """A run that is listened to, and how many of its lines were taken in."""

    tree: Tree
    lines: int = 0


class SimulatedExecutor:
    """The hands of one life of the daemon."""

    def __init__(
        self,
        world: World,
        plug: Plug,
        model_of: Callable[[Task], str],
        asked_for: Callable[[Task, do.Command], None],
    ) -> None:
        self.told = True
        self.lost: list[str] = []
        self.alarms: dict[str, Due] = {}
        self.under_way: Counter[str] = Counter()
        self._world, self._plug, self._model_of, self._asked_for = world, plug, model_of, asked_for
        self._supervisor: Supervisor
        self._dead = False
        self._ready: dict[str, datetime] = {}
        self._listening: dict[tuple[str, str], _Listening] = {}
        self._numbers: Counter[str] = Counter()

    def serve(self, supervisor: Supervisor) -> None:
        """Begin to tell a supervisor of the world."""
        self._supervisor = supervisor
        self._world.ring = lambda tree: self.later(tree.task_id, 0.1, lambda: self._look(tree))

    def die(self) -> None:
        """Nothing of what is under way happens any more."""
        self._dead = True
        self._world.ring = lambda _: None

    def run_alive(self, task: Task) -> bool:
        """Whether the task's run has a living holder."""
        tree = self._world.tree(task.id, task.run.folder) if task.run else None
        return tree is not None and tree.alive

    def abandon(self, task: Task) -> None:
        """A task was put aside for a bug; that is put on record."""
        self.lost.append(task.id)

    def checkpoint(self, task: Task, reason: Reason) -> None:  # noqa: ARG002 - all are alike here
        """Save what recovery needs, a little later."""
        self._numbers[task.id] += 1
        number = self._numbers[task.id]
        self.later(task.id, 2.0, lambda: self._post(task.id, events.CheckpointSaved(at=self._now, number=number)))

    def execute(self, task: Task, command: do.Command) -> None:
        """Begin to carry a command out."""
        self._plug.moment()
        self._asked_for(task, command)
        match command:
            case do.WakeAt():
                self._wake(task, command.at)
            case do.FollowRun():
                self.later(task.id, 0.0, lambda: self._follow(task, command.folder))
            case do.FreezeRun() | do.ThawRun() | do.TellPerson():
                self.later(task.id, 0.5, lambda: self._effect(task, command))
            case _:
                now = self._now
                start = max(now, self._ready.get(task.id, now))
                self._ready[task.id] = start + timedelta(seconds=0.5)
                wait = (self._ready[task.id] - now).total_seconds()
                self.later(task.id, wait, lambda: self._effect(task, command))

    def later(self, task_id: str, seconds: float, act: Callable[[], None]) -> None:
        """Do something in this life of the daemon, or never."""
        self.under_way[task_id] += 1

        def due() -> None:
            if not self._dead:
                self.under_way[task_id] -= 1
                act()

        self._world.timeline.after(seconds, due)

    def see_stalls(self, stall_after: float) -> None:
        """Tell of agents that give no sign of life in their turn."""
        for (task_id, _), listening in list(self._listening.items()):
            task, tree = self._supervisor.tasks.get(task_id), listening.tree
            if task is None or not isinstance(tree, AgentTree) or not tree.hung or tree.frozen:
                continue
            if (self._now - tree.sign).total_seconds() >= stall_after:
                tree.sign = self._now
                agent = task.agent
                seen = events.StallSeen(
                    at=self._now, attempt=agent.attempt, turn=agent.turn.number, evidence="no output"
                )
                self._post(task.id, seen)

    @property
    def _now(self) -> datetime:
        return self._world.timeline.now

    def _post(self, task_id: str, event: events.Event) -> None:
        self.told = True
        self._supervisor.post(task_id, event)

    def _told(self, task: Task, event: Callable[[datetime], events.Event]) -> None:
        """Tell of an effect a moment after it is there: the daemon may die in between."""
        self.later(task.id, 0.5, lambda: self._post(task.id, event(self._now)))

    def _wake(self, task: Task, at: datetime) -> None:
        """Ring at a time; a task has one alarm, the newest."""
        if task.id in self.alarms:
            self.alarms[task.id].off = True

        def ring() -> None:
            if not self._dead:
                self._post(task.id, events.AlarmRang(at=self._now))

        self.alarms[task.id] = self._world.timeline.at(at, ring)

    def _effect(self, task: Task, command: do.Command) -> None:  # noqa: C901, PLR0912 - one case for each command
        world = self._world
        match command:
            case do.PrepareWorkspace():
                self._prepare(task, command)
            case do.StartAgent():
                world.start_agent(task, command, self._model_of(task))
                self._started(task, f"agents/{command.attempt}")
            case do.RunCheck():
                world.start_check(task, command)
                self._started(task, command.folder)
            case do.SendTurn():
                tree = world.tree(task.id, f"agents/{command.attempt}")
                if isinstance(tree, AgentTree):
                    tree.take(task, command)
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
                self._look_at_gate(task, command)
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
                self._told(task, world.forge.execute(task.id, command))
            case do.TellPerson():
                world.tell(task.id, command.notice.key)
                self._told(task, lambda at: events.PersonTold(at=at, key=command.notice.key))
            case do.WakeAt() | do.FollowRun():
                self.execute(task, command)
            case _:
                assert_never(command)

    def _prepare(self, task: Task, command: do.PrepareWorkspace) -> None:
        if self._world.dice.random() < self._world.odds.cannot:
            reason = "the repository cannot be cloned"
            self._told(task, lambda at: events.CommandFailed(at=at, command=command, reason=reason))
            return
        self._told(
            task,
            lambda at: events.WorkspaceReady(
                at=at, worktree=f"/w/{task.id}", branch=command.branch, head=task.source.base_commit
            ),
        )

    def _deliver(self, task: Task, command: do.DeliverBranch) -> None:
        if self._world.dice.random() < self._world.odds.cannot:
            reason = "a branch of that name goes another way"
            self._told(task, lambda at: events.CommandFailed(at=at, command=command, reason=reason))
            return
        self._world.deliver(task.id, command.commit)
        self._told(task, lambda at: events.BranchDelivered(at=at, branch=command.branch, commit=command.commit))

    def _started(self, task: Task, folder: str) -> None:
        self._told(task, lambda at: events.RunStarted(at=at, folder=folder, pid=1))

    def _answer(self, task: Task, command: do.SendAnswer) -> None:
        tree = self._world.tree(task.id, f"agents/{command.attempt}")
        if isinstance(tree, AgentTree):
            tree.answer(command.request_id)
        self._told(task, lambda at: events.AnswerSent(at=at, attempt=command.attempt, request_id=command.request_id))

    def _look_at_gate(self, task: Task, command: do.LookAtGate) -> None:
        evidence = self._world.look(task, command)
        self._told(
            task,
            lambda at: events.GateLooked(
                at=at, stage=command.stage, visit=command.visit, turn=command.turn, evidence=evidence
            ),
        )

    def _stop(self, task: Task, command: do.StopRun) -> None:
        self._follow(task, command.folder)
        tree = self._world.tree(task.id, command.folder)
        if tree is None:
            self._tell_end(task.id, command.folder, None)
        elif isinstance(tree, AgentTree) and tree.alive:
            tree.stop(command.interrupt)
        elif tree.alive:
            tree.exit(None)

    def _freeze(self, task: Task, command: do.FreezeRun) -> None:
        tree = self._world.tree(task.id, command.folder)
        if tree is None or not tree.alive:
            self._follow(task, command.folder)
        elif not tree.frozen and self._world.dice.random() < self._world.odds.will_not_freeze:
            self._told(task, lambda at: events.FreezeFailed(at=at, folder=command.folder, survivors=(7,)))
        else:
            tree.freeze()
            tree.froze_itself = False
            self._told(task, lambda at: events.RunFrozen(at=at, folder=command.folder, stopped=(1,)))

    def _thaw(self, task: Task, command: do.ThawRun) -> None:
        tree = self._world.tree(task.id, command.folder)
        if tree is None or not tree.alive:
            self._follow(task, command.folder)
            return
        tree.thaw()
        self._told(task, lambda at: events.RunThawed(at=at, folder=command.folder))

    def _follow(self, task: Task, folder: str) -> None:
        """Listen to a run from where reading stopped; one that is listened to already stays so."""
        tree = self._world.tree(task.id, folder)
        if tree is None:
            return
        if (task.id, folder) not in self._listening:
            read = task.agent.read_offset if folder == f"agents/{task.agent.attempt}" else 0
            lines = sum(line.end <= read for line in tree.lines) if isinstance(tree, AgentTree) else 0
            self._listening[task.id, folder] = _Listening(tree, lines)
        self._look(tree)

    def _look(self, tree: Tree) -> None:
        """Take in what a run has said, and tell of its end."""
        listening = self._listening.get((tree.task_id, tree.folder))
        if listening is None:
            return
        if isinstance(tree, AgentTree):
            for line in tree.lines[listening.lines :]:
                listening.lines += 1
                self._hear(tree, line)
        if not tree.alive:
            del self._listening[tree.task_id, tree.folder]
            self._tell_end(tree.task_id, tree.folder, tree)
        elif tree.froze_itself:
            self._post(tree.task_id, events.RunFrozen(at=self._now, folder=tree.folder))

    def _hear(self, tree: AgentTree, line: Line) -> None:
        match line.meaning:
            case Limit():
                self.told = True
                self._supervisor.record_limit(line.meaning)
            case Progress():
                offset, tokens = line.end, line.meaning.tokens

                def heard(agent: Agent) -> Agent:
                    return replace(agent, read_offset=offset, turn=replace(agent.turn, tokens=tokens))

                self.told = True
                self._supervisor.note(tree.task_id, tree.attempt, heard)
            case event:
                self._post(tree.task_id, replace(event, at=self._now))

    def _tell_end(self, task_id: str, folder: str, tree: Tree | None) -> None:
        """That a run ended, or that it was never begun."""
        if folder.startswith("agents/"):
            code = tree.end.code if tree is not None and tree.end is not None else None
            offset = tree.lines[-1].end if isinstance(tree, AgentTree) and tree.lines else 0
            attempt = int(folder.removeprefix("agents/"))
            ended: events.Event = events.AgentExited(
                at=self._now, attempt=attempt, reason="the agent ended", code=code, offset=offset
            )
        else:
            result = tree.result if isinstance(tree, CheckTree) else None
            name = tree.name if isinstance(tree, CheckTree) else ""
            ended = events.CheckFinished(at=self._now, folder=folder, name=name, result=result)
        self._post(task_id, ended)
