"""Schedules with a real store and the real API: what is due is submitted once, whatever happens in between."""

import asyncio
import shutil
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchestrator.core.events.notice import MachineNoticeKind, check_key
from orchestrator.core.notices.sentence import Sentence
from orchestrator.core.schedule.recurring import Missed, Overlap, RunResult
from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.schedules.errors import NoSuchSchedule, ScheduleBusy, ScheduleExists
from orchestrator.daemon.schedules.records import PendingRun, ScheduledWork, ScheduleStore, TaskSchedule
from orchestrator.daemon.schedules.service import TRY_FOR, NewSchedule, ScheduleService
from orchestrator.daemon.services.errors import SubmissionRefused
from tests.fakes.in_process_daemon import InProcessDaemon

ADDED = datetime(2026, 5, 28, 12, 0, tzinfo=UTC)
TONIGHT = datetime(2026, 5, 28, 22, 0, tzinfo=UTC)
DAY = timedelta(days=1)


@dataclass
class Clock:
    """A clock that shows what a test says."""

    now: datetime = ADDED

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Desk:
    """A daemon, a clock, and its schedules; `restarted` is what a new process finds."""

    daemon: InProcessDaemon
    clock: Clock
    told: dict[str, str] = field(default_factory=dict)

    def restarted(self) -> ScheduleService:
        return ScheduleService(
            store=ScheduleStore(self.daemon.settings.data_dir),
            submissions=self.daemon.service.submissions,
            supervisor=self.daemon.supervisor,
            tasks=self.daemon.store,
            clock=self.clock,
            tell=self.tell,
        )

    async def tell(self, key: str, kind: MachineNoticeKind, text: Sentence, *, command: str = "") -> bool:
        """Keep what people are told; the same thing is told once."""
        assert (kind, command) == (MachineNoticeKind.SCHEDULE, "orchestrator schedule show nightly")
        check_key(key)
        is_new = key not in self.told
        self.told.setdefault(key, str(text))
        return is_new

    def wanted(self, **more: Any) -> NewSchedule:
        repo = str(self.daemon.settings.data_dir.parent / "repo")
        given = {"line": "0 22 * * *", "zone": "UTC", "overlap": Overlap.REFUSE, "missed": Missed.TELL, **more}
        return NewSchedule(name="nightly", work=ScheduledWork(text="Clean up", repo=repo), **given)

    def tasks(self) -> list[str]:
        """Return the times that tasks were made for."""
        made = (task.schedule.made_by or "" for task in self.daemon.supervisor.tasks.values())
        return sorted(one for one in made if one)


@pytest.fixture
def desk(client: httpx.AsyncClient, daemon: InProcessDaemon) -> Desk:
    del client  # it is what runs the daemon's loop
    return Desk(daemon, Clock())


def results(schedule: TaskSchedule) -> list[tuple[RunResult, int]]:
    return [(run.result, run.count) for run in schedule.runs]


async def test_a_task_is_submitted_when_its_time_comes_and_not_again(desk: Desk) -> None:
    service = desk.restarted()
    added = await service.add(desk.wanted(), "ada")
    assert service.next_time(added) == TONIGHT
    await service.look()
    assert desk.tasks() == []
    desk.clock.now = TONIGHT + timedelta(seconds=2)
    for _ in range(3):
        await service.look()
    await desk.restarted().look()
    assert desk.tasks() == ["nightly@2026-05-28T22:00:00.000Z"]
    (run,) = (await service.find("nightly")).runs
    assert (run.due, run.result, run.task in desk.daemon.supervisor.tasks) == (TONIGHT, RunResult.SUBMITTED, True)


