"""What holds on every page, with content, in both schemes and on a desk and a phone."""

from itertools import product
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page

from tests.browser.conftest import Visiting
from tests.browser.pages import pages_of
from tests.browser.site import SeededSite
from tests.browser.visits import PHONE, WIDE, Scheme

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PARTS = 4
"""The pages are looked at in so many tests, which may run at the same time."""
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
RULES: dict[str, Any] = {
    "runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]},
    "resultTypes": ["violations"],
}
MOVING = """
() => [...document.querySelectorAll("*")].filter((element) => {
  const style = getComputedStyle(element);
  return style.animationName !== "none" || style.transitionDuration.split(",").some((one) => parseFloat(one) > 0);
}).map((element) => element.outerHTML.slice(0, 120))
"""


async def violations(page: Page) -> list[str]:
    """What axe finds against WCAG 2.2 A and AA."""
    found = (await Axe().run(page, options=RULES)).response["violations"]
    return [
        f"{one['id']}: {node['html'][:160]} {node['failureSummary'][:300]}" for one in found for node in one["nodes"]
    ]


@pytest.mark.parametrize("part", range(PARTS))
async def test_every_page_is_accessible_and_as_wide_as_the_screen(
    visit: Visiting, library: SeededSite, part: int
) -> None:
    reader = await visit(library)
    found: list[str] = []
    for name, path in list(pages_of(library.seeded).items())[part::PARTS]:
        page = await reader.open_whole(path)
        for (width, height), scheme in product((WIDE, PHONE), SCHEMES):
            await page.set_viewport_size({"width": width, "height": height})
            await page.emulate_media(color_scheme=scheme)
            found += [f"{name}, {scheme}, {width}: {problem}" for problem in await violations(page)]
            if overflow := await reader.overflow():
                found.append(f"{name}: {overflow} pixels wider than {width}")
    assert not found, "\n".join(found)
    assert reader.seen.faults == []


async def test_nothing_moves_where_the_reader_wants_no_motion(visit: Visiting, library: SeededSite) -> None:
    reader = await visit(library, reduced_motion="reduce")
    for path in pages_of(library.seeded).values():
        page = await reader.open(path)
        assert await page.evaluate(MOVING) == [], path


async def test_a_page_that_is_not_there_says_so_as_a_page(visit: Visiting, library: SeededSite) -> None:
    reader = await visit(library)
    await reader.page.goto(f"{library.origin}/tasks/there-is-no-such-task")
    assert "there-is-no-such-task" in await reader.page.inner_text("main")
    assert await violations(reader.page) == []
    assert reader.seen.errors == []
