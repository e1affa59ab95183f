"""The pages of a task over a seeded folder: what they show, how they are paged and zoomed, and who may change what."""

import re
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from orchestrator.core.events.events import TaskSubmitted
from orchestrator.core.task.publication import Publication
from orchestrator.core.task.task import TaskStatus
from orchestrator.daemon.history.timelines import MOST_LINES
from orchestrator.storage.store import FolderStore
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving
from tests.fakes.page_reader import Page
from tests.fakes.seeded_folder import Seeded, Size, seed
from tests.fakes.seeded_texts import Words
from tests.fakes.tasks import submitted
from tests.fakes.world import START

HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(1)>"
JOURNAL = 450
PUBLISHED = {
    "WEB-1_20261121_220000": "https://forge.example/pulls/7",
    "WEB-2_20261121_220000": "javascript:alert(1)",
}
"""Tasks with the addresses of their pull requests."""


@dataclass
class Desk:
    """A daemon on a seeded folder, asked over its socket and by browsers with less than all rights."""

    daemon: InProcessDaemon
    http: httpx.AsyncClient
    seeded: Seeded

    async def page(self, path: str, **params: str | int) -> Page:
        """A page that must be there."""
        answer = await self.http.get(path, params=params or None)
        assert answer.status_code == 200, answer.text
        return Page(answer.text)

    async def token(self, scope: str) -> dict[str, str]:
        """The header of a new token."""
        made = (await self.http.post("/api/tokens", json={"name": scope, "scope": scope})).json()
        return {"Authorization": f"Bearer {made['token']}", "Accept": "text/html"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Seeded]:
    """A folder whose people and agents wrote hostile texts."""
    root = tmp_path_factory.mktemp("seeded")
    words = Words(titles=(HOSTILE,), question=HOSTILE, reason=HOSTILE, options=(HOSTILE, "no"))
    size = Size(crowd=0, histories=0, journal=JOURNAL, transcript=1000)
    seeded = seed(root / "data", root / "repo", size, words)
    store = FolderStore(root / "data")
    for task_id, address in PUBLISHED.items():
        publication = Publication(number=7, pr_url=address, hindrances=(HOSTILE,))
        task = submitted(task_id, status=TaskStatus.CANCELLED, publication=publication, folder="", seq=1)
        store.commit(None, task, TaskSubmitted(at=START, task=task))
    store.close()
    return root, seeded


