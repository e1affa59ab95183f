"""The forms for new tasks and drafts: nothing typed is lost, nothing is submitted twice, and what it would become."""

import re
from html import unescape
from pathlib import Path

import httpx
import pytest

from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon
from tests.fakes.repositories import commit, repository

SCRIPTED = {"HX-Request": "true"}


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InProcessDaemon:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    repository(tmp_path / "repo")
    commit(tmp_path / "repo", {".orchestrator.toml": '[checks.unit_test]\ncommand = "make test"\n'})
    return create_daemon(tmp_path / "data")


@pytest.fixture
def typed(tmp_path: Path) -> dict[str, str]:
    """What somebody types into the form; every other field is sent empty, as browsers do."""
    empty = ("reference", "title", "type", "ticket", "base", "autonomy", "usd", "at", "instant", "after", "checks")
    return {
        **dict.fromkeys(empty, ""),
        "text": "Say hello\r\n\r\nTo <all>.\r\n",
        "repo": str(tmp_path / "repo"),
        "pipeline": "review_only",
        "priority": "high",
        "draft": "true",
        "key": "made-up-key",
    }


def field(text: str, name: str) -> str:
    """The value of a field of the form in a page."""
    for pattern in (
        rf'<input[^>]* name="{name}" value="([^"]*)"',
        rf'<textarea[^>]* name="{name}"[^>]*>\n(.*?)</textarea>',
    ):
        if found := re.search(pattern, text, re.DOTALL):
            return unescape(found[1])
    chosen = re.search(rf'<select[^>]* name="{name}".*?</select>', text, re.DOTALL)
    assert chosen, name
    selected = re.search(r'value="([^"]*)" selected', chosen[0])
    return selected[1] if selected else ""


async def tasks(client: httpx.AsyncClient) -> list[str]:
    return [task["id"] for task in (await client.get("/api/tasks")).json()["tasks"]]


async def test_the_form_submits_a_task_and_leads_to_it(client: httpx.AsyncClient, typed: dict[str, str]) -> None:
    more = {"checks": "lint=ruff check --select=E\n\nunit_test = make all\n", "usd": "2.5", "ticket": "ABC-7"}
    more |= {"instant": "2999-01-01T08:30:00.000Z", "at": "2999-01-01T17:30", "autonomy": "interactive"}
    answer = await client.post("/tasks", data={**typed, **more})
    (task_id,) = await tasks(client)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/tasks/{task_id}")
    made = (await client.get(f"/api/tasks/{task_id}")).json()
    assert (made["title"], made["pipeline"], made["priority"], made["status"]) == (
        "Say hello", "review_only", "high", "draft",
    )  # fmt: skip
    assert (made["startAt"], made["autonomy"], made["caps"]["usd"]) == ("2999-01-01T08:30:00Z", "interactive", 2.5)
    assert {check["name"]: check["command"] for check in made["checks"] if check["source"] == "submitter"} == {
        "lint": "ruff check --select=E",
        "unit_test": "make all",
    }


async def test_a_form_sent_twice_makes_one_task(client: httpx.AsyncClient, typed: dict[str, str]) -> None:
    first, second = [await client.post("/tasks", data=typed) for _ in range(2)]
    assert first.headers["location"] == second.headers["location"]
    changed = await client.post("/tasks", data={**typed, "text": "Say goodbye"})
    assert (changed.status_code, field(changed.text, "text")) == (409, "Say goodbye")
    assert "was sent before" in changed.text
    assert len(await tasks(client)) == 1
    again = await client.post("/tasks", data={**typed, "text": "Say goodbye", "key": field(changed.text, "key")})
    assert again.status_code == 303
    assert len(await tasks(client)) == 2


