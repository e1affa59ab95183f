"""The loop with a real store: what is on disk and when, who is notified, who may start, and what an end leaves."""

import asyncio
import errno
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.core.events import commands as do
from orchestrator.core.events import events
from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.schedule.pressure import Shortage, ShortOf
from orchestrator.core.task.agent import Agent, AgentStatus, PauseReason
from orchestrator.core.task.budget import Caps
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import NextAction, Priority, Schedule, Task, TaskStatus, Timing
from orchestrator.core.task.task_policy import TaskPolicy
from orchestrator.errors import InvalidTransition, NoSuchTask, NotCommitted
from orchestrator.storage.journal import lines
from orchestrator.storage.store import FolderStore
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.protocols import Store, TaskLookups
from orchestrator.supervisor.supervisor import Supervisor
from tests.fakes.tasks import full_pipeline, submitted
from tests.fakes.world import START
from tests.unit.playbook import limit_hit

PATIENCE = 60.0
"""Seconds until a waiting test fails."""


@dataclass
class NotingHands:
    """An executor that only records commands, with the last decision on disk at that time."""

    tasks_dir: Path
    asked: list[tuple[str, do.Command]] = field(default_factory=list)
    on_disk: list[tuple[int, int]] = field(default_factory=list)
    abandoned: list[str] = field(default_factory=list)
    checkpoints: list[tuple[str, Reason]] = field(default_factory=list)
    alive: bool = False

    def execute(self, task: Task, command: do.Command) -> None:
        self.asked.append((task.id, command))
        self.on_disk.append((task.seq, journal(self.tasks_dir / task.id)[-1][0]))

    def run_alive(self, task: Task) -> bool:
        return self.alive and task.run is not None

    def abandon(self, task: Task) -> None:
        self.abandoned.append(task.id)

    def checkpoint(self, task: Task, reason: Reason) -> None:
        self.checkpoints.append((task.id, reason))

    def names(self, task_id: str) -> list[str]:
        return [type(command).__name__ for asked, command in self.asked if asked == task_id]


class RefusingStore(FolderStore):
    """A disk that refuses the next `refusals` decisions."""

    refusals = 0

    def commit(self, before: Task | None, after: Task, event: events.Event) -> None:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        super().commit(before, after, event)


