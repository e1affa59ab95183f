"""The service of one daemon: all its use cases over the parts that they need, and who must hear of each decision."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from orchestrator.core.task.task import Task
from orchestrator.daemon.access.credentials import Credentials
from orchestrator.daemon.backup.notes import BackupNotes
from orchestrator.daemon.backup.service import BackupService
from orchestrator.daemon.callers import AccessControl
from orchestrator.daemon.deliverables.archive import ArchiveService
from orchestrator.daemon.deliverables.progress import ProgressService
from orchestrator.daemon.history.task_history import HistoryParts, TaskHistory, build_task_history
from orchestrator.daemon.housekeeping.protection import Protection
from orchestrator.daemon.housekeeping.service import DiskService
from orchestrator.daemon.housekeeping.turns import RemovalTurns
from orchestrator.daemon.inspection.attention import AttentionService
from orchestrator.daemon.inspection.board import BoardService
from orchestrator.daemon.inspection.changes import Changes
from orchestrator.daemon.inspection.present import PresentService
from orchestrator.daemon.inspection.preview import PreviewService
from orchestrator.daemon.intake.intake import IntakeParts, IntakeService, build_intake
from orchestrator.daemon.notifications.service import NotificationService
from orchestrator.daemon.reporting.oversight import Oversight, OversightParts, build_oversight
from orchestrator.daemon.schedules.service import ScheduleService, build_schedules
from orchestrator.daemon.services.bulk import BatchService, BulkService
from orchestrator.daemon.services.checkpoints import CheckpointService
from orchestrator.daemon.services.events import EventService
from orchestrator.daemon.services.limits import LimitService
from orchestrator.daemon.services.records import RecordService
from orchestrator.daemon.services.recovery import RecoveryService
from orchestrator.daemon.services.state_operations import StateService
from orchestrator.daemon.services.status import StatusService
from orchestrator.daemon.services.submissions import SubmissionService
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.daemon.services.tasks import TaskService
from orchestrator.daemon.services.user_requests import UserRequestService
from orchestrator.daemon.sources.service import SourceService
from orchestrator.daemon.task_factory import TaskFactory
from orchestrator.integrations.credentials import Credentials as Login
from orchestrator.integrations.tickets.trackers import Trackers
from orchestrator.pipelines.definitions import Definitions
from orchestrator.processes.spec import Usage
from orchestrator.settings.settings import Settings
from orchestrator.storage.provided_secrets import ProvidedSecrets
from orchestrator.storage.store import FolderStore
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.supervisor import Supervisor
from orchestrator.workspaces.checkpoints import Checkpoints
from orchestrator.workspaces.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceParts:
    """What use cases work with. `settings` and `definitions` return those in force now; `with_forge`, `login_of` block.

    `usage_of` says what a task's processes take of the machine, `isolation` how they are kept apart from it; `redact`
    makes a text fit to leave.
    """

    settings: Callable[[], Settings]
    definitions: Callable[[], Definitions]
    store: FolderStore
    inbox: Inbox
    supervisor: Supervisor
    checkpoints: Checkpoints
    workspace: Workspace
    secrets: ProvidedSecrets
    trackers: Trackers
    factory: TaskFactory
    with_forge: Callable[[Task], Task]
    login_of: Callable[[str], Login | None]
    usage_of: Callable[[Task], Usage | None]
    isolation: Callable[[], str]
    broken_parts: Callable[[], Mapping[str, str]]
    notifications: NotificationService
    backups: BackupService
    redact: Callable[[str], str]
    clock: Callable[[], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """All use cases, by subject; every text of an agent must pass `redact` before it leaves."""

    data_dir: Path
    access: AccessControl
    credentials: Credentials
    redact: Callable[[str], str]
    submissions: SubmissionService
    tasks: TaskService
    requests: UserRequestService
    bulk: BulkService
    limits: LimitService
    checkpoints: CheckpointService
    recovery: RecoveryService
    states: StateService
    records: RecordService
    history: TaskHistory
    events: EventService
    status: StatusService
    board: BoardService
    present: PresentService
    preview: PreviewService
    intake: IntakeService
    progress: ProgressService
    archives: ArchiveService
    attention: AttentionService
    changes: Changes
    notifications: NotificationService
    oversight: Oversight
    disk: DiskService
    backups: BackupService
    schedules: ScheduleService
    sources: SourceService

    def end_streams(self) -> None:
        """End every stream to a reader, because the daemon stops."""
        self.events.end_streams()
        self.changes.end()

    @property
    def batches(self) -> BatchService:
        """The use case of several named tasks."""
        return BatchService(tasks=self.tasks, requests=self.requests)


def build_service(parts: ServiceParts) -> Service:
    """Return the service of a daemon that has made no decision yet. Raises UnfitIndex."""
    store, inbox, supervisor, clock, redact = parts.store, parts.inbox, parts.supervisor, parts.clock, parts.redact
    index = TaskIndex(store, supervisor)
    events, changes = EventService(store.events, index), Changes()
    for part in (index, events, changes):
        supervisor.listen(part.on_decision)
    turns = RemovalTurns()
    recovery, submissions = _recovery_service(parts, index, turns), _submission_service(parts, index)
    status, limits = _status_service(parts), LimitService(supervisor=supervisor, inbox=inbox)
    attention, requests = AttentionService(supervisor=supervisor), _request_service(parts, index)
    schedules = build_schedules(store, submissions, supervisor, parts.notifications.announcer.announce)
    history, tasks = _task_history(parts, index, requests), _task_service(parts, index, submissions, recovery, turns)
    intake = _intake(parts, index, submissions, tasks)
    sources = SourceService(data_dir=store.data_dir, login_of=parts.login_of, clock=clock)
    watched = OversightParts(
        index=index,
        store=store,
        status=status,
        limits=limits,
        attention=attention,
        intake=intake,
        redact=redact,
        note_sources=(schedules.not_submitted, intake.notes, BackupNotes(store.data_dir).notes),
    )
    return Service(
        data_dir=store.data_dir,
        access=AccessControl(store.files, parts.settings().socket_group),
        credentials=Credentials(store.data_dir, clock),
        redact=redact,
        submissions=submissions,
        tasks=tasks,
        requests=requests,
        bulk=BulkService(supervisor=supervisor, inbox=inbox, clock=clock),
        limits=limits,
        checkpoints=CheckpointService(index=index, checkpoints=parts.checkpoints),
        recovery=recovery,
        states=_state_service(parts, index),
        records=RecordService(index=index, events=store.events, files=store.files, redact=redact),
        history=history,
        events=events,
        status=status,
        board=_board_service(parts, index),
        present=PresentService(
            supervisor=supervisor, status=status, attention=attention, limits=limits, windows=history.windows
        ),
        preview=PreviewService(submissions=submissions),
        intake=intake,
        progress=ProgressService(index=index, files=store.files, settings=parts.settings),
        archives=ArchiveService(index=index, files=store.files, workspace=parts.workspace, redact=redact),
        attention=attention,
        changes=changes,
        oversight=_oversight(parts, watched),
        schedules=schedules,
        notifications=parts.notifications,
        disk=_disk_service(parts, index, tasks, schedules, sources),
        sources=sources,
        backups=parts.backups,
    )


def _state_service(parts: ServiceParts, index: TaskIndex) -> StateService:
    return StateService(
        index=index,
        inbox=parts.inbox,
        files=parts.store.files,
        workspace=parts.workspace,
        redact=parts.redact,
        clock=parts.clock,
    )


def _disk_service(
    parts: ServiceParts, index: TaskIndex, tasks: TaskService, schedules: ScheduleService, sources: SourceService
) -> DiskService:
    async def repositories() -> dict[str, str]:
        named = {one.work.repo: f"the schedule {one.id}" for one in await schedules.listed()}
        settings = parts.settings()
        wanted = [settings.inbox.repo, *settings.inbox.repos, *(one.repo for one in settings.queries.values())]
        return named | {str(repo): "the settings of what comes in" for repo in wanted if repo is not None}

    return DiskService(
        settings=parts.settings,
        index=index,
        tasks=tasks,
        store=parts.store,
        workspace=parts.workspace,
        protection=tasks.protection,
        sources=sources.in_use,
        repositories=repositories,
        clock=parts.clock,
    )


def _task_history(parts: ServiceParts, index: TaskIndex, requests: UserRequestService) -> TaskHistory:
    return build_task_history(
        HistoryParts(
            index=index,
            files=parts.store.files,
            workspace=parts.workspace,
            requests=requests,
            redact=parts.redact,
            clock=parts.clock,
        )
    )


def _oversight(parts: ServiceParts, watched: OversightParts) -> Oversight:
    made = build_oversight(watched)
    parts.supervisor.listen(made.metrics.counted.on_decision)
    parts.supervisor.time_commits(made.metrics.counted.commits.observe)
    return made


def _intake(parts: ServiceParts, index: TaskIndex, submissions: SubmissionService, tasks: TaskService) -> IntakeService:
    return build_intake(
        IntakeParts(
            settings=parts.settings,
            store=parts.store,
            supervisor=parts.supervisor,
            index=index,
            submissions=submissions,
            tasks=tasks,
            redact=parts.redact,
            clock=parts.clock,
        )
    )


def _submission_service(parts: ServiceParts, index: TaskIndex) -> SubmissionService:
    return SubmissionService(
        trackers=parts.trackers,
        factory=parts.factory,
        with_forge=parts.with_forge,
        index=index,
        supervisor=parts.supervisor,
        inbox=parts.inbox,
        clock=parts.clock,
    )


def _recovery_service(parts: ServiceParts, index: TaskIndex, turns: RemovalTurns) -> RecoveryService:
    return RecoveryService(
        index=index,
        supervisor=parts.supervisor,
        store=parts.store,
        definitions=parts.definitions,
        turns=turns,
        clock=parts.clock,
    )


def _request_service(parts: ServiceParts, index: TaskIndex) -> UserRequestService:
    return UserRequestService(
        index=index,
        supervisor=parts.supervisor,
        inbox=parts.inbox,
        secrets=parts.secrets,
        workspace=parts.workspace,
        redact=parts.redact,
        clock=parts.clock,
    )


def _status_service(parts: ServiceParts) -> StatusService:
    return StatusService(
        settings=parts.settings,
        definitions=parts.definitions,
        supervisor=parts.supervisor,
        usage_of=parts.usage_of,
        isolation=parts.isolation,
        dead_channels=parts.notifications.dead_channels,
        broken_parts=parts.broken_parts,
        started_at=parts.clock(),
        clock=parts.clock,
    )


def _board_service(parts: ServiceParts, index: TaskIndex) -> BoardService:
    folders = parts.settings().data_dir / "folders"
    return BoardService(index=index, pipelines=lambda: parts.definitions().pipelines, folders=str(folders))


def _task_service(
    parts: ServiceParts,
    index: TaskIndex,
    submissions: SubmissionService,
    recovery: RecoveryService,
    turns: RemovalTurns,
) -> TaskService:
    return TaskService(
        index=index,
        supervisor=parts.supervisor,
        inbox=parts.inbox,
        store=parts.store,
        workspace=parts.workspace,
        checkpoints=parts.checkpoints,
        secrets=parts.secrets,
        submissions=submissions,
        recovery=recovery,
        protection=Protection(store=parts.store, workspace=parts.workspace, login_of=parts.login_of),
        turns=turns,
        clock=parts.clock,
    )
