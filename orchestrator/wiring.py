"""Building everything and wiring it: the one place where parts meet that do not know each other."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

import structlog

from orchestrator import clock
from orchestrator.bundled import Kind, bundled
from orchestrator.checkpoints import Checkpoints
from orchestrator.checks.judging import Judge
from orchestrator.core.admission import Room
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.guards import Evidence
from orchestrator.core.model import Task
from orchestrator.core.pipeline import Pipeline
from orchestrator.core.preflight import Preflight
from orchestrator.core.pressure import Floors, Shortage
from orchestrator.core.redact import Redactor, parse_rules
from orchestrator.core.role import Tier, model_of
from orchestrator.core.ticket import Tracker
from orchestrator.declared import read_declared
from orchestrator.definitions import Declared, Definitions
from orchestrator.dispatch import Adapters, Dispatcher
from orchestrator.drivers import ClaudeDriver, CommandDriver, Driver, inherited
from orchestrator.gates import Gates
from orchestrator.installation import find_claude
from orchestrator.intake import Intake, Submission, accepted_pipeline
from orchestrator.notify import Messenger, Notifier
from orchestrator.operating import evidence_of
from orchestrator.outward import Outward
from orchestrator.ports import Views
from orchestrator.pressure import Sensor
from orchestrator.processes.runs import Runs
from orchestrator.processes.spec import Limits, Usage
from orchestrator.provisions import Provisions
from orchestrator.publisher import Publisher
from orchestrator.reception import Reception
from orchestrator.release import Release
from orchestrator.reports import Reports, change_of
from orchestrator.running import Launching, Running
from orchestrator.servers import look_before
from orchestrator.settings import Settings, credentials_folder, environment
from orchestrator.stalls import Stalls
from orchestrator.store import FolderStore
from orchestrator.supervisor import Supervisor
from orchestrator.timers import Timers
from orchestrator.trackers.account import Account
from orchestrator.trackers.gateway import Gateway
from orchestrator.trackers.port import Trackers
from orchestrator.vault import Vault, VaultError
from orchestrator.workspace import Workspace

log = structlog.get_logger()

QUARANTINE = "quarantine"
FIXED_AT_START = ("data_dir", "socket", "log", "checkpoint_every")


@dataclass(slots=True)
class Daemon:
    """All parts of a daemon, wired; what the API needs of it is here too."""

    settings: Settings
    store: FolderStore
    supervisor: Supervisor
    dispatcher: Dispatcher
    checkpoints: Checkpoints
    workspace: Workspace
    reports: Reports
    running: Running
    runs: Runs
    timers: Timers
    reception: Reception
    outward: Outward
    declared: Declared
    started_at: datetime
    redactor: Redactor
    provisions: Provisions
    messenger: Messenger
    stalls: Stalls
    sensor: Sensor
    floors: Floors
    shortage: Shortage | None = None

    async def accept(self, submission: Submission, by: str) -> Task:
        """Take a submission in. Raises what Reception.accept raises; then nothing is left of it."""
        return await self.reception.accept(submission, by)

    def clear(self, task: Task, *, whole: bool = False) -> None:
        """Remove the worktree of an ended task and what people provided for it, or all of it. Blocks."""
        self.dispatcher.workspace.remove(task.id)
        self.provisions.forget(Path(task.folder))
        if whole:
            shutil.rmtree(task.folder)

    def usage(self, task: Task) -> Usage | None:
        """What the task's run takes of the machine."""
        return self.running.usage(task)

    def look(self, task: Task) -> Evidence:
        """What there is to see of the task's stage."""
        return evidence_of(task, _pipeline_of(task), self.workspace)

    def redact(self, text: str) -> str:
        """A text as it may leave."""
        return self.redactor.masked(text)

    @property
    def definitions(self) -> Definitions:
        """Pipelines and roles as they are declared now."""
        return self.declared.now

    def apply(self, settings: Settings) -> None:
        """Go on under other settings; what is fixed at start stays until the next one, and the log says so."""
        waiting = [name for name in FIXED_AT_START if getattr(settings, name) != getattr(self.settings, name)]
        if waiting:
            log.warning("settings_wait_for_restart", settings=waiting)
        self.settings = settings
        preflight = _preflight(settings, self.declared)
        intake = replace(self.reception.intake, settings=settings, preflight=preflight)
        trackers = _trackers(settings)
        self.reception = replace(self.reception, intake=intake, trackers=trackers)
        self.outward.use(settings.forge, trackers)
        judge = self.running.launching.judge
        self.running.launch_with(_launching(settings, self.declared, self.provisions, judge))
        self.messenger.use(_notifier(settings))
        self.supervisor.set_room(_room(settings))
        self.floors = _floors(settings)
        self.stalls.stall_after = settings.stall_after


