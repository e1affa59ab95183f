"""Much of one thing at once does not hold the daemon's event loop, on which everything else waits."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from orchestrator import clock
from orchestrator.core.events.events import Event, PauseRequested
from orchestrator.core.schedule.pressure import Shortage, ShortOf
from orchestrator.core.schedule.recurring import RunResult
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import NextAction, Task
from orchestrator.daemon.inspection.board import Grouping
from orchestrator.daemon.schedules.records import ScheduledRun, ScheduledWork, ScheduleStore, TaskSchedule
from orchestrator.daemon.services.tasks import TaskQuery
from orchestrator.daemon.task_factory import Submission
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving
from tests.fakes.repositories import repository
from tests.fakes.tasks import submitted
from tests.fakes.waiting import until
from tests.integration.test_inbox import Site, taking
from tests.loop_work import counting_loop_work

FILES, SCHEDULES, QUEUED = 3000, 100, 1000
MOST_CALLS = 10_000
"""Function calls, some milliseconds. To read every file of the folder takes ten times as many."""


def daemon_with_a_queue(data_dir: Path) -> InProcessDaemon:
    """A daemon that has loaded many tasks that wait, and begins none of them."""
    desk = create_daemon(data_dir)
    for number in range(QUEUED):
        desk.supervisor.recover(submitted(f"T-{number:04}", next_action=NextAction.ADMISSION))
    desk.supervisor.control.drain()
    return desk


async def test_thousands_of_files_in_the_inbox_are_not_read_in_the_event_loop(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.put("first.md")
    async with taking(site):
        await until(lambda: site.tasks)
        with counting_loop_work() as work:
            await asyncio.to_thread(lambda: [site.put(f"{number:04}.md") for number in range(FILES)])
            await until(lambda: site.desk.service.intake.inbox.state.waiting > FILES // 2)
            await until(lambda: len(site.tasks) > 3)
    assert work.most < MOST_CALLS, work


async def test_schedules_with_many_runs_are_listed_with_the_newest_and_not_in_the_event_loop(tmp_path: Path) -> None:
    desk, now = create_daemon(tmp_path / "data"), datetime.now(UTC)
    runs = tuple(
        ScheduledRun(due=now + timedelta(hours=number), at=now, result=RunResult.SUBMITTED, reason="made up for")
        for number in range(100)
    )
    work = ScheduledWork(text="Do it\n" * 100, repo="/repo")
    for number in range(SCHEDULES):
        ScheduleStore(desk.settings.data_dir).save(
            TaskSchedule(
                id=f"s{number:03}",
                line="0 3 * * *",
                zone="UTC",
                work=work,
                created_at=now,
                created_by="ada",
                handled=now,
                runs=runs,
            )
        )
    async with serving(desk) as client:
        await client.get("/api/schedules/s000")
        with counting_loop_work() as done:
            answer = await client.get("/api/schedules")
        assert done.most < MOST_CALLS, done
        listed = answer.raise_for_status().json()["schedules"]
        assert len(listed) == SCHEDULES
        assert [run["due"] for run in listed[0]["runs"]] == sorted([run["due"] for run in listed[0]["runs"]])[::-1]
        assert len(listed[0]["runs"]) == 5
        whole = (await client.get("/api/schedules/s000")).raise_for_status().json()
        assert len(whole["runs"]) == 100
        assert whole["runs"][:5] == listed[0]["runs"]


async def test_a_start_with_a_thousand_tasks_that_wait_does_not_hold_the_loop(tmp_path: Path) -> None:
    desk = daemon_with_a_queue(tmp_path / "data")
    async with serving(desk) as client:
        with counting_loop_work() as work:
            await desk.inbox.settled()
        assert work.most < MOST_CALLS, work
        assert (await client.get("/api/status")).json()["queue"][0]["id"] == "T-0000"


async def test_what_limits_work_is_told_without_a_look_at_each_of_a_thousand_tasks(tmp_path: Path) -> None:
    desk = daemon_with_a_queue(tmp_path / "data")
    async with serving(desk) as client:
        await desk.inbox.settled()
        await client.get("/api/limits")
        with counting_loop_work() as work:
            limits = (await client.get("/api/limits")).raise_for_status().json()
        assert limits["held"] == []
        assert work.most < MOST_CALLS, work
        desk.supervisor.control.update_pressure(Shortage(kind=ShortOf.LOAD, reason="the processors are busy"))
        held = (await client.get("/api/limits")).raise_for_status().json()["held"]
        assert [one["task"] for one in held] == [f"T-{number:04}" for number in range(QUEUED)]


async def test_boards_lists_and_reports_of_a_thousand_tasks_are_not_made_in_the_event_loop(tmp_path: Path) -> None:
    desk = daemon_with_a_queue(tmp_path / "data")
    async with serving(desk):
        await desk.inbox.settled()
        with counting_loop_work() as work:
            board = await desk.service.board.board(TaskQuery())
            by_stage = await desk.service.board.board(TaskQuery(), Grouping.STAGE)
            found = await desk.service.tasks.list(TaskQuery(text="flag", limit=20))
            statistics = await desk.service.oversight.statistics.statistics(7)
    assert board.count == by_stage.count == QUEUED
    assert len(found.tasks) == 20
    assert len(statistics.days) == 7
    assert work.most < QUEUED, "not one call for each task"


async def test_a_burst_of_events_lets_others_go_on_in_between(tmp_path: Path) -> None:
    desk = create_daemon(tmp_path / "data")
    repo = tmp_path / "repo"
    repository(repo, {"README.md": "# x\n"})
    decided, turns_of_others = 0, set[int]()

    def count(_task: Task, _event: Event) -> None:
        nonlocal decided
        decided += 1

    async with serving(desk):
        tasks = [await desk.accept(Submission(text=f"Do {number}\n", repo=repo), "ada") for number in range(20)]
        await desk.inbox.settled()
        desk.supervisor.listen(count)
        for task in tasks:
            desk.inbox.post(task.id, PauseRequested(at=clock.now(), blocked_by=PauseReason.USER, by="ada"))
        while decided < len(tasks):
            turns_of_others.add(decided)
            await asyncio.sleep(0)
    assert len(turns_of_others) >= 4
