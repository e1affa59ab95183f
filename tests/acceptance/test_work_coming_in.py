"""Work that comes in by itself to the real daemon, which is killed again and again meanwhile: nothing is lost, nothing
is done twice.
"""

import random
import time
from pathlib import Path

import orjson
import pytest

from tests.acceptance.harness import DaemonHarness
from tests.fakes.github_server import GitHubServer
from tests.fakes.tracker_server import Issue

FILES = 16
AGENT = ("agent",)


def titles(harness: DaemonHarness) -> list[str]:
    """Return the titles of all committed tasks, sorted."""
    documents = [orjson.loads(path.read_bytes()) for path in harness.data.glob("tasks/*/state.json")]
    return sorted(document["title"] for document in documents)


def await_tasks(harness: DaemonHarness, number: int) -> None:
    """Wait until so many tasks are committed."""
    harness.wait_for(f"{number} tasks", lambda: len(titles(harness)) >= number)


def test_files_become_one_task_each_however_often_the_daemon_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    folder.mkdir(mode=0o700)
    inbox = {"folder": str(folder), "repo": str(tmp_path / "repo"), "settle": 0.05, "most_waiting": 1000}
    rng = random.Random(12)
    scenario = {"ANALYSIS": [{"think_ms": 600_000}]}
    with DaemonHarness(tmp_path, scenario, inbox=inbox, max_agents=1) as harness:
        for number in range(FILES):
            draft = folder / f".{number}"
            draft.write_text(f"Task {number:02}\n")
            draft.rename(folder / f"{number:02}.md")
        kills = 0
        while len(list((folder / "done").glob("*.md"))) < FILES:
            before = len(list((folder / "done").glob("*.md")))
            deadline = time.monotonic() + 60

            def has_moved_on(before: int = before, deadline: float = deadline) -> bool:
                assert time.monotonic() < deadline
                return len(list((folder / "done").glob("*.md"))) >= min(FILES, before + 4)

            harness.wait_for("more files that are done", has_moved_on)
            if kills < 3:
                time.sleep(rng.random() * 0.05)  # the moment of the kill, not a way to wait
                harness.kill()
                kills += 1
                harness.start()
        assert titles(harness) == [f"Task {number:02}" for number in range(FILES)]
        tasks = {orjson.loads(path.read_bytes())["task"] for path in (folder / "done").glob("*.task.json")}
        assert len(tasks) == FILES
        assert kills >= 3
        assert not list((folder / "taking").iterdir())
        assert not list((folder / "refused").iterdir())
        listed = orjson.loads(harness.cli("intake", "--json", "--limit", "100").stdout)
        assert {one["task"] for one in listed["records"] if one["kind"] == "taken"} == tasks
        shown = harness.cli("intake")
        assert shown.returncode == 0
        assert "15.md" in shown.stdout
        assert "inbox" in shown.stdout


def test_tickets_become_one_task_each_however_often_the_daemon_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "a-token")
    issues = {f"acme/app#{number}": Issue(title=f"Ticket {number:02}", labels=AGENT) for number in range(12)[1:]}
    rng = random.Random(7)
    with GitHubServer(issues, "a-token") as github:
        query = {
            "tracker": "github", "project": "acme/app", "labels": list(AGENT), "repo": str(tmp_path / "repo"),
            "every": 10, "most_waiting": 100,
        }  # fmt: skip
        scenario = {"ANALYSIS": [{"think_ms": 600_000}]}
        trackers = {"github": {"url": github.url}}
        with DaemonHarness(tmp_path, scenario, trackers=trackers, queries={"bugs": query}) as harness:
            for number in range(3):
                await_tasks(harness, min(len(issues), 2 * number + 1))
                time.sleep(rng.random() * 0.05)  # the moment of the kill, not a way to wait
                harness.kill()
                harness.start()
            await_tasks(harness, len(issues))
            listed = orjson.loads(harness.cli("intake", "--json").stdout)
            assert listed["queries"][0]["name"] == "bugs"
            assert titles(harness) == sorted(issue.title for issue in issues.values())


def test_an_inbox_that_anybody_can_write_in_is_told_and_takes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "a.md").write_text("Do it\n")
    with DaemonHarness(tmp_path, inbox={"folder": str(folder), "repo": str(tmp_path / "repo")}) as harness:
        harness.wait_for("the log", lambda: any(line["event"] == "intake_waits" for line in harness.log))
        assert "every user of this machine can write" in harness.cli("status").stdout
        assert "chmod o-w" in harness.cli("intake").stdout
        assert "chmod o-w" in harness.cli("doctor").stdout
        assert (folder / "a.md").exists()
