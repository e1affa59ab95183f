"""When the daily backup is due, also over a change of the clocks; which old ones are removed, and what ends one."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from orchestrator.core.events.notice import MachineNoticeKind
from orchestrator.core.notices.sentence import Sentence
from orchestrator.daemon.backup.notes import DailyBackups, read_daily_backups, write_daily_backups
from orchestrator.daemon.backup.schedule import BackupSchedule, owner_of, remove_oldest
from orchestrator.daemon.backup.service import BackupBusy, BackupService, NoBackups, NoSuchBackup
from orchestrator.settings.sections.backup import BackupSettings
from orchestrator.storage.store import FolderStore

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("tried", "early", "due"),
    [
        ("2026-06-30 00:30", "2026-07-01 00:29", "2026-07-01 00:30"),
        ("2026-10-25 00:30", "2026-10-25 01:45", "2026-10-26 01:30"),  # 02:30 comes twice
        ("2026-03-28 01:30", "2026-03-29 01:15", "2026-03-29 01:30"),  # 02:30 is left out
    ],
)
async def test_a_backup_is_made_once_a_day_at_its_time_by_the_clocks_of_the_zone(
    tmp_path: Path, tried: str, early: str, due: str
) -> None:
    write_daily_backups(tmp_path, DailyBackups(tried_at=utc(tried)))
    await told_of_a_failure(tmp_path, tmp_path / "missing", [utc(early), utc(due)])
    assert read_daily_backups(tmp_path).tried_at == utc(due)


def test_the_oldest_backups_of_the_same_folder_are_removed_but_never_the_one_just_made(tmp_path: Path) -> None:
    own = [f"orchestrator-aa-2030010{day}T050000Z.tar.zst" for day in range(1, 5)]
    others = ["orchestrator-bb-20200101T050000Z.tar.zst", "orchestrator-20200101T050000Z.tar.zst", "mine.tar.zst"]
    made = tmp_path / "orchestrator-aa-20261123T050000Z.tar.zst"
    for name in (*own, *others, made.name, f".{own[0]}.partial", f".{others[0]}.partial"):
        (tmp_path / name).write_bytes(b"")
    asked = [f"orchestrator-aa-2020010{day}T050000Z-asked.tar.zst" for day in range(1, 5)]
    for name in asked:
        (tmp_path / name).write_bytes(b"")
    others += asked
    remove_oldest(made, "aa", 3)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {made.name, *own[-2:], *others, f".{others[0]}.partial"}
    remove_oldest(made, "aa", 1)
    assert {path.name for path in tmp_path.iterdir()} == left - set(own)


async def test_a_folder_that_is_missing_is_not_made_and_the_failure_says_how(tmp_path: Path) -> None:
    told = await told_of_a_failure(tmp_path, tmp_path / "not-mounted" / "backups")
    assert "mkdir -m 700" in told
    assert not (tmp_path / "not-mounted").exists()


async def test_a_backup_that_takes_too_long_is_ended_and_told(tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()
    assert "took longer than 0 hours" in await told_of_a_failure(tmp_path, tmp_path / "backups", longest=0)
    assert not list((tmp_path / "backups").glob("*.zst"))


async def test_a_last_try_in_the_far_future_is_taken_as_one_of_now(tmp_path: Path) -> None:
    now = datetime(2026, 11, 23, 0, tzinfo=UTC)
    write_daily_backups(tmp_path, DailyBackups(tried_at=now + timedelta(days=900)))
    told = await told_of_a_failure(tmp_path, tmp_path / "missing", [now, now + timedelta(hours=2)])
    assert "no folder" in told
    assert read_daily_backups(tmp_path).tried_at == now + timedelta(hours=2)


async def told_of_a_failure(
    data_dir: Path, folder: Path, times: list[datetime] | None = None, longest: float = 60.0
) -> str:
    """Let the schedule look at the clock until a backup fails, and return what people are told."""
    FolderStore(data_dir).close()
    told: asyncio.Queue[str] = asyncio.Queue()
    left = times or [datetime(2026, 11, 23, 12, tzinfo=UTC)]

    async def announce(key: str, kind: MachineNoticeKind, text: Sentence, *, command: str = "") -> None:
        await told.put(f"{key} {kind} {text} {command}")

    schedule = BackupSchedule(
        data_dir=data_dir,
        config=None,
        settings=lambda: BackupSettings(folder=folder, at="02:30"),
        clock=lambda: left.pop(0) if len(left) > 1 else left[0],
        zone=BERLIN,
        announce=announce,
        every=0.01,
        longest=longest,
    )
    running = asyncio.create_task(schedule.run())
    try:
        return await asyncio.wait_for(told.get(), 60)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


async def test_a_backup_is_made_and_another_checked_when_somebody_asks(tmp_path: Path) -> None:
    data, folder, now = tmp_path / "data", tmp_path / "backups", datetime(2026, 11, 23, 12, tzinfo=UTC)
    folder.mkdir()
    FolderStore(data).close()
    write_daily_backups(data, DailyBackups(tried_at=now))
    service = backup_service(data, BackupSettings(folder=folder), now)
    damaged = folder / f"orchestrator-{owner_of(data)}-20261122T050000Z.tar.zst"
    damaged.write_bytes(b"no archive")
    running = asyncio.create_task(service.schedule.run())
    try:
        for ask in (service.make("ada"), service.check(damaged.name, "ada")):
            await ask
            with pytest.raises(BackupBusy):
                await service.make("grace")
            async with asyncio.timeout(60):
                while (await service.report()).asked is not None:  # noqa: ASYNC110 - as a page that asks again
                    await asyncio.sleep(0.01)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    found = await service.report()
    made, before = found.files
    assert (made.at, found.known.made_at) == (now, now)
    assert made.checked is not None
    assert made.checked.problem == ""
    assert before.checked is not None
    assert "damaged" in before.checked.problem
    with pytest.raises(NoSuchBackup):
        await service.check("../data/format", "ada")


async def test_backups_that_people_ask_for_neither_remove_nor_replace_a_daily_one(tmp_path: Path) -> None:
    data, folder = tmp_path / "data", tmp_path / "backups"
    now = datetime(2026, 11, 23, 3, 59, tzinfo=UTC)  # the next one is due in a minute
    folder.mkdir()
    FolderStore(data).close()
    owner = owner_of(data)
    daily = [f"orchestrator-{owner}-202611{day}T040000Z.tar.zst" for day in (21, 22)]
    for name in daily:
        (folder / name).write_bytes(b"")
    write_daily_backups(data, DailyBackups(tried_at=now - timedelta(hours=23), failure="no room"))
    service = backup_service(data, BackupSettings(folder=folder, keep=2), now)
    running = asyncio.create_task(service.schedule.run())
    try:
        for clock in (now, now + timedelta(seconds=60)):
            service.schedule.clock = lambda clock=clock: clock  # type: ignore[misc]
            await service.make("ada")
            assert service.is_making
            async with asyncio.timeout(60):
                while (await service.report()).asked is not None:  # noqa: ASYNC110 - as a page that asks again
                    await asyncio.sleep(0.01)
        async with asyncio.timeout(60):
            while read_daily_backups(data).daily_at != now + timedelta(seconds=60):  # noqa: ASYNC110 - a file
                await asyncio.sleep(0.01)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    times = ["20261123T035900Z", "20261123T040000Z"]
    asked = {f"orchestrator-{owner}-{time}-asked.tar.zst" for time in times}
    assert {path.name for path in folder.iterdir()} == {daily[-1], f"orchestrator-{owner}-{times[-1]}.tar.zst", *asked}
    assert {one.name for one in (await service.report()).files if one.is_asked} == asked
    assert read_daily_backups(data).failure == ""


async def test_a_folder_that_is_not_set_or_not_there_is_told(tmp_path: Path) -> None:
    FolderStore(tmp_path).close()
    now = datetime(2026, 11, 23, 12, tzinfo=UTC)
    without = backup_service(tmp_path, BackupSettings(), now)
    assert (await without.report()).next_at is None
    with pytest.raises(NoBackups):
        await without.make("ada")
    missing = await backup_service(tmp_path, BackupSettings(folder=tmp_path / "none"), now).report()
    assert "mkdir" in missing.trouble
    assert missing.next_at == datetime(2026, 11, 24, 4, tzinfo=UTC)


def backup_service(data_dir: Path, settings: BackupSettings, now: datetime) -> BackupService:
    async def announce(key: str, kind: MachineNoticeKind, text: Sentence, *, command: str = "") -> None:
        raise AssertionError(text)

    schedule = BackupSchedule(
        data_dir=data_dir, config=None, settings=lambda: settings, clock=lambda: now, zone=BERLIN, announce=announce
    )
    return BackupService(schedule)
