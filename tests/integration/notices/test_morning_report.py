"""The morning report in the language of the notices."""

from datetime import UTC, timedelta
from pathlib import Path

import httpx

from orchestrator import clock
from orchestrator.core.notices.report_time import ReportMark
from orchestrator.daemon.notifications.morning_report import FILE, FORMAT, MorningReport
from orchestrator.formats.files import make_private
from orchestrator.formats.versioned import write_versioned
from orchestrator.server.report_writer import MorningReportWriter
from orchestrator.settings.loading import load_settings
from tests.fakes.in_process_daemon import InProcessDaemon

SETTINGS = """
[people]
notify_command = ["true"]
[notify]
language = "ko"
zone = "UTC"
[notify.report]
at = "{at:%H:%M}"
"""


async def test_the_report_and_a_late_one_s_beginning_are_korean(
    client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path
) -> None:
    now, file, folder = clock.now(), tmp_path / "mine.toml", tmp_path / "data/notifications"
    due = now - timedelta(hours=3)
    file.write_text(SETTINGS.format(at=due.astimezone(UTC)))
    daemon.settings = load_settings(file, {"data_dir": str(daemon.settings.data_dir)})
    repo = str(daemon.settings.data_dir.parent / "repo")
    await client.post("/api/tasks", json={"text": "Add <b>slugs</b>", "repo": repo})
    mark = ReportMark(day=(due - timedelta(days=1)).date(), until=now - timedelta(hours=20))
    write_versioned(make_private(folder) / FILE, mark, FORMAT)
    notices = daemon.service.notifications
    report = MorningReport(
        announcer=notices.announcer,
        reports=daemon.service.oversight.report,
        writer=MorningReportWriter(daemon.redact),
        settings=lambda: daemon.settings.notify,
        folder=folder,
    )
    await report.look()
    (entry,) = notices.announcer.outbox.entries()
    assert entry.subject == f"[orchestrator] 아침 보고서 {due.date().isoformat()}: 등록 1개, 확인할 일 없음"
    assert entry.text.startswith(f"늦은 보고서입니다. {due:%H:%M}에 보냈어야 하지만")
    assert "상태가" not in entry.text
    assert "작업: 등록 1개. 확인할 일이 없습니다." in entry.text
    assert '<html lang="ko">' in entry.html
    assert "<b>slugs" not in entry.html


async def test_the_api_writes_a_report_in_the_language_of_notices_or_another(
    client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[notify]\nlanguage = "ko"\n')
    daemon.settings = load_settings(file, {"data_dir": str(daemon.settings.data_dir)})
    assert "확인할 일이 없습니다." in (await client.get("/api/report?format=text")).text
    assert "Nothing waits for you." in (await client.get("/api/report?format=text&language=en")).text
    assert (await client.get("/api/report?format=text&language=tlh")).status_code == 400


async def test_a_task_that_stands_still_all_night_without_a_decision_is_in_the_report(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    repo = str(daemon.settings.data_dir.parent / "repo")
    task = (await client.post("/api/tasks", json={"text": "Add slugs", "repo": repo})).json()["id"]
    await daemon.inbox.settled()
    await client.post(f"/api/tasks/{task}/pause")
    evening = daemon.supervisor.tasks[task].updated_at + timedelta(milliseconds=2)
    while clock.now() <= evening:
        await client.get("/api/health")
    report = (await client.get("/api/report", params={"since": evening.isoformat()})).json()
    assert [(one["task"], one["reason"], one["isOver"]) for one in report["stops"]] == [(task, "user", False)]
    assert report["stops"][0]["seconds"] > 0
    assert report["counts"] == dict.fromkeys(report["counts"], 0)
