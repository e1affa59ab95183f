"""Building the daemon: the one place that knows every part and hands each what it needs.

It is built in one pass, from the inbox up; nothing is filled in later.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from orchestrator import clock
from orchestrator.agents.claude_folder import SharedLogin, users_folder
from orchestrator.agents.drivers import inherited
from orchestrator.agents.mcp_servers import preflight
from orchestrator.agents.stall_detector import StallDetector
from orchestrator.core.events.events import Event
from orchestrator.core.task.checks import Check
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.core.task.ticket import Preflight
from orchestrator.daemon.child_tasks import ChildTasks
from orchestrator.daemon.executor import Adapters, CommandExecutor, CommandTurns
from orchestrator.daemon.isolation import isolation_of
from orchestrator.daemon.launching import LaunchConfig, driver_of, installation_of, limits_of
from orchestrator.daemon.monitors import AgentMonitor, ResourceMonitor
from orchestrator.daemon.reporting.callbacks import CallbackSources
from orchestrator.daemon.reporting.projections import ProjectionWriter
from orchestrator.daemon.reporting.reports import Reports, change_of
from orchestrator.daemon.runs import RunExecutor
from orchestrator.daemon.service import Service, ServiceParts, build_service
from orchestrator.daemon.startup import discard_secrets
from orchestrator.daemon.task_factory import TaskFactory
from orchestrator.daemon.timers import Timers
from orchestrator.errors import OrchestratorError
from orchestrator.integrations.callbacks.outbox import Outbox
from orchestrator.integrations.notify import Messenger, Notifier
from orchestrator.integrations.publishing.outbound import Outbound
from orchestrator.integrations.publishing.publisher import Publisher
from orchestrator.integrations.publishing.targets import PublishTargets
from orchestrator.integrations.tickets.trackers import trackers_of
from orchestrator.pipelines.accepted import accepted_pipeline
from orchestrator.pipelines.definitions import DefinitionRegistry
from orchestrator.pipelines.role import Tier, model_of
from orchestrator.processes.runs import Runs
from orchestrator.redaction.rules import Redactor
from orchestrator.settings import Settings, credentials_folder, environment, environment_with_secrets
from orchestrator.storage.provided_secrets import ProvidedSecrets
from orchestrator.storage.store import FolderStore
from orchestrator.storage.task_files import TaskFiles
from orchestrator.storage.vault import Vault
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.protocols import TaskLookups
from orchestrator.supervisor.supervisor import Supervisor
from orchestrator.workspaces.checkpoints import Checkpoints
from orchestrator.workspaces.evaluation.gates import Gates
from orchestrator.workspaces.evaluation.judge import Judge
from orchestrator.workspaces.workspace import Workspace

log = structlog.get_logger()

QUARANTINE = "quarantine"
FIXED_AT_START = ("data_dir", "socket", "listen", "allowed_hosts", "socket_group", "log", "checkpoint_every")


class CurrentSettings:
    """The settings in force, and the parts that must adopt new ones."""

    def __init__(self, settings: Settings) -> None:
        self.now = settings
        self._adopters: list[Callable[[Settings], None]] = []

    def on_change(self, adopt: Callable[[Settings], None]) -> None:
        """Call `adopt` with the new settings at every change."""
        self._adopters.append(adopt)

    def replace(self, settings: Settings) -> None:
        """Put new settings in force; those that are fixed at start wait for a restart, and the log says so."""
        waiting = [name for name in FIXED_AT_START if getattr(settings, name) != getattr(self.now, name)]
        if waiting:
            log.warning("settings_wait_for_restart", settings=waiting)
        self.now = settings
        for adopt in self._adopters:
            adopt(settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """The parts of a daemon that bootstrap.py starts, feeds and stops."""

    settings: CurrentSettings
    definitions: DefinitionRegistry
    store: FolderStore
    secrets: ProvidedSecrets
    inbox: Inbox
    supervisor: Supervisor
    executor: CommandExecutor
    runs: Runs
    timers: Timers
    reports: Reports
    outbox: Outbox
    projections: ProjectionWriter
    stalls: StallDetector
    resources: ResourceMonitor
    agents: AgentMonitor
    service: Service
    launching: Callable[[], LaunchConfig]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """What most parts are built on."""

    settings: CurrentSettings
    definitions: DefinitionRegistry
    store: FolderStore
    workspace: Workspace
    secrets: ProvidedSecrets
    inbox: Inbox
    redactor: Redactor
    config: Path | None

    @property
    def files(self) -> TaskFiles:
        return self.store.files

    def pipeline_of(self, task: Task) -> Pipeline:
        """Return the pipeline of a task as it was declared when the task was submitted."""
        return accepted_pipeline(self.files, task.id, task.pipeline_digest)


def build_daemon(settings: Settings, store: FolderStore, redactor: Redactor, config: Path | None = None) -> Daemon:
    """Return a daemon that has not started; `config` is the file given with --config.

    Raises DefinitionError where the definitions cannot be used, and NotIsolated where runs must be and cannot be.
    """
    base = _Base(
        settings=CurrentSettings(settings),
        definitions=DefinitionRegistry(settings.definition_folders()),
        store=store,
        workspace=Workspace(settings.data_dir),
        secrets=ProvidedSecrets(Vault(settings.data_dir, credentials_folder()), store.files),
        inbox=Inbox(),
        redactor=redactor,
        config=config,
    )
    runs, timers, turns = Runs(data_dir=settings.data_dir), Timers(), CommandTurns()
    running, projections = _run_executor(base, runs), ProjectionWriter(store, base.pipeline_of, redactor.masked)
    checkpoints = Checkpoints(base.workspace, store, base.inbox, turns.turn, clock.now)
    targets = _targets(base)
    adapters = Adapters(
        running=running,
        workspace=base.workspace,
        checkpoints=checkpoints,
        gates=Gates(base.workspace, base.secrets.secrets, running.last_message),
        publisher=_publisher(base, targets),
        children=_child_tasks(base, running),
        projections=projections,
        timers=timers,
        turns=turns,
        notify=_messenger(base).tell,
        pipeline_of=base.pipeline_of,
        clock=clock.now,
        redact=redactor.masked,
    )
    executor = CommandExecutor(adapters, base.inbox)
    supervisor = _supervisor(base, executor, running)
    reports = Reports(base.pipeline_of, partial(change_of, base.workspace), redactor.masked, base.files)
    outbox = _outbox(base, running)
    for part in (checkpoints, reports, adapters.publisher, adapters.children, outbox, projections):
        supervisor.listen(part.on_decision)
    supervisor.listen(partial(_discard_secrets_of_ended, base.secrets))
    return Daemon(
        settings=base.settings,
        definitions=base.definitions,
        store=store,
        secrets=base.secrets,
        inbox=base.inbox,
        supervisor=supervisor,
        executor=executor,
        runs=runs,
        timers=timers,
        reports=reports,
        outbox=outbox,
        projections=projections,
        stalls=_stall_detector(base, supervisor),
        resources=_resource_monitor(base, supervisor),
        agents=_agent_monitor(base, supervisor, running),
        service=_service(base, supervisor, checkpoints, targets, running),
        launching=lambda: running.launching,
    )


def _service(
    base: _Base, supervisor: Supervisor, checkpoints: Checkpoints, targets: PublishTargets, running: RunExecutor
) -> Service:
    parts = ServiceParts(
        settings=lambda: base.settings.now,
        definitions=lambda: base.definitions.now,
        store=base.store,
        inbox=base.inbox,
        supervisor=supervisor,
        checkpoints=checkpoints,
        workspace=base.workspace,
        secrets=base.secrets,
        trackers=trackers_of(base.settings.now),
        factory=_task_factory(base, base.settings.now, running),
        with_forge=targets.with_forge,
        usage_of=running.usage,
        isolation=lambda: running.launching.isolation.summary,
        redact=base.redactor.masked,
        clock=clock.now,
    )
    service = build_service(parts)

    def adopt(changed: Settings) -> None:
        targets.use(changed.forge, trackers_of(changed))
        service.submissions.trackers = trackers_of(changed)
        service.submissions.factory = _task_factory(base, changed, running)

    base.settings.on_change(adopt)
    return service


def _run_executor(base: _Base, runs: Runs) -> RunExecutor:
    judge = Judge(git_of=base.workspace.git_of, redactor=base.redactor)
    launching = _launch_config(base, base.settings.now, judge)
    launching.isolation.require()
    running = RunExecutor(runs, launching, base.inbox, clock.now, base.files)
    base.settings.on_change(lambda changed: running.launch_with(_launch_config(base, changed, judge)))
    return running


def _supervisor(base: _Base, executor: CommandExecutor, running: RunExecutor) -> Supervisor:
    lookups = TaskLookups(
        clock=clock.now,
        pipeline_of=base.pipeline_of,
        model_of=lambda task: _model_of(task, base, running.launching),
    )
    supervisor = Supervisor(base.store, executor, base.inbox, lookups, base.settings.now.capacity())
    supervisor.shared.recall(base.store.account())

    def adopt(changed: Settings) -> None:
        supervisor.shared.try_again()
        supervisor.control.set_capacity(changed.capacity())

    base.settings.on_change(adopt)
    return supervisor


def _child_tasks(base: _Base, running: RunExecutor) -> ChildTasks:
    return ChildTasks(
        files=base.files,
        store=base.store,
        inbox=base.inbox,
        workspace=base.workspace,
        factory=lambda: _task_factory(base, base.settings.now, running),
        pipeline_of=base.pipeline_of,
        clock=clock.now,
    )


def _outbox(base: _Base, running: RunExecutor) -> Outbox:
    sources = CallbackSources(
        settings=lambda: base.settings.now,
        pipeline_of=base.pipeline_of,
        workspace=base.workspace,
        load=lambda task_id: base.store.load(task_id).task,
        note_of=running.last_message,
    )
    return sources.outbox(base.files, base.store.data_dir, base.redactor.masked, clock.now)


def _messenger(base: _Base) -> Messenger:
    messenger = Messenger(_notifier(base.settings.now, base.files))
    base.settings.on_change(lambda changed: messenger.use(_notifier(changed, base.files)))
    return messenger


def _stall_detector(base: _Base, supervisor: Supervisor) -> StallDetector:
    patience = base.settings.now.stall_after
    stalls = StallDetector(supervisor.tasks.values, base.inbox.post, clock.now, base.files, patience)

    def adopt(changed: Settings) -> None:
        stalls.stall_after = changed.stall_after

    base.settings.on_change(adopt)
    return stalls


def _resource_monitor(base: _Base, supervisor: Supervisor) -> ResourceMonitor:
    resources = ResourceMonitor(base.settings.now.data_dir, base.settings.now.floors(), supervisor)

    def adopt(changed: Settings) -> None:
        resources.floors = changed.floors()

    base.settings.on_change(adopt)
    return resources


def _agent_monitor(base: _Base, supervisor: Supervisor, running: RunExecutor) -> AgentMonitor:
    agents = AgentMonitor(lambda: running.launching.installation, base.inbox, supervisor.shared)
    base.settings.on_change(lambda _: agents.hurry())
    return agents


def _targets(base: _Base) -> PublishTargets:
    settings = base.settings.now
    return PublishTargets(
        settings.forge, trackers_of(settings), environment_with_secrets(), base.pipeline_of, base.files
    )


def _publisher(base: _Base, targets: PublishTargets) -> Publisher:
    outbound = Outbound(
        workspace=base.workspace,
        files=base.files,
        family_of=lambda task: base.pipeline_of(task).family,
        hosts=targets.hosts,
        redactor=base.redactor,
        quarantined=base.settings.now.data_dir / QUARANTINE,
        clock=clock.now,
    )
    return Publisher(outbound=outbound, tell_tracker=targets.tell)


def _notifier(settings: Settings, files: TaskFiles) -> Notifier | None:
    command = settings.people.notify_command
    return Notifier(command, environment(), files) if command else None


def _preflight(settings: Settings, definitions: DefinitionRegistry) -> Callable[[Pipeline], Preflight]:
    """Return a check of what the roles of a pipeline need, in the environment that agents get."""
    agent = settings.agent
    env = {**inherited(environment_with_secrets(), agent.pass_env), **agent.env}
    return lambda pipeline: preflight(map(definitions.role, pipeline.roles), agent.mcp_config, env)


def _discard_secrets_of_ended(secrets: ProvidedSecrets, task: Task, _: Event) -> None:
    if task.status.is_final:
        discard_secrets(secrets, task.id)


def _model_of(task: Task, base: _Base, launching: LaunchConfig) -> str:
    """Return the model named by the role of the task's stage or by the settings; empty if the CLI chooses.

    It is also empty if the task's pipeline or role is lost, which must not keep other tasks from being scheduled: the
    task's own next decision or turn finds that.
    """
    try:
        role = base.pipeline_of(task).stage(task.stage).role
        named = model_of(launching.role(role), task.policy, launching.tiers) if role else None
    except OrchestratorError:
        return ""
    return named or launching.model


def _task_factory(base: _Base, settings: Settings, running: RunExecutor) -> TaskFactory:
    def objection(pipeline: Pipeline, checks: Sequence[Check]) -> str:
        return running.launching.isolation.objection(map(base.definitions.role, pipeline.roles), checks)

    return TaskFactory(
        files=base.files,
        quarantine_dir=settings.data_dir / QUARANTINE,
        settings=settings,
        pipelines=lambda: base.definitions.now.pipelines,
        redactor=base.redactor,
        preflight=_preflight(settings, base.definitions),
        objection=objection,
    )


def _launch_config(base: _Base, settings: Settings, judge: Judge) -> LaunchConfig:
    tokens = {host.token_env for host in settings.forge.hosts.values()}.difference(settings.agent.pass_env)
    base_env = {name: value for name, value in environment_with_secrets().items() if name not in tokens}
    isolation = isolation_of(settings, environment(), base.config, base.files, base.workspace.objects_of)
    users = users_folder({**inherited(base_env, settings.agent.pass_env), **settings.agent.env})
    shares_login = isolation.program is not None and settings.agent.driver == "claude"
    return LaunchConfig(
        driver=driver_of(settings),
        installation=installation_of(settings, base_env),
        judge=judge,
        role=base.definitions.role,
        provided=base.secrets.environment,
        masked=base.secrets.values,
        model=settings.agent.model,
        tiers={Tier(name): model for name, model in settings.agent.tiers if model},
        base_env=base_env,
        limits=limits_of(settings.orphan_after, settings.graces),
        isolation=isolation,
        login=SharedLogin(users=users.login, folder=settings.data_dir / "login") if shares_login else None,
        socket=settings.agents_socket,
    )