@pytest.mark.parametrize("moment", ["before it is submitted", "after that", "after it has ended"])
async def test_a_daemon_that_is_killed_while_it_submits_does_so_once(desk: Desk, moment: str) -> None:
    service = desk.restarted()
    added = await service.add(desk.wanted(), "ada")
    desk.clock.now = TONIGHT + timedelta(seconds=1)
    pending = replace(added, handled=TONIGHT, pending=PendingRun(due=TONIGHT, since=desk.clock.now))
    ScheduleStore(desk.daemon.settings.data_dir).save(pending)
    if moment != "before it is submitted":
        work = added.work.submission()
        task = await desk.daemon.service.submissions.submit(work, (), "schedule nightly", made_by=added.key(TONIGHT))
        if moment == "after it has ended":
            await desk.daemon.service.tasks.cancel(task.id, "ada")
            await desk.daemon.inbox.settled()
    again = desk.restarted()
    for _ in range(2):
        await again.look()
    (run,) = (await again.find("nightly")).runs
    assert run.result is RunResult.SUBMITTED
    every = [await desk.daemon.service.tasks.find(one.id) for one in await _all(desk)]
    assert [task.schedule.made_by for task in every] == [added.key(TONIGHT)]
    assert run.task == every[0].id


@pytest.mark.parametrize("missed", Missed)
@pytest.mark.parametrize("has_ended", [False, True])
async def test_a_schedule_older_than_its_last_task_does_not_make_that_again(
    desk: Desk, missed: Missed, has_ended: bool
) -> None:
    service = desk.restarted()
    added = await service.add(desk.wanted(missed=missed), "ada")
    desk.clock.now = TONIGHT + timedelta(seconds=1)
    await service.look()
    (made,) = desk.daemon.supervisor.tasks.values()
    if has_ended:
        await desk.daemon.service.tasks.cancel(made.id, "ada")
        await desk.daemon.inbox.settled()
    ScheduleStore(desk.daemon.settings.data_dir).save(added)  # as an older backup has it
    restored = desk.restarted()
    desk.clock.now += timedelta(minutes=2)
    await restored.look()
    (run,) = (await restored.find("nightly")).runs
    assert (run.due, run.result, run.task) == (TONIGHT, RunResult.SUBMITTED, made.id)
    assert [task.id for task in await _all(desk)] == [made.id]
    desk.clock.now = TONIGHT + 3 * DAY + timedelta(hours=1)
    again = desk.restarted()
    await again.look()
    late = [(RunResult.MISSED, 2), (RunResult.SUBMITTED if has_ended else RunResult.REFUSED, 1)]
    told = late if missed is Missed.ONCE else [(RunResult.MISSED, 3)]
    assert results(await again.find("nightly"))[1:] == told


async def _all(desk: Desk) -> list[Any]:
    return list(await desk.daemon.service.submissions.index.all_tasks())


@pytest.mark.parametrize("missed", Missed)
async def test_missed_times_are_told_and_by_choice_made_up_for_once(desk: Desk, missed: Missed) -> None:
    await desk.restarted().add(desk.wanted(missed=missed), "ada")
    desk.clock.now = TONIGHT + 3 * DAY + timedelta(hours=9)
    service = desk.restarted()
    await service.look()
    schedule = await service.find("nightly")
    if missed is Missed.ONCE:
        assert results(schedule) == [(RunResult.MISSED, 3), (RunResult.SUBMITTED, 1)]
        assert schedule.runs[-1].reason == "made up for a time that was missed"
        assert desk.tasks() == [schedule.key(TONIGHT + 3 * DAY)]
    else:
        assert results(schedule) == [(RunResult.MISSED, 4)]
        assert desk.tasks() == []
    assert "the daemon was down" in schedule.runs[0].reason
    (note,) = await service.not_submitted(desk.clock.now - DAY, desk.clock.now + DAY)
    assert note.startswith("schedule nightly: ")
    assert "runs were missed, the last at 2026-05-3" in note
    assert await service.not_submitted(desk.clock.now - DAY, desk.clock.now) == []
    assert list(desk.told.values()) == [note]
    assert service.next_time(schedule) == TONIGHT + 4 * DAY


