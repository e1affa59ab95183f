"""Submissions with real repositories and trackers on loopback: the resulting tasks, and refusals."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from orchestrator.core.schedule.admission import Capacity
from orchestrator.core.task.task import Priority, Task, TaskStatus
from orchestrator.core.task.task_policy import Autonomy, OnBlocked
from orchestrator.core.task.ticket import Preflight, TicketType
from orchestrator.daemon.services.submissions import SubmissionService
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.daemon.task_factory import (
    AlreadyActive,
    Submission,
    SubmissionRefused,
    TaskFactory,
)
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.table import DefinitionError
from orchestrator.integrations.errors import NotFound
from orchestrator.integrations.tickets.account import TrackerAccount
from orchestrator.integrations.tickets.trackers import Trackers
from orchestrator.pipelines.accepted import accepted_pipeline
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.definition_files import Folders
from orchestrator.pipelines.definitions import load_definitions
from orchestrator.redaction.rules import Redactor, parse_rules
from orchestrator.settings.loading import load_settings
from orchestrator.storage.journal import lines
from orchestrator.storage.state_document import from_document, to_document
from orchestrator.storage.store import FolderStore
from orchestrator.supervisor.inbox import Inbox
from orchestrator.supervisor.protocols import TaskLookups
from orchestrator.supervisor.supervisor import Supervisor
from tests.fakes.github_server import GitHubServer
from tests.fakes.gitlab_server import GitLabServer
from tests.fakes.jira_server import JiraServer
from tests.fakes.recording_executor import RecordingExecutor
from tests.fakes.repositories import repository
from tests.fakes.tracker_server import Issue, Said
from tests.fakes.waiting import running

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


@dataclass
class SubmissionHarness:
    """A submission service with its own data folder, and a repository to work on."""

    root: Path

    def __post_init__(self) -> None:
        self.repo, self.tasks = self.root / "repo", self.root / "data" / "tasks"
        self.store, self.inbox = FolderStore(self.root / "data"), Inbox()
        lookups = TaskLookups(
            clock=lambda: NOW,
            pipeline_of=lambda task: self.definitions.pipelines[task.pipeline],
            model_of=lambda _: "",
        )
        self.supervisor = Supervisor(self.store, RecordingExecutor(), self.inbox, lookups, Capacity())
        self.definitions = load_definitions(
            Folders(pipelines=(bundled(Kind.PIPELINES),), roles=(bundled(Kind.AGENTS),))
        )
        self.intake = TaskFactory(
            files=self.store.files,
            quarantine_dir=self.root / "data" / "quarantine",
            settings=load_settings(None, {"data_dir": str(self.root / "data")}),
            pipelines=lambda: self.definitions.pipelines,
            redactor=Redactor(parse_rules(RULES.read_text(), str(RULES))),
            preflight=lambda _: Preflight(servers_registered=("cks",), env_unset=("CKS_CONFIG",)),
            objection=lambda *_: "",
        )

    async def accept(self, text: str, *accounts: TrackerAccount, **more: Any) -> Task:
        """What becomes of a text that is handed in."""
        submission = replace(Submission(text=text, repo=self.repo), **more)
        async with self.at_work():
            return await self.service(accounts).submit(submission, (), "ada")

    def service(self, accounts: tuple[TrackerAccount, ...]) -> SubmissionService:
        return SubmissionService(
            trackers=Trackers(accounts),
            factory=self.intake,
            with_forge=lambda task: task,
            index=TaskIndex(self.store, self.supervisor),
            supervisor=self.supervisor,
            inbox=self.inbox,
            clock=lambda: NOW,
        )

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Run the supervisor's loop."""
        async with running(self.supervisor.run()):
            yield

    def written(self, task: Task, name: str) -> JsonObject:
        """Return a document in the task's folder."""
        document: JsonObject = orjson.loads((Path(task.folder) / name).read_bytes())
        return document

    @property
    def kept(self) -> list[Path]:
        """Return the names of the files in quarantine."""
        return sorted(self.intake.quarantine_dir.iterdir()) if self.intake.quarantine_dir.exists() else []


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SubmissionHarness]:
    """A home without settings and without any login."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    repository(tmp_path / "repo")
    harness = SubmissionHarness(tmp_path)
    yield harness
    harness.store.close()


@pytest.fixture
def jira() -> Iterator[JiraServer]:
    with JiraServer({"ABC-12": BUG, "ABC-13": Issue(title="Plan", body=PRIVATE)}, "token") as server:
        yield server


async def test_a_jira_ticket_is_stored_without_secrets(harness: SubmissionHarness, jira: JiraServer) -> None:
    task = await harness.accept("ABC-12", jira.account)
    masked = "[REDACTED:aws_access_key]"
    assert (task.id, task.title) == ("ABC-12_20260528_223000", f"Login fails with {masked}")
    assert (task.ticket.key, task.ticket.type, task.ticket.source) == ("ABC-12", TicketType.BUGFIX, "jira")
    assert (task.source.branch, task.pipeline, task.schedule.priority) == ("bugfix/ABC-12", "full", Priority.CRITICAL)
    assert (task.policy.autonomy, task.policy.on_blocked) == (Autonomy.INTERACTIVE, OnBlocked.HALT)
    ticket = harness.written(task, "ticket.json")
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


async def test_sections_under_known_headings_are_stored_beside_the_ticket(
    harness: SubmissionHarness, jira: JiraServer
) -> None:
    parsed = harness.written(await harness.accept("ABC-12", jira.account), "ticket-parsed.json")
    assert parsed["fields"] == {"steps_to_reproduce": ["Log in"], "expected": "A page."}
    assert (parsed["work_type"], parsed["pipeline_variant"], parsed["warnings"]) == ("bugfix", "full", [])
    assert parsed["missing_fields"] == ["summary", "actual", "scope.modules"]


async def test_issues_are_named_after_their_forge_and_their_number(harness: SubmissionHarness) -> None:
    issue = Issue(title="Add --json", body="Write it.")
    with GitHubServer({"acme/app#12": issue}) as github, GitLabServer({"acme/tools/app#7": issue}) as gitlab:
        made = [
            await harness.accept("acme/app#12", github.account),
            await harness.accept(f"{gitlab.url}/acme/tools/app/-/issues/7", gitlab.account),
        ]
    assert [(task.ticket.key, task.source.branch) for task in made] == [
        ("GH-12", "feature/GH-12"),
        ("GL-7", "feature/GL-7"),
    ]


async def test_a_users_own_text_is_local_and_needs_no_tracker(harness: SubmissionHarness) -> None:
    first, second = [await harness.accept("# Fix the crash\n\nIt crashes.") for _ in range(2)]
    assert (first.id, second.id) == ("LOCAL-20260528_223000", "LOCAL-20260528_223000-2")
    assert (first.ticket.key, first.ticket.source, first.ticket.type) == (first.id, "local", TicketType.BUGFIX)
    assert (first.policy.autonomy, first.policy.on_blocked) == (Autonomy.AUTO, OnBlocked.ESCALATE)
    ticket = harness.written(first, "ticket.json")
    assert (ticket["summary"], ticket["created"]) == ("Fix the crash", "2026-05-28T22:30:00.000Z")
    assert "url" not in ticket


async def test_a_rule_above_a_text_is_not_its_title(harness: SubmissionHarness) -> None:
    assert (await harness.accept("---\n\n# Fix the crash\n\nIt crashes.")).title == "Fix the crash"


async def test_a_pipeline_that_was_changed_after_the_ticket_was_accepted_is_refused(
    harness: SubmissionHarness,
) -> None:
    task = await harness.accept("Night work", pipeline="full")
    first, *_ = lines(Path(task.folder))
    assert {"op": "add", "path": "/pipeline_digest", "value": task.pipeline_digest} in cast(list[Json], first["change"])
    file = Path(task.folder) / "pipeline.toml"
    accepted = file.read_text()
    file.write_text(accepted.replace("evaluation", "analysis"))
    with pytest.raises(DefinitionError, match="not the pipeline that was accepted"):
        accepted_pipeline(harness.store.files, task.id, task.pipeline_digest)
    file.write_text(accepted)
    restored = accepted_pipeline(harness.store.files, task.id, task.pipeline_digest)
    assert restored.name == "full"
    another = await harness.accept("Day work", pipeline="full")
    its = accepted_pipeline(harness.store.files, another.id, another.pipeline_digest)
    assert its.stages is restored.stages, "a text is parsed once for all tasks"
    assert its.source != restored.source


async def test_the_users_options_override_the_ticket(harness: SubmissionHarness, jira: JiraServer) -> None:
    said = {"title": "Mine", "type": TicketType.FEATURE, "priority": Priority.LOW, "autonomy": Autonomy.AUTO}
    task = await harness.accept("ABC-12", jira.account, pipeline="full", **said)
    assert (task.title, task.ticket.type, task.schedule.priority) == ("Mine", TicketType.FEATURE, Priority.LOW)
    assert (task.policy.autonomy, task.policy.on_blocked) == (Autonomy.AUTO, OnBlocked.ESCALATE)
    freed = await harness.accept("Night work", on_blocked=OnBlocked.HALT, auto_merge=True)
    assert (freed.policy.autonomy, freed.policy.on_blocked) == (Autonomy.AUTO, OnBlocked.HALT)
    assert (freed.policy.auto_merge, task.policy.auto_merge) == (True, False)
    front = "---\nkey: ABC-9\ntitle: Theirs\ntype: bugfix\npriority: high\nlabels: [a]\n---\nText\n"
    local = await harness.accept(front)
    assert (local.ticket.key, local.title, local.schedule.priority) == ("ABC-9", "Theirs", Priority.HIGH)
    assert (local.source.branch, harness.written(local, "ticket.json")["labels"]) == ("bugfix/ABC-9", ["a"])


async def test_a_kind_of_work_without_its_own_pipeline_is_refused(harness: SubmissionHarness) -> None:
    pipelines = {"full": harness.definitions.pipelines["full"]}
    harness.intake = replace(harness.intake, pipelines=lambda: pipelines)
    with pytest.raises(SubmissionRefused, match="'review_only'"):
        await harness.accept("Code review of the parser")
    assert (await harness.accept("Code review of the parser", type=TicketType.FEATURE)).pipeline == "full"


async def test_a_blocked_text_of_a_tracker_is_quarantined_and_refused(
    harness: SubmissionHarness, jira: JiraServer
) -> None:
    with pytest.raises(SubmissionRefused, match=r"ABC-13 .*\(private_key_pem in line 2\)") as caught:
        await harness.accept("ABC-13", jira.account)
    why, text = harness.kept
    assert text.read_text().startswith(PRIVATE.strip())
    assert str(text) in str(caught.value)
    assert "private_key_pem" in why.read_text()
    assert list(harness.tasks.iterdir()) == []


async def test_a_blocked_text_of_a_user_is_refused_and_stored_nowhere(harness: SubmissionHarness) -> None:
    many = PRIVATE * 12
    with pytest.raises(SubmissionRefused, match=r"private_key_pem in line 20 and 2 more\)"):
        await harness.accept(many)
    assert harness.kept == []
    assert list(harness.tasks.iterdir()) == []


async def test_a_ticket_with_an_active_task_is_refused_unless_forced(
    harness: SubmissionHarness, jira: JiraServer
) -> None:
    first = await harness.accept("ABC-12", jira.account)
    with pytest.raises(AlreadyActive, match=first.id):
        await harness.accept(f"{jira.url}/browse/ABC-12", jira.account)
    assert [folder.name for folder in harness.tasks.iterdir()] == [first.id]
    second = await harness.accept("ABC-12", jira.account, again=True)
    assert second.id == f"{first.id}-2"
    del harness.supervisor.tasks[second.id]
    harness.supervisor.tasks[first.id] = replace(first, status=TaskStatus.COMPLETED)
    assert (await harness.accept("ABC-12", jira.account)).id == f"{first.id}-3"


@pytest.mark.parametrize("text", ["Say hello", "---\nkey: ABC-12\n---\n# Say hello"], ids=["option", "front matter"])
async def test_a_text_under_the_key_of_an_active_ticket_is_refused_unless_forced(
    harness: SubmissionHarness, text: str
) -> None:
    named = {} if text.startswith("---") else {"ticket": "ABC-12"}
    first = await harness.accept(text, **named)
    with pytest.raises(AlreadyActive, match=f"ABC-12 already has a task in this repository: {first.id}"):
        await harness.accept(text, **named)
    assert (await harness.accept(text, again=True, **named)).ticket.key == "ABC-12"


async def test_texts_without_a_key_are_tickets_of_their_own(harness: SubmissionHarness) -> None:
    both = [await harness.accept("Say hello") for _ in range(2)]
    assert len({task.id for task in both}) == 2


async def test_of_two_concurrent_submissions_one_becomes_a_task(harness: SubmissionHarness, jira: JiraServer) -> None:
    service = harness.service((jira.account,))
    both = [service.submit(Submission(text="ABC-12", repo=harness.repo), (), "ada") for _ in range(2)]
    async with harness.at_work():
        ended = await asyncio.gather(*both, return_exceptions=True)
    assert {type(one) for one in ended} == {Task, AlreadyActive}
    assert len(list(harness.tasks.iterdir())) == 1


async def test_the_same_ticket_may_be_active_in_two_repositories(harness: SubmissionHarness, jira: JiraServer) -> None:
    repository(harness.root / "other")
    await harness.accept("ABC-12", jira.account)
    assert (await harness.accept("ABC-12", jira.account, repo=harness.root / "other")).ticket.key == "ABC-12"


async def test_an_earlier_submission_under_a_key_is_recorded_and_returned(harness: SubmissionHarness) -> None:
    document = to_document(await harness.accept("Say hello"))
    record = orjson.loads(orjson.dumps(document))["states"]["TICKET_INTAKE"]
    assert record["mcp_preflight"] == {"servers_registered": ["cks"], "env_unset": ["CKS_CONFIG"]}
    again = from_document(document).ticket.preflight
    assert again == Preflight(servers_registered=("cks",), env_unset=("CKS_CONFIG",))


async def test_a_key_beside_a_tracker_ticket_must_be_its_own(harness: SubmissionHarness, jira: JiraServer) -> None:
    with pytest.raises(SubmissionRefused, match="'XYZ-1'"):
        await harness.accept("ABC-12", jira.account, ticket="XYZ-1")
    assert (await harness.accept("ABC-12", jira.account, ticket="ABC-12")).ticket.key == "ABC-12"


async def test_a_missing_ticket_leaves_nothing_behind(harness: SubmissionHarness, jira: JiraServer) -> None:
    with pytest.raises(NotFound, match="JIRA_API_TOKEN"):
        await harness.accept("ABC-99", jira.account)
    assert list(harness.tasks.iterdir()) == []
