"""Queries over real HTTP to trackers on loopback: each ticket becomes a task once, and what closes it closes that."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.daemon.intake.query_state import MOST_TICKETS, KnownTicket, QueryState, TicketState
from orchestrator.daemon.intake.records import IntakeKind
from orchestrator.daemon.task_factory import Submission
from orchestrator.integrations.http import Patience
from orchestrator.integrations.tickets.polling import Standing, TicketSearch
from orchestrator.integrations.tickets.text.ticket import Tracker
from orchestrator.integrations.tickets.trackers import Trackers
from orchestrator.settings.sections.intake import QuerySettings
from tests.fakes.github_server import GitHubServer
from tests.fakes.gitlab_server import GitLabServer
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving
from tests.fakes.jira_server import JiraServer
from tests.fakes.repositories import commit, git
from tests.fakes.tracker_server import DAY, Issue, Raw, Status, TrackerServer
from tests.fakes.waiting import running, until

PATIENCE = 30.0
EVER = (datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))
AGENT = ("agent",)
SECRET = "-----BEGIN " + "PRIVATE KEY-----\nAAAA"


class Site:
    """An in-process daemon with one query, `bugs`, and a repository."""

    def __init__(self, root: Path, server: TrackerServer, **settings: object) -> None:
        self.root, self.repo, self.server = root, root / "repo", server
        if not self.repo.exists():
            self.repo.mkdir()
            git(self.repo, "init", "--quiet", "--initial-branch=main")
            commit(self.repo, {"README.md": "# x\n"})
        self.desk = create_daemon(root / "data")
        account = server.account  # type: ignore[attr-defined]  # each kind has one
        self.desk.service.submissions.trackers = Trackers([account], Patience(request=5, pause=0.01, tries=2))
        self.values: dict[str, object] = {}
        self.set(**settings)

    def set(self, **settings: object) -> None:
        self.values |= {"repo": self.repo, **settings}
        queries = {"bugs": QuerySettings.model_validate(self.values)}
        self.desk.settings = self.desk.settings.model_copy(update={"queries": queries})

    @property
    def tasks(self) -> list[Task]:
        return sorted(self.desk.supervisor.tasks.values(), key=lambda task: task.timing.created_at)

    def taken(self) -> list[str]:
        return [one.name for one in self.desk.service.intake.records.newest(1000) if one.kind is IntakeKind.TAKEN][::-1]

    def kinds(self, kind: IntakeKind) -> list[str]:
        return [one.reason for one in self.desk.service.intake.records.newest(1000) if one.kind is kind]

    async def polled(self) -> None:
        """Wait until the tracker has been asked anew, and everything followed from it."""
        before = self.desk.service.intake.queries.statuses({})[0].polled_at
        self.desk.service.intake.queries.hurry()

        def is_new() -> bool:
            (status,) = self.desk.service.intake.queries.statuses({})
            return status.polled_at is not None and status.polled_at != before

        deadline = time.monotonic() + PATIENCE
        while not is_new():
            assert time.monotonic() < deadline, self.desk.service.intake.troubles()
            await asyncio.sleep(0.01)

    async def asked(self, number: int) -> None:
        """Wait until the tracker has been asked so often."""
        await until(lambda: len(self.server.asked) >= number)


@asynccontextmanager
async def polling(site: Site) -> AsyncIterator[InProcessDaemon]:
    async with serving(site.desk), running(site.desk.service.intake.run_queries()):
        yield site.desk


@pytest.fixture
def github() -> Iterator[GitHubServer]:
    issues = {
        "acme/app#1": Issue(title="One", body="Do one.", labels=AGENT),
        "acme/app#2": Issue(title="Two", body="Do two."),
        "acme/app#3": Issue(title="Three", body="Do three.", labels=("agent", "bug")),
        "acme/app#4": Issue(title="A pull request", body="x", labels=AGENT, is_pull=True),
    }
    with GitHubServer(issues, "a-token") as server:
        server.gives_etags = True
        yield server


def on_github(tmp_path: Path, server: GitHubServer, **settings: object) -> Site:
    return Site(tmp_path, server, tracker="github", project="acme/app", labels=AGENT, **settings)


async def test_each_ticket_with_the_label_becomes_a_task_once(tmp_path: Path, github: GitHubServer) -> None:
    site = on_github(tmp_path, github, budget=3, autonomy="interactive")
    async with polling(site):
        await site.polled()
        assert [task.title for task in site.tasks] == ["One", "Three"]
        assert {task.policy.caps.usd for task in site.tasks} == {3.0}
        assert site.taken() == ["acme/app#1", "acme/app#3"]
        asked = len(github.asked)
        await site.polled()
        assert len(github.asked) == asked + 1
        assert "if-none-match" in github.asked[-1].headers
        github.change("acme/app#1", title="One, changed", updated="2026-05-29T12:00:00Z")
        github.change("acme/app#2", labels=AGENT)
        await site.polled()
        assert site.taken() == ["acme/app#1", "acme/app#3", "acme/app#2"]
    site.desk.store.close()
    again = on_github(tmp_path, github)
    async with polling(again):
        await again.polled()
        assert len(again.taken()) == 3
    again.desk.store.close()


async def test_a_ticket_that_is_closed_before_its_task_begins_cancels_it(tmp_path: Path, github: GitHubServer) -> None:
    site = on_github(tmp_path, github)
    async with polling(site):
        await site.polled()
        running, waiting = site.tasks  # one place: the first has begun
        assert (running.status, waiting.status) == (TaskStatus.IN_PROGRESS, TaskStatus.PENDING)
        github.change("acme/app#1", is_closed=True)
        github.change("acme/app#3", is_closed=True)
        await site.polled()
        assert (await site.desk.service.tasks.find(waiting.id)).status is TaskStatus.CANCELLED
        assert (await site.desk.service.tasks.find(running.id)).status is TaskStatus.IN_PROGRESS
        assert "orchestrator cancel" in site.kinds(IntakeKind.CLOSED)[0]
        await site.polled()
        assert len(site.kinds(IntakeKind.CLOSED)) == 1
        github.change("acme/app#3", is_closed=False)
        github.change("acme/app#1", is_closed=False)
        await site.polled()
        assert site.taken() == ["acme/app#1", "acme/app#3", "acme/app#3"]


async def test_by_setting_a_closed_ticket_cancels_nothing_and_a_reopened_one_is_ignored(
    tmp_path: Path, github: GitHubServer
) -> None:
    site = on_github(tmp_path, github, closed="tell", reopened="ignore")
    async with polling(site) as desk:
        await site.polled()
        github.change("acme/app#3", is_closed=True)
        await site.polled()
        assert site.tasks[1].status is TaskStatus.PENDING
        assert len(site.kinds(IntakeKind.CLOSED)) == 1
        await desk.service.tasks.cancel(site.tasks[1].id, "ada")
        github.change("acme/app#3", is_closed=False)
        await site.polled()
        assert site.taken() == ["acme/app#1", "acme/app#3"]


async def test_a_ticket_that_lost_its_label_keeps_its_task_until_it_is_closed(
    tmp_path: Path, github: GitHubServer
) -> None:
    site = on_github(tmp_path, github)
    async with polling(site):
        await site.polled()
        github.change("acme/app#3", labels=())
        await site.polled()
        assert site.tasks[1].status is TaskStatus.PENDING
        github.change("acme/app#3", is_closed=True)
        await site.polled()
        assert site.kinds(IntakeKind.CANCELLED)


async def test_an_empty_list_by_mistake_makes_no_ticket_of_an_ended_task_new(
    tmp_path: Path, github: GitHubServer
) -> None:
    site = on_github(tmp_path, github)
    async with polling(site) as desk:
        await site.polled()
        for task in site.tasks:
            await desk.service.tasks.cancel(task.id, "ada")
        github.mishaps = [Raw(b"[]")]
        await site.polled()
        assert not github.mishaps
        await site.polled()
        await site.polled()
        assert site.taken() == ["acme/app#1", "acme/app#3"]
        github.change("acme/app#3", is_closed=True)
        await site.polled()
        github.change("acme/app#3", is_closed=False)
        await site.polled()
        assert site.taken() == ["acme/app#1", "acme/app#3", "acme/app#3"]


async def test_a_ticket_that_is_closed_behind_many_open_ones_that_left_cancels_its_task(
    tmp_path: Path, github: GitHubServer
) -> None:
    github.issues |= {f"acme/app#{number}": Issue(title=f"T{number}", labels=AGENT) for number in range(10, 31)}
    site = on_github(tmp_path, github, most_waiting=100)
    async with polling(site):
        await site.polled()
        assert len(site.tasks) == 23
        for key in site.taken():
            github.change(key, labels=())
        github.change("acme/app#30", is_closed=True)
        for _ in range(2):
            await site.polled()
        assert len(site.kinds(IntakeKind.CANCELLED)) == 1


async def test_a_refused_ticket_is_tried_again_when_it_has_changed(tmp_path: Path, github: GitHubServer) -> None:
    github.change("acme/app#1", body=SECRET)
    site = on_github(tmp_path, github)
    async with polling(site) as desk:
        await site.polled()
        assert site.taken() == ["acme/app#3"]
        assert "must not be passed on" in site.kinds(IntakeKind.REFUSED)[0]
        await site.polled()
        assert len(site.kinds(IntakeKind.REFUSED)) == 1
        notes = await desk.service.intake.notes(*EVER)
        assert any("acme/app#1 was refused" in line for line in notes)
        github.change("acme/app#1", body="Harmless now.", updated="2026-05-29T12:00:00Z")
        await site.polled()
        assert site.taken() == ["acme/app#3", "acme/app#1"]


async def test_a_ticket_that_somebody_submitted_already_becomes_no_second_task(
    tmp_path: Path, github: GitHubServer
) -> None:
    site = on_github(tmp_path, github)
    site.set(project="acme/other")
    async with polling(site) as desk:
        await site.polled()
        await desk.accept(Submission(text=f"{github.url}/acme/app/issues/1", repo=site.repo), "ada")
        site.set(project="acme/app")
        await site.polled()
        assert [task.title for task in site.tasks] == ["One", "Three"]
        await site.polled()
        assert len(site.kinds(IntakeKind.REFUSED)) == 1


async def test_a_full_queue_leaves_tickets_on_the_tracker(tmp_path: Path, github: GitHubServer) -> None:
    github.issues |= {f"acme/app#{number}": Issue(title=f"T{number}", labels=AGENT) for number in range(10, 16)}
    site = on_github(tmp_path, github, most_waiting=2)
    async with polling(site) as desk:
        await site.polled()
        assert len(site.taken()) <= 4
        assert "wait to begin" in desk.service.intake.troubles()[0]
        site.set(most_waiting=100)
        await site.polled()
        assert len(site.taken()) == 8
        assert not desk.service.intake.troubles()


async def test_tasks_of_others_leave_each_source_its_own_share(tmp_path: Path, github: GitHubServer) -> None:
    site = on_github(tmp_path, github, most_waiting=2)
    async with serving(site.desk):
        for _ in range(3):
            await site.desk.accept(Submission(text="Do it\n", repo=site.repo), "ada")
        async with running(site.desk.service.intake.run_queries()):
            await site.polled()
        assert len(site.taken()) == 2
        status = await site.desk.service.intake.status(1)
        assert (status.queries[0].tasks_waiting, status.queries[0].most_waiting) == (2, 2)
        assert status.inbox.tasks_waiting == 0


async def test_a_tracker_that_is_busy_is_left_alone_as_long_as_it_wants_and_told_once(
    tmp_path: Path, github: GitHubServer
) -> None:
    github.mishaps = [Status(429, {"Retry-After": "600"}), Status(503, {}), Status(401, {})]
    site = on_github(tmp_path, github)
    async with polling(site) as desk:
        await until(desk.service.intake.troubles)
        assert len(github.asked) == 1
        desk.service.intake.queries.wake("bugs")  # a webhook does not hurry a tracker that wants a pause
        await asyncio.sleep(0)
        assert len(github.asked) == 1
        for number in (2, 3):
            desk.service.intake.queries.hurry()
            await site.asked(number)
        await site.polled()
        await until(lambda: not desk.service.intake.troubles())
        await until(lambda: site.kinds(IntakeKind.RECOVERED))
        assert len(site.kinds(IntakeKind.FAILED)) == 1
        assert len(site.taken()) == 2


async def test_answers_that_are_no_list_of_tickets_change_nothing(tmp_path: Path, github: GitHubServer) -> None:
    bodies = [b"[]x", b"{}", b"[{}]", b'[{"number": -1}]', b'[{"number": 1, "title": []}]', b"[" * 10_000, b"\xff", b""]
    github.mishaps = [Raw(body) for body in bodies]
    site = on_github(tmp_path, github)
    async with polling(site) as desk:
        for number in range(1, len(bodies) + 1):
            await site.asked(number)
            await until(desk.service.intake.troubles)
            if number < len(bodies):
                desk.service.intake.queries.hurry()
        assert not site.tasks
        await site.polled()
        assert len(site.taken()) == 2


async def test_one_ticket_that_cannot_be_fetched_does_not_block_the_others(
    tmp_path: Path, github: GitHubServer
) -> None:
    site = on_github(tmp_path, github)
    async with polling(site) as desk:
        github.issues["acme/app#1"] = Issue(title="One", body="x" * 3_000_000, labels=AGENT)
        await site.polled()
        assert site.taken() == ["acme/app#3"]
        assert len(site.kinds(IntakeKind.REFUSED)) == 1
        assert not desk.service.intake.troubles()


async def test_a_pipeline_or_a_repository_that_is_missing_fails_the_query_and_refuses_no_ticket(
    tmp_path: Path, github: GitHubServer
) -> None:
    site = on_github(tmp_path, github, pipeline="nothing")
    async with polling(site) as desk:
        await until(desk.service.intake.troubles)
        assert "no pipeline 'nothing'" in desk.service.intake.troubles()[0]
        site.set(pipeline="", repo=tmp_path / "nowhere")
        desk.service.intake.hurry()
        await until(lambda: "nowhere" in "".join(desk.service.intake.troubles()))
        site.set(repo=site.repo)
        await site.polled()
        assert len(site.taken()) == 2
        assert not site.kinds(IntakeKind.REFUSED)


async def test_what_a_query_remembers_survives_damage_without_a_second_task(
    tmp_path: Path, github: GitHubServer
) -> None:
    site = on_github(tmp_path, github)
    async with polling(site):
        await site.polled()
        assert len(site.tasks) == 2
    state = tmp_path / "data/intake/queries/bugs.json"
    state.write_bytes(state.read_bytes()[:-40])
    site.desk.service.intake.queries._known.clear()  # noqa: SLF001 - as after a restart
    async with polling(site):
        await site.polled()
        assert len(site.tasks) == 2
        assert state.with_name("bugs.json.damaged").exists()


async def test_gitlab_and_both_kinds_of_jira_are_asked_as_they_want_it(tmp_path: Path) -> None:
    many = {f"acme/tools/app#{number}": Issue(title=f"T{number}", labels=AGENT) for number in range(1, 131)}
    with GitLabServer(many, "a-token") as gitlab:
        trackers = Trackers([gitlab.account])
        found = await trackers.poll(TicketSearch(tracker=Tracker.GITLAB, project="acme/tools/app", labels=AGENT))
        assert found.tickets is not None
        assert [ticket.key for ticket in found.tickets[:1]] == ["acme/tools/app#1"]
        assert (len(found.tickets), found.whole) == (130, True)
        assert await trackers.standing(found.tickets[0].url) is Standing.OPEN
        gitlab.change("acme/tools/app#1", is_closed=True)
        assert await trackers.standing(found.tickets[0].url) is Standing.CLOSED
        del gitlab.issues["acme/tools/app#1"]
        assert await trackers.standing(found.tickets[0].url) is Standing.GONE
    for user in ("ada@acme.example", ""):
        issues = {f"ABC-{number}": Issue(title=f"T{number}", labels=AGENT) for number in range(1, 231)}
        with JiraServer({**issues, "XYZ-1": Issue(title="x", labels=AGENT)}, "a-token", user) as jira:
            trackers = Trackers([jira.account])
            found = await trackers.poll(TicketSearch(tracker=Tracker.JIRA, project="ABC", labels=AGENT))
            assert found.tickets is not None
            assert (len(found.tickets), found.tickets[229].key) == (230, "ABC-230")
            assert 'labels = "agent" AND statusCategory != Done' in jira.asked[0].query["jql"]
            jira.change("ABC-1", is_closed=True)
            assert await trackers.standing(found.tickets[0].url) is Standing.CLOSED
            assert await trackers.standing(found.tickets[1].url) is Standing.OPEN


async def test_more_tickets_than_are_looked_at_count_none_as_gone(tmp_path: Path) -> None:
    many = {f"acme/app#{number}": Issue(title=f"T{number}", labels=AGENT) for number in range(1, 701)}
    with GitHubServer(many, "a-token") as github:
        found = await Trackers([github.account]).poll(
            TicketSearch(tracker=Tracker.GITHUB, project="acme/app", labels=AGENT)
        )
        assert found.tickets is not None
        assert (len(found.tickets), found.whole, found.etag) == (500, False, "")


def test_a_label_or_a_project_cannot_change_what_jira_is_asked() -> None:
    search = TicketSearch(tracker=Tracker.JIRA, project="ABC", labels=('x" OR project = "SECRET',))
    assert 'labels = "x\\" OR project = \\"SECRET"' in search.as_jql


def test_what_a_query_remembers_is_bounded() -> None:
    gone = KnownTicket(url="u", state=TicketState.TAKEN, at=DAY, left_at=DAY)
    state = QueryState(tickets={str(number): gone for number in range(MOST_TICKETS)})
    after = state.with_ticket("new", KnownTicket(url="u", state=TicketState.TAKEN, at=DAY))
    assert len(after.tickets) == MOST_TICKETS
    assert "new" in after.tickets
