"""Building everything and wiring it: the one place where parts meet that do not know each other."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

import structlog

from orchestrator import clock
from orchestrator.agents.drivers import ClaudeDriver, CommandDriver, Driver, inherited
from orchestrator.agents.installation import find_claude
from orchestrator.agents.mcp_servers import preflight
from orchestrator.agents.stall_detector import StallDetector
from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.schedule.pressure import Floors, Shortage
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.core.task.ticket import Preflight
from orchestrator.daemon.executor import Adapters, CommandExecutor
from orchestrator.daemon.offline_state import evidence_of
from orchestrator.daemon.pressure import Sensor
from orchestrator.daemon.reports import Reports, change_of
from orchestrator.daemon.runs import LaunchConfig, RunExecutor
from orchestrator.daemon.submissions import Submissions
from orchestrator.daemon.task_factory import Submission, TaskFactory, accepted_pipeline
from orchestrator.daemon.timers import Timers
from orchestrator.errors import OrchestratorError
from orchestrator.integrations.notify import Messenger, Notifier
from orchestrator.integrations.publishing.publisher import Publisher
from orchestrator.integrations.publishing.release import Release
from orchestrator.integrations.publishing.targets import PublishTargets
from orchestrator.integrations.tickets.account import Account
from orchestrator.integrations.tickets.gateway import Gateway
from orchestrator.integrations.tickets.text.ticket import Tracker
from orchestrator.integrations.tickets.trackers import Trackers
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.definition_files import read_declared
from orchestrator.pipelines.definitions import DefinitionRegistry, Definitions
from orchestrator.pipelines.role import Tier, model_of
from orchestrator.processes.runs import Runs
from orchestrator.processes.spec import Limits, Usage
from orchestrator.redaction.rules import Redactor, parse_rules
from orchestrator.settings import Settings, credentials_folder, environment
from orchestrator.storage.provided_secrets import ProvidedSecrets
from orchestrator.storage.store import FolderStore
from orchestrator.storage.task_files import TaskFiles
from orchestrator.storage.vault import Vault, VaultError
from orchestrator.supervisor.protocols import TaskLookups
from orchestrator.supervisor.supervisor import Supervisor
from orchestrator.workspaces.checkpoints import Checkpoints
from orchestrator.workspaces.evaluation.gates import Gates
from orchestrator.workspaces.evaluation.judge import Judge
from orchestrator.workspaces.workspace import Workspace

log = structlog.get_logger()

QUARANTINE = "quarantine"
FIXED_AT_START = ("data_dir", "socket", "log", "checkpoint_every")


@dataclass(slots=True)
class Daemon:
    """All parts of a daemon, wired; what the API needs of it is here too."""

    settings: Settings
    store: FolderStore
    supervisor: Supervisor
    dispatcher: CommandExecutor
    checkpoints: Checkpoints
    workspace: Workspace
    reports: Reports
    running: RunExecutor
    runs: Runs
    timers: Timers
    reception: Submissions
    outward: PublishTargets
    declared: DefinitionRegistry
    started_at: datetime
    redactor: Redactor
    provisions: ProvidedSecrets
    messenger: Messenger
    stalls: StallDetector
    sensor: Sensor
    floors: Floors
    shortage: Shortage | None = None

    async def accept(self, submission: Submission, by: str) -> Task:
        """Take a submission in. Raises what Reception.accept raises; then nothing is left of it."""
        return await self.reception.accept(submission, by)

    def clear(self, task: Task, *, whole: bool = False) -> None:
        """Remove the worktree of an ended task and what people provided for it, or all of it. Blocks."""
        self.dispatcher.workspace.remove(task.id)
        self.provisions.forget(task.id)
        if whole:
            self.store.delete(task.id)

    def usage(self, task: Task) -> Usage | None:
        """What the task's run takes of the machine."""
        return self.running.usage(task)

    def look(self, task: Task) -> Evidence:
        """What there is to see of the task's stage."""
        return evidence_of(task, accepted_pipeline(self.store.files, task.id), self.workspace)

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
        self.messenger.use(_notifier(settings, self.store.files))
        self.supervisor.set_room(_room(settings))
        self.floors = _floors(settings)
        self.stalls.stall_after = settings.stall_after


