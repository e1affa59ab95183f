"""What an operator reads first: who needs them, the morning report, and both in their own language."""

import re
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Visiting
from tests.browser.pages import pages_of
from tests.browser.site import SeededSite
from tests.browser.visits import ZONE

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HANGUL = re.compile("[가-힣]")


async def test_the_first_page_shows_what_needs_a_person(visit: Visiting, library: SeededSite) -> None:
    reader = await visit(library)
    page = await reader.open("/")
    await expect(page.locator(".ask-text", has_text="Should `slugify` keep letters")).to_be_visible()
    await expect(page.locator("#limits")).to_contain_text("used up")
    assert reader.seen.faults == []


async def test_the_morning_report_says_what_became_of_the_night(visit: Visiting, library: SeededSite) -> None:
    reader = await visit(library)
    page = await reader.open("/report")
    report = page.locator("main")
    for task in (library.seeded.question, library.seeded.blocked, library.seeded.completed):
        await expect(report.locator(f"a[href='/tasks/{task}']").first).to_be_visible()
    assert reader.seen.faults == []


async def test_times_are_in_the_zone_of_the_reader_with_the_whole_moment_on_hover(
    visit: Visiting, library: SeededSite
) -> None:
    reader = await visit(library)
    page = await reader.open(f"/tasks/{library.seeded.blocked}/journal")
    moment = page.locator("main li time").first
    await expect(moment).not_to_contain_text("UTC")
    stamp = str(await moment.get_attribute("datetime"))
    hour = datetime.fromisoformat(stamp).astimezone(ZoneInfo(ZONE)).strftime("%-I:%M")
    assert hour in await moment.inner_text()
    assert stamp in str(await moment.get_attribute("title"))


async def test_a_click_makes_the_pages_korean(visit: Visiting, library: SeededSite) -> None:
    reader = await visit(library)
    page = await reader.open("/")
    await page.get_by_role("button", name="한국어").click()
    await expect(page.get_by_role("heading", level=2).first).to_have_text(HANGUL)
    for path in list(pages_of(library.seeded).values())[::4]:
        await reader.open(path)
        assert await page.get_attribute("html", "lang") == "ko", path
        titles = await page.locator("main h1, main h2, nav[aria-label] a").all_inner_texts()
        assert any(HANGUL.search(title) for title in titles), path
    assert reader.seen.faults == []