async def test_each_form_has_a_key_of_its_own(client: httpx.AsyncClient) -> None:
    keys = {field((await client.get("/tasks/new")).text, "key") for _ in range(3)}
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("change", "at", "words"),
    [
        ({"repo": "/nowhere/at/all"}, "form", "does not exist"),
        ({"repo": "here"}, "repo", "give the repository's absolute path, such as /home/ada/textkit"),
        ({"repo": ""}, "repo", "give the repository's absolute path, such as /home/ada/textkit"),
        ({"text": ""}, "text", "give a text"),
        ({"reference": "ABC-1"}, "reference", "not both"),
        ({"checks": "make test"}, "checks", "NAME=COMMAND"),
        ({"usd": "much"}, "usd", "a budget is a number above 0, such as 5.00"),
        ({"usd": "-3"}, "usd", "a budget is a number above 0, such as 5.00"),
        ({"priority": "urgent"}, "priority", "choose 'low', 'normal'"),
        ({"ticket": "x"}, "form", "ticket key"),
        ({"at": "2001-01-01T10:00"}, "form", "is in the past"),
        ({"after": "made-up"}, "form", "there is no task"),
    ],
)
async def test_what_is_refused_is_said_beside_what_was_typed_and_nothing_is_lost(
    client: httpx.AsyncClient, typed: dict[str, str], change: dict[str, str], at: str, words: str
) -> None:
    sent = {**typed, "title": '"A" <title>', **change}
    answer = await client.post("/tasks", data=sent)
    assert answer.status_code in {404, 422}
    (wrong,) = re.findall(rf'id="wrong-{at}">(.*?)</p>', answer.text)
    assert words in unescape(wrong)
    kept = ("text", "title", "repo", "checks", "usd", "ticket", "reference", "after", "pipeline", "key")
    assert {name: field(answer.text, name) for name in kept} == {
        name: sent[name].replace("\r\n", "\n") for name in kept
    }
    assert await tasks(client) == []


async def test_without_a_script_a_file_is_the_text_and_the_time_is_in_utc(
    client: httpx.AsyncClient, typed: dict[str, str]
) -> None:
    wave = {"file": ("ticket.md", "\ufeffWave\n\nboth hands\n".encode(), "text/markdown")}
    answer = await client.post("/tasks", data={**typed, "text": "", "at": "2999-01-01T10:00"}, files=wave)
    assert answer.status_code == 303, answer.text
    (task_id,) = await tasks(client)
    made = (await client.get(f"/api/tasks/{task_id}")).json()
    assert (made["title"], made["startAt"]) == ("Wave", "2999-01-01T10:00:00Z")
    for content, words in ((b"\xff\xfe\x00", "not text"), (b"x" * 1024 * 1025, "larger than 1 MiB")):
        answer = await client.post(
            "/tasks", data={**typed, "text": "", "title": "Kept"}, files={"file": ("x", content)}
        )
        assert (answer.status_code, words in answer.text) == (422, True)
        assert (field(answer.text, "title"), field(answer.text, "key")) == ("Kept", typed["key"])


async def test_a_form_that_no_page_would_send_is_refused_as_a_page(
    client: httpx.AsyncClient, typed: dict[str, str]
) -> None:
    for change in ({"seq": "x"}, {"draft": "perhaps"}, {"repo": "/a\0b"}, {"key": "k" * 101}):
        answer = await client.post("/tasks", data={**typed, **change})
        assert (answer.status_code, "<html" in answer.text, field(answer.text, "text")) == (
            422, True, "Say hello\n\nTo <all>.\n",
        )  # fmt: skip
        assert field(answer.text, "key")
        assert (await client.post("/tasks/new/preview", data={**typed, **change}, headers=SCRIPTED)).status_code < 500


async def test_a_script_is_shown_what_the_form_would_make(
    client: httpx.AsyncClient, daemon: InProcessDaemon, typed: dict[str, str]
) -> None:
    part = (await client.post("/tasks/new/preview", data={**typed, "checks": "lint=true"}, headers=SCRIPTED)).text
    assert "<html" not in part
    assert {"unit_test", "lint"} <= set(re.findall(r'data-check="([^"]*)"', part))
    assert "make test" in part
    assert daemon.definitions.pipelines["review_only"].description in unescape(part)
    for stage in daemon.definitions.pipelines["review_only"].stages:
        assert f">{stage}</text>" in part
    assert await tasks(client) == []


async def test_a_look_at_a_form_that_is_not_complete_says_what_is_known(
    client: httpx.AsyncClient, typed: dict[str, str]
) -> None:
    for change, mark in (
        ({"repo": ""}, "Name a repository"),
        ({"usd": "x"}, "data-refusal"),
        ({"text": ""}, "data-check"),
    ):
        answer = await client.post("/tasks/new/preview", data={**typed, **change}, headers=SCRIPTED)
        assert (answer.status_code, mark in answer.text) == (200, True), mark


async def test_without_a_script_the_look_is_a_page_with_the_form_as_it_was(
    client: httpx.AsyncClient, typed: dict[str, str]
) -> None:
    text = (await client.post("/tasks/new/preview", data=typed)).text
    assert "make test" in text
    assert (field(text, "text"), field(text, "priority")) == ("Say hello\n\nTo <all>.\n", "high")


