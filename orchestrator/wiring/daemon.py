"""Building the daemon: the one place that knows every part and hands each what it needs.

It is built in one pass, from the inbox up; nothing is filled in later.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from orchestrator import clock
from orchestrator.agents.stall_detector import StallDetector
from orchestrator.core.events.events import Event
from orchestrator.core.task.task import Task
from orchestrator.daemon.child_tasks import ChildTasks
from orchestrator.daemon.executor import Adapters, CommandExecutor, CommandTurns
from orchestrator.daemon.housekeeping.housekeeper import Housekeeper
from orchestrator.daemon.launching import LaunchConfig
from orchestrator.daemon.monitors import AgentMonitor, ResourceMonitor, share_login
from orchestrator.daemon.notifications.build import build_notifications
from orchestrator.daemon.reporting.projections import ProjectionWriter
from orchestrator.daemon.reporting.reports import Reports, change_of
from orchestrator.daemon.runs import RunExecutor
from orchestrator.daemon.service import Service, ServiceParts, build_service
from orchestrator.daemon.side_loops import Loop, SideLoops
from orchestrator.daemon.startup import discard_secrets
from orchestrator.daemon.timers import Timers
from orchestrator.integrations.callbacks.outbox import Outbox
from orchestrator.integrations.publishing.targets import PublishTargets
from orchestrator.integrations.tickets.trackers import trackers_of
from orchestrator.pipelines.definitions import DefinitionRegistry
from orchestrator.processes.runs import Runs
from orchestrator.redaction.rules import Redactor
from orchestrator.settings.environment import credentials_folder
from orchestrator.settings.settings import Settings
from orchestrator.storage.provided_secrets import ProvidedSecrets
from orchestrator.storage.store import FolderStore
from orchestrator.storage.vault import Vault
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.protocols import TaskLookups
from orchestrator.supervisor.supervisor import Supervisor
from orchestrator.wiring.backups import backup_service
from orchestrator.wiring.base import Base, CurrentSettings
from orchestrator.wiring.intake import intake_loops
from orchestrator.wiring.launching import ModelsOfTasks, launch_config, task_factory
from orchestrator.wiring.monitoring import monitoring_loops
from orchestrator.wiring.notifications import notification_loops
from orchestrator.wiring.outward import callback_outbox, publish_targets, publisher
from orchestrator.wiring.schedules import watch_run_windows
from orchestrator.workspaces.checkpoints import Checkpoints
from orchestrator.workspaces.evaluation.gates import Gates
from orchestrator.workspaces.evaluation.judge import Judge
from orchestrator.workspaces.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """The parts of a daemon that bootstrap starts, feeds and stops.

    `loops` run by their names as long as the daemon does, beside the supervisor's; one that ends is a fault.
    """

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
    projections: ProjectionWriter
    resources: ResourceMonitor
    service: Service
    launching: Callable[[], LaunchConfig]
    loops: Mapping[str, Loop]


def build_daemon(settings: Settings, store: FolderStore, redactor: Redactor, config: Path | None = None) -> Daemon:
    """Return a daemon that has not started; `config` is the file given with --config.

    Raises DefinitionError where the definitions cannot be used, and NotIsolated where runs must be and cannot be.
    """
    base = _base(settings, store, redactor, config)
    runs, timers, turns = Runs(data_dir=settings.data_dir), Timers(), CommandTurns()
    running, projections = _run_executor(base, runs), ProjectionWriter(store, base.pipeline_of, redactor.masked)
    checkpoints = Checkpoints(base.workspace, store, base.inbox, turns.turn, clock.now)
    targets = publish_targets(base)
    adapters = Adapters(
        running=running,
        workspace=base.workspace,
        checkpoints=checkpoints,
        gates=Gates(base.workspace, base.secrets.secrets, running.last_message),
        publisher=publisher(base, targets),
        children=_child_tasks(base, running),
        projections=projections,
        timers=timers,
        turns=turns,
        notify=base.notifications.announcer.tell,
        pipeline_of=base.pipeline_of,
        clock=clock.now,
        redact=redactor.masked,
    )
    executor = CommandExecutor(adapters, base.inbox)
    supervisor = _supervisor(base, executor, running)
    watch_run_windows(base, supervisor, timers)
    reports = Reports(base.pipeline_of, partial(change_of, base.workspace), redactor.masked, base.files)
    outbox = callback_outbox(base, running)
    for part in (checkpoints, reports, adapters.publisher, adapters.children, outbox, projections):
        supervisor.listen(part.on_decision)
    supervisor.listen(partial(_discard_secrets_of_ended, base.secrets))
    service = _service(base, supervisor, checkpoints, targets, running)
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
        projections=projections,
        resources=_resource_monitor(base, supervisor),
        service=service,
        launching=lambda: running.launching,
        loops=_loops(base, supervisor, running, outbox, service),
    )


def _base(settings: Settings, store: FolderStore, redactor: Redactor, config: Path | None) -> Base:
    current = CurrentSettings(settings)
    return Base(
        settings=current,
        definitions=DefinitionRegistry(settings.definition_folders()),
        store=store,
        workspace=Workspace(settings.data_dir),
        secrets=ProvidedSecrets(Vault(settings.data_dir, credentials_folder()), store.files),
        inbox=Inbox(),
        redactor=redactor,
        notifications=build_notifications(lambda: current.now, store, redactor.masked, clock.now),
        side=SideLoops(),
        config=config,
    )


def _loops(
    base: Base, supervisor: Supervisor, running: RunExecutor, outbox: Outbox, service: Service
) -> dict[str, Loop]:
    return {
        "stalls": _stall_detector(base, supervisor).run,
        "agents": _agent_monitor(base, supervisor, running).run,
        "callbacks": outbox.run,
        "shared login": partial(share_login, lambda: running.launching.login),
        **base.side.guarded(_side_loops(base, supervisor, service)),
    }


def _side_loops(base: Base, supervisor: Supervisor, service: Service) -> dict[str, Loop]:
    return {
        "schedules": service.schedules.run,
        "housekeeping": Housekeeper(service.disk).run,
        "backups": service.backups.schedule.run,
        **monitoring_loops(base, supervisor, service),
        **intake_loops(base, service),
        **notification_loops(base, service),
    }


def _service(
    base: Base, supervisor: Supervisor, checkpoints: Checkpoints, targets: PublishTargets, running: RunExecutor
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
        factory=task_factory(base, base.settings.now, running),
        with_forge=targets.with_forge,
        login_of=targets.login_of,
        usage_of=running.usage,
        broken_parts=base.side.reasons,
        isolation=lambda: running.launching.isolation.summary,
        notifications=base.notifications,
        backups=backup_service(base),
        redact=base.redactor.masked,
        clock=clock.now,
    )
    service = build_service(parts)

    def adopt(changed: Settings) -> None:
        targets.use(changed.forge, trackers_of(changed))
        service.submissions.trackers = trackers_of(changed)
        service.submissions.factory = task_factory(base, changed, running)

    base.settings.on_change(adopt)
    return service


def _run_executor(base: Base, runs: Runs) -> RunExecutor:
    judge = Judge(git_of=base.workspace.git_of, redactor=base.redactor)
    launching = launch_config(base, base.settings.now, judge)
    launching.isolation.require()
    running = RunExecutor(runs, launching, base.inbox, clock.now, base.files)
    base.settings.on_change(lambda changed: running.launch_with(launch_config(base, changed, judge)))
    return running


def _supervisor(base: Base, executor: CommandExecutor, running: RunExecutor) -> Supervisor:
    models = ModelsOfTasks(base.pipeline_of, lambda: base.definitions.now, lambda: running.launching)
    lookups = TaskLookups(
        clock=clock.now,
        pipeline_of=base.pipeline_of,
        model_of=models.model_of,
    )
    supervisor = Supervisor(base.store, executor, base.inbox, lookups, base.settings.now.capacity())
    supervisor.shared.recall(base.store.account())

    def adopt(changed: Settings) -> None:
        supervisor.shared.try_again()
        supervisor.control.set_capacity(changed.capacity())

    base.settings.on_change(adopt)
    return supervisor


def _child_tasks(base: Base, running: RunExecutor) -> ChildTasks:
    return ChildTasks(
        files=base.files,
        store=base.store,
        inbox=base.inbox,
        workspace=base.workspace,
        factory=lambda: task_factory(base, base.settings.now, running),
        pipeline_of=base.pipeline_of,
        clock=clock.now,
    )


def _stall_detector(base: Base, supervisor: Supervisor) -> StallDetector:
    patience = base.settings.now.stall_after
    stalls = StallDetector(supervisor.tasks.values, base.inbox.post, clock.now, base.files, patience)

    def adopt(changed: Settings) -> None:
        stalls.stall_after = changed.stall_after

    base.settings.on_change(adopt)
    return stalls


def _resource_monitor(base: Base, supervisor: Supervisor) -> ResourceMonitor:
    resources = ResourceMonitor(base.settings.now.data_dir, base.settings.now.floors(), supervisor)

    def adopt(changed: Settings) -> None:
        resources.floors = changed.floors()

    base.settings.on_change(adopt)
    return resources


def _agent_monitor(base: Base, supervisor: Supervisor, running: RunExecutor) -> AgentMonitor:
    agents = AgentMonitor(lambda: running.launching.installation, base.inbox, supervisor.shared)
    base.settings.on_change(lambda _: agents.hurry())
    return agents


def _discard_secrets_of_ended(secrets: ProvidedSecrets, task: Task, _: Event) -> None:
    if task.status.is_final:
        discard_secrets(secrets, task.id)
