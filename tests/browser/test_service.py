"""What the service does by itself is looked at and steered by clicks: schedules, notifications, disk, backups."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from orchestrator.daemon.backup.notes import DailyBackups, write_daily_backups
from orchestrator.daemon.schedules.records import ScheduleStore
from orchestrator.formats.files import make_private
from tests.acceptance.harness import Json
from tests.browser.conftest import Visiting
from tests.browser.site import SeededSite, site
from tests.browser.visits import begin_visit
from tests.fakes.notice_receivers import MailServer, free_port

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

LATER: Json = {"think_ms": 600_000}
AT_ONCE: Json = {"automatic": False, "least_days": 1e-7, "logs": {"days": 1e-7}}
"""Logs of ended tasks may go at once, when somebody says so."""


async def test_a_schedule_is_added_run_paused_changed_and_removed_by_clicks(visit: Visiting, tmp_path: Path) -> None:
    with site(tmp_path, {"ANALYSIS": [LATER]}) as found:
        store, hour = ScheduleStore(found.harness.data), (datetime.now(UTC).hour + 12) % 24
        reader = await visit(found)
        page = await reader.open("/schedules")
        await page.get_by_role("link", name="New schedule").click()
        await page.wait_for_url("**/schedules/new/form")
        await page.get_by_label("When, as in crontab").press_sequentially(f"0 {hour} * * *")
        await expect(page.locator("#line-shown strong")).to_have_text(f"Every day at {hour:02}:00")
        await page.get_by_label("What is to be done").fill("Remove dead code\n\nNobody <b>calls</b> it.\n")
        await page.get_by_label("Repository").fill(str(found.harness.repo))
        await page.get_by_role("button", name="Add the schedule").dblclick()
        await expect(page.get_by_role("heading", level=1)).to_have_text("remove-dead-code")
        assert list(store.load()) == ["remove-dead-code"]

        await page.get_by_role("button", name="Run now").click()
        link = page.get_by_role("table").get_by_role("link")
        await expect(link).to_be_visible()
        task = await link.inner_text()
        await page.get_by_role("button", name="Run now").click()
        await expect(page.locator("#run-remove-dead-code .problem")).to_contain_text(task)
        assert [run.task for run in store.load()["remove-dead-code"].runs] == [task]

        await page.get_by_role("button", name="Pause").click()
        await expect(page.get_by_role("button", name="Resume")).to_be_visible()
        await page.get_by_role("button", name="Resume").click()
        await expect(page.get_by_role("button", name="Pause")).to_be_visible()

        await page.get_by_role("link", name="Change").click()
        await expect(page.get_by_label("What is to be done")).to_have_value(
            "Remove dead code\n\nNobody <b>calls</b> it.\n"
        )
        await page.get_by_label("When, as in crontab").fill("sometimes")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator("form .notice.bad").first).to_contain_text("five fields")
        await page.get_by_label("When, as in crontab").fill(f"30 {hour} * * 1-5")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator(".due-line")).to_contain_text(f"Monday to Friday at {hour:02}:30")
        await page.locator("summary", has_text="Remove").click()
        await page.get_by_role("button", name="Remove the schedule").click()
        await expect(page.get_by_text("There is no schedule.")).to_be_visible()
        assert store.load() == {}
        assert reader.seen.missed == ["409 /schedules/remove-dead-code/run", "422 /schedules/remove-dead-code/change"]
        assert reader.seen.unsafe == []


async def test_schedules_are_steered_without_scripts(visit: Visiting, tmp_path: Path) -> None:
    with site(tmp_path, {"ANALYSIS": [LATER]}) as found:
        reader = await visit(found, java_script=False)
        page = await reader.open("/schedules/new/form")
        await page.get_by_label("When, as in crontab").fill("@daily")
        await page.get_by_label("What is to be done").fill("Tidy up")
        await page.get_by_label("Repository").fill(str(found.harness.repo))
        await page.get_by_role("button", name="Add the schedule").click()
        await page.get_by_role("button", name="Pause").click()
        await expect(page.get_by_role("button", name="Resume")).to_be_visible()
        await page.get_by_role("button", name="Run now").click()
        await expect(page.get_by_role("table").get_by_role("link")).to_be_visible()
        store, checks = ScheduleStore(found.harness.data), {"lint": "set -e\n\nruff check\n  ruff format"}
        for typed in ("lint=set -e\n\n  ruff check\n    ruff format", None):
            await page.get_by_role("link", name="Change").click()
            await page.locator("summary", has_text="More options").click()
            if typed:
                await page.get_by_label("Additional checks").fill(typed)
            await page.get_by_role("button", name="Save").dblclick()
            await expect(page.get_by_role("heading", level=1)).to_have_text("tidy-up")
            assert store.load()["tidy-up"].work.checks == checks
        assert reader.seen.faults == []


async def test_a_test_of_a_channel_says_what_became_of_it(visit: Visiting, tmp_path: Path) -> None:
    with MailServer() as server:
        mail = {"type": "mail", "host": "127.0.0.1", "security": "none", "sender": "night@host.example"}
        channels = {
            "works": {**mail, "port": server.port, "to": ["ada@host.example"]},
            "closed": {**mail, "port": free_port(), "to": ["ada@host.example"]},
        }
        with site(tmp_path, None, notify={"channels": channels, "retry_pause": 0.2}) as found:
            reader = await visit(found)
            page = await reader.open("/notifications")
            for name, answer in (("works", "The test was taken."), ("closed", "ConnectionRefusedError")):
                await page.locator(f"#channel-{name}").get_by_role("button", name="Send a test").click()
                await expect(page.locator(f"#tested-{name}")).to_contain_text(answer)
            await expect(page.locator("#channel-works .badge")).to_have_text("works")
            await expect(page.locator("#channel-closed .badge")).to_have_text("unused")
            await expect(page.locator("#tested-works")).to_contain_text("The test was taken.")
            assert [mail["To"] for mail in server.mails] == ["ada@host.example"]
            assert reader.seen.faults == []


async def test_what_may_go_is_shown_first_and_removed_when_it_is_confirmed(visit: Visiting, tmp_path: Path) -> None:
    with site(tmp_path, None, retention=AT_ONCE) as found:
        task = found.harness.submit()
        found.harness.wait_for_end(task)
        logs = found.harness.folder(task) / "logs"
        before = sorted(logs.iterdir())
        assert before
        reader = await visit(found)
        page = await reader.open("/disk")
        await page.get_by_role("button", name="Show what would be removed").click()
        await expect(page.locator("#pruned")).to_contain_text("Nothing was removed.")
        await expect(page.locator("#pruned table").first).to_contain_text(task)
        assert sorted(logs.iterdir()) == before
        await page.locator("summary", has_text="Remove it now").click()
        await page.get_by_role("button", name="Remove what may go").click()
        await expect(page.locator("#pruned .notice.good")).to_be_visible()
        await expect(page.get_by_label("Removed last").locator("li").first).to_contain_text(task)
        await expect(page.locator("#pruned .notice.good")).to_be_visible()
        assert not logs.exists() or not list(logs.iterdir())
        assert reader.seen.faults == []


async def test_a_backup_is_made_by_a_click_and_then_checked(visit: Visiting, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    now = datetime.now().astimezone()
    make_private(tmp_path / "home/data")
    write_daily_backups(tmp_path / "home/data", DailyBackups(tried_at=now))
    backup = {"folder": str(folder), "at": f"{(now.hour + 2) % 24:02}:00"}
    with site(tmp_path / "home", None, backup=backup) as found:
        reader = await visit(found)
        page = await reader.open("/backups")
        await expect(page.get_by_text("There is no backup yet.")).to_be_visible()
        await page.get_by_role("button", name="Make a backup now").click()
        await expect(page.get_by_role("button", name="Check").first).to_be_visible()
        await expect(page.locator(".records .badge.ok").first).to_have_text("whole")
        made = sorted(folder.glob("*.tar.zst"))
        made[-1].write_bytes(b"damaged by a disk")
        await page.get_by_role("button", name="Check").first.click()
        await expect(page.locator(".records .badge.failed")).to_have_text("damaged")
        assert reader.seen.faults == []


@pytest.mark.parametrize("scope", ["view", "operate"])
async def test_whoever_may_less_is_shown_no_button_and_refused(
    chromium: Browser, library: SeededSite, scope: str
) -> None:
    reader = await begin_visit(chromium, library.origin, library.link(scope))
    for path in ("/schedules", "/schedules/tidy-docs", "/intake", "/notifications", "/disk", "/backups"):
        page = await reader.open(path)
        if scope == "view" or path in {"/disk", "/backups"}:
            assert await page.locator("main button").count() == 0, path
    send, own = reader.page.request.post, {"Origin": library.origin}
    for path in ("/disk/prune", "/backups/make"):
        assert (await send(f"{library.origin}{path}", form={"how": "remove"}, headers=own)).status == 403
    answer = await send(f"{library.origin}/schedules/tidy-docs/pause", form={}, headers=own, max_redirects=0)
    assert answer.status == (403 if scope == "view" else 303)
    assert reader.seen.faults == []
    await reader.context.close()