@pytest.mark.parametrize("overlap", Overlap)
async def test_a_second_task_beside_a_live_one_is_refused_or_waits_for_it(desk: Desk, overlap: Overlap) -> None:
    service = desk.restarted()
    await service.add(desk.wanted(overlap=overlap), "ada")
    for night in range(2):
        desk.clock.now = TONIGHT + night * DAY
        await service.look()
    schedule = await service.find("nightly")
    first = schedule.runs[0].task
    if overlap is Overlap.REFUSE:
        assert [run.result for run in schedule.runs] == [RunResult.SUBMITTED, RunResult.REFUSED]
        assert first is not None
        assert f"its last task has not ended: {first} is " in schedule.runs[1].reason
        assert [text.partition(", ")[0] for text in desk.told.values()] == ["schedule nightly: 1 run was refused"]
    else:
        second = desk.daemon.supervisor.tasks[schedule.runs[1].task or ""]
        assert (second.schedule.after, second.schedule.after_any_end) == ((first,), True)
        assert second.status is TaskStatus.PENDING


async def test_a_submission_that_is_refused_is_told_with_the_reason(desk: Desk) -> None:
    service = desk.restarted()
    await service.add(desk.wanted(), "ada")
    repo = desk.daemon.settings.data_dir.parent / "repo"
    repo.rename(repo.with_name("moved"))
    desk.clock.now = TONIGHT
    await service.look()
    (run,) = (await service.find("nightly")).runs
    assert (run.result, run.task) == (RunResult.REFUSED, None)
    assert "repo" in run.reason


async def test_what_could_not_be_submitted_for_an_hour_is_given_up_and_told(desk: Desk) -> None:
    added = await desk.restarted().add(desk.wanted(), "ada")
    late = PendingRun(due=TONIGHT, since=TONIGHT, reason="the tracker did not answer")
    ScheduleStore(desk.daemon.settings.data_dir).save(replace(added, handled=TONIGHT, pending=late))
    desk.clock.now = TONIGHT + TRY_FOR + timedelta(seconds=1)
    service = desk.restarted()
    await service.look()
    (run,) = (await service.find("nightly")).runs
    assert (run.result, run.reason, desk.tasks()) == (RunResult.FAILED, "the tracker did not answer", [])


async def test_a_paused_schedule_submits_nothing_and_what_was_due_meanwhile_is_not_made_up_for(desk: Desk) -> None:
    service = desk.restarted()
    await service.add(desk.wanted(missed=Missed.ONCE), "ada")
    paused = await service.pause("nightly", "ada")
    assert service.next_time(paused) is None
    desk.clock.now = TONIGHT + 2 * DAY
    await service.look()
    resumed = await service.resume("nightly", "ada")
    await service.look()
    assert (resumed.runs, desk.tasks()) == ((), [])
    assert service.next_time(resumed) == TONIGHT + 3 * DAY


async def test_a_clock_that_is_put_back_submits_nothing_twice(desk: Desk) -> None:
    service = desk.restarted()
    await service.add(desk.wanted(overlap=Overlap.QUEUE), "ada")
    for at in (TONIGHT, TONIGHT - timedelta(hours=3), TONIGHT, TONIGHT + timedelta(minutes=1)):
        desk.clock.now = at
        await service.look()
    assert len(desk.tasks()) == 1


@pytest.mark.parametrize("resumes", [False, True])
async def test_a_clock_that_ran_ahead_for_years_stops_no_schedule(desk: Desk, resumes: bool) -> None:
    added = await desk.restarted().add(desk.wanted(), "ada")
    ahead = replace(added, handled=ADDED + 1000 * DAY, paused_by="ada" if resumes else None)
    ScheduleStore(desk.daemon.settings.data_dir).save(ahead)
    service = desk.restarted()
    if resumes:
        await service.resume("nightly", "ada")
    await service.look()
    mended = await service.find("nightly")
    assert "the clock had run ahead to 2029" in mended.runs[-1].reason
    assert service.next_time(mended) == TONIGHT
    desk.clock.now = TONIGHT
    await service.look()
    assert len(desk.tasks()) == 1


