"""Notices wait on disk until they arrive: over dead channels, crashes, quiet hours and a clock that jumps."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import structlog

from orchestrator.core.events.notice import MachineNoticeKind, Notice, NoticeKind
from orchestrator.core.notices.delivery import DeliveryStatus
from orchestrator.core.notices.rules import ChannelRules, Rules
from orchestrator.core.task.task import Task
from orchestrator.daemon.notifications.announcer import Announcer
from orchestrator.daemon.notifications.channel_watch import ChannelWatch
from orchestrator.daemon.notifications.courier import Courier, CourierPatience
from orchestrator.daemon.notifications.service import NoChannel, NoSuchChannel, NotificationService
from orchestrator.integrations.notices.channel import Channel, NotDelivered
from orchestrator.integrations.notices.entries import Entry
from orchestrator.integrations.notices.health import HealthBook
from orchestrator.integrations.notices.outbox import NoticeOutbox
from orchestrator.settings.sections.notify import hours_of
from orchestrator.storage.task_files import FolderTaskFiles
from tests.fakes.tasks import submitted
from tests.fakes.waiting import running, until

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
QUICK = CourierPatience(attempt=20.0, longest_pause=0.02)
BERLIN = ZoneInfo("Europe/Berlin")


@dataclass(eq=False)
class Receiver:
    """A channel that remembers what it took; while it is `broken`, it takes nothing."""

    broken: str = ""
    tries: int = 0
    took: list[Entry] = field(default_factory=list)

    async def send(self, entry: Entry) -> str:
        self.tries += 1
        if self.broken:
            raise NotDelivered(self.broken)
        self.took.append(entry)
        return ""

    @property
    def kinds(self) -> list[str]:
        return [one.kind for one in self.took]


@dataclass(eq=False)
class Silent:
    """A channel that never answers."""

    async def send(self, entry: Entry) -> str:
        await asyncio.Event().wait()
        return entry.key


class Office:
    """All that tells notices, over one folder and a clock that is set."""

    def __init__(self, folder: Path, channels: dict[str, Channel], rules: Rules | None = None) -> None:
        self.folder, self.channels, self.now = folder, channels, NOON
        self.rules = rules or Rules(channels=dict.fromkeys(channels, ChannelRules()), zone=UTC)
        self.patience, self.pause = QUICK, 0.01
        (folder / "T-1").mkdir(parents=True, exist_ok=True)
        self.reopen()

    def reopen(self) -> None:
        """Begin anew from the disk, as after a crash."""
        self.announcer = Announcer(
            outbox=NoticeOutbox(self.folder / "outbox", lambda: self.now),
            rules=lambda: self.rules,
            language=lambda: "en",
            files=FolderTaskFiles(self.folder),
            redact=lambda text: text.replace("hunter2", "***"),
            clock=lambda: self.now,
        )
        self.watch = ChannelWatch(book=HealthBook(self.folder), announcer=self.announcer)
        self.service = NotificationService(announcer=self.announcer, watch=self.watch)

    @property
    def task(self) -> Task:
        return submitted("T-1")

    async def tell(self, number: int, kind: NoticeKind = NoticeKind.COMPLETED, text: str = "It is done.") -> str | None:
        notice = Notice(key=f"{number}:0", kind=kind, text=text, at=self.now)
        return await self.announcer.tell(self.task, notice)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Courier]:
        """Let the courier work."""
        courier = Courier(
            announcer=self.announcer,
            watch=self.watch,
            channels=lambda: self.channels,
            redact=self.announcer.redact,
            pause=lambda: self.pause,
            patience=self.patience,
        )
        async with running(courier.run()):
            yield courier

    def statuses(self, channel: str) -> list[str]:
        """What became of each notice on a channel, the oldest first."""
        found = sorted(self.announcer.outbox.entries(), key=lambda one: one.key)
        return [delivery.status.value for one in found if (delivery := one.on(channel))]


def keys(several: Iterable[Entry]) -> list[str]:
    return [one.key for one in several]


async def test_a_notice_is_on_disk_when_it_is_told_and_is_sent_once_however_often_it_is_told(tmp_path: Path) -> None:
    mail, phone = Receiver(), Receiver()
    office = Office(tmp_path, {"mail": mail, "phone": phone})
    assert [await office.tell(1) for _ in range(3)] == ["", "", ""]
    office.reopen()
    async with office.open():
        await until(lambda: mail.took and phone.took)
        await office.tell(1)
        await office.tell(2)
        await until(lambda: len(mail.took) == len(phone.took) == 2)
    assert keys(mail.took) == keys(phone.took) == ["T-1:1:0", "T-1:2:0"]
    office.reopen()
    assert office.statuses("mail") == ["sent", "sent"]


async def test_without_a_channel_nothing_is_stored(tmp_path: Path) -> None:
    office = Office(tmp_path, {})
    assert await office.tell(1) is None
    assert not office.announcer.outbox.entries()
    with pytest.raises(NoChannel):
        await office.service.test(None)


async def test_what_an_older_version_has_sent_is_not_sent_again(tmp_path: Path) -> None:
    office = Office(tmp_path, {"mail": Receiver()})
    (tmp_path / "T-1" / "notices").mkdir()
    (tmp_path / "T-1" / "notices" / "1:0").write_text("{}")
    assert await office.tell(1) == ""
    assert not office.announcer.outbox.entries()


async def test_two_tasks_may_have_notices_of_the_same_key(tmp_path: Path) -> None:
    mail = Receiver()
    office = Office(tmp_path, {"mail": mail})
    notice = Notice(key="completed", kind=NoticeKind.COMPLETED, text="It is done.", at=NOON)
    for task_id in ("T-1", "T-2", "x" * 250):
        await office.announcer.tell(submitted(task_id), notice)
    async with office.open():
        await until(lambda: len(mail.took) == 3)
    assert {one.document["task_id"] for one in mail.took} == {"T-1", "T-2", "x" * 250}


async def test_secrets_in_titles_and_texts_do_not_leave(tmp_path: Path) -> None:
    mail = Receiver()
    office = Office(tmp_path, {"mail": mail})
    notice = Notice(key="a", kind=NoticeKind.FAILED, text="the password is hunter2", at=NOON)
    await office.announcer.tell(replace(office.task, title="Change hunter2"), notice)
    async with office.open():
        await until(lambda: mail.took)
    [got] = mail.took
    assert "hunter2" not in f"{got.subject} {got.text} {got.document}"
    assert got.document["text"] == "the password is ***"


async def test_a_dead_channel_delays_no_other_and_is_told_once_and_so_is_its_recovery(tmp_path: Path) -> None:
    mail, phone = Receiver(), Receiver(broken="no route to host")
    office = Office(tmp_path, {"mail": mail, "phone": phone, "silent": Silent()})
    async with office.open():
        for number in range(3):
            await office.tell(number)
        await until(lambda: "channel_failed" in mail.kinds and phone.tries > 12)
    office.reopen()  # a restart does not tell it again
    [dead] = office.service.dead()
    assert (dead.name, dead.health.reason, dead.waiting) == ("phone", "no route to host", 3)
    async with office.open():
        tries = phone.tries
        await until(lambda: phone.tries > tries + 5)
        phone.broken = ""
        await until(lambda: "channel_recovered" in mail.kinds)
        await until(lambda: len(phone.took) == 3)
    assert mail.kinds == ["completed"] * 3 + ["channel_failed", "channel_recovered"]
    assert sorted(keys(phone.took)) == ["T-1:0:0", "T-1:1:0", "T-1:2:0"]
    assert not office.service.dead()
    assert "'phone' does not work since 2026-11-23T12:00:00.000Z: no route to host" in mail.took[3].text


async def test_when_every_channel_is_dead_the_first_that_recovers_tells_of_the_others(tmp_path: Path) -> None:
    mail, phone = Receiver(broken="down"), Receiver(broken="down")
    office = Office(tmp_path, {"mail": mail, "phone": phone})
    async with office.open():
        await office.tell(1)
        await until(lambda: len(office.service.dead()) == 2)
        mail.broken = ""
        await until(lambda: {"channel_failed", "completed"} <= {*mail.kinds})
    assert sorted(mail.kinds) == ["channel_failed", "completed"]


async def test_of_two_channels_that_die_together_neither_is_told_on_the_other_alone(tmp_path: Path) -> None:
    phone, mail, pager = Receiver(broken="no route to host"), Receiver(broken="no route to host"), Receiver()
    office = Office(tmp_path, {"phone": phone, "mail": mail, "pager": pager})
    async with office.open():
        await office.tell(1)
        await until(lambda: pager.kinds.count("channel_failed") == 2)
        assert {"'phone'", "'mail'"} == {one.text.split()[2] for one in pager.took if one.kind == "channel_failed"}
        phone.broken = mail.broken = ""
        await until(lambda: pager.kinds.count("channel_recovered") == 2)
    assert not office.service.dead()


async def test_a_channel_whose_death_was_told_on_one_that_died_too_is_told_on_a_third(tmp_path: Path) -> None:
    phone, mail, pager = Receiver(broken="gone"), Receiver(), Receiver(broken="gone")
    office = Office(tmp_path, {"phone": phone, "mail": mail, "pager": pager})
    mail.broken = "gone too"
    async with office.open():
        await office.tell(1)
        await until(lambda: len(office.service.dead()) == 3)
        pager.broken = ""
        await until(lambda: pager.kinds.count("channel_failed") == 2)
        assert {"'phone'", "'mail'"} == {one.text.split()[2] for one in pager.took if one.kind == "channel_failed"}


async def test_a_notice_that_is_never_taken_expires_with_its_reason_and_lets_others_pass(tmp_path: Path) -> None:
    mail = Receiver(broken="mailbox full")
    office = Office(tmp_path, {"mail": mail})
    office.rules = replace(office.rules, expire_after=3600.0)
    async with office.open():
        await office.tell(1)
        await until(lambda: mail.tries > 5)
        office.now += timedelta(hours=2)
        await office.tell(2)
        await until(lambda: office.statuses("mail")[0] == "failed")
        mail.broken = ""
        await until(lambda: office.statuses("mail")[1] == "sent")
    entry = office.announcer.outbox.get("T-1:1:0")
    assert entry is not None
    assert entry.deliveries[0].reason == "not taken within 1 h: mailbox full"
    assert keys(mail.took) == ["T-1:2:0"]


async def test_what_is_told_in_quiet_hours_comes_as_one_digest_afterwards_also_over_a_crash(tmp_path: Path) -> None:
    mail = Receiver()
    quiet = ChannelRules(quiet=hours_of("22:00-07:00"), urgent=frozenset({"login_missing"}))
    office = Office(tmp_path, {"mail": mail}, Rules(channels={"mail": quiet}, zone=BERLIN))
    office.now = datetime(2026, 10, 24, 21, tzinfo=UTC)  # the night in which the clock is set back
    async with office.open():
        for number in range(4):
            await office.tell(number)
        await office.tell(9, NoticeKind.LOGIN_MISSING)
        await until(lambda: mail.took)
    assert mail.kinds == ["login_missing"]
    [shown] = [one for one in office.service.newest(10) if one.entry.key == "T-1:0:0"]
    assert shown.deliveries[0].held_until == datetime(2026, 10, 25, 6, tzinfo=UTC)
    office.now = datetime(2026, 10, 25, 6, tzinfo=UTC)
    mail.broken = "not yet"
    office.reopen()
    async with office.open():
        await until(lambda: mail.tries > 2)
    mail.broken = ""
    office.reopen()  # the digest is on disk, and is the same after a crash
    async with office.open():
        await office.tell(10)
        await until(lambda: len(mail.took) == 3)
    digest = next(one for one in mail.took if one.kind == "digest")
    assert mail.kinds.count("digest") == 1
    assert digest.members == tuple(f"T-1:{number}:0" for number in range(4))
    assert digest.subject == "[orchestrator] 4 notices"
    assert digest.text.count("It is done.") == 4
    assert office.statuses("mail").count("in_digest") == 4


async def test_a_test_says_what_happened_also_while_a_channel_pauses(tmp_path: Path) -> None:
    mail, phone = Receiver(), Receiver(broken="no route to host")
    office = Office(tmp_path, {"mail": mail, "phone": phone})
    office.patience, office.pause = replace(QUICK, longest_pause=1000.0), 1000.0
    async with office.open():
        await office.tell(1)
        await until(lambda: phone.tries == 1)
        found = await office.service.test(None)
        with pytest.raises(NoSuchChannel, match="there are mail, phone"):
            await office.service.test("post")
    outcomes = {one.entry.deliveries[0].channel: one.entry.deliveries[0] for one in found}
    assert (outcomes["mail"].status, outcomes["phone"].status) == (DeliveryStatus.SENT, DeliveryStatus.FAILED)
    assert outcomes["phone"].reason == "no route to host"


async def test_tests_that_fail_mark_no_channel_as_dead_and_do_not_stay_in_the_list(tmp_path: Path) -> None:
    mail, phone = Receiver(), Receiver(broken="no route to host")
    office = Office(tmp_path, {"mail": mail, "phone": phone})
    async with office.open():
        for _ in range(4):
            [found] = await office.service.test("phone")
            assert found.entry.deliveries[0].status is DeliveryStatus.FAILED
            office.now += timedelta(seconds=1)
        assert not office.service.newest(10, only_open=True)
        assert not office.service.dead_channels()
        await office.service.test("mail")
    assert mail.kinds == ["test"]
    assert len(office.service.newest(10)) == 5


async def test_a_channel_that_is_removed_from_the_settings_gives_up_what_waits_for_it(tmp_path: Path) -> None:
    office = Office(tmp_path, {"mail": Receiver(broken="down"), "phone": Receiver()})
    async with office.open() as courier:
        await office.tell(1)
        await until(lambda: office.statuses("phone") == ["sent"])
        office.channels = {"phone": office.channels["phone"]}
        office.rules = Rules(channels={"phone": ChannelRules()}, zone=UTC)
        courier.adopt()
        await until(lambda: office.statuses("mail") == ["failed"])
    entry = office.announcer.outbox.get("T-1:1:0")
    assert entry is not None
    assert entry.deliveries[0].reason == "this channel is no longer in the settings"


async def test_a_fault_in_a_channel_does_not_end_the_daemon(tmp_path: Path) -> None:
    class Faulty:
        async def send(self, entry: Entry) -> str:
            raise LookupError(entry.key)

    mail = Receiver()
    office = Office(tmp_path, {"mail": mail, "faulty": Faulty()})
    async with office.open():
        await office.tell(1)
        await until(lambda: "channel_failed" in mail.kinds)
    assert "a fault in this program: LookupError" in mail.took[1].text


async def test_a_disk_that_takes_no_digest_is_told_once_and_asked_again(tmp_path: Path) -> None:
    mail = Receiver()
    office = Office(tmp_path, {"mail": mail}, Rules(channels={"mail": ChannelRules(digest_every=3600.0)}, zone=UTC))
    await office.tell(1)
    await office.tell(2)
    (tmp_path / "outbox").rename(tmp_path / "away")
    (tmp_path / "outbox").write_text("a file in its place")
    office.now += timedelta(hours=2)
    refused = 0

    def pause() -> float:
        nonlocal refused
        refused += 1
        return 0.01

    with structlog.testing.capture_logs() as logged:
        async with office.open() as courier:
            courier.pause = pause
            await until(lambda: refused > 3)
            (tmp_path / "outbox").unlink()
            (tmp_path / "away").rename(tmp_path / "outbox")
            await until(lambda: mail.kinds == ["digest"])
    assert [one["event"] for one in logged].count("digest_not_stored") == 1


async def test_a_full_disk_at_start_keeps_no_notice_from_being_known(tmp_path: Path) -> None:
    rules = Rules(channels={"mail": ChannelRules(digest_every=3600.0)}, zone=UTC)
    office = Office(tmp_path, {"mail": Receiver(broken="down")}, rules)
    for number in (1, 2):
        await office.tell(number)
    before = (tmp_path / "outbox" / "T-1:1:0.json").read_bytes()
    office.now += timedelta(hours=2)
    async with office.open():
        await until(lambda: "in_digest" in office.statuses("mail"))
    (tmp_path / "outbox" / "T-1:1:0.json").write_bytes(before)  # as a crash between the two leaves it
    (tmp_path / "outbox" / ".T-1:1:0.json.partial" / "in the way").mkdir(parents=True)
    office.reopen()
    assert office.statuses("mail").count("in_digest") == 2


async def test_files_of_others_and_torn_ones_are_left_alone(tmp_path: Path) -> None:
    office = Office(tmp_path, {"mail": Receiver()})
    await office.tell(1)
    (tmp_path / "outbox" / "torn.json").write_text('{"key": "torn", "kin')
    (tmp_path / "outbox" / "renamed.json").write_bytes((tmp_path / "outbox" / "T-1:1:0.json").read_bytes())
    (tmp_path / "channels.json").write_text("[")
    office.reopen()
    assert keys(office.announcer.outbox.entries()) == ["T-1:1:0"]
    assert (tmp_path / "outbox" / "torn.json").exists()


async def test_the_outbox_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.integrations.notices.outbox.MOST_WAITING", 5)
    monkeypatch.setattr("orchestrator.integrations.notices.outbox.MOST_KEPT", 3)
    office = Office(tmp_path, {"mail": Receiver()})
    for number in range(20):
        office.now += timedelta(minutes=1)
        await office.tell(number)
    waiting = office.announcer.outbox.waiting("mail")
    assert [one.key for one in waiting] == [f"T-1:{number}:0" for number in range(15, 20)]
    assert len(list((tmp_path / "outbox").iterdir())) == 8
    given_up = [one for one in office.announcer.outbox.entries() if not one.is_waiting]
    assert given_up[0].deliveries[0].reason == "more than 5 notices wait; this was the oldest"


async def test_what_cannot_be_stored_is_said(tmp_path: Path) -> None:
    office = Office(tmp_path, {"mail": Receiver()})
    (tmp_path / "outbox").write_text("a file in its place")
    with pytest.raises(OSError, match="exists"):
        await office.tell(1)
    with pytest.raises(OSError, match="exists"):
        await office.announcer.announce("x", MachineNoticeKind.SERVICE, "text")