@pytest_asyncio.fixture
async def desk(folder: tuple[Path, Seeded], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    """A daemon on that folder, which listens on a free port too."""
    root, seeded = folder
    monkeypatch.setenv("XDG_CONFIG_HOME", str(root / "config"))
    monkeypatch.setenv("ORCHESTRATOR_LISTEN", "127.0.0.1:0")
    daemon = create_daemon(root / "data")
    async with serving(daemon) as client:
        yield Desk(daemon, client, seeded)
    daemon.store.close()


def verbs(page: Page, task: str) -> set[str]:
    """What the forms of a task's head do."""
    return {form.action.rpartition("/")[2] for form in page.forms if form.action.startswith(f"/tasks/{task}/")}


async def test_every_page_of_every_kind_of_task_is_sound_and_shows_hostile_texts_as_texts(desk: Desk) -> None:
    one = desk.seeded
    tasks = (one.question, one.dependency, one.review, one.blocked, one.limited, one.parent, one.long, one.completed)
    for task in tasks:
        for path in ("", "/timeline", "/journal", "/checkpoints"):
            page = await desk.page(f"/tasks/{task}{path}")
            assert HOSTILE in page.text or task == one.parent
            assert "<script>alert" not in page.source
            assert "<img" not in page.source


async def test_an_abbreviated_id_leads_to_the_whole_one(desk: Desk) -> None:
    ticket = desk.seeded.blocked.partition("_")[0]
    answer = await desk.http.get(f"/tasks/{ticket}")
    assert (answer.status_code, answer.headers["location"]) == (307, f"/tasks/{desk.seeded.blocked}")
    assert (await desk.http.get("/tasks/NOBODY-1")).status_code == 404


async def test_only_what_is_allowed_has_a_button(desk: Desk) -> None:
    for task in (desk.seeded.question, desk.seeded.blocked, desk.seeded.completed, desk.seeded.limited):
        allowed = (await desk.http.get(f"/api/tasks/{task}")).json()["allowed"]
        shown = verbs(await desk.page(f"/tasks/{task}"), task) - {"change"}
        assert shown == set(allowed) - {"answer", "provide", "approve", "request-changes", "change"}


async def test_children_are_drawn_and_listed_with_links_and_lead_back(desk: Desk) -> None:
    page = await desk.page(f"/tasks/{desk.seeded.parent}")
    child = desk.seeded.children[0]
    assert page.links.count(f"/tasks/{child}") == 2
    assert 'class="graph"' in page.source
    assert f"/tasks/{desk.seeded.parent}" in (await desk.page(f"/tasks/{child}")).links


async def test_a_long_journal_comes_in_pages_of_two_hundred_and_each_decision_is_found(desk: Desk) -> None:
    home = f"/tasks/{desk.seeded.long}/journal"
    newest = await desk.page(home)
    total = int(re.findall(r"of (\d+) decisions", newest.text)[0])
    assert total >= JOURNAL
    first = await desk.page(home, seq=1)
    assert [one for one in first.ids if one.startswith("seq-")] == [f"seq-{number}" for number in range(1, 201)]
    assert f"{home}?seq=201" in first.links
    middle = await desk.page(home, seq=333)
    assert {"seq-201", "seq-333", "seq-400"} <= set(middle.ids)
    assert f"seq-{total}" in newest.ids
    whole = await desk.page(f"{home}/333")
    assert '"seq": 333' in whole.text
    part = await desk.http.get(f"{home}/333", headers={"HX-Request": "true"})
    assert part.text.startswith("<pre")
    assert (await desk.http.get(f"{home}/{total + 1}")).status_code == 404
    assert "There are no decisions here." in (await desk.page(home, seq=9999)).text


async def test_the_timeline_is_zoomed_by_its_address(desk: Desk) -> None:
    home = f"/tasks/{desk.seeded.blocked}/timeline"
    whole = await desk.page(home)
    zooms = [link for link in whole.links if "from=" in link]
    assert zooms
    part = await desk.page(zooms[-1].replace("&amp;", "&"))
    assert 0 < part.source.count('class="bar') < whole.source.count('class="bar')
    for wrong in ({"from": "yesterday"}, {"to": "2026-11-22T00:00:00"}, {"zoom": "2"}):
        answer = await desk.http.get(home, params=wrong)
        assert (answer.status_code, "<html" in answer.text) == (400, True)


async def test_caps_and_priority_are_changed_and_an_empty_field_is_no_cap(desk: Desk) -> None:
    body = {"text": "Paint it", "repo": str(desk.daemon.settings.data_dir.parent / "repo"), "draft": True}
    home = f"/tasks/{(await desk.http.post('/api/tasks', json=body)).json()['id']}"
    sent = {"usd": "7.5", "tokens": "", "turns": "90", "hours": "", "priority": "high"}
    answer = await desk.http.post(f"{home}/change", data=sent)
    assert (answer.status_code, answer.headers.get("location")) == (303, home), answer.text
    found = (await desk.http.get(f"/api{home}")).json()
    assert found["caps"] == {"usd": 7.5, "tokens": None, "turns": 90, "hours": None}
    assert found["priority"] == "high"
    form = (await desk.page(home)).form("/change")
    assert (form.fields["usd"], form.fields["turns"], form.fields["priority"]) == ("7.5", "90", "high")
    for wrong in ({"usd": "-1"}, {"tokens": "many"}, {"hours": "inf"}, {"priority": "urgent"}):
        refused = await desk.http.post(f"{home}/change", data=wrong)
        assert refused.status_code == 400
    assert (await desk.http.get(f"/api{home}")).json()["caps"] == found["caps"]


async def test_who_may_only_look_sees_no_button_and_is_refused(desk: Desk) -> None:
    task = desk.seeded.question
    url = httpx.URL((await desk.http.post("/api/links", json={})).json()["url"])
    async with httpx.AsyncClient(base_url=f"http://{url.host}:{url.port}") as tcp:
        viewer, operator = await desk.token("view"), await desk.token("operate")
        for path in ("", "/checkpoints", "/timeline", "/journal"):
            seen = await tcp.get(f"/tasks/{task}{path}", headers=viewer)
            assert seen.status_code == 200
            assert verbs(Page(seen.text), task) == set()
            assert "/requests/" not in "".join(form.action for form in Page(seen.text).forms)
        for verb in ("pause", "cancel", "change", "retry", "checkpoints/1/pin", "checkpoints/1/restore"):
            assert (await tcp.post(f"/tasks/{task}/{verb}", headers=viewer, data={"usd": "1"})).status_code == 403
        ended = desk.seeded.completed
        assert verbs(Page((await tcp.get(f"/tasks/{ended}", headers=operator)).text), ended) == {"archive"}
        assert (await tcp.post(f"/tasks/{ended}/delete", headers=operator)).status_code == 403
        assert (await tcp.get(f"/tasks/{ended}", headers=viewer)).status_code == 200


async def test_parts_of_a_page_come_alone_for_a_script(desk: Desk) -> None:
    task = desk.seeded.blocked
    for path in ("/header", "/people", "/state", "/journal", "/timeline", "/checkpoints"):
        answer = await desk.http.get(f"/tasks/{task}{path}", headers={"HX-Request": "true"})
        assert answer.status_code == 200
        assert "<html" not in answer.text
        Page(answer.text)


async def test_of_a_journal_beyond_all_bounds_the_newest_decisions_are_drawn_and_said_to_be(desk: Desk) -> None:
    task = "ENDLESS-1_20261122_000000"
    folder = desk.daemon.settings.data_dir / "tasks" / task
    folder.mkdir()
    lines = (
        f'{{"seq":{number},"timestamp":"2026-11-22T00:00:00.000Z","task_id":"{task}","trigger":"AlarmRang",'
        '"metadata":{"stage":"DESIGN","status":"in_progress"},"change":[]}\n'
        for number in range(1, MOST_LINES + 100)
    )
    (folder / "journal.jsonl").write_text("".join(lines) + '{"task_id":"another","seq":1}\nno line\n')
    try:
        found = await desk.daemon.service.history.timelines.timeline(task)
        again = await desk.daemon.service.history.timelines.timeline(task)
        page = await desk.daemon.service.history.journals.page(task)
        with (folder / "journal.jsonl").open("a") as journal:
            journal.write("another that is no line\n")
        later = await desk.daemon.service.history.timelines.timeline(task)
    finally:
        shutil.rmtree(folder)
    assert (found.is_cut, found.unread) == (True, 2)
    assert again.intervals is found.intervals, "nothing was added, so it is not read again"
    assert again.end > found.end, "it goes on"
    assert later.unread == 3
    assert [(one.label, one.seq) for one in found.intervals] == [("DESIGN", 102)]
    assert (page.newest, page.lines[-1].seq) == (MOST_LINES + 99, MOST_LINES + 99)


async def test_a_pull_request_is_a_link_only_where_its_address_is_one_of_the_web(desk: Desk) -> None:
    good, bad = [await desk.page(f"/tasks/{task}") for task in PUBLISHED]
    assert "https://forge.example/pulls/7" in good.links
    assert not [link for link in bad.links if link.startswith("javascript")]
    assert "javascript:alert(1)" in bad.text
    assert HOSTILE in bad.text
