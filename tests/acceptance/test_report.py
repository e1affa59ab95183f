"""The night report, statistics, metrics and the audit of a real daemon, against what its journals say."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.user_requests import RequestKind
from tests.acceptance.harness import DaemonHarness, Json
from tests.monitoring import documented_metrics, promtool

NIGHT: Json = {
    "PLANNING": [
        {"limit": {"resets_in": 1}},
        {"ask": {"tool": "Bash", "input": {"command": "rm -rf /"}}, "question": {"question": "Which `colour`?"}},
    ],
    "IMPLEMENTATION": [{"exit": 3}],
}


@contextmanager
def api_of(harness: DaemonHarness) -> Iterator[httpx.Client]:
    transport = httpx.HTTPTransport(uds=str(harness.data / "orchestrator.sock"))
    with httpx.Client(transport=transport, base_url="http://orchestrator", timeout=30) as client:
        yield client


def spent_by_state(harness: DaemonHarness, *tasks: str) -> dict[str, float]:
    days = [day for task in tasks for day in harness.state(task)["spending"]["by_day"].values()]
    return {key: sum(day[key] for day in days) for key in ("usd", "tokens", "turns")}


def sums(shares: list[Any]) -> tuple[float, ...]:
    found = [one["spent"] for one in shares]
    return round(sum(one["usd"] for one in found), 6), *(sum(one[key] for one in found) for key in ("tokens", "turns"))


def samples(text: str) -> dict[str, float]:
    rows = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in rows}


def test_a_night_is_reported_as_its_journals_tell_it(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, NIGHT, limits={"margin": 0.2}) as harness, api_of(harness) as api:
        done = harness.submit(autonomy="auto")
        harness.wait_for_end(done)
        asking = harness.submit(autonomy="interactive")
        harness.wait_until(asking, lambda now: any(one.subject == "permission" for one in now.waiting))
        harness.kill()
        harness.start()
        given_up = harness.submit(autonomy="interactive")
        harness.client.request(given_up, "cancel")
        harness.wait_for_end(given_up, TaskStatus.CANCELLED)

        report = api.get("/api/report").json()

        assert [one["id"] for one in report["finished"]] == [done]
        assert [one["verdict"] for one in report["finished"][0]["checks"]] == ["PASS"]
        assert [(one["id"], one["status"]) for one in report["problems"]] == [(given_up, "cancelled")]
        assert [(one["task"], one["kind"]) for one in report["waiting"]] == [(asking, RequestKind.QUESTION)]
        assert report["waiting"][0]["command"] == f"orchestrator answer {asking}"
        assert (report["counts"]["completed"], report["counts"]["cancelled"]) == (1, 1)
        tasks = (done, asking, given_up)
        spent = spent_by_state(harness, *tasks)
        expected = (round(spent["usd"], 6), spent["tokens"], spent["turns"])
        assert sums([{"spent": report["spent"]}]) == expected
        assert all(sums(shares) == expected for shares in report["shares"].values())
        assert {one["name"] for one in report["shares"]["role"]} == {"planner", "implementer"}
        finished = [line for task in tasks for line in harness.journal(task, "TurnFinished")]
        limited = [line for line in finished if line["event"]["error_class"] == "usage_limit"]
        met = [(one["task"], one["seq"], one["window"]) for one in report["limitsMet"]]
        assert met == [(line["task_id"], line["seq"], line["event"]["window"]) for line in limited]
        counts = report["incidentCounts"]
        assert counts["freeze"] == sum(len(harness.journal(task, "RunFrozen")) for task in tasks)
        assert counts["denied"] == 1, "the policy denied what the first task asked for"
        retries = [
            (line["task_id"], line["seq"])
            for task in tasks
            for line in harness.journal(task)
            for one in line["change"]
            if one["path"].startswith("/budgets/") and one["path"].endswith("/used") and one["value"]
        ]
        assert [(one["task"], one["seq"]) for one in report["incidents"] if one["kind"] == "retry"] == retries
        assert len(retries) == counts["retry"] == 1
        assert report["machine"]["queued"] == 0

        _is_written_in_every_format(harness, api, done)
        _is_bounded_by_its_times(api, harness, done)
        _statistics_say_the_same(api, expected)


def _is_written_in_every_format(harness: DaemonHarness, api: httpx.Client, done: str) -> None:
    text = harness.cli("report", "--since", "1h").stdout
    assert "WAITS FOR YOU\n\n- question," in text
    assert "FINISHED\n\n- " + done in text
    assert "  - checks: unit_test PASS" in text
    assert orjson.loads(harness.cli("report", "--json").stdout)["finished"][0]["id"] == done
    markdown = harness.cli("report", "--format", "markdown").stdout
    assert f"## Finished\n\n- {done}: Add slugify(text)" in markdown
    answer = api.get("/api/report?format=html")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "<h2>Finished</h2>" in answer.text
    korean = harness.cli("report", environment={"LC_ALL": "ko_KR.UTF-8"}).stdout
    assert "확인할 일\n\n- 질문," in korean
    assert harness.cli("report", "--since", "soon").returncode == 2


def _is_bounded_by_its_times(api: httpx.Client, harness: DaemonHarness, done: str) -> None:
    ended = harness.state(done)["completed_at"]
    before = api.get("/api/report", params={"until": ended}).json()
    assert before["finished"] == []
    after = api.get("/api/report", params={"since": ended}).json()
    assert [one["id"] for one in after["finished"]] == [done]
    assert after["spent"]["turns"] < before["spent"]["turns"]
    assert api.get("/api/report?since=2026-11-22T10:00:00").status_code == 400


def _statistics_say_the_same(api: httpx.Client, expected: tuple[float, ...]) -> None:
    stats = api.get("/api/stats?days=30").json()
    assert len(stats["days"]) == 30
    assert sums([stats["total"]]) == expected
    assert sums(list(stats["byDay"].values())) == expected
    for divisions in stats["divisions"].values():
        assert sums([one["total"] for one in divisions]) == expected
    assert stats["total"]["completed"] == stats["total"]["cancelled"] == 1


def test_metrics_count_what_happened_and_name_no_task(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, budget={"day": {"usd": 50}}) as harness, api_of(harness) as api:
        task = harness.submit()
        harness.wait_for_end(task)
        answer = api.get("/metrics")
        found = samples(answer.text)
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert found['orchestrator_tasks{status="completed"}'] == 1
        assert found['orchestrator_tasks_ended_total{status="completed"}'] == 1
        spent = spent_by_state(harness, task)
        assert found['orchestrator_cost_dollars_total{pipeline="full"}'] == round(spent["usd"], 6)
        assert found['orchestrator_tokens_total{pipeline="full"}'] == spent["tokens"]
        assert found["orchestrator_decisions_total"] == len(harness.journal(task))
        assert found["orchestrator_day_cost_limit_dollars"] == 50
        assert found['orchestrator_health{state="ok"}'] == 1
        assert found["orchestrator_journal_commit_seconds_count"] == len(harness.journal(task))
        assert found['orchestrator_turns_total{pipeline="full"}'] == spent["turns"]
        assert found["orchestrator_last_progress_time_seconds"] == pytest.approx(time.time(), abs=60)
        names = {line.split()[2] for line in answer.text.splitlines() if line.startswith("# TYPE")}
        ours = {name for name in names if name.startswith("orchestrator_")}
        assert {name.removesuffix("_total") for name in ours} == {
            name.removesuffix("_total") for name in documented_metrics() if name.startswith("orchestrator_")
        }
        assert len(ours) <= 40
        assert all(name.startswith("process_") for name in names - ours)
        assert task not in answer.text
        assert harness.cli("metrics", "show").stdout.startswith("# HELP orchestrator_info")
        assert promtool("check", "metrics", given=answer.text) == ""


def test_metrics_tell_since_when_people_are_awaited(tmp_path: Path) -> None:
    asking: Json = {"PLANNING": [{"question": {"question": "Which `colour`?"}}]}
    with DaemonHarness(tmp_path, asking) as harness, api_of(harness) as api:
        task = harness.submit(autonomy="interactive")
        harness.wait_until(task, lambda now: bool(now.waiting))
        found = samples(api.get("/metrics").text)
        asked = harness.state(task)["requests"][-1]["asked_at"]
        assert found['orchestrator_waiting_for_person{kind="question"}'] == 1
        oldest = found['orchestrator_waiting_for_person_oldest_time_seconds{kind="question"}']
        assert oldest == pytest.approx(datetime.fromisoformat(asked).timestamp())


def test_the_audit_says_who_did_what_newest_first_and_page_by_page(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, {"ANALYSIS": [{"think_ms": 20000}]}) as harness, api_of(harness) as api:
        first, second = harness.submit(), harness.submit()
        for task, action in ((first, "pause"), (first, "resume"), (second, "cancel"), (first, "cancel")):
            harness.client.request(task, action)
        every = api.get("/api/audit").json()
        told = [(one["task"], one["trigger"]) for one in every["entries"]]
        assert told == [
            (first, "CancelRequested"),
            (second, "CancelRequested"),
            (first, "ResumeRequested"),
            (first, "PauseRequested"),
            (second, "TaskSubmitted"),
            (first, "TaskSubmitted"),
        ]
        numbers = [one["number"] for one in every["entries"]]
        assert numbers == sorted(numbers, reverse=True)
        assert (every["before"], every["lost"]) == (None, 0)
        paged, before = [], ""
        for _ in range(3):
            page = api.get(f"/api/audit?limit=2{before}").json()
            paged += page["entries"]
            before = f"&before={page['before']}"
        assert paged == every["entries"]
        assert {one["task"] for one in api.get(f"/api/audit?task={second}").json()["entries"]} == {second}
        assert api.get("/api/audit?by=NOBODY").json()["entries"] == []
        assert len(api.get("/api/audit?by=UID:").json()["entries"]) == 6


def test_the_agents_page_shows_who_runs_and_what_that_takes(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, {"ANALYSIS": [{"think_ms": 20000}]}) as harness, api_of(harness) as api:
        task = harness.submit()
        harness.wait_until_it_works(task, "ANALYSIS")
        (running,) = api.get("/api/status").json()["running"]
        page = api.get("/agents").text
        assert (running["task"], running["role"]) == (task, "planner")
        assert f"/tasks/{task}" in page
        assert f"<dd>{running['pid']}</dd>" in page
        group = Path(f"/proc/{running['pid']}/cgroup").read_text()
        assert bool(running["cgroup"]) == ("/orchestrator-" in group)
        assert running["cgroup"] in group
        harness.client.request(task, "cancel")
        harness.wait_for_end(task, TaskStatus.CANCELLED)
        assert "No agent and no check has a process." in api.get("/agents/running").text


def test_the_daemon_examines_itself_when_it_was_away_in_the_evening_and_shows_what_it_found(tmp_path: Path) -> None:
    harness = DaemonHarness(tmp_path, doctor={"at": time.strftime("%H:%M")}, free_space_floor="900TiB")
    missed = {"format": 1, "due": "2026-01-01T00:00:00Z", "checked_at": "2026-01-01T00:00:00Z", "findings": []}
    harness.data.mkdir(mode=0o700)
    (harness.data / "doctor.json").write_bytes(orjson.dumps(missed))
    with harness, api_of(harness) as api:
        harness.wait_for("an examination", lambda: [one for one in harness.log if one["event"] == "doctor_examined"])
        brief = api.get("/api/status").json()["doctor"]
        assert brief["bad"] == 1
        assert "problems would stop the night: orchestrator doctor" in harness.cli("status").stdout
        notes = api.get("/api/report").json()["notes"]
        assert [note for note in notes if note.endswith(": disk")]
        assert samples(api.get("/metrics").text)['orchestrator_doctor_findings{level="bad"}'] == 1
        recorded = orjson.loads((harness.data / "doctor.json").read_bytes())
        assert [one["name"] for one in recorded["findings"] if one["level"] == "bad"] == ["disk"]
