"""The forms that change a schedule and a draft: what somebody does not change stays, and no secret is shown."""

import re
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchestrator.daemon.backup.schedule import Asked
from orchestrator.daemon.schedules.records import ScheduledWork, ScheduleStore, TaskSchedule
from orchestrator.daemon.task_factory import Submission
from orchestrator.settings.sections.backup import BackupSettings
from tests.fakes.in_process_daemon import InProcessDaemon

SECRET = "AKIA" + "Z7QK3XW5RT2YBN6M"
MASK = "[REDACTED:aws_access_key]"
SCRIPT = f"set -e\nexport AWS_KEY={SECRET}\n\nif true; then\n  make test\r\nfi\n"
CHECKS = {"unit_test": SCRIPT, "lint": "ruff check", "docs": "true"}
TEXT = f"Renew the key\r\n\r\nIt is {SECRET}.\r\n  indented\r\n"
WORK: dict[str, Any] = {"text": TEXT, "title": f"Renew {SECRET}", "checks": CHECKS, "usd": 2.5, "priority": "high"}


def shown(page: str) -> dict[str, str]:
    """Return what a browser sends of the form in a page that nobody touched."""
    found = {}
    for field in re.findall(r"<input[^>]*>", page):
        name, value = re.search(r' name="([^"]*)"', field), re.search(r' value="([^"]*)"', field)
        if name:
            found[name[1]] = unescape(value[1]).replace("\n", "") if value else ""
    for name, value in re.findall(r'<textarea[^>]* name="([^"]*)"[^>]*>\n(.*?)</textarea>', page, re.DOTALL):
        found[name] = unescape(value).replace("\r\n", "\n").replace("\n", "\r\n")
    for name, options in re.findall(r'<select[^>]* name="([^"]*)"[^>]*>(.*?)</select>', page, re.DOTALL):
        chosen = re.search(r'value="([^"]*)" selected', options)
        found[name] = unescape(chosen[1]) if chosen else ""
    return found


async def scheduled(client: httpx.AsyncClient, daemon: InProcessDaemon) -> ScheduledWork:
    """Add a schedule that is named nightly; return what it submits."""
    repo = str(daemon.settings.data_dir.parent / "repo")
    body = {"name": "nightly", "line": "0 22 * * *", "zone": "Asia/Seoul", "repo": repo, "overlap": "queue"}
    answer = await client.post("/api/schedules", json=body | WORK | {"onBlocked": "escalate", "missed": "once"})
    assert answer.status_code == 201, answer.text
    return (await daemon.service.schedules.find("nightly")).work


async def drafted(client: httpx.AsyncClient, daemon: InProcessDaemon) -> tuple[str, Submission]:
    """Submit a draft; return its id, and its submission."""
    repo = str(daemon.settings.data_dir.parent / "repo")
    answer = await client.post("/api/tasks", json={"repo": repo, "draft": True, **WORK})
    assert answer.status_code == 201, answer.text
    task_id = str(answer.json()["id"])
    return task_id, (await daemon.service.submissions.given(task_id))[1]


