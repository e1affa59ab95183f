"""The service of one daemon: all its use cases over the parts that they need, and who must hear of each decision."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from orchestrator.core.task.task import Task
from orchestrator.daemon.callers import AccessControl
from orchestrator.daemon.deliverables.archive import ArchiveService
from orchestrator.daemon.deliverables.progress import ProgressService
from orchestrator.daemon.services.bulk import BulkService
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
from orchestrator.daemon.services.transcripts import TranscriptService
from orchestrator.daemon.services.user_requests import UserRequestService
from orchestrator.daemon.task_factory import TaskFactory
from orchestrator.integrations.tickets.trackers import Trackers
from orchestrator.pipelines.definitions import Definitions
from orchestrator.processes.spec import Usage
from orchestrator.settings import Settings
from orchestrator.storage.provided_secrets import ProvidedSecrets
from orchestrator.storage.store import FolderStore
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.supervisor import Supervisor
from orchestrator.workspaces.checkpoints import Checkpoints
from orchestrator.workspaces.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceParts:
    """What use cases work with. `settings` and `definitions` return those in force now; `with_forge` blocks.

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
    usage_of: Callable[[Task], Usage | None]
    isolation: Callable[[], str]
    redact: Callable[[str], str]
    clock: Callable[[], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """All use cases, by subject; every text of an agent must pass `redact` before it leaves."""

    data_dir: Path
    access: AccessControl
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
    transcripts: TranscriptService
    events: EventService
    status: StatusService
    progress: ProgressService
    archives: ArchiveService


def build_service(parts: ServiceParts) -> Service:
    """Return the service of a daemon that has made no decision yet. Raises UnfitIndex."""
    store, inbox, supervisor, clock, redact = parts.store, parts.inbox, parts.supervisor, parts.clock, parts.redact
    index = TaskIndex(store, supervisor)
    events = EventService(store.events, index)
    supervisor.listen(index.on_decision)
    supervisor.listen(events.on_decision)
    recovery = RecoveryService(
        index=index, supervisor=supervisor, store=store, definitions=parts.definitions, clock=clock
    )
    submissions = SubmissionService(
        trackers=parts.trackers,
        factory=parts.factory,
        with_forge=parts.with_forge,
        index=index,
        supervisor=supervisor,
        inbox=inbox,
        clock=clock,
    )
    return Service(
        data_dir=store.data_dir,
        access=AccessControl(store.files),
        redact=redact,
        submissions=submissions,
        tasks=_task_service(parts, index, submissions, recovery),
        requests=UserRequestService(
            index=index,
            supervisor=supervisor,
            inbox=inbox,
            secrets=parts.secrets,
            workspace=parts.workspace,
            redact=redact,
            clock=clock,
        ),
        bulk=BulkService(supervisor=supervisor, inbox=inbox, clock=clock),
        limits=LimitService(supervisor=supervisor, inbox=inbox),
        checkpoints=CheckpointService(index=index, checkpoints=parts.checkpoints),
        recovery=recovery,
        states=StateService(
            index=index, inbox=inbox, files=store.files, workspace=parts.workspace, redact=redact, clock=clock
        ),
        records=RecordService(index=index, events=store.events, files=store.files, redact=redact),
        transcripts=TranscriptService(index=index, files=store.files),
        events=events,
        status=StatusService(
            settings=parts.settings,
            definitions=parts.definitions,
            supervisor=supervisor,
            usage_of=parts.usage_of,
            isolation=parts.isolation,
            started_at=clock(),
            clock=clock,
        ),
        progress=ProgressService(index=index, files=store.files, settings=parts.settings),
        archives=ArchiveService(index=index, files=store.files, workspace=parts.workspace, redact=redact),
    )


def _task_service(
    parts: ServiceParts, index: TaskIndex, submissions: SubmissionService, recovery: RecoveryService
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
        clock=parts.clock,
    )