async def test_the_form_offers_repositories_of_tasks_and_may_be_filled_in_by_its_address(
    client: httpx.AsyncClient, typed: dict[str, str]
) -> None:
    await client.post("/tasks", data=typed)
    text = (await client.get("/tasks/new", params={"text": "<i>hi</i>", "pipeline": "custom"})).text
    assert f'<option value="{typed["repo"]}"></option>' in text
    assert (field(text, "repo"), field(text, "text"), field(text, "pipeline")) == (typed["repo"], "<i>hi</i>", "custom")


async def drafted(client: httpx.AsyncClient, typed: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Submit a draft; return its id, and what its form shows."""
    await client.post("/tasks", data={**typed, "checks": "lint=true", "usd": "2"})
    (task_id,) = await tasks(client)
    text = (await client.get(f"/tasks/{task_id}/edit")).text
    names = ("text", "title", "pipeline", "type", "base", "priority", "autonomy", "usd", "at", "instant", "after")
    return task_id, {name: field(text, name) for name in (*names, "checks", "seq")}


async def test_a_draft_is_shown_changed_and_submitted(client: httpx.AsyncClient, typed: dict[str, str]) -> None:
    task_id, shown = await drafted(client, typed)
    assert f'href="/tasks/{task_id}/edit"' in (await client.get(f"/tasks/{task_id}")).text
    assert (shown["text"], shown["title"], shown["checks"]) == ("Say hello\n\nTo <all>.", "Say hello", "lint=true\n")
    changes = {"title": "Greet", "checks": "", "priority": "low", "usd": "", "at": "2999-01-01T10:00", "then": "save"}
    answer = await client.post(f"/tasks/{task_id}/edit", data={**shown, **changes})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/tasks/{task_id}")
    now = (await client.get(f"/api/tasks/{task_id}")).json()
    assert (now["status"], now["title"], now["priority"], now["caps"]["usd"]) == ("draft", "Greet", "low", None)
    assert now["startAt"] == "2999-01-01T10:00:00Z"
    assert [check["name"] for check in now["checks"] if check["source"] == "submitter"] == []
    seq = field((await client.get(f"/tasks/{task_id}/edit")).text, "seq")
    await client.post(f"/tasks/{task_id}/edit", data={**shown, **changes, "seq": seq, "at": "", "then": "submit"})
    now = (await client.get(f"/api/tasks/{task_id}")).json()
    assert now["status"] in {"pending", "in_progress"}
    assert now["startAt"] is None
    assert (await client.get(f"/tasks/{task_id}/edit")).status_code == 409


async def test_saving_a_draft_that_was_not_touched_decides_nothing(
    client: httpx.AsyncClient, typed: dict[str, str]
) -> None:
    task_id, shown = await drafted(client, {**typed, "at": "2999-01-01T10:00"})
    before = (await client.get(f"/api/tasks/{task_id}/journal")).json()["entries"]
    assert (await client.post(f"/tasks/{task_id}/edit", data=shown)).status_code == 303
    assert (await client.get(f"/api/tasks/{task_id}/journal")).json()["entries"] == before


async def test_two_people_who_change_a_draft_do_not_undo_each_other(
    client: httpx.AsyncClient, typed: dict[str, str]
) -> None:
    task_id, shown = await drafted(client, typed)
    await client.patch(f"/api/tasks/{task_id}", json={"title": "Mine"})
    answer = await client.post(f"/tasks/{task_id}/edit", data={**shown, "title": "Yours"})
    assert (answer.status_code, field(answer.text, "title")) == (409, "Yours")
    assert (await client.get(f"/api/tasks/{task_id}")).json()["title"] == "Mine"
    again = {**shown, "title": "Yours", "seq": field(answer.text, "seq")}
    assert (await client.post(f"/tasks/{task_id}/edit", data=again)).status_code == 303
    assert (await client.get(f"/api/tasks/{task_id}")).json()["title"] == "Yours"


async def test_a_refused_change_of_a_draft_keeps_what_was_typed(
    client: httpx.AsyncClient, typed: dict[str, str]
) -> None:
    task_id, shown = await drafted(client, typed)
    answer = await client.post(f"/tasks/{task_id}/edit", data={**shown, "base": "made-up", "title": "Kept"})
    assert (answer.status_code, "has no branch" in answer.text) == (422, True)
    assert (field(answer.text, "base"), field(answer.text, "title")) == ("made-up", "Kept")