@dataclass
class House:
    """A supervisor over a data folder; its clock does not advance."""

    store: RefusingStore
    capacity: Capacity = field(default_factory=Capacity)
    now: datetime = START
    undecidable: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.hands = NotingHands(self.store.files.root)
        store: Store = self.store
        lookups = TaskLookups(clock=lambda: self.now, pipeline_of=self.pipeline, model_of=lambda _: "")
        self.inbox = Inbox()
        self.supervisor = Supervisor(store, self.hands, self.inbox, lookups, self.capacity)

    def pipeline(self, task: Task) -> Pipeline:
        if task.id in self.undecidable:
            raise RuntimeError("a bug that only this task meets")
        return full_pipeline()

    def task(self, task_id: str) -> Task:
        return self.supervisor.tasks[task_id]

    async def submitted(self, task_id: str, change: Callable[[Task], Task] = lambda task: task) -> Task:
        task = await self.inbox.submit(events.TaskSubmitted(at=self.now, task=change(submitted(task_id))))
        await self.settled()
        return task

    async def settled(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.inbox.settled()

    async def told(self, task_id: str, *facts: events.Event) -> None:
        for fact in facts:
            self.inbox.post(task_id, fact)
        await self.settled()

    async def with_agent(self, task_id: str, change: Callable[[Task], Task] = lambda task: task) -> Task:
        """Return a task whose first agent is in its first turn."""
        await self.submitted(task_id, change)
        seen = Evidence(files={"ticket.json": FileFacts(chars=80)})
        await self.told(
            task_id,
            events.WorkspaceReady(at=self.now, worktree="/w", branch="b", head="b" * 40),
            events.GateLooked(at=self.now, stage="TICKET_INTAKE", visit=1, turn=0, evidence=seen),
            events.RunStarted(at=self.now, folder="agents/1", pid=7),
        )
        assert self.hands.names(task_id)[-2:] == ["SendTurn", "WakeAt"]
        return self.task(task_id)


@asynccontextmanager
async def at_work(data_dir: Path, capacity: Capacity | None = None) -> AsyncIterator[House]:
    """Run a house's loop; a loop that dies fails the test."""
    house = House(RefusingStore(data_dir), capacity or Capacity())
    loop = asyncio.create_task(house.supervisor.run())
    try:
        yield house
        assert not loop.done()
    finally:
        loop.cancel()
        with suppress(asyncio.CancelledError):
            await loop
        house.store.close()


def short_of_disk(reason: str) -> Shortage:
    return Shortage(kind=ShortOf.DISK, reason=reason)


def journal(folder: Path) -> list[tuple[int, str]]:
    """Return number and trigger of every decision on disk."""
    return [(int(str(line["seq"])), str(line["trigger"])) for line in lines(folder)]


def decisions(house: House, task_id: str) -> list[str]:
    """Return the decisions in order, after checking that the numbers have no gap and no repetition."""
    found = journal(house.store.files.path_of(task_id))
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    return [trigger for _, trigger in found]


# Decisions on disk first


async def test_a_decision_is_on_disk_before_its_commands_are_sent_and_its_requester_is_answered(tmp_path: Path) -> None:
    async with at_work(tmp_path) as house:
        heard: list[tuple[int, int]] = []
        house.supervisor.listen(lambda task, _: heard.append((task.seq, len(decisions(house, task.id)))))
        answered = await house.inbox.submit(events.TaskSubmitted(at=START, task=submitted("A")))
        assert decisions(house, "A")[: answered.seq] == ["TaskSubmitted"]
        await house.settled()
        asked = house.inbox.request("A", events.PauseRequested(at=START))
        paused = await asked
        assert len(decisions(house, "A")) >= paused.seq == 3
        assert house.hands.on_disk
        assert all(decided == written for decided, written in house.hands.on_disk + heard)


async def test_an_event_that_the_disk_refuses_is_retried_until_it_is_committed_once(tmp_path: Path) -> None:
    async with at_work(tmp_path) as house:
        await house.submitted("A")
        house.store.refusals = 2
        await house.told("A", events.WorkspaceReady(at=START, worktree="/w", branch="b", head="b" * 40))
        assert house.store.refusals == 0
        assert decisions(house, "A") == ["TaskSubmitted", "TaskAdmitted", "WorkspaceReady"]
        assert house.hands.names("A") == ["PrepareWorkspace", "LookAtGate"]


async def test_an_admission_that_the_disk_refuses_is_retried_until_it_is_committed_once(tmp_path: Path) -> None:
    async with at_work(tmp_path) as house:

        def refuse_the_next(_task: Task, event: events.Event) -> None:
            house.store.refusals = 2 if isinstance(event, events.TaskSubmitted) else 0

        house.supervisor.listen(refuse_the_next)
        await house.submitted("A")
        assert house.task("A").status is TaskStatus.IN_PROGRESS
        assert decisions(house, "A") == ["TaskSubmitted", "TaskAdmitted"]


async def test_a_request_that_the_disk_refuses_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with at_work(tmp_path) as house:
        await house.submitted("A")
        task = house.task("A")
        house.store.refusals = 1
        with pytest.raises(NotCommitted, match="No space left"):
            await house.inbox.request("A", events.PauseRequested(at=START))
        assert house.task("A") is task
        house.store.refusals = 1
        with pytest.raises(NotCommitted):
            await house.submitted("B")
        assert "B" not in house.supervisor.tasks
        await house.submitted("B")
        assert (await house.inbox.request("A", events.PauseRequested(at=START))).is_paused


async def test_an_error_beside_the_journal_repeats_no_decision(tmp_path: Path) -> None:
    async with at_work(tmp_path) as house:
        await house.submitted("A")
        (house.store.files.path_of("A") / ".state.json.partial").mkdir()
        await house.told("A", events.CheckpointSaved(at=START, number=1), events.CheckpointSaved(at=START, number=2))
        assert decisions(house, "A")[2:] == ["CheckpointSaved", "CheckpointSaved"]
        house.store.release("A")
        assert house.store.load("A").task == house.task("A")


# Requests, late events, telemetry


async def test_a_refusal_reaches_the_requester(tmp_path: Path) -> None:
    async with at_work(tmp_path) as house:
        await house.submitted("A")
        before = house.task("A")
        with pytest.raises(InvalidTransition, match="cannot resume a task that is in_progress"):
            await house.inbox.request("A", events.ResumeRequested(at=START))
        with pytest.raises(NoSuchTask):
            await house.inbox.request("Z", events.CancelRequested(at=START))
        assert house.task("A") is before


async def test_late_events_change_nothing_and_write_nothing(tmp_path: Path) -> None:
    async with at_work(tmp_path) as house:
        before = await house.with_agent("A")
        told, state = decisions(house, "A"), (house.store.files.path_of("A") / "state.json").read_bytes()
        await house.told(
            "A",
            events.AgentExited(at=START, attempt=9),
            events.TurnFinished(at=START, attempt=0, outcome=events.TurnOutcome.OK, offset=10),
            events.GateLooked(at=START, stage="PLANNING", visit=1, turn=1, evidence=Evidence()),
            events.RunStarted(at=START, folder="agents/1", pid=7),
        )
        await house.told("no such task", events.AlarmRang(at=START))
        assert house.task("A") is before
        assert decisions(house, "A") == told
        assert (house.store.files.path_of("A") / "state.json").read_bytes() == state


async def test_telemetry_keeps_its_order_with_events_and_is_not_a_decision(tmp_path: Path) -> None:
    async with at_work(tmp_path) as house:
        await house.with_agent("A")
        seen: list[int] = []

        def noted(agent: Agent) -> Agent:
            seen.append(agent.read_offset)
            return replace(agent, read_offset=agent.read_offset + 1)

        told = decisions(house, "A")
        house.inbox.note("A", 1, noted)
        finished = events.TurnFinished(at=START, attempt=1, outcome=events.TurnOutcome.OK, offset=500)
        house.inbox.post("A", finished)
        house.inbox.note("A", 1, noted)
        house.inbox.note("A", 2, noted)
        await house.settled()
        assert seen == [0, 500]
        assert decisions(house, "A") == [*told, "TurnFinished"]
        house.supervisor.flush_telemetry()
        house.store.release("A")
        assert house.store.load("A").task.agent.read_offset == 501


async def test_a_turn_beyond_the_daily_budget_is_ended_and_resumed_on_the_next_day(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(day=Caps(tokens=1000))) as house:
        await house.with_agent("A")
        house.inbox.note("A", 1, lambda agent: replace(agent, turn=replace(agent.turn, tokens=1200)))
        house.supervisor.update_pressure(None)
        await house.settled()
        assert "InterruptTurn" in house.hands.names("A")
        ended = events.TurnFinished(
            at=START, attempt=1, outcome=events.TurnOutcome.INTERRUPTED, offset=500, tokens=1200
        )
        await house.told("A", ended)
        assert house.task("A").agent.blocked_by is PauseReason.BUDGET
        assert house.hands.names("A").count("SendTurn") == 1
        house.now += timedelta(days=1)
        await house.told("nobody", events.AlarmRang(at=house.now))
        assert house.task("A").holds_slot
        assert house.task("A").next_action is NextAction.TURN


# Who may start


async def test_places_are_assigned_by_priority_and_then_by_age(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=1, draining=True)) as house:
        for number, (name, priority) in enumerate(
            [("old", Priority.NORMAL), ("new", Priority.NORMAL), ("low", Priority.LOW), ("urgent", Priority.CRITICAL)]
        ):
            born = START + timedelta(seconds=number)
            await house.submitted(name, lambda task, born=born, priority=priority: replace(  # type: ignore[misc]
                task, timing=Timing(created_at=born), schedule=Schedule(priority=priority)
            ))  # fmt: skip
        assert not house.hands.asked
        house.supervisor.capacity = Capacity(places=1)
        started: list[str] = []
        for _ in range(4):
            house.supervisor.check_clock()
            await house.told("nobody", events.AlarmRang(at=START))
            (at_work_now,) = [task.id for task in house.supervisor.tasks.values() if task.holds_slot]
            started.append(at_work_now)
            await house.inbox.request(at_work_now, events.CancelRequested(at=START))
        assert started == ["urgent", "old", "new", "low"]


