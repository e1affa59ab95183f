"""Loading tasks at start: live ones go to the supervisor, and what a crash left undone for ended ones is completed."""

import asyncio

import structlog

from orchestrator.daemon.reports import REPORTED, Reports
from orchestrator.daemon.summary import SUMMARY_FILE
from orchestrator.formats.table import DefinitionError
from orchestrator.storage.provided_secrets import PROVIDED, ProvidedSecrets
from orchestrator.storage.records import StoreError, TaskSummary, UncommittedTask
from orchestrator.storage.store import FolderStore
from orchestrator.storage.vault import VaultError
from orchestrator.supervisor.supervisor import Supervisor

log = structlog.get_logger()


def load_tasks(store: FolderStore, supervisor: Supervisor, reports: Reports, secrets: ProvidedSecrets) -> list[str]:
    """Give every live task to the supervisor; one that cannot be read is left alone and logged.

    Returns the ended tasks that have no summary.
    """
    without_summary = []
    for found in store.summaries():
        try:
            match found:
                case TaskSummary() if found.ended:
                    supervisor.ended[found.id] = found.status
                    supervisor.shared.remember(found.spent)
                    if found.files & PROVIDED:
                        discard_secrets(secrets, found.id)
                    if found.status in REPORTED and SUMMARY_FILE not in found.files:
                        without_summary.append(found.id)
                case TaskSummary():
                    loaded = store.load(found.id, keep_open=True)
                    supervisor.recover(loaded.task, loaded.edits)
                    reports.catch_up(loaded.task)
                case UncommittedTask():
                    store.delete(found.task_id)
                    log.info("unborn_task_removed", task=found.task_id)
                case _:
                    raise found
        except (StoreError, DefinitionError, OSError) as error:
            log.warning("task_not_loaded", error=str(error))
    return without_summary


async def write_missing_summaries(store: FolderStore, reports: Reports, task_ids: list[str]) -> None:
    """Write the summaries of ended tasks one at a time, so that the event loop stays free for others."""
    for task_id in task_ids:
        try:
            reports.catch_up(store.load(task_id).task)
        except (StoreError, DefinitionError, OSError) as error:
            log.warning("task_not_summed_up", error=str(error))
        await asyncio.sleep(0)


def discard_secrets(secrets: ProvidedSecrets, task_id: str) -> None:
    """Delete what was provided for an ended task; where that fails it is logged, and tried again at each start."""
    try:
        secrets.forget(task_id)
    except (VaultError, OSError) as error:
        log.warning("provided_values_left", task=task_id, reason=str(error))
