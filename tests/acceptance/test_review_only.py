"""A review of code that stands: a report, left on its ticket, and nothing changed."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.pipelines.bundled import Kind, bundled
from tests.acceptance.harness import DaemonHarness
from tests.fakes import gateway_server
from tests.fakes.jira_server import JiraServer
from tests.fakes.repositories import git
from tests.fakes.tracker_server import Issue, Status

TOKEN = "a-token-of-jira"
ISSUES = {"ABC-7": Issue(title="Look at textkit", body="Is it right?", kind="Task")}


@pytest.fixture
def jira(monkeypatch: pytest.MonkeyPatch) -> Iterator[JiraServer]:
    """A Jira, whose token is in the environment of daemons from now on."""
    monkeypatch.setenv("JIRA_API_TOKEN", TOKEN)
    with JiraServer(ISSUES, TOKEN) as server:
        yield server


def test_a_report_is_left_on_the_ticket_whose_status_follows(tmp_path: Path, jira: JiraServer) -> None:
    with DaemonHarness(tmp_path, trackers={"jira": {"url": jira.url}}) as harness:
        task = harness.submit("ABC-7", pipeline="review_only")
        done = harness.wait_for_end(task)
        (said,) = jira.said["ABC-7"]
        report = (harness.folder(task) / "review-report.md").read_text()
        assert str(said).split() == report.split()
        assert jira.statuses["ABC-7"] == "Done"
        assert done.publication.report_url == f"{jira.url}/browse/ABC-7"
        assert git(harness.repo, "for-each-ref", "--format=%(refname)", "refs/heads") == "refs/heads/main"
        assert harness.journal(task, "BranchDelivered") == []


def test_a_report_that_was_left_and_not_heard_of_is_left_once(tmp_path: Path, jira: JiraServer) -> None:
    with DaemonHarness(tmp_path, trackers={"jira": {"url": jira.url}}) as harness:
        jira.hold()
        task = harness.submit("ABC-7", pipeline="review_only")
        harness.wait_for("the report", lambda: jira.said.get("ABC-7"))
        harness.kill()
        jira.let_go()
        harness.start()
        harness.wait_for_end(task)
        assert len(jira.said["ABC-7"]) == 1
        assert jira.statuses["ABC-7"] == "Done"


def test_a_tracker_that_takes_no_comment_holds_nothing_up(tmp_path: Path, jira: JiraServer) -> None:
    with DaemonHarness(tmp_path, trackers={"jira": {"url": jira.url}}) as harness:
        task = harness.submit("ABC-7", pipeline="review_only")
        harness.wait_until_it_works(task, "PLANNING")
        jira.mishaps = [Status(403)] * 20
        done = harness.wait_for_end(task)
        assert any("took no comment: " in one for one in done.publication.hindrances)
        assert done.publication.report_url is None
        assert (harness.folder(task) / "review-report.md").exists()


def test_by_a_gateway_the_ticket_comes_and_the_report_goes_the_same_way(tmp_path: Path) -> None:
    server = {"command": sys.executable, "args": ["-I", gateway_server.__file__, str(tmp_path)]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"gate": server}}))
    secret = "password = hunter2hunter2"
    ticket = {
        "ticket_id": "ABC-7",
        "type": "Task",
        "summary": "Look at textkit",
        "description": f"Is it right? {secret}",
    }
    (tmp_path / "tickets.json").write_text(json.dumps({"ABC-7": ticket}))
    jira = {"url": "https://jira.acme.example", "gateway": "gate"}
    agent = {
        "driver": "command",
        "command": [sys.executable, str(bundled(Kind.SCRIPTED_AGENT))],
        "env": {"ORCHESTRATOR_SCENARIO": "{}", "ORCHESTRATOR_SCRIPTED_HOME": str(tmp_path / "agent")},
        "mcp_config": str(tmp_path / "mcp.json"),
    }
    with DaemonHarness(tmp_path, trackers={"jira": jira}, agent=agent) as harness:
        task = harness.submit("ABC-7", pipeline="review_only")
        done = harness.wait_for_end(task)
        report = (harness.folder(task) / "review-report.md").read_text()
        said, status = map(json.loads, (tmp_path / "told.jsonl").read_text().splitlines())
        assert said["body"].split() == report.split()
        assert status == {"ticket_id": "ABC-7", "target": "Done"}
        assert done.publication.report_url == "https://jira.acme.example/browse/ABC-7"
        taken = json.loads((harness.folder(task) / "ticket.json").read_text())
        assert "hunter2" not in taken["description"]