async def test_no_more_tasks_work_than_there_are_places(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=2)) as house:
        for name in ("A", "B", "C"):
            await house.submitted(name)
        assert [task.id for task in house.supervisor.tasks.values() if task.holds_slot] == ["A", "B"]
        await house.inbox.request("A", events.PauseRequested(at=START))
        await house.settled()
        assert house.task("C").holds_slot
        await house.inbox.request("A", events.ResumeRequested(at=START))
        await house.settled()
        assert house.task("A").is_paused, "a resumed task passes admission"
        await house.inbox.request("C", events.CancelRequested(at=START))
        await house.settled()
        assert not house.task("A").is_paused


async def test_a_task_starts_after_its_predecessors_and_not_before_its_time(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=9)) as house:
        later = START + timedelta(hours=1)
        await house.submitted("first")
        await house.submitted("second", lambda task: replace(task, schedule=replace(task.schedule, after=("first",))))
        await house.submitted("timed", lambda task: replace(task, schedule=replace(task.schedule, start_at=later)))
        assert house.hands.asked[-1] == ("timed", do.WakeAt(at=later))
        assert {name: task.status for name, task in house.supervisor.tasks.items()} == {
            "first": TaskStatus.IN_PROGRESS, "second": TaskStatus.PENDING, "timed": TaskStatus.PENDING,
        }  # fmt: skip
        house.now = later
        house.supervisor.check_clock()
        await house.settled()
        assert house.task("timed").status is TaskStatus.IN_PROGRESS
        await house.inbox.request("first", events.CancelRequested(at=START))
        await house.settled()
        assert house.task("second").status is TaskStatus.PENDING, "only a completed task lets its successors start"
        house.supervisor.ended["first"] = TaskStatus.COMPLETED
        await house.told("nobody", events.AlarmRang(at=START))
        assert house.task("second").status is TaskStatus.IN_PROGRESS


