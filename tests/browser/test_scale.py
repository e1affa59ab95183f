"""A month of tasks, a long journal and a transcript of 50 MB are light for a browser."""

from collections.abc import Iterator

import pytest
from playwright.async_api import CDPSession, Page, expect

from tests.browser.conftest import Visiting
from tests.browser.site import SeededSite, seeded_site
from tests.fakes.seeded_folder import Size
from tests.fakes.seeded_texts import FIRST_ERROR, NEEDLE

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SIZE = Size(crowd=1100, histories=20, journal=2000, transcript=50_000_000)
FIRST_VISIT = 150 * 1024
"""Bytes of everything that a browser fetches the first time it shows the board."""
MOST_NODES = 15_000
MOST_GROWTH = 32 * 1024 * 1024
"""Bytes that scripts may hold more of after many parts of a long transcript were looked at."""


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeededSite]:
    """A daemon on a large folder."""
    with seeded_site(tmp_path_factory.mktemp("crowded"), SIZE) as found:
        yield found


async def nodes(page: Page) -> int:
    """How many elements the page has."""
    return int(await page.evaluate("document.querySelectorAll('*').length"))


async def heap(devtools: CDPSession) -> int:
    """How many bytes the page's scripts hold, after everything that can be was freed."""
    await devtools.send("HeapProfiler.collectGarbage")
    return int((await devtools.send("Runtime.getHeapUsage"))["usedSize"])


async def test_a_board_of_a_thousand_tasks_is_light(visit: Visiting, crowded: SeededSite) -> None:
    reader = await visit(crowded)
    devtools = await reader.context.new_cdp_session(reader.page)
    await devtools.send("Network.enable")
    await devtools.send("Network.clearBrowserCache")
    sizes: list[float] = []
    devtools.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page = await reader.open("/board")
    counts = [int(text) for text in await page.locator("[data-count]").all_inner_texts()]
    assert sum(counts) >= 1000
    assert sum(sizes) < FIRST_VISIT, f"{sum(sizes):,.0f} bytes"
    assert await nodes(page) < MOST_NODES
    assert reader.seen.faults == []


async def test_pages_of_a_task_with_thousands_of_decisions_are_bounded(visit: Visiting, crowded: SeededSite) -> None:
    reader = await visit(crowded)
    for part in ("", "/timeline", "/journal"):
        page = await reader.open(f"/tasks/{crowded.seeded.long}{part}")
        assert await nodes(page) < MOST_NODES, part
    assert reader.seen.faults == []


async def test_a_transcript_of_50_mb_is_shown_in_windows_and_searched(visit: Visiting, crowded: SeededSite) -> None:
    reader = await visit(crowded)
    devtools = await reader.context.new_cdp_session(reader.page)
    address = f"/tasks/{crowded.seeded.long}/transcript/2"
    page = await reader.open(address)
    await expect(page.locator("#entries")).to_contain_text("model calls")
    before = await heap(devtools)
    for _ in range(15):
        await page.get_by_role("link", name="Earlier").first.click()
        await page.wait_for_load_state("load")
    assert await nodes(page) < MOST_NODES
    assert await heap(devtools) < before + MOST_GROWTH
    await page.get_by_label("Find in the transcript").fill(NEEDLE)
    await page.get_by_role("button", name="Find", exact=True).click()
    await page.wait_for_url("**/*text=*")
    while await page.get_by_text(NEEDLE).count() == 0:
        await page.get_by_role("link", name="Later").first.click()
        await page.wait_for_load_state("load")
    await page.get_by_role("link", name="Next error").click()
    await expect(page.locator("#entries")).to_contain_text(FIRST_ERROR)
    assert reader.seen.faults == []
