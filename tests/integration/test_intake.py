"""Intake and reception with real repositories and trackers on loopback: what a ticket becomes, and what is refused."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from orchestrator.core.events.events import TaskSubmitted
from orchestrator.core.task.task import Priority, Task, TaskStatus
from orchestrator.core.task.task_policy import Autonomy, OnBlocked
from orchestrator.core.task.ticket import Preflight, TicketType
from orchestrator.daemon.submissions import Submissions
from orchestrator.daemon.task_factory import AlreadyActive, Submission, SubmissionRefused, TaskFactory
from orchestrator.formats.codec import JsonObject
from orchestrator.integrations.tickets.account import Account
from orchestrator.integrations.tickets.http import NoSuchTicket
from orchestrator.integrations.tickets.trackers import Trackers
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.definition_files import Folders
from orchestrator.pipelines.definitions import load_definitions
from orchestrator.redaction.rules import Redactor, parse_rules
from orchestrator.settings import load_settings
from orchestrator.storage.state_document import from_document, to_document
from orchestrator.storage.task_files import FolderTaskFiles
from tests.fakes.github_server import GitHubServer
from tests.fakes.gitlab_server import GitLabServer
from tests.fakes.jira_server import JiraServer
from tests.fakes.repositories import repository
from tests.fakes.tracker_server import Issue, Said

NOW = datetime(2026, 5, 28, 22, 30, tzinfo=UTC)
RULES = bundled(Kind.CONFIG) / "redaction.toml"
SECRET = "AKIA" + "ABCDEFGHIJKLMNOP"
PRIVATE = "one\n-----BEGIN " + "PRIVATE KEY-----\n"
BUG = Issue(
    title=f"Login fails with {SECRET}",
    body="h2. Steps to reproduce\n\n* Log in\n\nh2. Expected\n\nA page.",
    kind="Bug",
    labels=("backend",),
    priority="Highest",
    comments=(Said(author="Grace", text=f"I used {SECRET}"),),
)


class Loop:
    """Keeps what it is given; a task that is submitted waits."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}

    async def submit(self, event: TaskSubmitted) -> Task:
        """Keep it, after others had their turn."""
        await asyncio.sleep(0)
        self.tasks[event.task.id] = event.task
        return event.task


@dataclass
class Desk:
    """A reception in a data folder of its own, and a repository to work on."""

    root: Path

    def __post_init__(self) -> None:
        self.loop, self.repo, self.tasks = Loop(), self.root / "repo", self.root / "data" / "tasks"
        self.definitions = load_definitions(
            Folders(pipelines=(bundled(Kind.PIPELINES),), roles=(bundled(Kind.AGENTS),))
        )
        self.intake = TaskFactory(
            files=FolderTaskFiles(self.tasks),
            quarantine_dir=self.root / "data" / "quarantine",
            settings=load_settings(None, {"data_dir": str(self.root / "data")}),
            pipelines=lambda: self.definitions.pipelines,
            redactor=Redactor(parse_rules(RULES.read_text(), str(RULES))),
            preflight=lambda _: Preflight(servers_registered=("cks",), env_unset=("CKS_CONFIG",)),
        )

    async def accept(self, text: str, *accounts: Account, **more: Any) -> Task:
        """What becomes of a text that is handed in."""
        reception = Submissions(
            trackers=Trackers(accounts),
            intake=self.intake,
            loop=self.loop,
            with_forge=lambda task: task,
            clock=lambda: NOW,
        )
        return await reception.accept(replace(Submission(text=text, repo=self.repo), **more), "ada")

    def written(self, task: Task, name: str) -> JsonObject:
        """A document in the task's folder."""
        document: JsonObject = orjson.loads((Path(task.folder) / name).read_bytes())
        return document

    @property
    def kept(self) -> list[Path]:
        """What lies in quarantine."""
        return sorted(self.intake.quarantine_dir.iterdir()) if self.intake.quarantine_dir.exists() else []


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Where nothing is set and nobody is logged in anywhere."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    repository(tmp_path / "repo")
    return Desk(tmp_path)


@pytest.fixture
def jira() -> Iterator[JiraServer]:
    with JiraServer({"ABC-12": BUG, "ABC-13": Issue(title="Plan", body=PRIVATE)}, "token") as server:
        yield server


