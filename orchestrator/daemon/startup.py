"""Loading tasks at start: live ones go to the supervisor, and what a crash left undone for ended ones is completed."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog

from orchestrator import clock
from orchestrator.core.task.task import Task
from orchestrator.daemon.reporting.projections import BEHIND
from orchestrator.daemon.reporting.reports import REPORTED
from orchestrator.daemon.reporting.summary import SUMMARY_FILE
from orchestrator.formats.table import DefinitionError
from orchestrator.pipelines.accepted import accepted_pipeline
from orchestrator.storage.provided_secrets import PROVIDED, ProvidedSecrets
from orchestrator.storage.records import StoreError, TaskSummary, UncommittedTask, UnreadableTask
from orchestrator.storage.restore import last_known
from orchestrator.storage.store import FolderStore
from orchestrator.storage.vault import VaultError
from orchestrator.supervisor.supervisor import Supervisor

log = structlog.get_logger()


class DerivedFiles(Protocol):
    """Files of tasks that are derived from their states."""

    def catch_up(self, task: Task) -> None:
        """Write what a task lacks of them."""


def load_tasks(
    store: FolderStore, supervisor: Supervisor, derived: Sequence[DerivedFiles], secrets: ProvidedSecrets
) -> list[str]:
    """Give every live task to the supervisor; one that cannot be read is shown as blocked, with the reason.

    Returns the ended tasks that have no summary, or whose records are
    behind.
    """
    behind = []
    for found in store.summaries():
        try:
            match found:
                case TaskSummary() if found.ended:
                    supervisor.remember_ended(found)
                    if found.files & PROVIDED:
                        discard_secrets(secrets, found.id)
                    has_summary = found.status not in REPORTED or SUMMARY_FILE in found.files
                    if not has_summary or BEHIND in found.files:
                        behind.append(found.id)
                case TaskSummary():
                    if (task := take_up(store, supervisor, found.id)) is not None:
                        _catch_up(derived, task)
                case UncommittedTask():
                    store.delete(found.task_id)
                    log.info("unborn_task_removed", task=found.task_id)
                case UnreadableTask():
                    hold_unreadable(store, supervisor, found.task_id, found)
                case _:
                    raise found
        except (StoreError, DefinitionError, OSError) as error:
            log.warning("task_not_loaded", error=str(error))
    return behind


def take_up(store: FolderStore, supervisor: Supervisor, task_id: str) -> Task | None:
    """Give a live task to the supervisor and return it; one whose files cannot be read is shown as blocked."""
    try:
        loaded = store.load(task_id, keep_open=True)
    except (StoreError, OSError) as error:
        hold_unreadable(store, supervisor, task_id, error)
        return None
    try:
        accepted_pipeline(store.files, task_id, loaded.task.pipeline_digest)
    except DefinitionError as error:
        supervisor.unreadable.hold(loaded.task, f"its pipeline cannot be read: {error}")
        return None
    supervisor.recover(loaded.task, loaded.edits)
    return loaded.task


def hold_unreadable(store: FolderStore, supervisor: Supervisor, task_id: str, error: Exception) -> None:
    """Show a task as blocked because its files cannot be read."""
    supervisor.unreadable.hold(last_known(store, task_id, clock.now()), f"its files cannot be read: {error}")


async def catch_up_ended(store: FolderStore, derived: Sequence[DerivedFiles], task_ids: list[str]) -> None:
    """Write what the files of ended tasks lack, one at a time, so that the event loop stays free for others."""
    for task_id in task_ids:
        try:
            _catch_up(derived, (await asyncio.to_thread(store.load, task_id)).task)
        except (StoreError, DefinitionError, OSError) as error:
            log.warning("task_not_summed_up", error=str(error))
        await asyncio.sleep(0)


def _catch_up(derived: Sequence[DerivedFiles], task: Task) -> None:
    for files in derived:
        files.catch_up(task)


def discard_secrets(secrets: ProvidedSecrets, task_id: str) -> None:
    """Delete what was provided for an ended task; where that fails it is logged, and tried again at each start."""
    try:
        secrets.forget(task_id)
    except (VaultError, OSError) as error:
        log.warning("provided_values_left", task=task_id, reason=str(error))