async def test_a_schedule_is_added_with_a_budget_and_a_command_of_two_lines(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    form = shown((await client.get("/schedules/new/form")).text)
    typed = {"line": "@daily", "text": "Tidy up", "repo": str(daemon.settings.data_dir.parent / "repo"), "usd": "2.5"}
    answer = await client.post("/schedules", data={**form, **typed, "checks": "lint=ruff check\r\n  ruff format"})
    assert answer.status_code == 303, answer.text
    work = (await daemon.service.schedules.find("tidy-up")).work
    assert (work.usd, work.checks) == (2.5, {"lint": "ruff check\nruff format"})
    nothing = await client.post("/schedules", data={**form, **typed, "usd": "much", "key": "other"})
    assert (nothing.status_code, 'id="wrong-usd"' in nothing.text) == (422, True)


async def test_a_schedule_that_is_saved_as_it_was_shown_stays_as_it_was(
    client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path
) -> None:
    await scheduled(client, daemon)
    before = (tmp_path / "data/schedules/nightly.json").read_bytes()
    page = await client.get("/schedules/nightly/change")
    assert SECRET not in page.text
    assert MASK in page.text
    answer = await client.post("/schedules/nightly/change", data=shown(page.text))
    assert answer.status_code == 303, answer.text
    assert (tmp_path / "data/schedules/nightly.json").read_bytes() == before


async def test_only_what_somebody_changed_of_a_schedule_changes(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    before = await scheduled(client, daemon)
    form = shown((await client.get("/schedules/nightly/change")).text)
    checks = form["checks"].replace("lint=ruff check", "lint=ruff check .\r\n  ruff format --check .")
    answer = await client.post(
        "/schedules/nightly/change", data={**form, "checks": checks, "usd": "", "missed": "tell"}
    )
    assert answer.status_code == 303, answer.text
    found = await daemon.service.schedules.find("nightly")
    assert found.work.checks == {**CHECKS, "lint": "ruff check .\nruff format --check ."}
    assert (found.work.text, found.work.title, found.work.on_blocked) == (TEXT, before.title, before.on_blocked)
    assert (found.work.usd, found.work.priority, found.missed, found.overlap) == (None, "high", "tell", "queue")
    assert (found.line, found.zone) == ("0 22 * * *", "Asia/Seoul")


@pytest.mark.parametrize("field", ["text", "title", "checks"])
async def test_a_mask_is_never_stored_in_the_place_of_a_secret_of_a_schedule(
    client: httpx.AsyncClient, daemon: InProcessDaemon, field: str
) -> None:
    before = await scheduled(client, daemon)
    form = shown((await client.get("/schedules/nightly/change")).text)
    changed = {**form, field: form[field].replace(MASK, f"{MASK} and more")}
    answer = await client.post("/schedules/nightly/change", data=changed)
    assert (answer.status_code, "a secret of this field is shown masked" in answer.text) == (422, True)
    assert f'id="wrong-{field}"' in answer.text
    assert (await daemon.service.schedules.find("nightly")).work == before
    written = await client.post("/schedules/nightly/change", data={**form, field: form[field].replace(MASK, "$KEY")})
    assert written.status_code == 303, written.text
    assert SECRET not in str(getattr((await daemon.service.schedules.find("nightly")).work, field))


async def test_two_people_who_change_a_schedule_do_not_undo_each_other(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    await scheduled(client, daemon)
    form = shown((await client.get("/schedules/nightly/change")).text)
    await client.patch("/api/schedules/nightly", json={"line": "0 5 * * *"})
    answer = await client.post("/schedules/nightly/change", data={**form, "title": "Mine"})
    assert (answer.status_code, "was changed meanwhile" in answer.text) == (409, True)
    assert (await daemon.service.schedules.find("nightly")).line == "0 5 * * *"
    again = {**shown(answer.text), "line": "0 5 * * *"}
    assert again["title"] == "Mine"
    assert (await client.post("/schedules/nightly/change", data=again)).status_code == 303
    found = await daemon.service.schedules.find("nightly")
    assert (found.line, found.work.title, found.work.checks) == ("0 5 * * *", "Mine", CHECKS)


async def test_a_pipeline_that_is_gone_stays_chosen_in_the_form(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    work = ScheduledWork(text="Tidy up", repo=str(daemon.settings.data_dir.parent / "repo"), pipeline="gone")
    at = datetime(2026, 5, 28, 12, 0, tzinfo=UTC)
    stored = TaskSchedule(
        id="old", line="@daily", zone="UTC", work=work, created_at=at, created_by="ada", handled=at, paused_by="ada"
    )
    ScheduleStore(daemon.settings.data_dir).save(stored)
    assert shown((await client.get("/schedules/old/change")).text)["pipeline"] == "gone"


async def test_the_api_changes_only_what_is_given_of_a_schedule(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    before = await scheduled(client, daemon)
    answer = await client.patch("/api/schedules/nightly", json={"usd": None, "text": None, "zone": "UTC"})
    assert (answer.status_code, answer.json()["zone"]) == (200, "UTC")
    found = await daemon.service.schedules.find("nightly")
    assert (found.work.usd, found.work.text, found.work.checks) == (None, before.text, before.checks)
    for body in ({}, {"name": "other"}, {"line": "sometimes"}, {"repo": "/nonexistent"}, {"usd": 0}):
        refused = await client.patch("/api/schedules/nightly", json=body)
        assert refused.status_code in {400, 422}, body
    assert await daemon.service.schedules.find("nightly") == found
    assert (await client.patch("/api/schedules/none", json={"line": "@daily"})).status_code == 404


async def test_a_draft_that_is_saved_as_it_was_shown_stays_as_it_was(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task_id, before = await drafted(client, daemon)
    page = await client.get(f"/tasks/{task_id}/edit")
    assert SECRET not in page.text
    answer = await client.post(f"/tasks/{task_id}/edit", data={**shown(page.text), "priority": "low"})
    assert answer.status_code == 303, answer.text
    draft, now = await daemon.service.submissions.given(task_id)
    assert (now.checks, now.text, now.title, now.usd) == (before.checks, before.text, before.title, before.usd)
    assert (draft.schedule.priority, SECRET in now.checks["unit_test"]) == ("low", True)


async def test_a_mask_is_never_stored_in_the_place_of_a_secret_of_a_draft(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task_id, before = await drafted(client, daemon)
    form = shown((await client.get(f"/tasks/{task_id}/edit")).text)
    changed = {**form, "checks": form["checks"].replace(MASK, f"{MASK} and more")}
    answer = await client.post(f"/tasks/{task_id}/edit", data=changed)
    assert (answer.status_code, "a secret of this field is shown masked" in answer.text) == (422, True)
    assert (await daemon.service.submissions.given(task_id))[1] == before


async def test_a_form_that_was_refused_can_be_corrected_and_sent_twice(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    form = shown((await client.get("/schedules/new/form")).text)
    repo = str(daemon.settings.data_dir.parent / "repo")
    typed = {**form, "line": "@daily", "text": "Tidy up", "repo": repo, "name": "My schedule", "usd": "much"}
    refused = await client.post("/schedules", data=typed)
    assert (refused.status_code, "a name has small letters" in refused.text) == (422, True)
    corrected = {**shown(refused.text), "name": "mine", "usd": "2"}
    for _ in range(2):
        assert (await client.post("/schedules", data=corrected)).headers["location"] == "/schedules/mine"
    change = {**shown((await client.get("/schedules/mine/change")).text), "text": f"Use {SECRET}", "usd": ""}
    for _ in range(2):
        answer = await client.post("/schedules/mine/change", data=change)
        assert (answer.status_code, answer.headers.get("location")) == (303, "/schedules/mine")
    assert (await daemon.service.schedules.find("mine")).work.text == f"Use {SECRET}"
    for _ in range(2):
        answer = await client.post("/schedules/mine/remove", data={"next": "/schedules"})
        assert (answer.status_code, answer.headers.get("location")) == (303, "/schedules")


async def test_a_change_of_a_draft_that_is_sent_twice_changes_it_once(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task_id, _ = await drafted(client, daemon)
    change = {**shown((await client.get(f"/tasks/{task_id}/edit")).text), "usd": "7", "title": "Other"}
    for _ in range(2):
        assert (await client.post(f"/tasks/{task_id}/edit", data=change)).status_code == 303
    _, now = await daemon.service.submissions.given(task_id)
    assert (now.usd, now.title) == (7.0, "Other")


async def test_people_are_shown_by_their_names(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    await scheduled(client, daemon)
    await client.post("/schedules/nightly/pause", data={})
    for path in ("/schedules", "/schedules/nightly"):
        main = (await client.get(path)).text.partition("<main")[2].partition("</main>")[0]
        assert "paused by" in main
        assert "uid:" not in main


async def test_a_backup_that_is_asked_for_twice_is_asked_for_once(
    client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path
) -> None:
    schedule = daemon.service.backups.schedule
    schedule.settings = lambda: BackupSettings(folder=tmp_path)
    for _ in range(2):
        assert (await client.post("/backups/make", data={"next": "/backups"})).status_code == 303
    assert schedule.asked == Asked(by=schedule.asked.by if schedule.asked else "")
    schedule.asked = Asked(by="ada", check="some.tar.zst")
    busy = await client.post("/backups/make", data={"next": "/backups"})
    assert (busy.status_code, "try again when that is done" in busy.text) == (422, True)