def build_daemon(settings: Settings, store: FolderStore, redactor: Redactor) -> Daemon:
    """A daemon that has not begun to live. Raises DefinitionError where what is declared cannot be used."""
    declared = DefinitionRegistry(settings.definition_folders())
    files = store.files
    pipeline_of = partial(_pipeline_of, files)
    timers, runs, workspace = Timers(), Runs(data_dir=settings.data_dir), Workspace(settings.data_dir)
    provisions = ProvidedSecrets(Vault(settings.data_dir, credentials_folder()), files)
    judge = Judge(git_of=workspace.git_of, redactor=redactor)
    reports = Reports(pipeline_of, partial(change_of, workspace), redactor.masked, files)
    running = RunExecutor(runs, _launching(settings, declared, provisions, judge), clock.now, files)
    messenger = Messenger(_notifier(settings, files))
    checkpoints = Checkpoints(workspace, store, clock.now)
    trackers = _trackers(settings)
    outward = PublishTargets(settings.forge, trackers, environment(), pipeline_of, files)
    adapters = Adapters(
        running=running,
        workspace=workspace,
        checkpoints=checkpoints,
        gates=Gates(workspace, provisions.secrets),
        publisher=_publisher(settings, workspace, outward, redactor, files),
        timers=timers,
        tell=messenger.tell,
        pipeline_of=pipeline_of,
        clock=clock.now,
        redact=redactor.masked,
    )
    dispatcher = CommandExecutor(adapters)
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
        reception=Submissions(
            trackers=trackers, intake=intake, loop=supervisor, with_forge=outward.with_forge, clock=clock.now
        ),
        outward=outward,
        declared=declared,
        started_at=clock.now(),
        redactor=redactor,
        provisions=provisions,
        messenger=messenger,
        stalls=StallDetector(supervisor.tasks.values, supervisor.post, clock.now, files, settings.stall_after),
        sensor=Sensor(settings.data_dir),
        floors=_floors(settings),
    )


def _supervisor(
    settings: Settings, store: FolderStore, dispatcher: CommandExecutor, running: RunExecutor
) -> Supervisor:
    pipeline_of = partial(_pipeline_of, store.files)
    views = TaskLookups(
        pipeline_of=pipeline_of, model_of=lambda task: _model_of(task, pipeline_of(task), running.launching)
    )
    supervisor = Supervisor(store, dispatcher, views, _room(settings), clock.now)
    supervisor.account.recall(store.account())
    dispatcher.tell(supervisor.post, supervisor.note, supervisor.record_limit)
    return supervisor


def _publisher(
    settings: Settings, workspace: Workspace, outward: PublishTargets, redactor: Redactor, files: TaskFiles
) -> Publisher:
    return Publisher(
        workspace=workspace,
        files=files,
        release=Release(workspace, files),
        hosts=outward.hosts,
        redactor=redactor,
        quarantined=settings.data_dir / QUARANTINE,
        tell_tracker=outward.tell,
        family_of=lambda task: _pipeline_of(files, task).family,
        clock=clock.now,
    )


def _notifier(settings: Settings, files: TaskFiles) -> Notifier | None:
    command = settings.people.notify_command
    return Notifier(command, environment(), files) if command else None


def _preflight(settings: Settings, declared: DefinitionRegistry) -> Callable[[Pipeline], Preflight]:
    """Looks for what the roles of a pipeline need, in the environment that agents get."""
    agent = settings.agent
    env = {**inherited(environment(), agent.pass_env), **agent.env}
    return lambda pipeline: preflight(map(declared.role, pipeline.roles), agent.mcp_config, env)


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


def _forget_ended(provisions: ProvidedSecrets, task: Task) -> None:
    if task.status.is_final:
        forget(provisions, task.id)


def forget(provisions: ProvidedSecrets, task_id: str) -> None:
    """Take what was provided for an ended task off the disk; where that fails the log says so, and each start tries."""
    try:
        provisions.forget(task_id)
    except (VaultError, OSError) as error:
        log.warning("provided_values_left", task=task_id, reason=str(error))


def _room(settings: Settings) -> Capacity:
    return Capacity(
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


def _model_of(task: Task, pipeline: Pipeline, launching: LaunchConfig) -> str:
    """The model that the role of the task's stage names, or the settings; empty where the CLI chooses."""
    role = pipeline.stage(task.stage).role
    named = model_of(launching.role(role), task.policy, launching.tiers) if role else None
    return named or launching.model


def _pipeline_of(files: TaskFiles, task: Task) -> Pipeline:
    return accepted_pipeline(files, task.id)


def bundled_redactor() -> Redactor:
    """The rules that ship with the program."""
    path = bundled(Kind.CONFIG) / "redaction.toml"
    return Redactor(parse_rules(read_declared(path), str(path)))


def _intake(settings: Settings, store: FolderStore, declared: DefinitionRegistry, redactor: Redactor) -> TaskFactory:
    return TaskFactory(
        files=store.files,
        quarantine_dir=settings.data_dir / QUARANTINE,
        settings=settings,
        pipelines=lambda: declared.now.pipelines,
        redactor=redactor,
        preflight=_preflight(settings, declared),
    )


def _launching(
    settings: Settings, declared: DefinitionRegistry, provisions: ProvidedSecrets, judge: Judge
) -> LaunchConfig:
    tokens = {host.token_env for host in settings.forge.hosts.values()}.difference(settings.agent.pass_env)
    base_env = {name: value for name, value in environment().items() if name not in tokens}
    graces = settings.graces
    limits = Limits(
        orphan_after=settings.orphan_after,
        eof_grace=graces.interrupt + graces.eof,
        term_grace=graces.term,
        kill_grace=graces.kill,
    )
    return LaunchConfig(
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
