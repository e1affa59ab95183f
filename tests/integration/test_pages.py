"""The pages over a real socket: what they show, what their forms do, and how they follow what happens."""

import httpx
import pytest

from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.user_requests import RequestDraft, Subject
from tests.fakes.in_process_daemon import InProcessDaemon

BROWSER = {"Accept": "text/html,*/*;q=0.8"}
FROM_HTMX = {"HX-Request": "true", "HX-Trigger": "answer-1"}


async def asked(client: httpx.AsyncClient, daemon: InProcessDaemon, text: str = "Which colour?") -> str:
    """Submit a task and let its agent ask a question; return the request's id."""
    repo = str(daemon.settings.data_dir.parent / "repo")
    body = {"text": "Paint it", "repo": repo, "autonomy": "interactive"}
    task_id = (await client.post("/api/tasks", json=body)).json()["id"]
    await daemon.inbox.settled()
    draft = RequestDraft(subject=Subject.QUESTION, text=text, options=("red", "blue"))
    await daemon.let_ask(task_id, draft)
    return f"{task_id}.1"


async def test_the_first_page_shows_a_question_and_its_form_answers_it(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    request = await asked(client, daemon, "Which <b>colour</b>?")
    page = (await client.get("/")).text
    assert "Which &lt;b&gt;colour&lt;/b&gt;?" in page
    assert f'action="/requests/{request}/answer"' in page
    answer = await client.post(f"/requests/{request}/answer", data={"answer": "red", "next": "/board"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/board")
    found = (await client.get(f"/api/questions/{request}")).json()
    assert (found["status"], found["answer"]) == ("answered", "red")
    assert "Which" not in (await client.get("/now/people")).text


async def test_a_refused_form_says_why_and_a_script_puts_the_words_beside_it(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    request = await asked(client, daemon)
    await client.post(f"/requests/{request}/answer", data={"answer": "red"})
    plain = await client.post(f"/requests/{request}/answer", data={"answer": "blue"})
    assert (plain.status_code, "<html" in plain.text, "answered" in plain.text) == (409, True, True)
    scripted = await client.post(f"/requests/{request}/answer", data={"answer": "blue"}, headers=FROM_HTMX)
    assert (scripted.status_code, "<html" in scripted.text) == (409, False)
    assert scripted.headers["hx-retarget"] == "#answer-1 .problem"


async def test_a_form_moves_a_task_and_a_script_has_the_page_ask_again(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task_id = (await asked(client, daemon)).rpartition(".")[0]
    answer = await client.post(f"/tasks/{task_id}/cancel", headers={"HX-Request": "true"})
    assert (answer.status_code, answer.headers["hx-trigger"]) == (204, "live:tasks, live:task")
    assert (await client.get(f"/api/tasks/{task_id}")).json()["status"] == TaskStatus.CANCELLED
    assert (await client.post(f"/tasks/{task_id}/explode")).status_code == 404


async def test_a_page_is_told_which_tasks_changed_and_after_a_break_that_it_may_have_missed_some(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task_id = (await asked(client, daemon)).rpartition(".")[0]
    async with client.stream("GET", "/live") as stream:
        lines = stream.aiter_lines()
        mark = (await anext(lines)).removeprefix("id: ")
        await client.post(f"/api/tasks/{task_id}/pause")
        said = [await anext(lines) for _ in range(4)]
    assert f'data: ["{task_id}"]' in said
    for old, told in ((mark, f'data: ["{task_id}"]'), ("another-1", "data: null")):
        async with client.stream("GET", "/live", headers={"Last-Event-ID": old}) as stream:
            lines = stream.aiter_lines()
            assert told in [await anext(lines) for _ in range(5)]


@pytest.mark.parametrize(("path", "status"), [("/nothing/here", 404), ("/<b>x", 404), ("/everything/drain", 405)])
async def test_an_address_without_a_page_is_a_page_to_a_browser_and_a_problem_to_a_program(
    client: httpx.AsyncClient, path: str, status: int
) -> None:
    shown = await client.get(path, headers=BROWSER)
    assert (shown.status_code, shown.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert 'href="/"' in shown.text
    assert "<b>x" not in shown.text
    told = await client.get(path)
    assert (told.status_code, told.headers["content-type"]) == (status, "application/problem+json")


@pytest.mark.parametrize("path", ["/api/nothing", "/api/tasks/nobody", "/openapi.json/x"])
async def test_the_api_answers_problem_documents_to_browsers_too(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path, headers=BROWSER)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


async def test_a_page_is_in_the_language_of_its_reader(client: httpx.AsyncClient) -> None:
    assert "Needs you" in (await client.get("/", headers={"Accept-Language": "fr, en;q=0.5"})).text
    assert "확인 필요" in (await client.get("/", headers={"Accept-Language": "ko-KR,ko;q=0.9"})).text
    answer = await client.post("/language", data={"language": "ko", "next": "//evil.example"})
    assert answer.headers["location"] == "/"
    assert "확인 필요" in (await client.get("/")).text


async def test_a_static_file_is_kept_under_an_address_that_changes_with_it(client: httpx.AsyncClient) -> None:
    page = (await client.get("/")).text
    address = page.split('href="/static/css/base.css')[1].split('"')[0]
    kept = await client.get(f"/static/css/base.css{address}")
    assert "immutable" in kept.headers["cache-control"]
    assert "immutable" not in (await client.get("/static/css/base.css")).headers.get("cache-control", "")
    assert (await client.get("/static/../pages/now.py")).status_code == 404


async def test_pages_are_compressed_and_the_api_and_streams_are_not(client: httpx.AsyncClient) -> None:
    assert (await client.get("/")).headers["content-encoding"] == "gzip"
    assert "content-encoding" not in (await client.get("/api/pipelines")).headers
    async with client.stream("GET", "/live") as stream:
        assert "content-encoding" not in stream.headers
