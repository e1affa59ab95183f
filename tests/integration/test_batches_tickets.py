"""Batches of the open issues of a repository on GitHub: chosen by label or by words, over real HTTP on loopback."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.integrations.errors import AuthenticationFailed, NoTicket
from orchestrator.integrations.http import Patience
from orchestrator.integrations.tickets.text.reference import TicketQuery, parse_query
from orchestrator.integrations.tickets.text.ticket import Requirement
from orchestrator.integrations.tickets.trackers import Trackers
from tests.fakes.github_server import GitHubServer
from tests.fakes.in_process_daemon import create_daemon, serving
from tests.fakes.repositories import repository
from tests.fakes.tracker_server import Issue, Said, Status

SHORT = Patience(request=5.0, ticket=20.0, pause=0.01, longest_pause=5.0, tries=3)
ISSUES = {
    "acme/app#1": Issue(title="Names may be empty", body="They <!-- hidden -->should not.", labels=("bug", "shop")),
    "acme/app#2": Issue(title="The list is slow", body=None, labels=("bug",), comments=(Said(author="x", text="y"),)),
    "acme/app#3": Issue(title="Add names to the list", labels=("feature",)),
    "acme/app#4": Issue(title="A change of names", labels=("bug",), is_pull=True),
    "acme/other#5": Issue(title="Elsewhere", labels=("bug",)),
}


async def listed(server: GitHubServer, *labels: str, words: str = "", project: str = "acme/app") -> list[Requirement]:
    """The issues that a query finds."""
    return [*await Trackers([server.account], SHORT).listed(parse_query(project, labels, words))]


def keys(found: list[Requirement]) -> list[str | None]:
    return [one.key for one in found]


async def test_open_issues_are_found_by_labels_and_pull_requests_are_none() -> None:
    with GitHubServer(ISSUES, token="let-me-in") as server:
        found = await listed(server, "bug")
        assert keys(found) == ["GH-1", "GH-2"]
        assert (found[0].title, found[0].text.strip()) == ("Names may be empty", "They should not.")
        assert found[0].url == f"{server.url}/acme/app/issues/1"
        assert found[0].labels == ("bug", "shop")
        assert keys(await listed(server, "bug", "shop")) == ["GH-1"]
        assert keys(await listed(server)) == ["GH-1", "GH-2", "GH-3"]


async def test_open_issues_are_found_by_words() -> None:
    with GitHubServer(ISSUES) as server:
        assert keys(await listed(server, words="names")) == ["GH-3"]
        assert keys(await listed(server, "bug", words="slow")) == ["GH-2"]
        assert server.asked[-1].query["q"] == 'repo:acme/app is:issue is:open label:"bug" slow'


async def test_every_page_is_read_and_a_list_is_not_endless() -> None:
    many = {f"acme/app#{number}": Issue(title="x") for number in range(1, 251)}
    with GitHubServer(many) as server:
        assert len(await listed(server)) == 250
        assert [asked.number("page", 0) for asked in server.asked] == [1, 2, 3]
    too_many = {f"acme/app#{number}": Issue(title="x") for number in range(1, 1102)}
    with GitHubServer(too_many) as server, pytest.raises(NoTicket, match="more than 1000 issues"):
        await listed(server)


async def test_a_tracker_that_is_down_for_a_moment_is_asked_again() -> None:
    with GitHubServer(ISSUES) as server:
        server.mishaps = [Status(502), Status(429, {"Retry-After": "0"})]
        assert keys(await listed(server, "feature")) == ["GH-3"]


async def test_what_cannot_be_listed_is_refused_with_the_reason() -> None:
    with GitHubServer(ISSUES, token="let-me-in") as server:
        with pytest.raises(NoTicket, match="there are no open issues in acme/app with the label nothing"):
            await listed(server, "nothing")
        stranger = replace(server.account, token="wrong")
        with pytest.raises(AuthenticationFailed):
            await Trackers([stranger], SHORT).listed(TicketQuery(project="acme/app"))


@pytest.mark.parametrize(
    ("project", "labels", "words", "reason"),
    [
        ("acme", (), "", "names no repository"),
        ("../..", (), "", "names no repository"),
        ("acme/app/../../user", (), "", "names no repository"),
        ("acme/app", ("a,b",), "", "cannot be a label"),
        ("acme/app", ('"',), "", "cannot be a label"),
        ("acme/app", (), "x" * 201, "at most 200"),
    ],
)
def test_a_query_that_would_ask_for_something_else_is_refused(
    project: str, labels: tuple[str, ...], words: str, reason: str
) -> None:
    with pytest.raises(NoTicket, match=reason):
        parse_query(project, labels, words)


def body(repo: Path, **more: Any) -> dict[str, Any]:
    """A submission of a batch."""
    return {"text": "The bugs", "repo": str(repo), "pipeline": "issue-plan-execute", **more}


async def test_the_issues_of_a_repository_become_those_of_a_batch(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repository(repo)
    with GitHubServer(ISSUES) as server:
        desk = replace(create_daemon(tmp_path / "data"), accounts=(server.account,))
        async with serving(desk) as client:
            asked = {"project": "acme/app", "labels": ["bug"], "query": ""}
            made = await client.post("/api/tasks", json=body(repo, tickets=asked))
            assert made.status_code == 201, made.text
            text = desk.store.files.read_text(made.json()["id"], "issues.jsonl")
            first, second = map(json.loads, text.splitlines())
            assert (first["id"], first["description"], first["tags"]) == ("GH-1", "They should not.\n", ["bug", "shop"])
            assert (second["id"], second["url"]) == ("GH-2", f"{server.url}/acme/app/issues/2")
            for wrong, reason in (
                (body(repo, tickets=asked, pipeline="full"), "only a pipeline for issues"),
                (body(repo, tickets=asked, files={"issues.jsonl": "{}"}), "not both"),
                (body(repo, files={"../issues.jsonl": "{}"}), "takes no file"),
                (body(repo, files={"issues.jsonl": '{"id": "A"}'}), "A.title: it is missing"),
            ):
                refused = await client.post("/api/tasks", json=wrong)
                assert refused.status_code >= 400
                assert reason in refused.json()["detail"]
        desk.store.close()
