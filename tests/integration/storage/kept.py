"""A task kept in a store, decision by decision."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from orchestrator.core.events import events
from orchestrator.core.task.agent import AgentStatus, AgentUsage
from orchestrator.core.task.checkpoint import Checkpoint, CheckpointContext, Reason, checkpoint_of
from orchestrator.core.task.failures import Failure
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.storage.journal import NAME, lines
from orchestrator.storage.records import LoadedTask
from orchestrator.storage.store import FolderStore
from tests.fakes.tasks import TASK_ID, submitted
from tests.fakes.world import START

NAME_OF_TASK = TASK_ID


def a_task(store: FolderStore, task_id: str = NAME_OF_TASK) -> Task:
    """Return a task of this store after its first decision."""
    return submitted(task_id, folder=str(store.files.path_of(task_id)), title="Schön: a flag", seq=1)


def decided(store: FolderStore, before: Task, **changes: object) -> Task:
    """Commit one more decision."""
    at = before.updated_at + timedelta(seconds=1)
    after = replace(before, seq=before.seq + 1, updated_at=at, **changes)  # type: ignore[arg-type]  # any field
    store.commit(before, after, events.AlarmRang(at=at))
    store.settle()
    return after


def history(store: FolderStore, task_id: str = NAME_OF_TASK) -> list[Task]:
    """Return a task after each of six decisions, with telemetry in between."""
    task = a_task(store, task_id)
    store.commit(None, task, events.TaskSubmitted(at=START, task=task, by="ann"))
    store.settle()
    tasks = [task, decided(store, task, status=TaskStatus.IN_PROGRESS, next_action=NextAction.WORKSPACE)]
    tasks.append(decided(store, tasks[-1], agent=replace(tasks[-1].agent, role="planner", attempt=1, read_offset=40)))
    store.note_telemetry(
        replace(tasks[-1], agent=replace(tasks[-1].agent, read_offset=900, usage=AgentUsage(tokens=7)))
    )
    failure = Failure(
        id="", occurred_at=START, state="ANALYSIS", agent="planner", step=None, attempted="turn 1", command=None,
        expected="a finished turn", type="agent_lost", summary="it ended: “\u0000”\nwithout a word",
    )  # fmt: skip
    tasks.append(decided(store, tasks[-1], failures=tasks[-1].failures.with_failure(failure)))
    tasks.append(decided(store, tasks[-1], failures=tasks[-1].failures.with_failure(failure), feedback=("a/b~c",)))
    tasks.append(decided(store, tasks[-1], feedback=(), agent=replace(tasks[-1].agent, status=AgentStatus.RUNNING)))
    return tasks


def saved(task: Task, number: int) -> Checkpoint:
    """Return a checkpoint of a task without work."""
    return checkpoint_of(task, number, task.updated_at, Reason.INTERVAL, CheckpointContext())


def opened_again(store: FolderStore, task_id: str = NAME_OF_TASK) -> LoadedTask:
    store.release(task_id)
    return store.load(task_id, keep_open=True)


def state_of(store: FolderStore) -> Path:
    return store.files.path_of(NAME_OF_TASK) / "state.json"


def journal_of(store: FolderStore) -> Path:
    return store.files.path_of(NAME_OF_TASK) / NAME


def numbers(store: FolderStore) -> list[object]:
    return [line["seq"] for line in lines(store.files.path_of(NAME_OF_TASK))]