def wired(settings: Settings, store: FolderStore, redactor: Redactor) -> Daemon:
    """A daemon that has not begun to live. Raises DefinitionError where what is declared cannot be used."""
    declared = Declared(settings.definition_folders())
    timers, runs, workspace = Timers(), Runs(data_dir=settings.data_dir), Workspace(settings.data_dir)
    provisions = Provisions(Vault(settings.data_dir, credentials_folder()))
    judge = Judge(git_of=workspace.git_of, redactor=redactor)
    reports = Reports(_pipeline_of, partial(change_of, workspace), redactor.masked)
    running = Running(runs, _launching(settings, declared, provisions, judge), clock.now)
    messenger = Messenger(_notifier(settings))
    checkpoints = Checkpoints(workspace, store, clock.now)
    trackers = _trackers(settings)
    outward = Outward(settings.forge, trackers, environment(), _pipeline_of)
    adapters = Adapters(
        running=running,
        workspace=workspace,
        checkpoints=checkpoints,
        gates=Gates(workspace, provisions.secrets),
        publisher=_publisher(settings, workspace, outward, redactor),
        timers=timers,
        tell=messenger.tell,
        pipeline_of=_pipeline_of,
        clock=clock.now,
        redact=redactor.masked,
    )
    dispatcher = Dispatcher(adapters)
    supervisor = _supervisor(settings, store, dispatcher, running)
    checkpoints.tell(supervisor, dispatcher.turn)
    supervisor.listen(checkpoints.decided)
    supervisor.listen(lambda task, _event: _forget_ended(provisions, task))
    supervisor.listen(reports.decided)
    supervisor.listen(adapters.publisher.decided)
    intake = _intake(settings, store, declared, redactor)
    return Daemon(
        settings=settings,
        store=store,
        supervisor=supervisor,
        dispatcher=dispatcher,
        checkpoints=checkpoints,
        workspace=workspace,
        reports=reports,
        running=running,
        runs=runs,
        timers=timers,
        reception=Reception(
            trackers=trackers, intake=intake, loop=supervisor, destined=outward.destined, clock=clock.now
        ),
        outward=outward,
        declared=declared,
        started_at=clock.now(),
        redactor=redactor,
        provisions=provisions,
        messenger=messenger,
        stalls=Stalls(supervisor.tasks.values, supervisor.post, clock.now, settings.stall_after),
        sensor=Sensor(settings.data_dir),
        floors=_floors(settings),
    )


def _supervisor(settings: Settings, store: FolderStore, dispatcher: Dispatcher, running: Running) -> Supervisor:
    views = Views(pipeline_of=_pipeline_of, model_of=lambda task: _model_of(task, running.launching))
    supervisor = Supervisor(store, dispatcher, views, _room(settings), clock.now)
    supervisor.account.recall(store.account())
    dispatcher.tell(supervisor.post, supervisor.note, supervisor.hear_limit)
    return supervisor


def _publisher(settings: Settings, workspace: Workspace, outward: Outward, redactor: Redactor) -> Publisher:
    return Publisher(
        workspace=workspace,
        release=Release(workspace),
        hosts=outward.hosts,
        redactor=redactor,
        quarantined=settings.data_dir / QUARANTINE,
        tell_tracker=outward.tell,
        clock=clock.now,
    )


def _notifier(settings: Settings) -> Notifier | None:
    command = settings.people.notify_command
    return Notifier(command, environment()) if command else None


def _preflight(settings: Settings, declared: Declared) -> Callable[[Pipeline], Preflight]:
    """Looks for what the roles of a pipeline need, in the environment that agents get."""
    agent = settings.agent
    env = {**inherited(environment(), agent.pass_env), **agent.env}
    return lambda pipeline: look_before(map(declared.role, pipeline.roles), agent.mcp_config, env)


