"""What one task did: the services that read its journal, its agents' output and its branch."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from orchestrator.daemon.history.diffs import DiffService
from orchestrator.daemon.history.journals import JournalService
from orchestrator.daemon.history.review_drafts import ReviewDraftService
from orchestrator.daemon.history.timelines import TimelineService
from orchestrator.daemon.history.transcript_windows import WindowService
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.daemon.services.transcripts import TranscriptService
from orchestrator.daemon.services.user_requests import UserRequestService
from orchestrator.storage.task_files import TaskFiles
from orchestrator.workspaces.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHistory:
    """The services of one task's past; `drafts` are comments on its changes that were not sent yet."""

    diffs: DiffService
    drafts: ReviewDraftService
    journals: JournalService
    timelines: TimelineService
    transcripts: TranscriptService
    windows: WindowService


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryParts:
    """What these services work with."""

    index: TaskIndex
    files: TaskFiles
    workspace: Workspace
    requests: UserRequestService
    redact: Callable[[str], str]
    clock: Callable[[], datetime]


def build_task_history(parts: HistoryParts) -> TaskHistory:
    """Return the services of tasks' past."""
    index, files, redact = parts.index, parts.files, parts.redact
    transcripts = TranscriptService(index=index, files=files)
    diffs = DiffService(index=index, workspace=parts.workspace, redact=redact)
    return TaskHistory(
        diffs=diffs,
        drafts=ReviewDraftService(index=index, files=files, diffs=diffs, requests=parts.requests, redact=redact),
        journals=JournalService(index=index, files=files, redact=redact),
        timelines=TimelineService(index=index, files=files, redact=redact, clock=parts.clock),
        transcripts=transcripts,
        windows=WindowService(transcripts=transcripts, redact=redact),
    )
