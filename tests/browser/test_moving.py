"""Tasks are paused, resumed, cancelled, found and picked by clicks and keys."""

from pathlib import Path
from urllib.parse import quote_plus

import pytest
from playwright.async_api import expect

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.harness import Json
from tests.browser.conftest import Visiting
from tests.browser.site import SeededSite, site

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

LATER: Json = {"think_ms": 600_000}


async def test_a_task_is_paused_resumed_and_cancelled_by_clicks(visit: Visiting, tmp_path: Path) -> None:
    with site(tmp_path, {"ANALYSIS": [LATER]}) as found:
        task = found.harness.submit()
        found.harness.wait_until_it_works(task, "ANALYSIS")
        reader = await visit(found)
        page = await reader.open(f"/tasks/{task}")
        await page.get_by_role("button", name="Pause").click()
        await expect(page.get_by_role("button", name="Resume")).to_be_visible()
        found.harness.wait_until_frozen(task)
        await page.get_by_role("button", name="Resume").click()
        await expect(page.get_by_role("button", name="Pause")).to_be_visible()
        found.harness.wait_until_it_works(task, "ANALYSIS")
        await page.locator("summary", has_text="Cancel the task").click()
        await page.get_by_role("button", name="Cancel the task").click()
        found.harness.wait_for_end(task, TaskStatus.CANCELLED)
        await expect(page.get_by_role("button", name="Pause")).to_have_count(0)
        assert [line["event"]["by"] for line in found.harness.journal(task, "CancelRequested")]
        assert reader.seen.faults == []


async def test_picked_tasks_are_paused_together(visit: Visiting, tmp_path: Path) -> None:
    with site(tmp_path, {"ANALYSIS": [LATER]}, max_agents=3) as found:
        first, second, third = (found.harness.submit(f"Ticket {number}\n") for number in range(3))
        for task in (first, second, third):
            found.harness.wait_until_it_works(task, "ANALYSIS")
        reader = await visit(found)
        page = await reader.open("/board")
        await expect(page.get_by_role("button", name="Pause")).to_be_hidden()
        for task in (first, third):
            await page.locator(f"[data-item='{task}'] [data-pick]").check()
        await page.get_by_role("button", name="Pause").click()
        for task in (first, third):
            found.harness.wait_until_frozen(task)
        await expect(page.locator(".badge.paused")).to_have_count(2)
        assert not found.harness.client.task(second).paused
        assert reader.seen.faults == []


async def test_keys_move_through_tasks_pick_open_and_search(visit: Visiting, library: SeededSite) -> None:
    reader = await visit(library)
    page = await reader.open("/tasks")
    for key in ("j", "j", "k", "x"):
        await page.keyboard.press(key)
    await expect(page.locator("[data-item] [data-pick]").first).to_be_checked()
    link = page.locator("[data-item] a.task-link").first
    await expect(link).to_be_focused()
    address = await link.get_attribute("href")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{library.origin}{address}")
    await page.go_back()
    await page.keyboard.press("/")
    await page.keyboard.type("조회 j k x")
    await expect(page.get_by_role("searchbox")).to_have_value("조회 j k x")
    assert reader.seen.faults == []


async def test_the_list_finds_a_task_by_its_words_and_by_its_ticket(visit: Visiting, library: SeededSite) -> None:
    reader = await visit(library)
    page = await reader.open("/tasks")
    for words in ("페이지 나누기", library.seeded.blocked.partition("_")[0]):
        await page.get_by_role("searchbox").fill(words)
        await page.keyboard.press("Enter")
        await page.wait_for_url(lambda address: f"text={quote_plus(words)}" in address)  # noqa: B023 - waited for here
        lines = page.locator("[data-item]")
        await expect(lines.first).to_be_visible()
        assert all(words in text for text in await lines.all_inner_texts())
    assert reader.seen.faults == []
