"""The pages of a task in a browser: steered by clicks, followed without reloading, zoomed by dragging."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.test_checkpoints import FOR_EVER
from tests.browser.conftest import Visiting
from tests.browser.site import SeededSite, site

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_task_is_paused_resumed_and_cancelled_by_clicks_and_the_page_follows(
    visit: Visiting, tmp_path: Path
) -> None:
    with site(tmp_path, {"ANALYSIS": [[FOR_EVER]]}) as found:
        harness = found.harness
        task = harness.submit()
        harness.wait_until_it_works(task, "ANALYSIS")
        reader = await visit(found)
        page = await reader.open(f"/tasks/{task}")
        head = page.locator("#task-head")
        await head.get_by_role("button", name="Pause").click()
        await expect(head.get_by_role("button", name="Resume")).to_be_visible()
        harness.wait_until_frozen(task)
        await expect(head).to_contain_text("a person paused it")
        await head.get_by_role("button", name="Resume").click()
        await expect(head.get_by_role("button", name="Pause")).to_be_visible()
        await head.locator("summary", has_text="Cancel the task").click()
        await head.locator(".confirm-box").get_by_role("button", name="Cancel the task").click()
        await expect(head.get_by_text("cancelled", exact=True)).to_be_visible()
        harness.wait_for_end(task, TaskStatus.CANCELLED)
        await expect(head.get_by_role("button", name="Archive")).to_be_visible()
        assert reader.seen.requests.count(f"GET /tasks/{task}") == 1, "it was never loaded again"
        assert reader.seen.faults == []


async def test_dragging_over_the_timeline_zooms_and_a_bar_leads_to_its_line(
    visit: Visiting, library: SeededSite
) -> None:
    task = library.seeded.blocked
    reader = await visit(library)
    page = await reader.open(f"/tasks/{task}/timeline")
    drawing = page.locator("svg.timeline")
    whole = await drawing.locator(".bar").count()
    box = await drawing.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 50)
    await page.mouse.down()
    await page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 52, steps=4)
    await page.mouse.up()
    await page.wait_for_url("**/timeline?from=*")
    assert 0 < await drawing.locator(".bar").count() < whole
    bar = drawing.locator("a", has=page.locator(".stage")).first
    address = await bar.get_attribute("href")
    assert address is not None
    await bar.click()
    await page.wait_for_url(f"**{address}")
    await expect(page.locator(f"#{address.partition('#')[2]}")).to_be_in_viewport()
    assert reader.seen.faults == []


async def test_a_decision_unfolds_in_place_and_stays_open_while_the_journal_grows(
    visit: Visiting, tmp_path: Path
) -> None:
    with site(tmp_path, {"ANALYSIS": [[FOR_EVER]]}) as found:
        task = found.harness.submit()
        found.harness.wait_until_it_works(task, "ANALYSIS")
        reader = await visit(found)
        page = await reader.open(f"/tasks/{task}/journal")
        await page.locator("#seq-1 .json").click()
        await expect(page.locator("#seq-1 pre")).to_contain_text('"trigger": "TaskSubmitted"')
        found.harness.client.request(task, "pause")
        await expect(page.locator(".journal")).to_contain_text("a pause was requested")
        await expect(page.locator("#seq-1 pre")).to_be_visible()
        assert page.url.endswith("/journal")
        assert reader.seen.faults == []
