"""People answer what agents ask, by clicking: each answer counts once, whoever else looks and whatever happens."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from orchestrator.core.task.task_policy import Autonomy
from tests.acceptance.harness import Json
from tests.browser.conftest import Visiting
from tests.browser.site import site
from tests.folder_search import files_with

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

ASKING: Json = {"autonomy": Autonomy.INTERACTIVE}
QUESTION: Json = {"question": {"question": "Which alphabet?", "options": ["Latin", "All"], "required": True}}
FREE: Json = {"question": {"question": "What is the <b>name</b>?", "required": True}}
KEY: Json = {"dependency": {"type": "api_key", "name": "STRIPE_KEY", "description": "For tests.", "required": "true"}}
LATER: Json = {"think_ms": 600_000}
WORK: Json = {"no_work": True, "leave": {"./words.py": "WORDS = []\n"}, "commit": "{ticket}: words", "answer": "Done."}
REWORK: Json = {**WORK, "leave": {"./words.py": "WORDS = ['a']\n"}}


async def test_a_click_on_an_option_answers_and_the_agent_goes_on(visit: Visiting, tmp_path: Path) -> None:
    with site(tmp_path, {"ANALYSIS": [[QUESTION, {"no_work": True}], LATER]}) as found:
        reader = await visit(found)
        page = await reader.open("/")
        task = found.harness.submit(**ASKING)
        await page.get_by_role("button", name="Latin").click()
        await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
        assert [line["event"]["answer"] for line in found.harness.journal(task, "AskAnswered")] == ["Latin"]
        found.harness.wait_for("the agent's next turn", lambda: len(found.harness.turn_texts(task, 1)) > 1)
        assert "Which alphabet? — Latin" in found.harness.turn_texts(task, 1)[1]
        assert reader.seen.faults == []


async def test_an_answer_in_words_is_kept_while_the_page_changes_around_it(visit: Visiting, tmp_path: Path) -> None:
    with site(tmp_path, {"ANALYSIS": [[FREE, {"no_work": True}], LATER]}, max_agents=2) as found:
        task = found.harness.submit(**ASKING)
        found.harness.wait_until_it_asks(task)
        reader = await visit(found)
        page = await reader.open("/")
        await expect(page.locator(".ask-text")).to_have_text("What is the <b>name</b>?")
        answer = page.get_by_label("Your answer")
        await answer.fill("슬러그, in <i>words</i>")
        other = found.harness.submit("Another ticket\n", **ASKING)
        await expect(page.locator(".ask-text")).to_have_count(2)
        await expect(answer.first).to_have_value("슬러그, in <i>words</i>")
        await page.get_by_role("button", name="Answer").first.click()
        await expect(page.locator(".ask-text")).to_have_count(1)
        (answered,) = found.harness.journal(task, "AskAnswered")
        assert answered["event"]["answer"] == "슬러그, in <i>words</i>"
        assert found.harness.journal(other, "AskAnswered") == []
        assert reader.seen.faults == []


async def test_a_reviewer_asks_for_changes_and_approves_what_comes_back(visit: Visiting, tmp_path: Path) -> None:
    with site(tmp_path, {"EXECUTION": [WORK, REWORK]}) as found:
        task = found.harness.submit(pipeline="custom", **ASKING)
        reader = await visit(found)
        page = await reader.open("/")
        await page.locator("summary", has_text="Request changes").click()
        await page.get_by_label("What has to be different").fill("Begin with the word a.")
        await page.get_by_role("button", name="Request changes").click()
        found.harness.wait_for("the second review", lambda: len(found.harness.client.task(task).requests) == 2)
        turns = [text for attempt in (1, 2) for text in found.harness.turn_texts(task, attempt)]
        assert any("Begin with the word a." in text for text in turns)
        await page.get_by_role("button", name="Approve").click()
        found.harness.wait_for_end(task)
        await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
        assert reader.seen.faults == []


async def test_comments_on_lines_of_a_change_go_to_the_agent_with_the_review(visit: Visiting, tmp_path: Path) -> None:
    with site(tmp_path, {"EXECUTION": [WORK, REWORK]}) as found:
        task = found.harness.submit(pipeline="custom", **ASKING)
        found.harness.wait_until_it_asks(task)
        reader = await visit(found)
        page = await reader.open(f"/tasks/{task}/diff")
        file = page.locator(".diff-file", has_text="words.py")
        await file.locator("td.n a").click()
        await page.get_by_label("Comment on line 1").fill("Why <b>empty</b>?")
        await page.get_by_role("button", name="Keep for the review").click()
        await expect(page.locator("#review-draft")).to_contain_text("words.py:1")
        await page.get_by_label("What has to be different").fill("Begin with a word.")
        await page.get_by_role("button", name="Request changes with your comments").click()
        found.harness.wait_for("the second review", lambda: len(found.harness.client.task(task).requests) == 2)
        told = "".join(text for attempt in (1, 2) for text in found.harness.turn_texts(task, attempt))
        assert [words for words in ("Why <b>empty</b>?", "words.py", "Begin with a word.") if words not in told] == []
        await expect(page.locator("#review-draft")).not_to_contain_text("words.py:1")
        assert reader.seen.faults == []


async def test_a_provided_value_is_masked_while_it_is_typed_and_shown_nowhere(visit: Visiting, tmp_path: Path) -> None:
    value = "a-value-that-nobody-else-may-see"
    with site(tmp_path, {"ANALYSIS": [[KEY, LATER], {"run": "test -n $STRIPE_KEY"}]}) as found:
        task = found.harness.submit(**ASKING)
        reader = await visit(found)
        page = await reader.open("/")
        field = page.get_by_label("Value")
        await expect(field).to_have_attribute("type", "password")
        await field.fill(value)
        await page.get_by_role("button", name="Provide").click()
        await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
        found.harness.wait_for_end(task)
        assert value not in await page.content()
        assert files_with(found.harness.data, value.encode()) == []
        assert reader.seen.faults == []


async def test_a_second_reader_sees_the_answer_of_the_first_without_reloading(visit: Visiting, tmp_path: Path) -> None:
    with site(tmp_path, {"ANALYSIS": [[QUESTION, {"no_work": True}], LATER]}) as found:
        task = found.harness.submit(**ASKING)
        found.harness.wait_until_it_asks(task)
        first, second = await visit(found), await visit(found, color_scheme="dark")
        pages = [await first.open("/"), await second.open("/")]
        for page in pages:
            await expect(page.get_by_role("button", name="All")).to_be_visible()
        await pages[0].get_by_role("button", name="All").click()
        for page in pages:
            await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
        loads = [path for path in second.seen.requests if path == "GET /"]
        assert len(loads) <= 2, "the page was not loaded anew"
        assert [*first.seen.faults, *second.seen.faults] == []


async def test_a_daemon_that_dies_while_somebody_answers_counts_the_answer_once(
    visit: Visiting, tmp_path: Path
) -> None:
    with site(tmp_path, {"ANALYSIS": [[FREE, {"no_work": True}], LATER]}) as found:
        task = found.harness.submit(**ASKING)
        found.harness.wait_until_it_asks(task)
        reader = await visit(found)
        page = await reader.open("/")
        await page.get_by_label("Your answer").fill("slug")
        found.harness.kill()
        await page.get_by_role("button", name="Answer").click()
        away = page.get_by_text("The daemon does not answer.")
        await expect(away).to_be_visible()
        await expect(page.get_by_label("Your answer")).to_have_value("slug")
        found.harness.start()
        await expect(away).to_be_hidden()
        await page.get_by_role("button", name="Answer").click()
        await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
        assert [line["event"]["answer"] for line in found.harness.journal(task, "AskAnswered")] == ["slug"]


async def test_a_reader_without_scripts_answers_too(visit: Visiting, tmp_path: Path) -> None:
    with site(tmp_path, {"ANALYSIS": [[QUESTION, {"no_work": True}], LATER]}) as found:
        task = found.harness.submit(**ASKING)
        found.harness.wait_until_it_asks(task)
        reader = await visit(found, java_script=False)
        page = await reader.open("/")
        await page.get_by_role("button", name="Latin").click()
        await expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
        assert [line["event"]["answer"] for line in found.harness.journal(task, "AskAnswered")] == ["Latin"]
        assert reader.seen.faults == []
