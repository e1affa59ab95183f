"""What the service leaves behind over some weeks beside its tasks: schedules, work that came in, notices, removals.

`settings_for` returns the settings that go with it. Nothing here begins by itself within half a day of being seeded, no
run window is meant for a seeded task, and no channel leads off this machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from orchestrator.core.notices.delivery import DeliveryStatus
from orchestrator.core.schedule.recurring import Missed, Overlap, RunResult
from orchestrator.daemon.backup.notes import DailyBackups, write_daily_backups
from orchestrator.daemon.backup.schedule import owner_of
from orchestrator.daemon.intake.intake import FOLDER as INTAKE
from orchestrator.daemon.intake.records import IntakeKind, IntakeRecord, IntakeRecords
from orchestrator.daemon.schedules.records import ScheduledRun, ScheduledWork, ScheduleStore, TaskSchedule
from orchestrator.formats.codec import JsonObject, stamp
from orchestrator.formats.files import make_private
from orchestrator.formats.versioned import write_versioned
from orchestrator.integrations.notices.entries import FORMAT, Delivery, Entry
from orchestrator.integrations.notices.health import ChannelHealth, HealthBook
from orchestrator.integrations.notices.outbox import FOLDER, OUTBOX
from orchestrator.storage.removal.log import RemovalLog
from tests.fakes.seeded_texts import Words

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SHA = "5d1e6f0c3ab24f9d8c7b6a5948372615f4e3d2c1b0a99887766554433221100f"
SETTINGS: Mapping[str, object] = {
    "windows": {
        "night": {
            "days": ["weekdays"],
            "opens": "22:00",
            "closes": "06:30",
            "zone": "Europe/Berlin",
            "repos": ["shop-*"],
        },
        "weekend": {
            "days": ["weekend"],
            "opens": "00:00",
            "closes": "24:00",
            "zone": "Asia/Seoul",
            "repos": ["shop-*"],
        },
    },
    "notify": {
        "channels": {
            "chat": {"type": "webhook", "url": "http://127.0.0.1:9/notices", "secret_env": "CHAT_SECRET"},
            "desk": {
                "type": "mail",
                "host": "127.0.0.1",
                "port": 9,
                "security": "none",
                "sender": "night@host.example",
                "to": ["ada@host.example"],
            },
        },
    },
    "people": {"notify_command": ["true"]},
    "queries": {
        "bugs": {
            "tracker": "jira",
            "repo": "/srv/textkit",
            "jql": "project = TEXT AND labels = agent AND statusCategory != Done",
        }
    },
    "hooks": {"board": {"kind": "jira", "secret_env": "BOARD_SECRET", "query": "bugs"}},
}


def settings_for(folder: Path) -> dict[str, object]:
    """The settings, with an inbox and backups below a folder in which no agent writes."""
    return {**SETTINGS, "inbox": {"folder": str(folder / "inbox")}, "backup": {"folder": str(folder / "backups")}}


def seed_service(data_dir: Path, repo: Path, tasks: Sequence[str], words: Words, now: datetime) -> None:
    """Fill a data folder; `tasks` are some that schedules and files made."""
    for schedule in _schedules(repo, tasks, words, now):
        ScheduleStore(data_dir).save(schedule)
    records = IntakeRecords(data_dir / INTAKE)
    for record in _came_in(tasks, words, now):
        records.add(record)
    for entry in _notices(tasks, words, now):
        path = make_private(data_dir / FOLDER / OUTBOX) / f"{entry.key}.json"
        write_versioned(path, entry, FORMAT)
    health = HealthBook(data_dir / FOLDER)
    dead = ChannelHealth(failures=14, failing_since=now - 5 * HOUR, reason=words.reason, worked_at=now - 2 * DAY)
    health.note("chat", dead)
    health.write(health.note("notify_command", ChannelHealth(worked_at=now - HOUR)))
    removals = RemovalLog(data_dir)
    kinds = ("transcripts", "worktrees", "logs", "checkpoints", "worktrees")
    oldest_first = reversed(list(enumerate(kinds)))
    removals.add({f"seeded-{number}": _removal(number, kind, now) for number, kind in oldest_first})
    write_daily_backups(data_dir, DailyBackups(tried_at=now, made_at=now - 3 * HOUR))


def seed_backups(data_dir: Path, folder: Path, now: datetime) -> None:
    """Put three backups of the data folder into another folder: files of a plausible size, which are damaged."""
    folder.mkdir()
    for days in range(3):
        at = stamp(now - days * DAY - 3 * HOUR)[:19].replace("-", "").replace(":", "")
        with (folder / f"orchestrator-{owner_of(data_dir)}-{at}Z.tar.zst").open("wb") as made:
            made.truncate((41 - days) * 1024 * 1024)


def _schedules(repo: Path, tasks: Sequence[str], words: Words, now: datetime) -> list[TaskSchedule]:
    later = now + 13 * HOUR
    work = ScheduledWork(text=f"{words.titles[0]}\n\n{words.ticket}", repo=str(repo), title=words.titles[0], usd=5.0)
    runs = (
        ScheduledRun(due=now - 3 * DAY, at=now - 3 * DAY, result=RunResult.SUBMITTED, task=tasks[0]),
        ScheduledRun(due=now - 2 * DAY, at=now - 2 * DAY, result=RunResult.MISSED, reason=words.reason, count=2),
        ScheduledRun(due=now - DAY, at=now - DAY, result=RunResult.SUBMITTED, task=tasks[1]),
    )
    refused = ScheduledRun(due=now - HOUR, at=now - HOUR, result=RunResult.REFUSED, reason=words.reason)
    nightly = TaskSchedule(
        id="remove-dead-code",
        line=f"{later.minute} {later.hour} * * *",
        zone="UTC",
        work=work,
        created_at=now - 20 * DAY,
        created_by="ada",
        handled=now,
        runs=runs,
    )
    audit = replace(
        nightly,
        id="audit-of-the-dependencies",
        line=f"{later.minute} {later.hour},{(later.hour + 4) % 24} * * *",
        zone="UTC",
        work=replace(work, title=words.titles[4 % len(words.titles)], pipeline="review_only"),
        overlap=Overlap.QUEUE,
        missed=Missed.ONCE,
        runs=(*runs, refused),
    )
    paused = replace(nightly, id="tidy-docs", line="30 2 * * sat-sun", zone="Asia/Seoul", paused_by="grace", runs=())
    return [nightly, audit, paused]


def _came_in(tasks: Sequence[str], words: Words, now: datetime) -> list[IntakeRecord]:
    evidence = f"inode 4711, 1204 bytes, sha256 {SHA}"
    made = [
        IntakeRecord(
            at=now - (9 - number) * HOUR,
            source="inbox",
            kind=IntakeKind.TAKEN,
            name=f"ticket-{number}.md",
            title=words.titles[number % len(words.titles)],
            task=task,
            evidence=evidence,
        )
        for number, task in enumerate(tasks[:4])
    ]
    return [
        *made,
        IntakeRecord(at=now - 4 * HOUR, source="query bugs", kind=IntakeKind.FAILED, name="", reason=words.reason),
        IntakeRecord(
            at=now - 3 * HOUR,
            source="query bugs",
            kind=IntakeKind.TAKEN,
            name="TEXT-4711",
            title=words.titles[-1],
            task=tasks[0],
            evidence="changed 2026-11-22T20:11:00Z",
        ),
        IntakeRecord(
            at=now - 2 * HOUR,
            source="inbox",
            kind=IntakeKind.REFUSED,
            name=words.titles[0][:100],
            reason=words.reason,
            evidence=evidence,
        ),
        IntakeRecord(
            at=now - HOUR,
            source="query bugs",
            kind=IntakeKind.CLOSED,
            name="TEXT-4703",
            title=words.titles[1 % len(words.titles)],
            task=tasks[1],
            reason="the ticket was closed; its task had begun and goes on",
        ),
    ]


def _notices(tasks: Sequence[str], words: Words, now: datetime) -> list[Entry]:
    sent = Delivery(channel="notify_command", status=DeliveryStatus.SENT, attempts=1, at=now - HOUR)
    failed = Delivery(channel="chat", status=DeliveryStatus.FAILED, attempts=9, at=now - HOUR, reason=words.reason)
    held = Delivery(channel="chat", attempts=5, at=now - HOUR, reason=words.reason)
    kinds = (
        ("question_asked", (sent, failed)),
        ("completed", (sent,)),
        ("blocked", (sent, held)),
        ("service", (sent,)),
    )
    found = []
    for number, (kind, deliveries) in enumerate(kinds):
        title = words.titles[number % len(words.titles)]
        found.append(
            Entry(
                key=f"seeded-{number}",
                kind=kind,
                at=now - (number + 1) * HOUR,
                subject=f"[orchestrator] {kind.replace('_', ' ')}: {tasks[number % len(tasks)]} {title}",
                text=f"{words.reason}\n\n{title}\n",
                document={},
                deliveries=deliveries,
            )
        )
    return found


def _removal(number: int, kind: str, now: datetime) -> JsonObject:
    return {
        "at": stamp(now - number * DAY - HOUR),
        "action": "compress" if number == 0 else "remove",
        "kind": kind,
        "name": f"{kind}/TEXT-{90 + number}",
        "task": f"TEXT-{90 + number}_20261001_120000",
        "bytes": (number + 1) * 48 * 1024 * 1024,
        "since": stamp(now - 30 * DAY),
        "rule": "older than 14 days",
        "by": "retention" if number else "ada",
    }
