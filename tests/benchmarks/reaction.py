"""The time from a marker in an agent's output to its stopped tree and committed decision, while twenty agents write.

Everything between the two is the daemon's own: holders, followers, supervisor, store on disk, dispatcher, log, watcher
and alarms. Only the reaction to a marker is decided here: a user's pause. Agents and daemon read the same clock
(CLOCK_MONOTONIC), so a sample starts at the moment at which the agent writes.
"""

import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from orchestrator import clock
from orchestrator.agents.claude import Events, Parser
from orchestrator.agents.drivers import CommandDriver
from orchestrator.bootstrap.process import FLUSH_TELEMETRY_SECONDS
from orchestrator.core.decide.work import WORK
from orchestrator.core.events.agent_events import Text
from orchestrator.core.events.events import CancelRequested, Event, PauseRequested, ResumeRequested, TaskSubmitted
from orchestrator.core.events.notice import Notice
from orchestrator.core.events.run_events import RunFrozen
from orchestrator.core.family.family import PLAIN
from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.task.agent import ProcessState
from orchestrator.core.task.pipeline import ENGINE_BUDGETS, Pipeline, Stage
from orchestrator.core.task.task import NextAction, Source, Task, Timing
from orchestrator.core.task.ticket import Preflight, Ticket
from orchestrator.daemon.child_tasks import ChildTasks
from orchestrator.daemon.executor import Adapters, CommandExecutor, CommandTurns
from orchestrator.daemon.isolation import isolation_of
from orchestrator.daemon.launching import LaunchConfig
from orchestrator.daemon.reporting.projections import ProjectionWriter
from orchestrator.daemon.runs import RunExecutor
from orchestrator.daemon.task_factory import TaskFactory
from orchestrator.daemon.timers import Timers
from orchestrator.daemon.watch import Watch
from orchestrator.integrations.publishing.outbound import Outbound
from orchestrator.integrations.publishing.publisher import Publisher
from orchestrator.log import start_logging
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.definition_files import read_declared
from orchestrator.pipelines.role import Role
from orchestrator.processes.process_stats import tree_of
from orchestrator.processes.runs import Runs
from orchestrator.processes.spec import Limits
from orchestrator.redaction.rules import Redactor, parse_rules
from orchestrator.settings.settings import Settings
from orchestrator.storage.store import FolderStore
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.protocols import TaskLookups
from orchestrator.supervisor.supervisor import Supervisor
from orchestrator.workspaces.checkpoints import Checkpoints
from orchestrator.workspaces.evaluation.gates import Gates
from orchestrator.workspaces.evaluation.judge import Judge
from orchestrator.workspaces.workspace import Workspace
from tests.benchmarks import talker
from tests.fakes.repositories import repository
from tests.integration.processes.stage import stands_still

Row = tuple[str, str, str]

AGENTS, SAMPLES = 20, 400
LONGEST_PAUSE = 0.03  # seconds between samples, so that they are spread over the periods of sweeps and alarms
PATIENCE = 60.0  # seconds
LIMITS = Limits(floor_bytes=0, eof_grace=0.1, term_grace=0.5)
ROLE = Role(name="talker", description="Talks for ever.", prompt="Talk.")
PIPELINE = Pipeline(
    name="talk",
    description="One stage that never ends.",
    start="TALK",
    stages={"TALK": Stage(name="TALK", work=WORK["agent"], role="talker")},
    budgets=ENGINE_BUDGETS,
    branch="talk/{task}",
)


