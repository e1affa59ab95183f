"""Whatever agents, repositories and tickets write, no page runs it, asks another host, or is reported by its policy."""

from collections.abc import Iterator

import pytest
from playwright.async_api import Browser

from tests.attacks.xss_forms import FILE_NAMES, FORMS
from tests.browser.conftest import Visiting
from tests.browser.pages import pages_of
from tests.browser.site import SeededSite, seeded_site
from tests.browser.visits import begin_visit
from tests.fakes.seeded_folder import Size
from tests.fakes.seeded_texts import Words

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

LONGEST_TITLE, LONGEST_NAME = 200, 80
ALL = "\n\n".join(FORMS)
HOSTILE = Words(
    titles=[form[:LONGEST_TITLE] for form in FORMS],
    ticket=ALL,
    question=ALL,
    options=tuple(form[:LONGEST_TITLE] for form in FORMS[::12]),
    wanted=ALL,
    artifacts={
        "analysis.md": ALL,
        "plan.md": "".join(f"## Step {number}: {form}\n\n{form}\n" for number, form in enumerate(FORMS, 1)),
        "design-v1.md": "\n".join(f"* {form}" for form in FORMS),
        "test-report.md": "".join(f"|{form}|\n|---|\n" for form in FORMS),
        **{f"{name[:LONGEST_NAME]}.md": name for name in FILE_NAMES[:150]},
    },
    change={
        "search/query.py": ALL,
        "README.md": ALL,
        **{f"names/{name[:LONGEST_NAME]}": f"{name}\n" for name in FILE_NAMES[::5]},
    },
    subject=ALL[:4000].replace("\0", ""),
    reason=ALL,
    said=FORMS,
    done=FORMS,
)
SIZE = Size(crowd=len(FORMS), histories=3, journal=60, transcript=400_000)
INSERT = "(html) => document.body.insertAdjacentHTML('beforeend', html)"
OPEN_ALL = "() => document.querySelectorAll('details').forEach((one) => { one.open = true; })"
TOUCH_ALL = """
() => document.querySelectorAll("main *").forEach((one) => {
  for (const kind of ["mouseover", "focus", "toggle", "animationstart", "pointerenter"]) {
    one.dispatchEvent(new Event(kind, { bubbles: true }));
  }
})
"""


@pytest.fixture(scope="module")
def haunted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeededSite]:
    """A daemon on a folder in which every text is an attack."""
    with seeded_site(tmp_path_factory.mktemp("haunted"), SIZE, HOSTILE) as found:
        yield found


async def test_no_page_runs_or_asks_for_what_hostile_words_want(visit: Visiting, haunted: SeededSite) -> None:
    reader = await visit(haunted)
    shown = 0
    for path in pages_of(haunted.seeded).values():
        page = await reader.open_whole(path)
        await page.evaluate(OPEN_ALL)
        await page.evaluate(TOUCH_ALL)
        shown += (await page.inner_text("main")).count("x_ss")
        assert reader.seen.unsafe == [], path
    assert shown > len(FORMS), "the attacks are shown as text"
    assert reader.seen.faults == []


async def test_files_of_agents_are_shown_as_text_and_otherwise_only_downloaded(
    visit: Visiting, haunted: SeededSite
) -> None:
    reader = await visit(haunted)
    home = f"/tasks/{haunted.seeded.review}/artifacts"
    page = await reader.open(home)
    links = page.locator(f"main a[href^='{home}/']:not([href*='download='])")
    addresses = [str(await link.get_attribute("href")) for link in (await links.all())[:12]]
    for address in [*addresses, f"{home}/plan.md", f"{home}/test-report.md"]:
        await reader.open_whole(address)
        await page.evaluate(TOUCH_ALL)
    for name in ("plan.md", "ticket.json"):
        answer = await page.request.get(f"{haunted.origin}{home}/{name}?download=true")
        assert answer.ok
        assert answer.headers["content-disposition"].startswith("attachment")
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert reader.seen.faults == []


async def test_the_policy_of_a_page_stops_a_script_that_gets_into_it(chromium: Browser, library: SeededSite) -> None:
    reader = await begin_visit(chromium, library.origin, library.link())
    async with reader.page.expect_console_message(lambda said: said.text.startswith("VIOLATED script-src-attr")):
        await reader.page.evaluate(INSERT, "<img src=/x onerror=x_ss(1)>")
    assert reader.seen.executed == []
    await reader.context.close()


async def test_the_record_of_a_visit_misses_no_attack_that_succeeds(chromium: Browser, library: SeededSite) -> None:
    reader = await begin_visit(chromium, library.origin, library.link())
    await reader.page.goto("about:blank")
    async with reader.page.expect_console_message(lambda said: said.text.startswith("EXECUTED")):
        await reader.page.evaluate(INSERT, "<img src=http://evil.invalid/x onerror=x_ss(1)>")
    assert reader.seen.foreign == ["http://evil.invalid/x"]
    assert reader.seen.executed == ["EXECUTED 1"]
    await reader.context.close()
