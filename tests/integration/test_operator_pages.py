"""The pages about everything, on a folder as a busy month leaves it: what they show agrees with the API."""

import re
import shutil
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from orchestrator.daemon.startup import load_tasks
from orchestrator.formats.codec import Json
from orchestrator.server.report_texts import WAITED_FOR
from orchestrator.server.report_words import say
from orchestrator.settings.loading import load_settings
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon
from tests.fakes.seeded_folder import Seeded, Size, seed

SECRET = "hunter2-hunter2-hunter2"
PAGES = (
    *("/report", "/report?hours=168", "/limits", "/limits?days=30", "/limits/now", "/pipelines", "/pipelines/full"),
    *("/schedules", "/schedules/all/list", "/schedules/remove-dead-code", "/schedules/new/form", "/schedules/new/line"),
    *("/schedules/remove-dead-code/change", "/schedules/remove-dead-code/now", "/backups", "/backups/now"),
    *(
        "/intake",
        "/intake?refused=true",
        "/intake/now",
        "/notifications",
        "/notifications?open=true",
        "/disk",
        "/disk/now",
    ),
    *("/settings", "/settings?set=true", "/doctor", "/agents", "/agents/running", "/audit", "/audit?by=ada"),
)


class Text(HTMLParser):
    """Collects the words of a page, the addresses of its links, and what a strict policy would refuse."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.links: list[str] = []
        self.refused: list[str] = []
        self.ids: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "a":
            self.links.append(found.get("href") or "")
        if "id" in found:
            self.ids.append(found["id"] or "")
        if "style" in found or any(name.startswith("on") for name in found) or (tag == "script" and "src" not in found):
            self.refused.append(self.get_starttag_text() or "")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Seeded]:
    """A seeded folder, to be copied."""
    folder = tmp_path_factory.mktemp("library")
    return folder, seed(folder / "data", folder / "repo", Size(crowd=30, histories=4, journal=50, transcript=1000))


@pytest.fixture
def seeded(library: tuple[Path, Seeded]) -> Seeded:
    return library[1]


@pytest.fixture
def daemon(tmp_path: Path, library: tuple[Path, Seeded], monkeypatch: pytest.MonkeyPatch) -> InProcessDaemon:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("data", "repo"):
        shutil.copytree(library[0] / name, tmp_path / name, symlinks=True)
    found = create_daemon(tmp_path / "data")
    load_tasks(found.store, found.supervisor, (), found.provisions)
    return found


async def read(client: httpx.AsyncClient, path: str) -> Text:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return Text(answer.text)


async def test_every_page_answers_and_keeps_the_strict_policy(client: httpx.AsyncClient) -> None:
    for path in PAGES:
        page = await read(client, path)
        assert page.refused == [], path
        assert len(page.ids) == len(set(page.ids)), path
        assert "Undefined" not in page.text


async def test_the_report_s_page_says_what_the_api_says(client: httpx.AsyncClient, seeded: Seeded) -> None:
    page = await read(client, "/report?hours=168")
    found = (await client.get("/api/report")).json()
    assert f"/tasks/{seeded.completed}" in page.links
    assert {f"/tasks/{one['id']}" for one in (*found["finished"], *found["problems"])} <= set(page.links)
    assert {one["task"] for one in found["waiting"]} >= {seeded.question, seeded.review, seeded.dependency}
    assert all(one["command"] in page.text for one in found["waiting"])


async def test_the_report_s_page_says_what_stood_still_as_the_report_does(client: httpx.AsyncClient) -> None:
    stops = (await client.get("/api/report?format=json", params={"since": "2026-01-01T00:00:00Z"})).json()["stops"]
    hours = {"hours": 31 * 24}
    assert stops
    for language, heading, still in (("en", "Stood still", "still"), ("ko", "멈춰 있던 시간", "계속")):
        answer = await client.get("/report", params=hours, headers={"Accept-Language": language})
        rows = re.search(rf'id="stops">{heading}</h2>(.*?)</section>', answer.text, re.DOTALL)
        assert rows
        for one in stops:
            assert f'/tasks/{one["task"]}"' in rows[1]
            assert say(language, WAITED_FOR[one["reason"]]) in rows[1]
        assert rows[1].count(f">{still}</span>") == sum(not one["isOver"] for one in stops)


async def test_charts_have_their_numbers_in_a_table(client: httpx.AsyncClient) -> None:
    page = (await client.get("/limits?days=30")).text
    stats = (await client.get("/api/stats?days=30")).json()
    for dimension in ("repo", "pipeline", "role", "model"):
        assert f'id="by-{dimension}"' in page
        spenders = [one for one in stats["divisions"][dimension] if one["total"]["spent"]["usd"]]
        assert spenders
        for one in spenders:
            assert f"${one['total']['spent']['usd']:,.2f}" in Text(page).text
    assert page.count('<svg class="chart"') == 4


async def test_limits_are_forgotten_by_a_form(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    daemon.supervisor.shared.recall(daemon.store.account())
    assert "used up" in (await read(client, "/limits/now")).text
    answer = await client.post("/limits/forget", data={"next": "/limits"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/limits")
    assert "used up" not in (await read(client, "/limits/now")).text


async def test_a_pipeline_s_page_draws_it_and_lists_its_conditions(client: httpx.AsyncClient) -> None:
    answer = await client.get("/pipelines/full")
    assert answer.text.count('<g class="node') == 7
    assert "it has failed 3 times (eval_cycles)" in Text(answer.text).text
    assert (await client.get("/pipelines/there-is-none")).status_code == 404
    assert "/pipelines/full" in (await read(client, "/pipelines")).links


async def test_errors_of_definitions_are_shown_with_file_and_line(client: httpx.AsyncClient, tmp_path: Path) -> None:
    folder = tmp_path / "config/orchestrator/pipelines"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text('name = "mine"\nstart = "NOWHERE"\nunknown = 1\n')
    page = await read(client, "/pipelines")
    assert f"{folder}/mine.toml:3: " in page.text
    (folder / "mine.toml").unlink()
    assert "mine.toml" not in (await read(client, "/pipelines")).text


async def test_settings_say_where_they_come_from_and_keep_secrets(
    client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.toml"
    callback = f"https://hooks.example/notify?key={SECRET}"
    file.write_text(
        f'max_agents = 3\n[agent.env]\nAPI = "{SECRET}"\n[callbacks]\ntask = "{callback}"\n[budget.day]\nusd = 7\n'
    )
    monkeypatch.setenv("ORCHESTRATOR_RETRY_DELAY", "4")
    daemon.settings = load_settings(file, {"data_dir": str(daemon.settings.data_dir)})

    answer = await client.get("/api/settings")

    found: dict[str, dict[str, Json]] = {one["name"]: one for one in answer.json()["values"]}
    assert (found["max_agents"]["value"], found["max_agents"]["source"], found["max_agents"]["line"]) == (
        "3",
        str(file),
        1,
    )
    assert (found["budget.day.usd"]["value"], found["budget.day.usd"]["line"]) == ("7", 7)
    assert (found["retry_delay"]["value"], found["retry_delay"]["source"]) == ("4", "environment")
    assert found["data_dir"]["source"] == "options"
    assert found["turn_timeout"]["source"] == "default"
    assert (found["agent.env.API"]["line"], found["agent.env.API"]["isMasked"]) == (3, True)
    assert "hooks.example/notify" in str(found["callbacks.task"]["value"])
    assert {"path": str(file), "isRead": True} in answer.json()["files"]
    page = await read(client, "/settings")
    assert f"{file}:1" in page.text
    assert SECRET not in answer.text + page.text
    only = await read(client, "/settings?set=true")
    assert "max_agents" in only.text
    assert "turn_timeout" not in only.text


async def test_the_doctor_s_page_shows_what_would_stop_the_night_and_checks_once_a_minute(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    nowhere = {"agent": {"executable": "/nowhere/claude"}, "data_dir": str(daemon.settings.data_dir)}
    daemon.settings = load_settings(None, nowhere)
    first, second = (await client.get("/api/doctor")).json(), (await client.get("/api/doctor")).json()
    assert first == second
    assert (first["ok"], first["whole"]) == (False, True)
    page = await read(client, "/doctor")
    assert "/nowhere/claude" in page.text
    assert "Something would stop an unattended night." in page.text


async def test_the_audit_s_page_is_narrowed_to_a_person_and_a_task(client: httpx.AsyncClient, seeded: Seeded) -> None:
    await client.post(f"/api/tasks/{seeded.question}/cancel")
    page = await read(client, f"/audit?task={seeded.question}&by=uid")
    assert "cancelled by" in page.text
    assert [link for link in page.links if link.startswith("/tasks/T")] == [f"/tasks/{seeded.question}"]
    assert "There is no such task" in (await read(client, "/audit?task=nope")).text


async def test_texts_of_strangers_stay_texts(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    repo = str(daemon.settings.data_dir.parent / "repo")
    body = {"text": "x", "title": "<img src=x onerror=alert(1)> ![x](http://evil.example/x)", "repo": repo}
    task = (await client.post("/api/tasks", json=body)).json()["id"]
    await client.post(f"/api/tasks/{task}/cancel")
    await daemon.inbox.settled()
    for path in ("/report", "/api/report?format=html"):
        page = (await client.get(path)).text
        assert task in page
        assert "<img" not in page
        assert Text(page).refused == []


async def test_a_blocked_task_waits_since_it_was_blocked_whatever_was_decided_later(
    client: httpx.AsyncClient, seeded: Seeded
) -> None:
    waiting = {one["task"]: one for one in (await client.get("/api/report")).json()["waiting"]}
    journal = (await client.get(f"/api/tasks/{seeded.blocked}/journal?limit=1000")).json()["entries"]
    statuses = [(entry["timestamp"], entry["metadata"]["status"]) for entry in journal]
    since = next(at for at, status in reversed(statuses) if status != "blocked")
    assert journal[-1]["trigger"] == "DaemonStarted"
    assert waiting[seeded.blocked]["since"] >= since
    assert waiting[seeded.blocked]["since"] < journal[-1]["timestamp"]


async def test_a_history_that_is_read_on_says_the_same_as_one_that_is_read_anew(
    client: httpx.AsyncClient, daemon: InProcessDaemon, seeded: Seeded
) -> None:
    for name, action in ((seeded.question, "pause"), (seeded.question, "cancel"), (seeded.blocked, "retry")):
        await client.get("/api/report")
        assert (await client.post(f"/api/tasks/{name}/{action}")).status_code == 200
    span = {"since": "2026-01-01T00:00:00Z", "until": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    read_on = (await client.get("/api/report", params=span)).json()
    daemon.service.oversight.report.histories._known.clear()  # noqa: SLF001 - as a new daemon begins
    anew = (await client.get("/api/report", params=span)).json()
    assert {**read_on, "madeAt": "", "machine": ""} == {**anew, "madeAt": "", "machine": ""}
    assert read_on["incidentCounts"]