class Ear(Parser):
    """The daemon's own parser, with a listener for its results."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = 0
        self.marked: Callable[[str, int], None]

    def parse(self, body: bytes) -> Events:
        """Parse a line."""
        self.lines += 1
        meanings = super().parse(body)
        for meaning in meanings:
            if isinstance(meaning, Text) and meaning.text.startswith(talker.MARKER):
                _, task_id, nanoseconds = meaning.text.split()
                self.marked(task_id, int(nanoseconds))
        return meanings


@dataclass(frozen=True, kw_only=True)
class Talking(CommandDriver):
    """Starts talkers, whose lines are read by a listening parser."""

    parser: Parser


class Reactions:
    """Provokes a reaction and records its times; milliseconds since the agent wrote the marker."""

    def __init__(self, supervisor: Supervisor, inbox: Inbox, ear: Ear) -> None:
        self.heard: list[float] = []
        self.paused: list[float] = []
        self.frozen: list[float] = []
        self._supervisor, self._inbox, self._wrote = supervisor, inbox, 0
        self._talkers: dict[str, int] = {}
        self._decision = asyncio.Event()
        ear.marked = self._marked
        supervisor.listen(self._decided)

    async def provoke(self, task_id: str) -> None:
        """Measure one reaction, from the marker to an agent that runs again."""
        os.kill(self._pid_of(task_id), signal.SIGUSR1)
        await self.until(lambda: _process(self._supervisor.tasks[task_id]) is ProcessState.FROZEN)
        await self._inbox.request(task_id, ResumeRequested(at=clock.now()))
        await self.until(lambda: _process(self._supervisor.tasks[task_id]) is ProcessState.RUNNING)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait for a decision that makes the condition true."""
        async with asyncio.timeout(PATIENCE):
            while not is_so():
                self._decision.clear()
                await self._decision.wait()

    def _pid_of(self, task_id: str) -> int:
        """Return the talker's pid: the one process that its holder started itself."""
        if task_id not in self._talkers:
            holder, *_ = tree_of(Path(self._supervisor.tasks[task_id].folder, "agents/1"))
            self._talkers[task_id] = holder.children()[0].pid
        return self._talkers[task_id]

    def _marked(self, task_id: str, wrote: int) -> None:
        self._wrote = wrote
        self._inbox.post(task_id, PauseRequested(at=clock.now()))
        self.heard.append(self._waited())

    def _decided(self, _task: Task, event: Event) -> None:
        match event:
            case PauseRequested():
                self.paused.append(self._waited())
            case RunFrozen():
                self.frozen.append(self._waited())
                if [stands_still(pid) for pid in event.stopped] != [True, True]:
                    raise AssertionError(f"talker and command should stand still: {event.stopped}")
        self._decision.set()

    def _waited(self) -> float:
        return (time.monotonic_ns() - self._wrote) / 1e6


def rows() -> list[Row]:
    """Return name, measured value and goal of each measurement, all taken in one run."""
    with tempfile.TemporaryDirectory() as base, Path(base, "log").open("w") as stream:
        rules = bundled(Kind.CONFIG) / "redaction.toml"
        redactor = Redactor(parse_rules(read_declared(rules), str(rules)))
        start_logging("info", "json", lambda text: redactor.scan(text).text, stream)
        return asyncio.run(_measured(Path(base)))


async def _measured(base: Path) -> list[Row]:
    ear = Ear()
    async with _daemon(base / "data", ear) as (supervisor, inbox):
        reactions = Reactions(supervisor, inbox, ear)
        for task in _tasks(base):
            await inbox.submit(TaskSubmitted(at=clock.now(), task=task))
        await reactions.until(lambda: all(task.next_action is NextAction.TURN for task in supervisor.tasks.values()))
        names = list(supervisor.tasks)
        began, lines, used = time.monotonic(), ear.lines, _processor_seconds()
        for number in range(SAMPLES):
            await asyncio.sleep(random.uniform(0, LONGEST_PAUSE))
            await reactions.provoke(names[number % AGENTS])
        seconds = time.monotonic() - began
        lines, used = ear.lines - lines, _processor_seconds() - used
        for name in names:
            await inbox.request(name, CancelRequested(at=clock.now()))
        await reactions.until(lambda: not supervisor.tasks)
    return [
        (f"reaction: lines read from {AGENTS} agents meanwhile", f"{lines / seconds:,.0f} lines/s", ""),
        ("reaction: processor time of the daemon meanwhile", f"{100 * used / seconds:.0f} %", ""),
        ("reaction: marker to heard, median / p99", _shown(reactions.heard), ""),
        ("reaction: marker to pause committed, median / p99", _shown(reactions.paused), ""),
        ("reaction: marker to tree stopped, committed, median / p99", _shown(reactions.frozen), "p99 ≤ 15 ms"),
    ]


def _no_children(store: FolderStore, inbox: Inbox, workspace: Workspace) -> ChildTasks:
    """Return what would make children of the measured tasks, if one of their stages had some."""
    factory = TaskFactory(
        files=store.files,
        quarantine_dir=store.data_dir / "quarantine",
        settings=Settings(data_dir=store.data_dir),
        pipelines=lambda: {PIPELINE.name: PIPELINE},
        redactor=Redactor(()),
        preflight=lambda _: Preflight(),
        objection=lambda *_: "",
    )
    return ChildTasks(
        files=store.files,
        store=store,
        inbox=inbox,
        workspace=workspace,
        factory=lambda: factory,
        pipeline_of=lambda _: PIPELINE,
        clock=clock.now,
    )


def _publisher(data: Path, store: FolderStore, workspace: Workspace) -> Publisher:
    """Return a publisher that knows no forge and no tracker."""
    outbound = Outbound(
        workspace=workspace,
        files=store.files,
        family_of=lambda _: PLAIN,
        hosts=dict,
        redactor=Redactor(()),
        quarantined=data / "quarantine",
        clock=clock.now,
    )
    return Publisher(outbound=outbound, tell_tracker=_left)


