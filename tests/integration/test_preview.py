"""A look at a submission before it is made: what it would become, what to know, and that nothing is written."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.in_process_daemon import InProcessDaemon
from tests.fakes.repositories import commit, git


async def previewed(client: httpx.AsyncClient, repo: Path, **more: object) -> dict[str, Any]:
    answer = await client.post("/api/preview", json={"text": "Say hello", "repo": str(repo), **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_it_shows_what_the_submission_would_become_and_leaves_nothing(
    client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path
) -> None:
    commit(tmp_path / "repo", {".orchestrator.toml": '[checks.unit_test]\ncommand = "make test"\n'})
    more = {"checks": {"lint": "ruff check"}, "ticket": "ABC-7", "type": "bugfix", "priority": "high"}
    seen = await previewed(client, tmp_path / "repo", pipeline="review_only", **more)
    made = (await client.post("/api/tasks", json={"text": "Say hello", "repo": str(tmp_path / "repo"), **more})).json()
    assert (seen["title"], seen["key"], seen["type"], seen["priority"]) == ("Say hello", "ABC-7", "bugfix", "high")
    assert {name: seen[name] for name in ("repo", "baseBranch", "baseCommit", "checks")} == {
        name: made[name] for name in ("repo", "baseBranch", "baseCommit", "checks")
    }
    assert {check["name"]: check["command"] for check in seen["checks"]}["unit_test"] == "make test"
    assert seen["pipeline"]["name"] == "review_only"
    assert seen["pipeline"]["description"] == daemon.definitions.pipelines["review_only"].description
    assert [stage["name"] for stage in seen["pipeline"]["stages"]] == list(
        daemon.definitions.pipelines["review_only"].stages
    )
    assert (names(tmp_path / "data/tasks"), seen["remarks"]) == ([made["id"]], [])


async def test_it_says_what_is_worth_knowing(client: httpx.AsyncClient, tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    await client.post("/api/tasks", json={"text": "Hello", "repo": str(repo), "ticket": "ABC-7", "draft": True})
    (repo / "staged.txt").write_text("new")
    git(repo, "add", "staged.txt")
    (repo / "README.md").write_text("changed")
    seen = await previewed(client, repo, ticket="ABC-7")
    already, left_out = (next(one for one in seen["remarks"] if word in one) for word in ("already", "not committed"))
    assert already.startswith("ABC-7 already has a task in this repository: ABC-7_")
    assert left_out == "2 files are not committed, and the work begins without: README.md, staged.txt"


async def test_the_text_may_still_be_missing(client: httpx.AsyncClient, tmp_path: Path) -> None:
    seen = await previewed(client, tmp_path / "repo", text=" ")
    assert (seen["baseBranch"], seen["title"]) == ("main", "")


async def test_a_folder_that_would_become_a_repository_stays_as_it_is(
    client: httpx.AsyncClient, daemon: InProcessDaemon, tmp_path: Path
) -> None:
    name = next(name for name, one in sorted(daemon.definitions.pipelines.items()) if one.new_repository)
    seen = await previewed(client, tmp_path / "new", pipeline=name)
    assert (seen["checks"], seen["baseBranch"]) == ([], None)
    assert seen["remarks"] == ["a repository is made of this empty folder when this is submitted"]
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "data/folders").exists()
    (tmp_path / "plain").mkdir()
    assert (await previewed(client, tmp_path / "plain", noGit=True))["remarks"] != []
    assert not (tmp_path / "data/folders").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"repo": "/nowhere/at/all"}, "does not exist"),
        ({"base": "made-up"}, "has no branch"),
        ({"pipeline": "made-up"}, "there is no pipeline"),
        ({"at": "2001-01-01T00:00:00Z"}, "is in the past"),
        ({"ticket": "x"}, "ticket key"),
        ({"checks": {"a b": "true"}}, "cannot be used"),
    ],
)
async def test_what_would_be_refused_is_refused_with_the_same_words(
    client: httpx.AsyncClient, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    body = {"text": "Say hello", "repo": str(tmp_path / "repo"), **change}
    seen, made = [await client.post(path, json=body) for path in ("/api/preview", "/api/tasks")]
    assert seen.status_code == made.status_code == 422
    assert words in seen.json()["detail"]
    assert seen.json() == made.json()


async def test_a_text_with_a_secret_is_refused_without_keeping_it(client: httpx.AsyncClient, tmp_path: Path) -> None:
    secret = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----\n"
    answer = await client.post("/api/preview", json={"text": secret, "repo": str(tmp_path / "repo")})
    assert answer.status_code == 422
    assert "MIIE" not in answer.text
    assert not any("quarantine" in str(path) for path in (tmp_path / "data").rglob("*"))
