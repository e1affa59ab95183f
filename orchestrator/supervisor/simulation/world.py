"""All that stays when the daemon is gone: processes under their holders, files, commits, what was told and paid.

Every effect is counted under a name of its own, so that it can be seen that nothing was done twice.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from random import Random

from orchestrator.core.events import commands as do
from orchestrator.core.task.budget import NOTHING_SPENT, Spending
from orchestrator.core.task.failures import Analysis
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.pipeline import Pipeline, Stage
from orchestrator.core.task.task import Task
from orchestrator.supervisor.simulation.account import SimulatedAccount
from orchestrator.supervisor.simulation.agents import AgentTree, AgentWorld, Launched, Session
from orchestrator.supervisor.simulation.forge import SimulatedForge
from orchestrator.supervisor.simulation.probabilities import Probabilities
from orchestrator.supervisor.simulation.trees import CheckTree, Tree
from orchestrator.supervisor.simulation.virtual_clock import VirtualClock

MOST_STEPS = 6
_EXPLAINED = Analysis(root_cause_hypothesis="a wrong bound", confidence="mid", suggested_fix="move it by one")


@dataclass(slots=True)
class TaskWorld:
    """What there is of one task: commits and files of its work, what it was billed, and what was done for it."""

    commits: list[str] = field(default_factory=list)
    files: dict[str, FileFacts] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    dirty: tuple[str, ...] = ()
    explained: bool = False
    delivered: str | None = None
    billed: Spending = NOTHING_SPENT
    trees: dict[str, Tree] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    effects: Counter[str] = field(default_factory=Counter)


class World:
    """Everything that commands act on."""

    def __init__(
        self,
        timeline: VirtualClock,
        dice: Random,
        odds: Probabilities,
        account: SimulatedAccount,
        pipelines: Mapping[str, Pipeline],
    ) -> None:
        self.timeline, self.dice, self.odds = timeline, dice, odds
        self.grounds: dict[str, TaskWorld] = {}
        self.ring: Callable[[Tree], None] = lambda _: None
        self.forge = SimulatedForge(dice, odds, self._done)
        self._pipelines = pipelines
        self._around = AgentWorld(
            timeline=timeline,
            dice=dice,
            odds=odds,
            account=account,
            leave=self._leave,
            bill=self._bill,
        )

    def of(self, task_id: str) -> TaskWorld:
        """What there is of a task."""
        return self.grounds.setdefault(task_id, TaskWorld())

    def tree(self, task_id: str, folder: str) -> Tree | None:
        """A run, if it was ever begun."""
        return self.of(task_id).trees.get(folder)

    def living(self, task_id: str) -> list[str]:
        """The runs of a task that have not ended."""
        return [tree.folder for tree in self.of(task_id).trees.values() if tree.alive]

    def tell(self, task_id: str, key: str) -> None:
        """Tell a person of something, unless a file of that name says that it was told."""
        effects = self.of(task_id).effects
        effects[f"notice {key}"] = 1

    def deliver(self, task_id: str, commit: str) -> None:
        """Bring a commit to the user's repository, unless it stands there."""
        grounds = self.of(task_id)
        if grounds.delivered != commit:
            grounds.delivered = commit
            self._done(task_id, f"delivery of {commit}")

    def start_agent(self, task: Task, command: do.StartAgent, model: str) -> None:
        """Start an agent; nothing if that attempt began before."""
        folder, grounds = f"agents/{command.attempt}", self.of(task.id)
        if folder in grounds.trees:
            return
        self._done(task.id, f"start {folder}")
        session = grounds.sessions.setdefault(command.session_id, Session())
        launched = Launched(
            attempt=command.attempt,
            model=model,
            session_id=command.session_id,
            resume=command.resume,
            session=session,
        )
        self._stand(AgentTree(self._around, task, folder, launched))

    def start_check(self, task: Task, command: do.RunCheck) -> None:
        """Start a check; nothing if that run began before."""
        if command.folder in self.of(task.id).trees:
            return
        self._done(task.id, f"start {command.folder}")
        tree = CheckTree(self.timeline, task.id, command.folder, command.check.name)
        self._stand(tree)
        tree.run(self.dice, self.odds)

    def freeze_orphans(self) -> None:
        """What holders do when their daemon has been away for too long."""
        for grounds in self.grounds.values():
            for tree in grounds.trees.values():
                if tree.alive and not tree.frozen and isinstance(tree, AgentTree):
                    tree.freeze()
                    tree.froze_itself = True

    def look(self, task: Task, command: do.LookAtGate) -> Evidence:
        """What the daemon finds when it looks at what a stage left behind."""
        grounds, stage = self.of(task.id), self._pipelines[task.pipeline].stage(command.stage)
        at = grounds.commits.index(command.since) + 1 if command.since in grounds.commits else 0
        new = tuple(grounds.commits[at:]) if stage.work.commits else ()
        given = _complete(stage) if not stage.work.is_done_by_agent else {}
        fresh = tuple(name for name in grounds.fresh if any(fnmatchcase(name, one) for one in stage.artifacts))
        grounds.fresh.clear()
        return Evidence(
            files={**grounds.files, **given},
            fresh=tuple(sorted(fresh)),
            head=new[-1] if new else None,
            commits=new,
            dirty=grounds.dirty if stage.work.commits else (),
            analysis=_EXPLAINED if grounds.explained else None,
        )

    def _done(self, task_id: str, effect: str) -> None:
        """Put on record that something was brought about."""
        self.of(task_id).effects[effect] += 1

    def _stand(self, tree: Tree) -> None:
        self.of(tree.task_id).trees[tree.folder] = tree
        tree.ring = lambda: self.ring(tree)

    def _leave(self, task: Task, whole: bool) -> None:
        """What an agent's turn leaves behind; less than is wanted if it is not whole."""
        grounds, pipeline = self.of(task.id), self._pipelines[task.pipeline]
        stage = pipeline.stage(task.stage)
        if stage.work.commits:
            if whole or self.dice.random() < 0.5:
                grounds.commits.append(f"{self.dice.getrandbits(160):040x}")
            grounds.dirty = () if whole else ("src/half.py",)
            return
        found = {**_complete(stage), **self._plans(pipeline, stage)}
        kept = dict(list(found.items())[: len(found) if whole else -1])
        grounds.explained = whole
        grounds.files.update(kept)
        grounds.fresh.update(kept)

    def _plans(self, pipeline: Pipeline, stage: Stage) -> dict[str, FileFacts]:
        """The plans that later stages work through and this one may leave."""
        plans = {one.plan for one in pipeline.stages.values() if one.plan}
        count = self.dice.randint(1, MOST_STEPS)
        headings = tuple(f"## Step {number}: Part {number}" for number in range(1, count + 1))
        return {
            plan: FileFacts(chars=1000, headings=headings)
            for plan in sorted(plans)
            if any(fnmatchcase(plan, pattern) for pattern in stage.artifacts)
        }

    def _bill(self, task_id: str, tokens: int, usd: float) -> None:
        grounds = self.of(task_id)
        grounds.billed += Spending(usd=usd, tokens=tokens, turns=1)


def _complete(stage: Stage) -> dict[str, FileFacts]:
    """Files with which a stage's guards hold."""
    return {name: facts for guard in stage.guards for name, facts in guard.sample_files().items()}