async def test_pressure_freezes_running_tasks_and_pauses_waiting_ones_until_it_is_over(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=2)) as house:
        await house.with_agent("A")
        house.supervisor.update_pressure(short_of_disk("only 1.0 GiB are free"))
        house.supervisor.update_pressure(short_of_disk("only 0.9 GiB are free"))
        await house.settled()
        assert house.hands.names("A")[-1] == "FreezeRun"
        assert house.task("A").agent.blocked_by is PauseReason.PRESSURE
        assert house.supervisor.capacity.pressure == "only 0.9 GiB are free"
        await house.told("A", events.RunFrozen(at=START, folder="agents/1", stopped=(7,)))
        await house.submitted("B")
        assert house.task("B").status is TaskStatus.PENDING
        house.supervisor.update_pressure(None)
        await house.settled()
        assert house.hands.names("A")[-1] == "ThawRun"
        assert house.task("B").status is TaskStatus.IN_PROGRESS
        assert decisions(house, "A").count("PauseRequested") == decisions(house, "A").count("ResumeRequested") == 1


async def test_a_users_pause_outlasts_pressure(tmp_path: Path) -> None:
    async with at_work(tmp_path) as house:
        await house.with_agent("A")
        await house.inbox.request("A", events.PauseRequested(at=START))
        house.supervisor.update_pressure(short_of_disk("no room"))
        house.supervisor.update_pressure(None)
        await house.settled()
        assert (house.task("A").agent.status, house.task("A").agent.blocked_by) == (
            AgentStatus.PAUSED,
            PauseReason.USER,
        )


async def test_one_resume_after_a_usage_limit_is_for_all_tasks_that_reached_it(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=2)) as house:
        for name in ("ABC-1", "ABC-2"):
            await house.with_agent(name, lambda task: replace(task, policy=TaskPolicy(auto_resume=False)))
        for name in ("ABC-1", "ABC-2"):
            await house.told(name, limit_hit()(house.task(name), house.now))
        assert all(house.task(name).waits_for_word for name in ("ABC-1", "ABC-2"))
        await house.inbox.request("ABC-2", events.ResumeRequested(at=house.now, by="alice"))
        await house.settled()
        assert all(house.task(name).holds_slot for name in ("ABC-1", "ABC-2"))


async def test_users_are_notified_once_of_each_missing_login_by_a_task_that_waits_for_it(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=2)) as house:
        missing, tasks = "claude is not logged in", ("ABC-1", "ABC-2")

        def told() -> list[str]:
            return [f"{one} {notice.kind}: {notice.text}" for one in tasks for notice in house.task(one).notices]

        house.supervisor.set_login_status(missing)
        for name in tasks:
            await house.submitted(name)
        house.supervisor.set_login_status(missing)
        await house.settled()
        assert told() == [f"ABC-1 login_missing: {missing}"]
        house.supervisor.set_login_status(None)
        await house.settled()
        assert house.task("ABC-1").status is TaskStatus.IN_PROGRESS
        house.supervisor.set_login_status(missing)
        await house.submitted("ABC-3")
        assert len(told()) == 1
        assert [notice.kind for notice in house.task("ABC-3").notices] == ["login_missing"]


