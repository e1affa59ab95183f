"""Everything that survives a crash of the daemon: processes under their holders, files, commits, notices and costs.

Every effect is counted under its own name, which shows whether one happened twice.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from random import Random

from orchestrator.core.events import commands as do
from orchestrator.core.family.verdict import Verdict
from orchestrator.core.task.budget import NOTHING_SPENT, Spending
from orchestrator.core.task.children import ChildPlan
from orchestrator.core.task.failures import Analysis
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.pipeline import Pipeline, Stage
from orchestrator.core.task.task import Task
from orchestrator.supervisor.simulation.account import SimulatedAccount
from orchestrator.supervisor.simulation.agents import AgentEnvironment, AgentTree, SimulatedLaunch, SimulatedSession
from orchestrator.supervisor.simulation.clockwork.virtual_clock import VirtualClock
from orchestrator.supervisor.simulation.forge import SimulatedForge
from orchestrator.supervisor.simulation.probabilities import Probabilities
from orchestrator.supervisor.simulation.trees import CheckTree, SimulatedTree

MAX_STEPS = 6
MAX_CHILDREN = 6
_ANALYSIS = Analysis(root_cause_hypothesis="a wrong bound", confidence="mid", suggested_fix="move it by one")


@dataclass(slots=True)
class TaskWorld:
    """The world of one task: its commits, files, sessions and processes, what it was billed, and its effects."""

    commits: list[str] = field(default_factory=list)
    files: dict[str, FileFacts] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    """What lies in the outbox of its present agent."""
    dirty: tuple[str, ...] = ()
    has_analysis: bool = False
    delivered: str | None = None
    joined: dict[str, int] = field(default_factory=dict)
    """The children whose work is on its branch, and how many commits each brought."""
    seen_joined: int = 0
    """How many of its parent's other children had joined when it was put on top of them."""
    on_top: int = 0
    """How many of its commits were made before it was put on top of its parent's branch last."""
    billed: Spending = NOTHING_SPENT
    largest_turn: float = 0.0
    """What its most expensive turn cost; USD."""
    trees: dict[str, SimulatedTree] = field(default_factory=dict)
    sessions: dict[str, SimulatedSession] = field(default_factory=dict)
    effects: Counter[str] = field(default_factory=Counter)