async def test_a_jira_ticket_is_written_down_without_secrets(desk: Desk, jira: JiraServer) -> None:
    task = await desk.accept("ABC-12", jira.account)
    masked = "[REDACTED:aws_access_key]"
    assert (task.id, task.title) == ("ABC-12_20260528_223000", f"Login fails with {masked}")
    assert (task.ticket.key, task.ticket.type, task.ticket.source) == ("ABC-12", TicketType.BUGFIX, "jira")
    assert (task.source.branch, task.pipeline, task.schedule.priority) == ("bugfix/ABC-12", "full", Priority.CRITICAL)
    assert (task.policy.autonomy, task.policy.on_blocked) == (Autonomy.INTERACTIVE, OnBlocked.HALT)
    ticket = desk.written(task, "ticket.json")
    assert SECRET not in orjson.dumps(ticket).decode()
    assert {name: ticket[name] for name in ("ticket_id", "type", "requirement_source", "url", "labels", "status")} == {
        "ticket_id": "ABC-12",
        "type": "bugfix",
        "requirement_source": "jira",
        "url": f"{jira.url}/browse/ABC-12",
        "labels": ["backend"],
        "status": "To Do",
    }
    assert (ticket["created"], ticket["assignee"]) == ("2026-05-28T12:00:00.000Z", "Ada Lovelace")
    assert f"> I used {masked}" in str(ticket["description"])
    assert ticket["_filter_metadata"] == {
        "scan_result": "REDACTED",
        "redacted_count": 2,
        "redacted_patterns": ["aws_access_key"],
        "blocked_patterns": [],
        "warnings": [],
        "scanned_at": "2026-05-28T22:30:00.000Z",
    }


async def test_what_a_ticket_says_under_known_headings_is_written_beside_it(desk: Desk, jira: JiraServer) -> None:
    parsed = desk.written(await desk.accept("ABC-12", jira.account), "ticket-parsed.json")
    assert parsed["fields"] == {"steps_to_reproduce": ["Log in"], "expected": "A page."}
    assert (parsed["work_type"], parsed["pipeline_variant"], parsed["warnings"]) == ("bugfix", "full", [])
    assert parsed["missing_fields"] == ["summary", "actual", "scope.modules"]


async def test_issues_are_called_after_their_forge_and_their_number(desk: Desk) -> None:
    issue = Issue(title="Add --json", body="Write it.")
    with GitHubServer({"acme/app#12": issue}) as github, GitLabServer({"acme/tools/app#7": issue}) as gitlab:
        made = [
            await desk.accept("acme/app#12", github.account),
            await desk.accept(f"{gitlab.url}/acme/tools/app/-/issues/7", gitlab.account),
        ]
    assert [(task.ticket.key, task.source.branch) for task in made] == [
        ("GH-12", "feature/GH-12"),
        ("GL-7", "feature/GL-7"),
    ]


async def test_a_text_of_ones_own_is_local_and_asks_nobody(desk: Desk) -> None:
    first, second = [await desk.accept("# Fix the crash\n\nIt crashes.") for _ in range(2)]
    assert (first.id, second.id) == ("LOCAL-20260528_223000", "LOCAL-20260528_223000-2")
    assert (first.ticket.key, first.ticket.source, first.ticket.type) == (first.id, "local", TicketType.BUGFIX)
    assert (first.policy.autonomy, first.policy.on_blocked) == (Autonomy.AUTO, OnBlocked.ESCALATE)
    ticket = desk.written(first, "ticket.json")
    assert (ticket["summary"], ticket["created"]) == ("Fix the crash", "2026-05-28T22:30:00.000Z")
    assert "url" not in ticket


async def test_a_rule_above_a_text_is_not_its_title(desk: Desk) -> None:
    assert (await desk.accept("---\n\n# Fix the crash\n\nIt crashes.")).title == "Fix the crash"


async def test_what_a_person_says_wins_over_the_ticket(desk: Desk, jira: JiraServer) -> None:
    said = {"title": "Mine", "type": TicketType.FEATURE, "priority": Priority.LOW, "autonomy": Autonomy.AUTO}
    task = await desk.accept("ABC-12", jira.account, pipeline="full", **said)
    assert (task.title, task.ticket.type, task.schedule.priority) == ("Mine", TicketType.FEATURE, Priority.LOW)
    assert (task.policy.autonomy, task.policy.on_blocked) == (Autonomy.AUTO, OnBlocked.ESCALATE)
    freed = await desk.accept("Night work", on_blocked=OnBlocked.HALT, auto_merge=True)
    assert (freed.policy.autonomy, freed.policy.on_blocked) == (Autonomy.AUTO, OnBlocked.HALT)
    assert (freed.policy.auto_merge, task.policy.auto_merge) == (True, False)
    front = "---\nkey: ABC-9\ntitle: Theirs\ntype: bugfix\npriority: high\nlabels: [a]\n---\nText\n"
    local = await desk.accept(front)
    assert (local.ticket.key, local.title, local.schedule.priority) == ("ABC-9", "Theirs", Priority.HIGH)
    assert (local.source.branch, desk.written(local, "ticket.json")["labels"]) == ("bugfix/ABC-9", ["a"])