async def test_a_draining_daemon_admits_nothing(tmp_path: Path) -> None:
    async with at_work(tmp_path) as house:
        house.supervisor.drain()
        await house.submitted("A")
        assert house.task("A").status is TaskStatus.PENDING


# Foreign edits, ends, restarts


async def test_a_foreign_edit_is_recorded_and_undone(tmp_path: Path) -> None:
    async with at_work(tmp_path) as house:
        await house.submitted("A")
        state = house.store.files.path_of("A") / "state.json"
        house.supervisor.check_for_foreign_edit("A")
        await house.settled()
        assert decisions(house, "A")[-1] == "TaskAdmitted"
        state.write_bytes(state.read_bytes().replace(b"in_progress", b"completed"))
        house.supervisor.check_for_foreign_edit("A")
        house.supervisor.check_for_foreign_edit("A")
        house.supervisor.check_for_foreign_edit("nobody's")
        await house.settled()
        assert decisions(house, "A")[2:] == ["ForeignEditFound"]
        assert b'"completed"' in (house.store.files.path_of("A") / "state.json.foreign-2").read_bytes()
        house.store.release("A")
        assert house.store.load("A").task == house.task("A")


async def test_a_task_whose_folder_was_deleted_ends_and_its_run_is_abandoned(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=2)) as house:
        await house.with_agent("A")
        await house.submitted("B")
        house.inbox.note("A", 1, lambda agent: replace(agent, usage=replace(agent.usage, tokens=1)))
        await house.settled()
        shutil.rmtree(house.store.files.path_of("A"))
        house.supervisor.check_for_foreign_edit("A")
        house.supervisor.flush_telemetry()
        await house.told("A", events.AgentExited(at=START, attempt=1))
        assert house.hands.abandoned == ["A"]
        assert "A" not in house.supervisor.tasks
        assert house.supervisor.ended == {"A": TaskStatus.FAILED}
        assert (await house.inbox.request("B", events.PauseRequested(at=START))).is_paused, "the other tasks continue"


async def test_a_task_leaves_memory_when_it_and_its_run_have_ended(tmp_path: Path) -> None:
    async with at_work(tmp_path) as house:
        await house.with_agent("A")
        await house.inbox.request("A", events.CancelRequested(at=START))
        assert house.hands.names("A")[-1] == "StopRun"
        assert house.task("A").status is TaskStatus.CANCELLED
        await house.told("A", events.AgentExited(at=START, attempt=1))
        assert not house.supervisor.tasks
        assert house.supervisor.ended == {"A": TaskStatus.CANCELLED}
        assert decisions(house, "A")[-2:] == ["CancelRequested", "AgentExited"]
        assert house.store.load("A").task.run is None


async def test_a_restart_repeats_the_desired_commands(tmp_path: Path) -> None:
    async with at_work(tmp_path) as house:
        before = await house.with_agent("A")
    async with at_work(tmp_path) as house:
        loaded = house.store.load("A", keep_open=True)
        assert loaded.task == before
        house.hands.alive = True
        house.supervisor.recover(loaded.task, "state.json.foreign-5", ("/status",))
        await house.settled()
        assert house.hands.names("A") == ["FollowRun", "SendTurn", "WakeAt"]
        assert decisions(house, "A")[before.seq :] == ["ForeignEditFound", "DaemonStarted"]


async def test_a_bug_in_one_task_sets_that_task_aside_and_no_other(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=2)) as house:
        await house.with_agent("T-1")
        await house.with_agent("T-2")
        house.undecidable.add("T-1")
        await house.told("T-1", events.AlarmRang(at=house.now))
        assert "T-1" not in house.supervisor.tasks
        assert house.hands.abandoned == ["T-1"]
        await house.inbox.request("T-2", events.PauseRequested(at=house.now))
        assert house.task("T-2").is_paused


async def test_a_bug_in_a_request_is_reported_to_the_requester_and_changes_nothing(tmp_path: Path) -> None:
    async with at_work(tmp_path) as house:
        before = await house.with_agent("T-1")
        house.undecidable.add("T-1")
        with pytest.raises(RuntimeError, match="a bug"):
            await house.inbox.request("T-1", events.PauseRequested(at=house.now))
        house.undecidable.clear()
        assert house.task("T-1") == before
