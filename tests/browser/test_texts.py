"""Long texts in a browser: comments on lines, files that load when they are seen, a transcript that grows."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Visiting
from tests.browser.site import SeededSite, seeded_site
from tests.fakes.seeded_folder import Size
from tests.integration.test_transcript_windows import said

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SMALL = Size(crowd=4, histories=1, journal=40, transcript=60_000)


def begun(folder: Path) -> Path:
    """The output of an agent that has not ended."""
    folder.mkdir(parents=True)
    return folder / "stdout.jsonl"


def say(output: Path, first: int, count: int) -> None:
    """Let the agent go on."""
    with output.open("ab") as grown:
        grown.writelines(said(f"entry {number}.") for number in range(first, first + count))


async def test_a_comment_on_a_line_is_kept_and_sent_as_the_feedback_of_the_review(
    visit: Visiting, tmp_path: Path
) -> None:
    with seeded_site(tmp_path, SMALL) as found:
        reader = await visit(found)
        page = await reader.open(f"/tasks/{found.seeded.review}/diff")
        changed = page.locator(".diff-file", has_text="search/query.py")
        await changed.evaluate("(one) => one.scrollIntoView()")
        await changed.locator("tr.added a.at").first.click()
        await page.get_by_label("Comment on line").fill("why <b>this</b>?")
        await page.get_by_role("button", name="Keep for the review").click()
        await expect(page.locator(".kept li")).to_have_count(1)
        await expect(page.locator("tr.note")).to_contain_text("why <b>this</b>?")
        await page.get_by_label("What has to be different").fill("Mend it.")
        await page.get_by_role("button", name="Request changes with your comments").click()
        await expect(page.locator(".kept li")).to_have_count(0)
        (answered,) = found.harness.journal(found.seeded.review, "AskAnswered")
        assert answered["event"]["answer"].startswith("Mend it.\n\nsearch/query.py:1: why <b>this</b>?")
        assert reader.seen.faults == []


async def test_a_review_is_not_answered_while_a_typed_comment_is_neither_kept_nor_dropped(
    visit: Visiting, tmp_path: Path
) -> None:
    with seeded_site(tmp_path, SMALL) as found:
        reader = await visit(found)
        page = await reader.open(f"/tasks/{found.seeded.review}/diff")
        changed = page.locator(".diff-file", has_text="search/query.py")
        await changed.evaluate("(one) => one.scrollIntoView()")
        await changed.locator("tr.added a.at").first.click()
        typed = page.get_by_label("Comment on line")
        await typed.fill("why?")
        await page.get_by_label("What has to be different").fill("Mend it.")
        for name, form in (("Request changes", "#send-review"), ("Approve", "#approve-review")):
            await page.get_by_role("button", name=name, exact=True).click()
            await expect(page.locator(f"{form} .problem")).to_have_text("Keep or drop your comment on line 1 first.")
            await expect(typed).to_be_focused()
        assert found.harness.journal(found.seeded.review, "AskAnswered") == []
        await page.get_by_role("button", name="Cancel").click()
        await page.get_by_role("button", name="Request changes", exact=True).click()
        await expect(page.locator("#send-review")).to_have_count(0)
        (answered,) = found.harness.journal(found.seeded.review, "AskAnswered")
        assert answered["event"]["answer"] == "Mend it."
        assert reader.seen.faults == []


async def test_side_by_side_and_a_comment_work_without_scripts(visit: Visiting, tmp_path: Path) -> None:
    with seeded_site(tmp_path, SMALL) as found:
        reader = await visit(found, java_script=False)
        page = await reader.open(f"/tasks/{found.seeded.review}/diff?view=split")
        await page.locator(".diff-file", has_text="search/query.py").get_by_role("link").click()
        await page.locator("table.diff.split a.at").first.click()
        await page.get_by_label("Comment on line").fill("without a script")
        await page.get_by_role("button", name="Keep for the review").click()
        await page.goto(f"{found.origin}/tasks/{found.seeded.review}/diff")
        await expect(page.locator(".kept li")).to_contain_text("without a script")
        assert reader.seen.faults == []


async def test_a_transcript_grows_while_somebody_reads_and_keeps_only_its_newest_entries(
    visit: Visiting, tmp_path: Path
) -> None:
    with seeded_site(tmp_path, SMALL) as found:
        output = begun(found.harness.folder(found.seeded.question) / "agents/9")
        say(output, 0, 90)
        reader = await visit(found)
        page = await reader.open(f"/tasks/{found.seeded.question}/transcript/9")
        await page.get_by_label("Follow the end").check()
        for first in range(90, 690, 100):
            say(output, first, 100)
            await page.evaluate("htmx.trigger(document.body, 'live:tick')")
            await expect(page.get_by_text(f"entry {first + 99}.", exact=True)).to_be_visible()
        await expect(page.locator("li.entry")).to_have_count(500)
        assert await page.get_by_text("entry 189.", exact=True).count() == 0
        await expect(page.get_by_text("entry 689.", exact=True)).to_be_in_viewport()
        await page.get_by_role("link", name="Earlier").click()
        await expect(page.get_by_text("entry 189.", exact=True)).to_be_visible()
        assert reader.seen.faults == []


async def test_a_jump_leads_to_an_error_and_a_search_to_its_words(visit: Visiting, library: SeededSite) -> None:
    reader = await visit(library)
    page = await reader.open(f"/tasks/{library.seeded.long}/transcript/2?at=0")
    await page.get_by_role("link", name="Next error").click()
    await expect(page.locator("li.entry:target")).to_contain_text("ModuleNotFoundError")
    await page.get_by_label("Find in the transcript").fill("NEEDLE in the")
    await page.get_by_role("button", name="Find").click()
    await expect(page.locator("li.entry")).to_have_count(1)
    assert reader.seen.faults == []
