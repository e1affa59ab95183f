"""One Chromium for all tests of a worker, and browsers that must have behaved when their test ends."""

from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Protocol, Unpack

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from tests.browser.chromium import ARGUMENTS, MISSING, find_chromium
from tests.browser.site import SeededSite, Site, seeded_site
from tests.browser.visits import PATIENCE, Look, Visit, begin_visit
from tests.fakes.seeded_folder import Size

MODEST = Size(crowd=36, histories=8, journal=120, transcript=60_000)


class Visiting(Protocol):
    """Begins a visit of a site with a browser of its own; at the end of the test nothing unsafe may have happened."""

    def __call__(self, site: Site, **look: Unpack[Look]) -> Awaitable[Visit]: ...


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """A Chromium without a window."""
    program = find_chromium()
    if program is None:
        pytest.skip(MISSING)
    expect.set_options(timeout=PATIENCE)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=[*ARGUMENTS])
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def visit(chromium: Browser) -> AsyncIterator[Visiting]:
    """Begin a visit; any number of them in one test."""
    begun: list[Visit] = []

    async def begin(site: Site, **look: Unpack[Look]) -> Visit:
        begun.append(await begin_visit(chromium, site.origin, site.link(), **look))
        return begun[-1]

    yield begin
    for one in begun:
        await one.context.close()
    assert [one.seen.unsafe for one in begun] == [[] for _ in begun]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeededSite]:
    """A daemon on a seeded folder, for tests that only read."""
    with seeded_site(tmp_path_factory.mktemp("library"), MODEST) as found:
        yield found