async def test_a_schedule_runs_now_when_a_person_wants_it_and_goes_on_as_before(desk: Desk) -> None:
    service = desk.restarted()
    await service.add(desk.wanted(), "ada")
    ran = await service.run_now("nightly", "ada")
    assert (ran.runs[0].reason, len(desk.tasks())) == ("run by ada", 1)
    assert service.next_time(ran) == TONIGHT
    with pytest.raises(ScheduleBusy, match="its last task has not ended"):
        await service.run_now("nightly", "ada")
    await service.remove("nightly", "ada")
    with pytest.raises(NoSuchSchedule):
        await service.run_now("nightly", "ada")
    assert len(desk.tasks()) == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"line": "0 22 * *"}, "five fields"),
        ({"line": "0 0 30 2 *"}, "never comes"),
        ({"zone": "Europe/Berlyn"}, "did you mean 'Europe/Berlin'"),
    ],
)
async def test_a_schedule_that_could_never_be_due_is_refused(desk: Desk, more: dict[str, str], said: str) -> None:
    with pytest.raises(SubmissionRefused, match=said):
        await desk.restarted().add(desk.wanted(**more), "ada")


@pytest.fixture
def unreadable(daemon: InProcessDaemon) -> Path:
    """The file of a schedule, as some later version writes it."""
    file: Path = daemon.settings.data_dir / "schedules" / "nightly.json"
    file.parent.mkdir()
    file.write_text('{"format": 99}')
    return file


async def test_a_file_that_cannot_be_read_is_left_as_it_is(desk: Desk, unreadable: Path) -> None:
    service = desk.restarted()
    assert await service.listed() == []
    with pytest.raises(ScheduleExists):
        await service.add(desk.wanted(), "ada")
    assert await asyncio.to_thread(unreadable.read_text) == '{"format": 99}'


async def test_a_copy_of_a_schedule_s_file_is_unreadable_and_submits_nothing(desk: Desk) -> None:
    await desk.restarted().add(desk.wanted(overlap=Overlap.QUEUE), "ada")
    folder = desk.daemon.settings.data_dir / "schedules"
    await asyncio.to_thread(shutil.copy, folder / "nightly.json", folder / "weekly.json")
    desk.clock.now = TONIGHT
    service = desk.restarted()
    for _ in range(3):
        await service.look()
    assert [one.id for one in await service.listed()] == ["nightly"]
    assert service.store.unreadable == {"weekly"}
    assert len(desk.tasks()) == 1


