"""The decisions that a store in memory keeps, which are those that reports of a simulation need."""

from dataclasses import replace

import pytest

from orchestrator.core.events.events import AlarmRang
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.storage.records import Cursor
from orchestrator.supervisor.simulation.memory import FaultInjector, MemoryDisk, MemoryStore
from tests.fakes.tasks import submitted
from tests.fakes.world import START


def decided(store: MemoryStore, task: Task, times: int = 1, status: TaskStatus = TaskStatus.IN_PROGRESS) -> Task:
    for _ in range(times):
        before, task = task, replace(task, seq=task.seq + 1, status=status)
        store.commit(before if before.seq else None, task, AlarmRang(at=START))
    return task


def read(store: MemoryStore, task: Task) -> list[int]:
    return [one.number for one in store.events.read_task(task.id, Cursor(number=0))[0]]


def test_a_task_s_decisions_are_kept_whole_until_it_has_ended_and_its_last_one_is_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orchestrator.supervisor.simulation.memory.KEPT_DECISIONS", 3)
    store = MemoryStore(MemoryDisk(), FaultInjector())
    task, other = decided(store, submitted("A", seq=0), 3), decided(store, submitted("B", seq=0), 4)
    assert read(store, task) == [1, 2, 3], "it is live"
    task = decided(store, task, status=TaskStatus.COMPLETED)
    other = decided(store, other, 2)
    assert read(store, task) == [1, 2, 3, 4], "it has just ended"
    other = decided(store, other, 1)
    assert read(store, task) == []
    assert read(store, other) == [1, 2, 3, 4, 5, 6, 7]
