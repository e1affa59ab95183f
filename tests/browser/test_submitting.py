"""Tickets are handed in by the form: once, however often it is clicked, typed or dropped as a file."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.acceptance.harness import Json
from tests.browser.conftest import Visiting
from tests.browser.site import site
from tests.fakes.repositories import git

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

LATER: Json = {"think_ms": 600_000}
DROP = """
(text) => {
  const given = new DataTransfer();
  given.items.add(new File([text], "ticket.md", { type: "text/markdown" }));
  return given;
}
"""


async def test_a_double_click_submits_one_task_and_shows_it(visit: Visiting, tmp_path: Path) -> None:
    with site(tmp_path, {"ANALYSIS": [LATER]}) as found:
        reader = await visit(found)
        page = await reader.open("/tasks/new")
        await page.get_by_label("What is to be done").fill("단어를 더한다\n\n목록에 단어를 더하고 시험한다.\n")
        await page.get_by_label("Repository").fill(str(found.harness.repo))
        await expect(page.locator("#preview")).to_contain_text("unit_test")
        await page.get_by_role("button", name="Submit", exact=True).dblclick()
        await expect(page.get_by_role("heading", name="단어를 더한다")).to_be_visible()
        folders = list((found.harness.data / "tasks").glob("*/journal.jsonl"))
        assert [folder.parent.name for folder in folders] == [page.url.rpartition("/")[2]]
        assert reader.seen.faults == []


async def test_a_dropped_file_is_the_ticket(visit: Visiting, tmp_path: Path) -> None:
    with site(tmp_path, {"ANALYSIS": [LATER]}) as found:
        reader = await visit(found)
        page = await reader.open("/tasks/new")
        given = await page.evaluate_handle(DROP, "Count the words\n\nOf a <b>text</b>.\n")
        await page.dispatch_event("[data-drop]", "drop", {"dataTransfer": given})
        await expect(page.get_by_label("What is to be done")).to_have_value("Count the words\n\nOf a <b>text</b>.\n")
        await page.get_by_label("Repository").fill(str(found.harness.repo))
        await page.get_by_role("button", name="Submit", exact=True).click()
        await expect(page.get_by_role("heading", name="Count the words")).to_be_visible()
        assert reader.seen.faults == []


async def test_a_form_that_is_refused_keeps_what_was_typed_and_says_why(visit: Visiting, tmp_path: Path) -> None:
    with site(tmp_path) as found:
        reader = await visit(found)
        page = await reader.open("/tasks/new")
        await page.get_by_label("What is to be done").fill("Count the words\n")
        await page.get_by_label("Repository").fill("/nowhere/at/all")
        await page.get_by_role("button", name="Submit", exact=True).click()
        await expect(
            page.locator("form#new .notice, form#new [role=alert]").filter(has_text="/nowhere/at/all").first
        ).to_be_visible()
        await expect(page.get_by_label("What is to be done")).to_have_value("Count the words\n")
        assert reader.seen.errors == []


async def test_saved_work_comes_back_as_a_branch_of_the_repository(visit: Visiting, tmp_path: Path) -> None:
    with site(tmp_path, {"ANALYSIS": [[{"run": "echo draft > note.txt"}, LATER]]}) as found:
        task = found.harness.submit()
        found.harness.wait_until_it_works(task, "ANALYSIS")
        note = found.harness.data / "worktrees" / task / "note.txt"
        found.harness.wait_for("uncommitted work", note.exists)
        found.harness.client.request(task, "pause")
        reader = await visit(found)
        page = await reader.open(f"/tasks/{task}/checkpoints")
        await page.locator("summary", has_text="Restore").first.click()
        await page.get_by_label("As a new branch").first.fill("saved/note")
        await page.get_by_role("button", name="Restore as a branch").first.click()
        found.harness.wait_for("the branch", lambda: git(found.harness.repo, "branch", "--list", "saved/note"))
        assert git(found.harness.repo, "show", "saved/note:note.txt") == "draft"
        await expect(page.locator("#checkpoints")).to_contain_text("saved/note")
        assert reader.seen.faults == []