@asynccontextmanager
async def _daemon(data: Path, ear: Ear) -> AsyncIterator[tuple[Supervisor, Inbox]]:
    """Wire the measured components as the daemon does."""
    store, runs, workspace, timers = FolderStore(data), Runs(data_dir=data), Workspace(data), Timers()
    driver = Talking(argv=(sys.executable, "-I", "-S", str(Path(talker.__file__))), parser=ear)
    unsandboxed = Settings(data_dir=data, isolation="none")
    launching = LaunchConfig(
        driver=driver,
        judge=Judge(git_of=workspace.git_of, redactor=Redactor(())),
        role=lambda _: ROLE,
        provided=lambda _: {},
        masked=lambda _: {},
        base_env=dict(os.environ),
        limits=LIMITS,
        isolation=isolation_of(unsandboxed, os.environ, None, store.files, workspace.objects_of),
    )
    inbox, turns = Inbox(), CommandTurns()
    running = RunExecutor(runs, launching, inbox, clock.now, store.files)
    checkpoints = Checkpoints(workspace, store, inbox, turns.turn, clock.now)
    dispatcher = CommandExecutor(
        Adapters(
            running=running,
            workspace=workspace,
            checkpoints=checkpoints,
            gates=Gates(workspace, lambda _: {}, lambda _: ""),
            publisher=_publisher(data, store, workspace),
            children=_no_children(store, inbox, workspace),
            projections=ProjectionWriter(store, lambda _: PIPELINE, str),
            timers=timers,
            turns=turns,
            notify=_told,
            pipeline_of=lambda _: PIPELINE,
            clock=clock.now,
            redact=str,
        ),
        inbox,
    )
    lookups = TaskLookups(clock=clock.now, pipeline_of=lambda _: PIPELINE, model_of=lambda _: "")
    supervisor = Supervisor(store, dispatcher, inbox, lookups, Capacity(places=AGENTS))
    supervisor.listen(checkpoints.on_decision)
    watch = Watch(lambda paths: _look_for_edits(supervisor, paths))
    timers.start()
    timers.ring_every("telemetry", FLUSH_TELEMETRY_SECONDS, supervisor.flush_telemetry)
    supervisor.listen(_watching(supervisor, watch))
    parts = [asyncio.create_task(supervisor.run()), asyncio.create_task(watch.run())]
    try:
        yield supervisor, inbox
    finally:
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        await dispatcher.close()
        await runs.close()
        timers.close()
        store.close()


def _watching(supervisor: Supervisor, watch: Watch) -> Callable[[Task, Event], None]:
    known: frozenset[str] = frozenset()
    looks: set[asyncio.Task[None]] = set()

    def look_if_others(_task: Task, _event: Event) -> None:
        nonlocal known
        if known != supervisor.tasks.keys():
            known = frozenset(supervisor.tasks)
            look = asyncio.create_task(watch.look_at([Path(task.folder) for task in supervisor.tasks.values()]))
            looks.add(look)
            look.add_done_callback(looks.discard)

    return look_if_others


async def _left(task: Task, text: str, status: str | None) -> str:
    """There is no tracker."""
    return ""


async def _told(_task: Task, _notice: Notice) -> str:
    return ""


def _look_for_edits(supervisor: Supervisor, paths: set[Path]) -> None:
    for folder in {path.parent for path in paths if path.name in {"state.json", "journal.jsonl"}}:
        supervisor.check_for_foreign_edit(folder.name)


def _tasks(base: Path) -> list[Task]:
    """Create a task for each agent, all on one small repository."""
    commit = repository(base / "repo")
    now = clock.now()
    names = [f"LOCAL-{number}" for number in range(1, AGENTS + 1)]
    return [
        Task(
            id=name,
            title="Talk",
            folder=str(base / "data/tasks" / name),
            ticket=Ticket(key=name),
            pipeline=PIPELINE.name,
            source=Source(repo=str(base / "repo"), base_branch="main", base_commit=commit, branch=f"talk/{name}"),
            timing=Timing(created_at=now),
            updated_at=now,
        )
        for name in names
    ]


def _process(task: Task) -> ProcessState | None:
    return task.run.process if task.run else None


def _processor_seconds() -> float:
    times = psutil.Process().cpu_times()
    return times.user + times.system


def _shown(milliseconds: list[float]) -> str:
    ordered = sorted(milliseconds)
    return f"{ordered[len(ordered) // 2]:.1f} / {ordered[int(len(ordered) * 0.99) - 1]:.1f} ms"