async def test_a_kind_of_work_without_a_pipeline_of_its_own_is_refused(desk: Desk) -> None:
    pipelines = {"full": desk.definitions.pipelines["full"]}
    desk.intake = replace(desk.intake, pipelines=lambda: pipelines)
    with pytest.raises(
        SubmissionRefused, match=r"'review_only', and none is declared; add review_only\.toml to a folder"
    ):
        await desk.accept("Code review of the parser")
    assert (await desk.accept("Code review of the parser", type=TicketType.FEATURE)).pipeline == "full"


async def test_a_trackers_text_that_must_not_be_passed_on_is_kept_and_refused(desk: Desk, jira: JiraServer) -> None:
    with pytest.raises(
        SubmissionRefused, match=r"ABC-13 holds what must not be passed on \(private_key_pem in line 2\)"
    ) as caught:
        await desk.accept("ABC-13", jira.account)
    why, text = desk.kept
    assert text.read_text().startswith(PRIVATE.strip())
    assert str(text) in str(caught.value)
    assert "private_key_pem" in why.read_text()
    assert not desk.tasks.exists()


async def test_a_persons_own_text_is_refused_and_stored_nowhere(desk: Desk) -> None:
    many = PRIVATE * 12
    with pytest.raises(
        SubmissionRefused, match=r"private_key_pem in line 20 and 2 more\); take it out and submit again"
    ):
        await desk.accept(many)
    assert desk.kept == []
    assert not desk.tasks.exists()


async def test_a_ticket_that_has_a_task_at_work_is_refused_unless_wanted(desk: Desk, jira: JiraServer) -> None:
    first = await desk.accept("ABC-12", jira.account)
    with pytest.raises(AlreadyActive, match=f"has a task in this repository already: {first.id} \\(pending\\)"):
        await desk.accept(f"{jira.url}/browse/ABC-12", jira.account)
    assert [folder.name for folder in desk.tasks.iterdir()] == [first.id]
    second = await desk.accept("ABC-12", jira.account, again=True)
    assert second.id == f"{first.id}-2"
    desk.loop.tasks = {first.id: replace(first, status=TaskStatus.COMPLETED)}
    assert (await desk.accept("ABC-12", jira.account)).id == f"{first.id}-3"


async def test_of_two_submissions_at_once_one_becomes_a_task(desk: Desk, jira: JiraServer) -> None:
    reception = Submissions(
        trackers=Trackers([jira.account]),
        intake=desk.intake,
        loop=desk.loop,
        with_forge=lambda task: task,
        clock=lambda: NOW,
    )
    both = [reception.accept(Submission(text="ABC-12", repo=desk.repo), "ada") for _ in range(2)]
    ended = await asyncio.gather(*both, return_exceptions=True)
    assert {type(one) for one in ended} == {Task, AlreadyActive}
    assert len(list(desk.tasks.iterdir())) == 1


async def test_the_same_ticket_may_be_at_work_in_two_repositories(desk: Desk, jira: JiraServer) -> None:
    repository(desk.root / "other")
    await desk.accept("ABC-12", jira.account)
    assert (await desk.accept("ABC-12", jira.account, repo=desk.root / "other")).ticket.key == "ABC-12"


async def test_what_was_looked_for_before_is_on_record_and_comes_back(desk: Desk) -> None:
    document = to_document(await desk.accept("Say hello"))
    assert document["mcp_preflight"] == {"servers_registered": ["cks"], "env_unset": ["CKS_CONFIG"]}
    again = from_document(document).ticket.preflight
    assert again == Preflight(servers_registered=("cks",), env_unset=("CKS_CONFIG",))


async def test_a_key_beside_a_tracker_ticket_must_be_its_own(desk: Desk, jira: JiraServer) -> None:
    with pytest.raises(SubmissionRefused, match="is the ticket ABC-12 and no 'XYZ-1'; leave --ticket out"):
        await desk.accept("ABC-12", jira.account, ticket="XYZ-1")
    assert (await desk.accept("ABC-12", jira.account, ticket="ABC-12")).ticket.key == "ABC-12"


async def test_a_ticket_that_is_not_there_leaves_nothing(desk: Desk, jira: JiraServer) -> None:
    with pytest.raises(NoSuchTicket, match="JIRA_API_TOKEN"):
        await desk.accept("ABC-99", jira.account)
    assert not desk.tasks.exists()