async def test_the_api_adds_lists_runs_pauses_and_removes(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    repo = str(daemon.settings.data_dir.parent / "repo")
    body = {"line": "0 22 * * 1-5", "zone": "Europe/Berlin", "text": "Clean up\n\nA module a night.", "repo": repo}
    added = await client.post("/api/schedules", json=body)
    assert added.status_code == 201, added.text
    name = added.json()["name"]
    assert (name, added.headers["location"]) == ("clean-up", "/api/schedules/clean-up")
    assert added.json()["nextAt"].endswith((":00:00Z", ":00:00.000Z"))
    second = await client.post("/api/schedules", json=body)
    assert second.json()["name"] == "clean-up-2"
    taken = await client.post("/api/schedules", json={**body, "name": name})
    assert (taken.status_code, taken.json()["type"].rpartition(":")[2]) == (409, "schedule-exists")
    refused = await client.post("/api/schedules", json={**body, "repo": "/nonexistent"})
    assert refused.status_code == 422
    ran = (await client.post(f"/api/schedules/{name}/run")).json()
    task = (await client.get(f"/api/tasks/{ran['runs'][0]['task']}")).json()
    assert task["madeBy"].startswith("clean-up@")
    busy = await client.post(f"/api/schedules/{name}/run")
    assert (busy.status_code, busy.json()["type"].rpartition(":")[2]) == (409, "schedule-busy")
    assert (await client.post(f"/api/schedules/{name}/pause")).json()["nextAt"] is None
    assert (await client.post(f"/api/schedules/{name}/resume")).json()["pausedBy"] is None
    assert (await client.delete(f"/api/schedules/{name}")).json()["name"] == name
    listed = (await client.get("/api/schedules")).json()["schedules"]
    assert [one["name"] for one in listed] == ["clean-up-2"]
    assert (await client.get(f"/api/schedules/{name}")).status_code == 404


async def test_a_changed_schedule_keeps_its_record_and_makes_up_for_nothing(desk: Desk) -> None:
    service = desk.restarted()
    await service.add(desk.wanted(missed=Missed.ONCE), "ada")
    desk.clock.now = TONIGHT + timedelta(seconds=1)
    await service.look()
    before = await service.find("nightly")
    desk.clock.now = TONIGHT + timedelta(hours=10)
    changes = {"line": "0 7 * * *", "zone": "Asia/Seoul", "overlap": Overlap.QUEUE, "title": "Other"}
    changed = await service.change("nightly", changes, "grace")
    assert (changed.runs, changed.created_by, changed.handled) == (before.runs, "ada", desk.clock.now)
    assert service.next_time(changed) == TONIGHT + DAY
    for again in (service, desk.restarted()):
        await again.look()
        found = await again.find("nightly")
        assert (found.line, found.zone, found.overlap, found.work.title) == (
            "0 7 * * *",
            "Asia/Seoul",
            "queue",
            "Other",
        )
        assert results(found) == [(RunResult.SUBMITTED, 1)]


async def test_a_change_that_would_be_refused_changes_nothing(desk: Desk) -> None:
    service = desk.restarted()
    added = await service.add(desk.wanted(), "ada")
    with pytest.raises(SubmissionRefused, match="five fields"):
        await service.change("nightly", {"line": "sometimes"}, "ada")
    with pytest.raises(NoSuchSchedule):
        await service.change("daily", {"line": "@daily"}, "ada")
    assert await service.find("nightly") == added


async def test_the_api_changes_a_schedule(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    repo = str(daemon.settings.data_dir.parent / "repo")
    body = {"name": "tidy", "line": "@daily", "text": "Tidy up", "repo": repo}
    await client.post("/api/schedules", json=body)
    answer = await client.put("/api/schedules/tidy", json={**body, "line": "0 4 * * 0", "zone": "UTC", "usd": 2})
    assert (answer.status_code, answer.json()["line"]) == (200, "0 4 * * 0")
    assert (await daemon.service.schedules.find("tidy")).work.usd == 2
    assert (await client.put("/api/schedules/none", json=body)).status_code == 404
    assert (await client.put("/api/schedules/tidy", json={**body, "line": "x"})).status_code == 422


async def test_what_is_ahead_is_in_order_and_bounded(desk: Desk) -> None:
    service = desk.restarted()
    await service.add(desk.wanted(line="0 */6 * * *"), "ada")
    await service.add(replace(desk.wanted(line="30 * * * *"), name="often"), "ada")
    await service.add(replace(desk.wanted(line="* * * * *"), name="paused"), "ada")
    await service.pause("paused", "ada")
    found = await service.ahead(timedelta(hours=24), 10)
    assert [one.at for one in found.runs] == sorted(one.at for one in found.runs)
    assert (found.more, len(found.runs), {one.schedule for one in found.runs}) == (True, 10, {"nightly", "often"})
    whole = await service.ahead(timedelta(hours=24), 100)
    assert [len([one for one in whole.runs if one.schedule == name]) for name in ("nightly", "often")] == [3, 24]
    assert not whole.more
