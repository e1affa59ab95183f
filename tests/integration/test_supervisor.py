"""The loop with a real store: what is on disk and when, who is notified, who may start, and what an end leaves."""

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.core.events import commands as do
from orchestrator.core.events import events, run_events
from orchestrator.core.events.agent_events import ErrorClass
from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.schedule.pressure import Shortage, ShortOf
from orchestrator.core.schedule.trouble import Trouble, TroubleKind
from orchestrator.core.task.agent import Agent, AgentStatus, PauseReason
from orchestrator.core.task.budget import Caps
from orchestrator.core.task.checkpoint import Reason
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import NextAction, Priority, Schedule, Task, TaskStatus, Timing
from orchestrator.core.task.task_policy import TaskPolicy
from orchestrator.errors import InvalidTransition, NoSuchTask, NotCommitted
from orchestrator.formats.table import definition_error
from orchestrator.storage.journal import lines
from orchestrator.storage.records import ForeignEdit, UnreadableTask
from orchestrator.storage.store import FolderStore
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.protocols import Store, TaskLookups
from orchestrator.supervisor.supervisor import Supervisor
from tests.fakes.tasks import full_pipeline, submitted
from tests.fakes.waiting import running
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
class SupervisorHarness:
    """A supervisor over a data folder; its clock does not advance."""

    store: RefusingStore
    capacity: Capacity = field(default_factory=Capacity)
    now: datetime = START
    undecidable: set[str] = field(default_factory=set)
    without_pipeline: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.hands = NotingHands(self.store.files.root)
        store: Store = self.store
        lookups = TaskLookups(clock=lambda: self.now, pipeline_of=self.pipeline, model_of=lambda _: "")
        self.inbox = Inbox()
        self.supervisor = Supervisor(store, self.hands, self.inbox, lookups, self.capacity)

    def pipeline(self, task: Task) -> Pipeline:
        if task.id in self.undecidable:
            raise RuntimeError("a bug that only this task meets")
        if task.id in self.without_pipeline:
            raise definition_error(task.id, "gone")
        return full_pipeline()

    def task(self, task_id: str) -> Task:
        return self.supervisor.tasks[task_id]

    async def submitted(self, task_id: str, change: Callable[[Task], Task] = lambda task: task) -> Task:
        task = change(submitted(task_id, folder=str(self.store.files.path_of(task_id))))
        task = await self.inbox.submit(events.TaskSubmitted(at=self.now, task=task))
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
            run_events.RunStarted(at=self.now, folder="agents/1", pid=7),
        )
        assert self.hands.names(task_id)[-2:] == ["SendTurn", "WakeAt"]
        return self.task(task_id)


@asynccontextmanager
async def at_work(data_dir: Path, capacity: Capacity | None = None) -> AsyncIterator[SupervisorHarness]:
    """Run a harness's loop; a loop that dies fails the test."""
    harness = SupervisorHarness(RefusingStore(data_dir), capacity or Capacity())
    with closing(harness.store):
        async with running(harness.supervisor.run()):
            yield harness


def short_of_disk(reason: str) -> Shortage:
    return Shortage(kind=ShortOf.DISK, reason=reason)


def journal(folder: Path) -> list[tuple[int, str]]:
    """Return number and trigger of every decision on disk."""
    return [(int(str(line["seq"])), str(line["trigger"])) for line in lines(folder)]


def decisions(harness: SupervisorHarness, task_id: str) -> list[str]:
    """Return the decisions in order, after checking that the numbers have no gap and no repetition."""
    found = journal(harness.store.files.path_of(task_id))
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    return [trigger for _, trigger in found]


# Decisions on disk first


