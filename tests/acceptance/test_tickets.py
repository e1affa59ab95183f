"""Tickets that lie on a tracker, handed in by name to the real daemon: fetched, worked on, or refused in words."""

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.harness import DaemonHarness
from tests.fakes.jira_server import JiraServer
from tests.fakes.repositories import git
from tests.fakes.tracker_server import Issue, Said, Status
from tests.folder_search import files_with

TOKEN = "a-token-of-jira"
PRIVATE = "-----BEGIN " + "PRIVATE KEY-----"
ISSUES = {
    "ABC-123": Issue(
        title="Slugs are wrong",
        body="h2. 요약\n\nslugify keeps spaces.\n\nh2. Acceptance criteria\n\n* [ ] no spaces",
        kind="Bug",
        priority="High",
        labels=("text",),
        comments=(Said(author="Grace", text="Also tabs."),),
    ),
    "ABC-124": Issue(title="Log in", body=PRIVATE),
}


@pytest.fixture
def jira(monkeypatch: pytest.MonkeyPatch) -> Iterator[JiraServer]:
    """A Jira, whose token is in the environment of daemons from now on."""
    monkeypatch.setenv("JIRA_API_TOKEN", TOKEN)
    with JiraServer(ISSUES, TOKEN) as server:
        yield server


def submit(harness: DaemonHarness, *words: str) -> tuple[int, str, str]:
    """What `orchestrator submit` made of it: its exit code, output and complaint."""
    done = harness.cli("submit", "--repo", str(harness.repo), *words)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout.strip(), done.stderr


def test_a_jira_ticket_is_walked_to_the_end_by_its_name(tmp_path: Path, jira: JiraServer) -> None:
    with DaemonHarness(tmp_path, trackers={"jira": {"url": jira.url}}) as harness:
        code, task, _ = submit(harness, "ABC-123")
        assert code == 0
        done = harness.wait_for_end(task)
        ticket = orjson.loads((harness.folder(task) / "ticket.json").read_bytes())
        parsed = orjson.loads((harness.folder(task) / "ticket-parsed.json").read_bytes())
        assert (ticket["ticket_id"], ticket["requirement_source"], ticket["type"]) == ("ABC-123", "jira", "bugfix")
        assert (ticket["url"], ticket["labels"]) == (f"{jira.url}/browse/ABC-123", ["text"])
        assert ticket["description"].endswith("> Also tabs.\n")
        assert parsed["fields"]["acceptance_criteria"] == [{"text": "no spaces", "checked": False}]
        state = harness.state(task)
        assert (state["requirement_source"], state["ticket_type"], state["priority"]) == ("jira", "bugfix", "high")
        assert state["config"]["autonomy"] == {"mode": "interactive", "on_blocked": "halt", "auto_merge": False}
        assert done.branch == "bugfix/ABC-123"
        assert all(subject.startswith("ABC-123: ") for subject in harness.subjects(task))


def test_the_trackers_token_reaches_no_agent_and_no_file(tmp_path: Path, jira: JiraServer) -> None:
    with DaemonHarness(tmp_path, trackers={"jira": {"url": jira.url}}) as harness:
        harness.wait_for_end(submit(harness, "ABC-123")[1])
        assert files_with(tmp_path, TOKEN.encode()) == []


def test_the_same_ticket_twice_is_refused_while_it_is_at_work_and_else_gets_a_branch_of_its_own(
    tmp_path: Path, jira: JiraServer
) -> None:
    with DaemonHarness(
        tmp_path, scenario={"ANALYSIS": [{"think_ms": 20_000}]}, trackers={"jira": {"url": jira.url}}
    ) as harness:
        first = submit(harness, "ABC-123")[1]
        code, out, said = submit(harness, f"{jira.url}/browse/ABC-123")
        assert (code, out) == (5, "")
        assert f"already has a task in this repository: {first}" in said
        code, second, _ = submit(harness, "ABC-123", "--again", "--type", "feature")
        assert code == 0
        assert harness.client.task(second).branch == "feature/ABC-123"
        harness.client.request(first, "cancel")
        harness.wait_for_end(first, TaskStatus.CANCELLED)


def test_a_second_round_of_a_ticket_leaves_the_first_branch_alone(tmp_path: Path, jira: JiraServer) -> None:
    with DaemonHarness(tmp_path, trackers={"jira": {"url": jira.url}}) as harness:
        first, second = (harness.wait_for_end(submit(harness, "ABC-123")[1]) for _ in range(2))
        assert second.branch.startswith("bugfix/ABC-123-")
        assert git(harness.repo, "rev-parse", first.branch) == first.head != second.head


@pytest.mark.parametrize(
    ("words", "mishaps", "refusal"),
    [
        ("ABC-999", [], (4, "ABC-999 on 127.0.0.1")),
        ("ABC-124", [], (2, "private_key_pem in line 1")),
        ("ABC-123", [Status(401)], (1, "into JIRA_API_TOKEN")),
        ("ABC-123", [Status(503, {"Retry-After": "3600"})], (1, "try again after 3600 s")),
        ("https://elsewhere.example/browse/ABC-1", [], (2, "is on no configured tracker")),
    ],
    ids=["no such ticket", "a secret", "login", "busy", "a stranger"],
)
def test_what_cannot_be_fetched_is_refused_with_what_to_do(
    tmp_path: Path, jira: JiraServer, words: str, mishaps: list[Status], refusal: tuple[int, str]
) -> None:
    with DaemonHarness(tmp_path, trackers={"jira": {"url": jira.url}}) as harness:
        jira.mishaps = [*mishaps]
        code, out, said = submit(harness, words)
        assert (code, out) == (refusal[0], "")
        assert refusal[1] in said
        assert not list((harness.data / "tasks").glob("*"))
        quarantined = list((harness.data / "quarantine").glob("*.txt"))
        assert [PRIVATE in path.read_text() for path in quarantined] == [True] * (words == "ABC-124")


def test_a_tracker_that_is_set_up_later_is_asked_from_then_on(tmp_path: Path, jira: JiraServer) -> None:
    with DaemonHarness(tmp_path) as harness:
        code, _, said = submit(harness, "ABC-123")
        assert (code, "names a ticket on jira, and none is set up" in said) == (2, True)
        with (tmp_path / "orchestrator.toml").open("a") as settings:
            settings.write(f'[trackers.jira]\nurl = "{jira.url}"\n')
        harness.wait_for(
            "the new settings", lambda: any(line.get("event") == "settings_applied" for line in harness.log)
        )
        assert submit(harness, "ABC-123")[0] == 0
