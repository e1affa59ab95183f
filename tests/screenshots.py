"""Pictures of every page, in both schemes and two widths, of a daemon on a seeded folder.

    python -m tests.screenshots [--out DIR] [--only NAME …]

writes DIR/<page>-<light|dark>-<1280|390>.png, by default below ./screenshots. Pages that do not answer are named.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from playwright.async_api import Browser, FloatRect, async_playwright

from tests.browser.chromium import ARGUMENTS, MISSING, find_chromium
from tests.browser.pages import pages_of
from tests.browser.site import Site, seeded_site
from tests.browser.visits import PHONE, WIDE, Scheme, begin_visit
from tests.fakes.seeded_folder import Size

SIZE = Size(crowd=70, histories=50, journal=400, transcript=1_000_000)
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
TALLEST = 6000
"""Pixels; of a longer page only the beginning is shown."""


async def take(found: Site, pages: Mapping[str, str], out: Path) -> list[str]:
    """Write a picture of every page in every look; the answers that were errors."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=[*ARGUMENTS])
        looks = [(scheme, size) for scheme in SCHEMES for size in (WIDE, PHONE)]
        missed = [await _in_one_look(browser, found, pages, out, look) for look in looks]
        await browser.close()
    return sorted({answer for answers in missed for answer in answers})


async def _in_one_look(
    browser: Browser, found: Site, pages: Mapping[str, str], out: Path, look: tuple[Scheme, tuple[int, int]]
) -> list[str]:
    scheme, size = look
    reader = await begin_visit(browser, found.origin, found.link(), color_scheme=scheme, viewport=size)
    for name, path in pages.items():
        await reader.open_whole(path)
        height = min(TALLEST, int(await reader.page.evaluate("document.documentElement.scrollHeight")))
        clip: FloatRect = {"x": 0, "y": 0, "width": size[0], "height": max(height, size[1])}
        await reader.page.screenshot(path=out / f"{name}-{scheme}-{size[0]}.png", full_page=True, clip=clip)
        if overflow := await reader.overflow():
            print(f"{name}: {overflow} pixels too wide at {size[0]}", file=sys.stderr)  # noqa: T201
    await reader.context.close()
    return reader.seen.missed + reader.seen.unsafe + reader.seen.errors


def main(arguments: Iterable[str] | None = None) -> int:
    """Take all pictures; 1 if there is no Chromium."""
    options = argparse.ArgumentParser(prog="python -m tests.screenshots", description=__doc__)
    options.add_argument("--out", type=Path, default=Path("screenshots"))
    options.add_argument("--only", nargs="*", default=[], metavar="NAME")
    given = options.parse_args(None if arguments is None else [*arguments])
    if find_chromium() is None:
        print(MISSING, file=sys.stderr)  # noqa: T201
        return 1
    with tempfile.TemporaryDirectory() as folder:
        given.out.mkdir(parents=True, exist_ok=True)
        with seeded_site(Path(folder), SIZE) as found:
            every = pages_of(found.seeded)
            pages = {name: path for name, path in every.items() if name in (given.only or every)}
            missed = asyncio.run(take(found, pages, given.out))
    for answer in missed:
        print(answer, file=sys.stderr)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