class World:
    """Everything that commands act on; `on_change` is called with each process tree that has news."""

    def __init__(
        self,
        clock: VirtualClock,
        rng: Random,
        probabilities: Probabilities,
        account: SimulatedAccount,
        pipelines: Mapping[str, Pipeline],
    ) -> None:
        self.clock, self.rng, self.probabilities = clock, rng, probabilities
        self._tasks: defaultdict[str, TaskWorld] = defaultdict(TaskWorld)
        self.on_change: Callable[[SimulatedTree], None] = lambda _: None
        self.forge = SimulatedForge(rng, probabilities, self._record_effect)
        self._pipelines = pipelines
        self._environment = AgentEnvironment(
            clock=clock,
            rng=rng,
            probabilities=probabilities,
            account=account,
            save_work=self._save_work,
            charge=self._charge,
        )

    def of(self, task_id: str) -> TaskWorld:
        """Return the world of a task."""
        return self._tasks[task_id]

    def pipeline_of(self, task: Task) -> Pipeline:
        """Return the pipeline of a task."""
        return self._pipelines[task.pipeline]

    def largest_turn(self, parent: str) -> float:
        """Return what the most expensive turn of a task and all tasks below it cost; USD."""
        below = (world for name, world in self._tasks.items() if f"{name}.".startswith(f"{parent}."))
        return max((world.largest_turn for world in below), default=0.0)

    def tree(self, task_id: str, folder: str) -> SimulatedTree | None:
        """Return a run, or None if it was never started."""
        return self.of(task_id).trees.get(folder)

    def live_runs(self, task_id: str) -> list[str]:
        """Return the folders of the runs of a task that have not ended."""
        return [tree.folder for tree in self.of(task_id).trees.values() if tree.alive]

    def notify(self, task_id: str, key: str) -> None:
        """Notify a user; a notice of the same key counts once, because a marker file suppresses the second."""
        effects = self.of(task_id).effects
        effects[f"notice {key}"] = 1

    def deliver(self, task_id: str, commit: str) -> None:
        """Deliver a commit to the user's repository, unless it is there already."""
        world = self.of(task_id)
        if world.delivered != commit:
            world.delivered = commit
            self._record_effect(task_id, f"delivery of {commit}")

    def begin_on_parent(self, task: Task) -> None:
        """Let a child begin from where its parent's branch is now."""
        if task.parent is not None:
            self.of(task.id).seen_joined = len(self.of(task.parent).joined)

    def join(self, task: Task, command: do.JoinParent) -> str | None:
        """Put a child's work on its parent's branch, once; if that moved on, return the commit of the replayed work."""
        parent, own = self.of(command.parent), self.of(task.id)
        if task.id in parent.joined:
            return None
        count = len(own.commits) - own.on_top
        if own.seen_joined < len(parent.joined) or (command.squash and count > 1):
            own.seen_joined, own.on_top = len(parent.joined), len(own.commits)
            own.commits += [f"{self.rng.getrandbits(160):040x}" for _ in range(1 if command.squash else max(1, count))]
            return own.commits[-1]
        parent.joined[task.id] = count
        self._record_effect(command.parent, f"{task.id} joined")
        return None

    def start_agent(self, task: Task, command: do.StartAgent, model: str) -> None:
        """Start an agent, unless this attempt was started before."""
        folder, world = f"agents/{command.attempt}", self.of(task.id)
        if folder in world.trees:
            return
        self._record_effect(task.id, f"start {folder}")
        if not command.resume:
            world.fresh.clear()
        session = world.sessions.setdefault(command.session_id, SimulatedSession())
        launch = SimulatedLaunch(
            attempt=command.attempt,
            model=model,
            session_id=command.session_id,
            resume=command.resume,
            session=session,
        )
        self._add_tree(AgentTree(self._environment, task, folder, launch))

    def start_check(self, task: Task, command: do.RunCheck) -> None:
        """Start a check, unless this run was started before."""
        if command.folder in self.of(task.id).trees:
            return
        self._record_effect(task.id, f"start {command.folder}")
        tree = CheckTree(self.clock, task.id, command.folder, command.check.name)
        self._add_tree(tree)
        tree.run(self.rng, self.probabilities)

    def freeze_orphans(self) -> None:
        """Freeze every agent, as holders do when their daemon has been gone for too long."""
        for world in self._tasks.values():
            for tree in world.trees.values():
                if tree.alive and not tree.frozen and isinstance(tree, AgentTree):
                    tree.freeze()
                    tree.self_frozen = True

    def inspect(self, task: Task, command: do.LookAtGate) -> Evidence:
        """Return the evidence that the daemon finds when it inspects the result of a stage."""
        world, pipeline = self.of(task.id), self._pipelines[task.pipeline]
        stage = pipeline.stage(command.stage)
        at = world.commits.index(command.since) + 1 if command.since in world.commits else 0
        new = tuple(world.commits[at:]) if stage.shows_branch else ()
        given = _complete(stage) if not stage.work.is_done_by_agent else {}
        fresh = tuple(name for name in world.fresh if any(fnmatchcase(name, one) for one in stage.artifacts))
        if stage.name == pipeline.start:
            fresh += tuple(name for name in pipeline.family.given if name in given)
        return Evidence(
            files={**world.files, **given},
            fresh=tuple(sorted(fresh)),
            head=new[-1] if new else None,
            commits=new,
            dirty=world.dirty if stage.shows_branch else (),
            analysis=_ANALYSIS if world.has_analysis else None,
        )

    def _record_effect(self, task_id: str, effect: str) -> None:
        """Count an effect."""
        self.of(task_id).effects[effect] += 1

    def _add_tree(self, tree: SimulatedTree) -> None:
        self.of(tree.task_id).trees[tree.folder] = tree
        tree.on_change = lambda: self.on_change(tree)

    def _save_work(self, task: Task, complete: bool) -> None:
        """Save what an agent's turn produced; part of it is missing unless it is complete."""
        world, pipeline = self.of(task.id), self._pipelines[task.pipeline]
        stage = pipeline.stage(task.stage)
        commits = stage.work.commits or stage.commits
        if commits:
            if complete or (stage.work.commits and self.rng.random() < 0.5):
                world.commits.append(f"{self.rng.getrandbits(160):040x}")
            world.dirty = () if complete else ("src/half.py",)
        if stage.work.commits:
            return
        found = {task.fill(name): facts for name, facts in {**_complete(stage), **self._plans(pipeline, stage)}.items()}
        found |= self._verdict(stage) | self._children(pipeline, stage)
        kept = dict(list(found.items())[: len(found) if complete else -1])
        world.has_analysis = complete
        world.files.update(kept)
        world.fresh.update(kept)

    def _verdict(self, stage: Stage) -> dict[str, FileFacts]:
        """Return what a verifier leaves, which fails now and then."""
        if not stage.work.verifies:
            return {}
        failures = () if self.rng.random() < 0.7 else ("C1: it is not there yet",)
        return {stage.artifacts[0]: FileFacts(chars=100, verdict=Verdict(passed=not failures, failures=failures))}

    def _children(self, pipeline: Pipeline, stage: Stage) -> dict[str, FileFacts]:
        """Return a plan of a few children, some of which depend on earlier ones, if a later stage wants that of it."""
        planned = [one for one in pipeline.stages.values() if one.children and one.children in stage.artifacts]
        if not planned or self.rng.random() >= self.probabilities.more_children:
            return {}
        return {one.children or "": FileFacts(chars=100, children=self._some(one)) for one in planned}

    def _some(self, stage: Stage) -> tuple[ChildPlan, ...]:
        rng, keys = self.rng, [f"C{number}" for number in range(1, self.rng.randint(2, MAX_CHILDREN) + 1)]
        return tuple(
            ChildPlan(
                key=key,
                title=key,
                after=tuple(other for other in keys[:number] if rng.random() < 0.3),
                pipeline=rng.choice(stage.child_pipelines),
            )
            for number, key in enumerate(keys)
        )

    def _plans(self, pipeline: Pipeline, stage: Stage) -> dict[str, FileFacts]:
        """Return the plans that later stages execute and that this stage may write."""
        plans = {one.plan for one in pipeline.stages.values() if one.plan}
        count = self.rng.randint(1, MAX_STEPS)
        headings = tuple(f"## Step {number}: Part {number}" for number in range(1, count + 1))
        return {
            plan: FileFacts(chars=1000, headings=headings)
            for plan in sorted(plans)
            if any(fnmatchcase(plan, pattern) for pattern in stage.artifacts)
        }

    def _charge(self, task_id: str, tokens: int, usd: float) -> None:
        world = self.of(task_id)
        world.billed += Spending(usd=usd, tokens=tokens, turns=1)
        world.largest_turn = max(world.largest_turn, usd)


def _complete(stage: Stage) -> dict[str, FileFacts]:
    """Return files that satisfy the guards of a stage."""
    return {name: facts for guard in stage.guards for name, facts in guard.sample_files().items()}