async def test_a_decision_is_on_disk_before_its_commands_are_sent_and_its_requester_is_answered(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        heard: list[tuple[int, int]] = []
        harness.supervisor.listen(lambda task, _: heard.append((task.seq, len(decisions(harness, task.id)))))
        answered = await harness.inbox.submit(events.TaskSubmitted(at=START, task=submitted("A")))
        assert decisions(harness, "A")[: answered.seq] == ["TaskSubmitted"]
        await harness.settled()
        asked = harness.inbox.request("A", events.PauseRequested(at=START))
        paused = await asked
        assert len(decisions(harness, "A")) >= paused.seq == 3
        assert harness.hands.on_disk
        assert all(decided == written for decided, written in harness.hands.on_disk + heard)


async def test_an_event_that_the_disk_refuses_is_retried_until_it_is_committed_once(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        await harness.submitted("A")
        harness.store.refusals = 2
        await harness.told("A", events.WorkspaceReady(at=START, worktree="/w", branch="b", head="b" * 40))
        assert harness.store.refusals == 0
        assert decisions(harness, "A") == ["TaskSubmitted", "TaskAdmitted", "WorkspaceReady"]
        assert harness.hands.names("A") == ["PrepareWorkspace", "LookAtGate"]


async def test_an_admission_that_the_disk_refuses_is_retried_until_it_is_committed_once(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:

        def refuse_the_next(_task: Task, event: events.Event) -> None:
            harness.store.refusals = 2 if isinstance(event, events.TaskSubmitted) else 0

        harness.supervisor.listen(refuse_the_next)
        await harness.submitted("A")
        assert harness.task("A").status is TaskStatus.IN_PROGRESS
        assert decisions(harness, "A") == ["TaskSubmitted", "TaskAdmitted"]


async def test_a_request_that_the_disk_refuses_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        await harness.submitted("A")
        task = harness.task("A")
        harness.store.refusals = 1
        with pytest.raises(NotCommitted, match="No space left"):
            await harness.inbox.request("A", events.PauseRequested(at=START))
        assert harness.task("A") is task
        harness.store.refusals = 1
        with pytest.raises(NotCommitted):
            await harness.submitted("B")
        assert "B" not in harness.supervisor.tasks
        await harness.submitted("B")
        assert (await harness.inbox.request("A", events.PauseRequested(at=START))).is_paused


async def test_an_error_beside_the_journal_repeats_no_decision(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        await harness.submitted("A")
        (harness.store.files.path_of("A") / ".state.json.partial").mkdir()
        await harness.told("A", events.CheckpointSaved(at=START, number=1), events.CheckpointSaved(at=START, number=2))
        assert decisions(harness, "A")[2:] == ["CheckpointSaved", "CheckpointSaved"]
        harness.store.release("A")
        assert harness.store.load("A").task == harness.task("A")


# Requests, late events, telemetry


async def test_a_refusal_reaches_the_requester(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        await harness.submitted("A")
        before = harness.task("A")
        with pytest.raises(InvalidTransition, match="cannot resume a task that is in_progress"):
            await harness.inbox.request("A", events.ResumeRequested(at=START))
        with pytest.raises(NoSuchTask):
            await harness.inbox.request("Z", events.CancelRequested(at=START))
        assert harness.task("A") is before


async def test_late_events_change_nothing_and_write_nothing(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        before = await harness.with_agent("A")
        told, state = decisions(harness, "A"), (harness.store.files.path_of("A") / "state.json").read_bytes()
        await harness.told(
            "A",
            events.AgentExited(at=START, attempt=9),
            events.TurnFinished(at=START, attempt=0, outcome=events.TurnOutcome.OK, offset=10),
            events.GateLooked(at=START, stage="PLANNING", visit=1, turn=1, evidence=Evidence()),
            run_events.RunStarted(at=START, folder="agents/1", pid=7),
        )
        await harness.told("no such task", events.AlarmRang(at=START))
        assert harness.task("A") is before
        assert decisions(harness, "A") == told
        assert (harness.store.files.path_of("A") / "state.json").read_bytes() == state


async def test_telemetry_keeps_its_order_with_events_and_is_not_a_decision(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        await harness.with_agent("A")
        seen: list[int] = []

        def noted(agent: Agent) -> Agent:
            seen.append(agent.read_offset)
            return replace(agent, read_offset=agent.read_offset + 1)

        told = decisions(harness, "A")
        harness.inbox.note("A", 1, noted)
        finished = events.TurnFinished(at=START, attempt=1, outcome=events.TurnOutcome.OK, offset=500)
        harness.inbox.post("A", finished)
        harness.inbox.note("A", 1, noted)
        harness.inbox.note("A", 2, noted)
        await harness.settled()
        assert seen == [0, 500]
        assert decisions(harness, "A") == [*told, "TurnFinished"]
        harness.supervisor.flush_telemetry()
        harness.store.release("A")
        assert harness.store.load("A").task.agent.read_offset == 501


async def test_a_turn_beyond_the_daily_budget_is_ended_and_resumed_on_the_next_day(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(day=Caps(tokens=1000))) as harness:
        await harness.with_agent("A")
        harness.inbox.note("A", 1, lambda agent: replace(agent, turn=replace(agent.turn, tokens=1200)))
        harness.supervisor.control.update_pressure(None)
        await harness.settled()
        assert "InterruptTurn" in harness.hands.names("A")
        ended = events.TurnFinished(
            at=START, attempt=1, outcome=events.TurnOutcome.INTERRUPTED, offset=500, tokens=1200
        )
        await harness.told("A", ended)
        assert harness.task("A").agent.blocked_by is PauseReason.BUDGET
        assert harness.hands.names("A").count("SendTurn") == 1
        harness.now += timedelta(days=1)
        await harness.told("nobody", events.AlarmRang(at=harness.now))
        assert harness.task("A").holds_slot
        assert harness.task("A").next_action is NextAction.TURN


# Who may start


async def test_places_are_assigned_by_priority_and_then_by_age(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=1, draining=True)) as harness:
        for number, (name, priority) in enumerate(
            [("old", Priority.NORMAL), ("new", Priority.NORMAL), ("low", Priority.LOW), ("urgent", Priority.CRITICAL)]
        ):
            born = START + timedelta(seconds=number)
            await harness.submitted(name, lambda task, born=born, priority=priority: replace(  # type: ignore[misc]
                task, timing=Timing(created_at=born), schedule=Schedule(priority=priority)
            ))  # fmt: skip
        assert not harness.hands.asked
        harness.supervisor.control.capacity = Capacity(places=1)
        started: list[str] = []
        for _ in range(4):
            harness.supervisor.check_clock()
            await harness.told("nobody", events.AlarmRang(at=START))
            (at_work_now,) = [task.id for task in harness.supervisor.tasks.values() if task.holds_slot]
            started.append(at_work_now)
            await harness.inbox.request(at_work_now, events.CancelRequested(at=START))
        assert started == ["urgent", "old", "new", "low"]


async def test_no_more_tasks_work_than_there_are_places(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=2)) as harness:
        for name in ("A", "B", "C"):
            await harness.submitted(name)
        assert [task.id for task in harness.supervisor.tasks.values() if task.holds_slot] == ["A", "B"]
        await harness.inbox.request("A", events.PauseRequested(at=START))
        await harness.settled()
        assert harness.task("C").holds_slot
        await harness.inbox.request("A", events.ResumeRequested(at=START))
        await harness.settled()
        assert harness.task("A").is_paused, "a resumed task passes admission"
        await harness.inbox.request("C", events.CancelRequested(at=START))
        await harness.settled()
        assert not harness.task("A").is_paused


async def test_a_task_starts_after_its_predecessors_and_not_before_its_time(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=9)) as harness:
        later = START + timedelta(hours=1)
        await harness.submitted("first")
        await harness.submitted("second", lambda task: replace(task, schedule=replace(task.schedule, after=("first",))))
        await harness.submitted("timed", lambda task: replace(task, schedule=replace(task.schedule, start_at=later)))
        assert harness.hands.asked[-1] == ("timed", do.WakeAt(at=later))
        assert {name: task.status for name, task in harness.supervisor.tasks.items()} == {
            "first": TaskStatus.IN_PROGRESS, "second": TaskStatus.PENDING, "timed": TaskStatus.PENDING,
        }  # fmt: skip
        harness.now = later
        harness.supervisor.check_clock()
        await harness.settled()
        assert harness.task("timed").status is TaskStatus.IN_PROGRESS
        await harness.inbox.request("first", events.CancelRequested(at=START))
        await harness.settled()
        assert harness.task("second").status is TaskStatus.PENDING, "only a completed task lets its successors start"
        harness.supervisor.ended["first"] = TaskStatus.COMPLETED
        await harness.told("nobody", events.AlarmRang(at=START))
        assert harness.task("second").status is TaskStatus.IN_PROGRESS


async def test_pressure_freezes_running_tasks_and_pauses_waiting_ones_until_it_is_over(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=2)) as harness:
        await harness.with_agent("A")
        harness.supervisor.control.update_pressure(short_of_disk("only 1.0 GiB are free"))
        harness.supervisor.control.update_pressure(short_of_disk("only 0.9 GiB are free"))
        await harness.settled()
        assert harness.hands.names("A")[-1] == "FreezeRun"
        assert harness.task("A").agent.blocked_by is PauseReason.PRESSURE
        assert harness.supervisor.control.capacity.pressure == "only 0.9 GiB are free"
        await harness.told("A", run_events.RunFrozen(at=START, folder="agents/1", stopped=(7,)))
        await harness.submitted("B")
        assert harness.task("B").status is TaskStatus.PENDING
        harness.supervisor.control.update_pressure(None)
        await harness.settled()
        assert harness.hands.names("A")[-1] == "ThawRun"
        assert harness.task("B").status is TaskStatus.IN_PROGRESS
        assert decisions(harness, "A").count("PauseRequested") == decisions(harness, "A").count("ResumeRequested") == 1


async def test_a_task_over_its_own_budget_leaves_its_slot_to_the_next_one_at_once(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        await harness.with_agent("A")
        await harness.inbox.request("A", events.PauseRequested(at=START))
        await harness.submitted("B")
        await harness.submitted("C")
        await harness.inbox.request("A", events.CapsChanged(at=START, caps=Caps(turns=0)))
        await harness.inbox.request("A", events.ResumeRequested(at=START))
        assert [harness.task(name).holds_slot for name in ("A", "B", "C")] == [False, True, False]
        await harness.inbox.request("B", events.CancelRequested(at=START))
        await harness.settled()
        assert harness.task("A").agent.blocked_by is PauseReason.BUDGET
        assert harness.task("C").holds_slot


async def test_a_users_pause_outlasts_pressure(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        await harness.with_agent("A")
        await harness.inbox.request("A", events.PauseRequested(at=START))
        harness.supervisor.control.update_pressure(short_of_disk("no room"))
        harness.supervisor.control.update_pressure(None)
        await harness.settled()
        assert (harness.task("A").agent.status, harness.task("A").agent.blocked_by) == (
            AgentStatus.PAUSED,
            PauseReason.USER,
        )


async def test_one_resume_after_a_usage_limit_is_for_all_tasks_that_reached_it(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=2)) as harness:
        for name in ("ABC-1", "ABC-2"):
            await harness.with_agent(name, lambda task: replace(task, policy=TaskPolicy(auto_resume=False)))
        for name in ("ABC-1", "ABC-2"):
            await harness.told(name, limit_hit()(harness.task(name), harness.now))
        assert all(harness.task(name).waits_for_word for name in ("ABC-1", "ABC-2"))
        await harness.inbox.request("ABC-2", events.ResumeRequested(at=harness.now, by="alice"))
        await harness.settled()
        assert all(harness.task(name).holds_slot for name in ("ABC-1", "ABC-2"))


async def test_users_are_notified_once_of_each_missing_login_by_a_task_that_waits_for_it(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=2)) as harness:
        missing, tasks = "claude is not logged in", ("ABC-1", "ABC-2")

        def told() -> list[str]:
            return [f"{one} {notice.kind}: {notice.text}" for one in tasks for notice in harness.task(one).notices]

        harness.inbox.report_agents(Trouble(kind=TroubleKind.ACCOUNT, reason=missing))
        for name in tasks:
            await harness.submitted(name)
        harness.inbox.report_agents(Trouble(kind=TroubleKind.ACCOUNT, reason=missing))
        await harness.settled()
        assert told() == [f"ABC-1 login_missing: {missing}"]
        harness.inbox.report_agents(None)
        await harness.settled()
        assert harness.task("ABC-1").status is TaskStatus.IN_PROGRESS
        harness.inbox.report_agents(Trouble(kind=TroubleKind.ACCOUNT, reason=missing))
        await harness.submitted("ABC-3")
        assert len(told()) == 1
        assert [notice.kind for notice in harness.task("ABC-3").notices] == ["login_missing"]


async def test_a_draining_daemon_admits_nothing(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        harness.supervisor.control.drain()
        await harness.submitted("A")
        assert harness.task("A").status is TaskStatus.PENDING


# Foreign edits, ends, restarts


async def test_a_foreign_edit_is_recorded_and_undone(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        await harness.submitted("A")
        state = harness.store.files.path_of("A") / "state.json"
        harness.supervisor.check_for_foreign_edit("A")
        await harness.settled()
        assert decisions(harness, "A")[-1] == "TaskAdmitted"
        state.write_bytes(state.read_bytes().replace(b"in_progress", b"completed"))
        harness.supervisor.check_for_foreign_edit("A")
        harness.supervisor.check_for_foreign_edit("A")
        harness.supervisor.check_for_foreign_edit("nobody's")
        await harness.settled()
        assert decisions(harness, "A")[2:] == ["ForeignEditFound"]
        assert b'"completed"' in (harness.store.files.path_of("A") / "state.json.foreign-2").read_bytes()
        harness.store.release("A")
        assert harness.store.load("A").task == harness.task("A")


async def test_a_task_whose_folder_was_deleted_is_shown_blocked_and_its_run_is_abandoned(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=2)) as harness:
        await harness.with_agent("A")
        await harness.submitted("B")
        harness.inbox.note("A", 1, lambda agent: replace(agent, usage=replace(agent.usage, tokens=1)))
        await harness.settled()
        shutil.rmtree(harness.store.files.path_of("A"))
        harness.supervisor.check_for_foreign_edit("A")
        harness.supervisor.flush_telemetry()
        await harness.told("A", events.AgentExited(at=START, attempt=1))
        assert harness.hands.abandoned == ["A"]
        assert "A" not in harness.supervisor.tasks
        assert harness.supervisor.ended == {"A": TaskStatus.BLOCKED}
        held = harness.supervisor.unreadable.get("A")
        assert held is not None
        assert "was deleted or moved" in (held.block_reason or "")
        assert "was deleted or moved" in harness.supervisor.why(held).facts[0]
        with pytest.raises(UnreadableTask, match="was deleted or moved"):
            await harness.inbox.request("A", events.RetryRequested(at=START))
        assert (await harness.inbox.request("B", events.PauseRequested(at=START))).is_paused, "the other tasks continue"


async def test_a_task_whose_pipeline_is_lost_is_shown_blocked_and_others_continue(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=2)) as harness:
        await harness.with_agent("A")
        await harness.submitted("B")
        harness.without_pipeline.add("A")
        await harness.told("A", events.AlarmRang(at=harness.now))
        held = harness.supervisor.unreadable.get("A")
        assert held is not None
        assert (held.status, held.block_reason) == (TaskStatus.BLOCKED, "its pipeline cannot be read: A: gone")
        assert harness.hands.abandoned == ["A"]
        assert (await harness.inbox.request("B", events.PauseRequested(at=START))).is_paused


async def test_a_journal_that_was_truncated_under_a_live_task_is_mended_and_the_task_goes_on(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        before = await harness.with_agent("A")
        path = harness.store.files.path_of("A") / "journal.jsonl"
        os.truncate(path, 200)
        assert (await harness.inbox.request("A", events.PauseRequested(at=START))).is_paused
        await harness.settled()
        triggers = [line["trigger"] for line in lines(path.parent)]
        assert triggers == ["Recovered", "PauseRequested", "ForeignEditFound"]
        assert path.with_name(f"journal.jsonl.damaged-{before.seq}").stat().st_size == 200
        harness.store.release("A")
        assert harness.store.load("A").task == harness.task("A")


async def test_a_task_leaves_memory_when_it_and_its_run_have_ended(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        await harness.with_agent("A")
        await harness.inbox.request("A", events.CancelRequested(at=START))
        assert harness.hands.names("A")[-1] == "StopRun"
        assert harness.task("A").status is TaskStatus.CANCELLED
        await harness.told("A", events.AgentExited(at=START, attempt=1))
        assert not harness.supervisor.tasks
        assert harness.supervisor.ended == {"A": TaskStatus.CANCELLED}
        assert decisions(harness, "A")[-2:] == ["CancelRequested", "AgentExited"]
        assert harness.store.load("A").task.run is None


async def test_a_restart_repeats_the_desired_commands(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        before = await harness.with_agent("A")
    async with at_work(tmp_path) as harness:
        loaded = harness.store.load("A", keep_open=True)
        assert loaded.task == before
        harness.hands.alive = True
        edit = ForeignEdit(task_id="A", kept_as="state.json.foreign-5", changed=("/status",))
        harness.supervisor.recover(loaded.task, [edit])
        await harness.settled()
        assert harness.hands.names("A") == ["FollowRun", "SendTurn", "WakeAt"]
        assert decisions(harness, "A")[before.seq :] == ["ForeignEditFound", "DaemonStarted"]


async def test_a_bug_in_one_task_sets_that_task_aside_and_no_other(tmp_path: Path) -> None:
    async with at_work(tmp_path, Capacity(places=2)) as harness:
        await harness.with_agent("T-1")
        await harness.with_agent("T-2")
        harness.undecidable.add("T-1")
        await harness.told("T-1", events.AlarmRang(at=harness.now))
        assert "T-1" not in harness.supervisor.tasks
        assert "a bug in the daemon" in next(held.block_reason or "" for held in harness.supervisor.unreadable)
        assert harness.hands.abandoned == ["T-1"]
        await harness.inbox.request("T-2", events.PauseRequested(at=harness.now))
        assert harness.task("T-2").is_paused


async def test_a_bug_in_a_request_is_reported_to_the_requester_and_changes_nothing(tmp_path: Path) -> None:
    async with at_work(tmp_path) as harness:
        before = await harness.with_agent("T-1")
        harness.undecidable.add("T-1")
        with pytest.raises(RuntimeError, match="a bug"):
            await harness.inbox.request("T-1", events.PauseRequested(at=harness.now))
        harness.undecidable.clear()
        assert harness.task("T-1") == before


async def test_after_a_refusal_of_the_account_one_task_tries_it_again_and_its_success_frees_all(tmp_path: Path) -> None:
    def refused(name: str) -> list[events.Event]:
        failed = events.TurnFinished(
            at=harness.now,
            attempt=harness.task(name).agent.attempt,
            outcome=events.TurnOutcome.FAILED,
            reason="no credit",
            error_class=ErrorClass.BILLING,
            offset=harness.task(name).agent.read_offset + 1,
        )
        return [failed, events.AgentExited(at=harness.now, attempt=failed.attempt, code=1)]

    def active() -> list[str]:
        return [task.id for task in harness.supervisor.tasks.values() if task.holds_slot]

    async with at_work(tmp_path, Capacity(places=2)) as harness:
        await harness.with_agent("A")
        await harness.with_agent("B")
        await harness.submitted("C")
        await harness.told("A", *refused("A"))
        assert active() == ["B"]
        assert harness.supervisor.snapshot().obstacle is not None
        assert "it is tried again at" in harness.supervisor.why(harness.task("A")).facts[0]
        await harness.told("B", *refused("B"))
        assert active() == []
        harness.now += timedelta(minutes=10)
        harness.inbox.wake()
        await harness.settled()
        assert active() == ["A"], "one task tries, though there are two slots"
        harness.supervisor.check_clock()
        await harness.told("A", run_events.RunStarted(at=harness.now, folder="agents/2", pid=8))
        await harness.told("A", *refused("A"))
        assert active() == []
        harness.now += timedelta(minutes=20)
        harness.inbox.wake()
        await harness.settled()
        (again,) = active()
        harness.supervisor.check_clock()
        attempt = harness.task(again).agent.attempt + 1
        await harness.settled()
        done = events.TurnFinished(at=harness.now, attempt=attempt, outcome=events.TurnOutcome.OK, offset=10**6)
        await harness.told(again, run_events.RunStarted(at=harness.now, folder=f"agents/{attempt}", pid=9), done)
        assert len(active()) == 2
        assert harness.supervisor.snapshot().trouble is None


async def test_a_program_that_starts_for_no_task_holds_all_blocks_none_and_is_tried_by_one_at_a_time(
    tmp_path: Path,
) -> None:
    complaint = "the agent ended with exit code 1 without a result: error: unknown option '--effort'"

    async def fail(name: str) -> None:
        attempt = harness.task(name).agent.attempt
        started = run_events.RunStarted(at=harness.now, folder=f"agents/{attempt}", pid=8)
        await harness.told(name, started, events.AgentExited(at=harness.now, attempt=attempt, reason=complaint, code=1))

    async def wait(minutes: float) -> list[str]:
        harness.now += timedelta(minutes=minutes)
        for _ in range(2):
            harness.supervisor.check_clock()
            harness.inbox.wake()
            await harness.settled()
        return [task.id for task in harness.supervisor.tasks.values() if task.holds_slot]

    async with at_work(tmp_path, Capacity(places=1)) as harness:
        await harness.with_agent("A")
        for _ in range(3):
            await fail("A")
            await wait(10)
        assert (harness.task("A").status, harness.task("A").agent.attempt) == (TaskStatus.BLOCKED, 3)
        await harness.with_agent("B")
        await harness.submitted("C")
        await fail("B")
        assert await wait(0) == []
        assert [task.status for task in harness.supervisor.tasks.values()] == ["in_progress", "in_progress", "pending"]
        assert [notice.kind for task in harness.supervisor.tasks.values() for notice in task.notices] == [
            "blocked", "installation_broken",
        ]  # fmt: skip
        for name in ("A", "B", "C"):
            assert harness.supervisor.why(harness.task(name)).facts[0].startswith(f"agents cannot work: {complaint}")
        assert await wait(6) == ["C"], "it has not met the fault, which may be the others' own"
        await harness.told(
            "C", events.CommandFailed(at=harness.now, command=harness.hands.asked[-1][1], reason="no disk")
        )
        assert await wait(0) == ["A"]
        await fail("A")
        assert (await wait(9), await wait(2)) == ([], ["B"])
        session = events.SessionStarted(at=harness.now, attempt=harness.task("B").agent.attempt, session_id="s")
        await harness.told(
            "B", run_events.RunStarted(at=harness.now, folder=f"agents/{session.attempt}", pid=9), session
        )
        assert harness.supervisor.snapshot().trouble is None
        assert [harness.task(name).budgets["agent_retries"].used for name in ("A", "B")] == [0, 0]