def _trackers(settings: Settings) -> Trackers:
    """The trackers that are set up, with the tokens of the daemon's environment."""
    given, there, agent = environment(), settings.trackers, settings.agent
    name, known = there.jira.gateway, {**given, **agent.env}
    gateway = Gateway(name=name, config=agent.mcp_config, env=known) if name else None
    jira = [(Tracker.JIRA, there.jira.url, "JIRA_API_TOKEN")] if there.jira.url else []
    others = [(Tracker.GITHUB, there.github.url, "GITHUB_TOKEN"), (Tracker.GITLAB, there.gitlab.url, "GITLAB_TOKEN")]
    return Trackers(
        [
            Account(
                kind=kind,
                url=url,
                user=there.jira.user if kind is Tracker.JIRA else "",
                token=given.get(variable, ""),
                setting=variable,
                gateway=gateway if kind is Tracker.JIRA else None,
            )
            for kind, url, variable in (*jira, *others)
        ]
    )


def _forget_ended(provisions: Provisions, task: Task) -> None:
    if task.status.final:
        forget(provisions, Path(task.folder))


def forget(provisions: Provisions, task_folder: Path) -> None:
    """Take what was provided for an ended task off the disk; where that fails the log says so, and each start tries."""
    try:
        provisions.forget(task_folder)
    except (VaultError, OSError) as error:
        log.warning("provided_values_left", folder=str(task_folder), reason=str(error))


def _room(settings: Settings) -> Room:
    return Room(
        places=settings.max_agents,
        day=settings.budget.day.caps(),
        turn_usd=settings.budget.turn_usd,
        limit_margin=settings.limits.margin,
    )


def _floors(settings: Settings) -> Floors:
    return Floors(
        free_disk=settings.free_space_floor,
        available_memory=settings.free_memory_floor,
        load_per_core=settings.load_ceiling,
    )


def _model_of(task: Task, launching: Launching) -> str:
    """The model that the role of the task's stage names, or the settings; empty where the CLI chooses."""
    role = _pipeline_of(task).stage(task.stage).role
    named = model_of(launching.role(role), task.terms, launching.tiers) if role else None
    return named or launching.model


def _pipeline_of(task: Task) -> Pipeline:
    return accepted_pipeline(task.folder)


def bundled_redactor() -> Redactor:
    """The rules that ship with the program."""
    path = bundled(Kind.CONFIG) / "redaction.toml"
    return Redactor(parse_rules(read_declared(path), str(path)))


def _intake(settings: Settings, store: FolderStore, declared: Declared, redactor: Redactor) -> Intake:
    return Intake(
        tasks_dir=store.tasks_dir,
        quarantine_dir=settings.data_dir / QUARANTINE,
        settings=settings,
        pipelines=lambda: declared.now.pipelines,
        redactor=redactor,
        preflight=_preflight(settings, declared),
    )


def _launching(settings: Settings, declared: Declared, provisions: Provisions, judge: Judge) -> Launching:
    tokens = {host.token_env for host in settings.forge.hosts.values()}.difference(settings.agent.pass_env)
    base_env = {name: value for name, value in environment().items() if name not in tokens}
    graces = settings.graces
    limits = Limits(
        orphan_after=settings.orphan_after,
        eof_grace=graces.interrupt + graces.eof,
        term_grace=graces.term,
        kill_grace=graces.kill,
    )
    return Launching(
        driver=_driver(settings, base_env),
        judge=judge,
        role=declared.role,
        provided=provisions.environment,
        masked=provisions.values,
        model=settings.agent.model,
        tiers={Tier(name): model for name, model in settings.agent.tiers if model},
        base_env=base_env,
        limits=limits,
        socket=settings.socket,
    )


def _driver(settings: Settings, base_env: Mapping[str, str]) -> Driver:
    """What plays the roles; a claude that is not found is a fault of every launch, not of the daemon."""
    agent = settings.agent
    if agent.driver == "command":
        return CommandDriver(argv=agent.command, pass_env=agent.pass_env, env=agent.env)
    try:
        executable = find_claude(agent.executable, base_env.get("PATH"))
    except OrchestratorError as error:
        log.warning("claude_not_found", reason=str(error))
        executable = Path(agent.executable or "claude")
    return ClaudeDriver(
        executable=executable,
        model=agent.model or None,
        permission_mode=agent.permission_mode,
        mcp_config=agent.mcp_config,
        setting_sources=agent.setting_sources,
        pass_env=agent.pass_env,
        env=agent.env,
    )
