"""A release from its ticket to the tag: changelog, a person's word, the tag at home and on the remote."""

from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.forge_harness import PullRequestHarness, pull_request_harness
from tests.acceptance.harness import DaemonHarness
from tests.fakes.repositories import git

TICKET = "Release 1.4.0\n\n## Version\n\n1.4.0\n\n## Included Changes\n\n- slugify\n"


def submit(harness: DaemonHarness) -> str:
    """The task of a release."""
    return harness.submit(TICKET, pipeline="release")


def tag_of(repository: Path) -> str:
    """The commit of the tag, empty where there is none."""
    return git(repository, "for-each-ref", "--format=%(objectname)", "refs/tags/v1.4.0")


def assert_released(there: PullRequestHarness, task: str) -> None:
    done = there.harness.wait_for_end(task)
    assert (done.publication.version, done.publication.tag) == ("1.4.0", "v1.4.0")
    assert tag_of(there.harness.repo) == tag_of(there.upstream.bare) == done.head
    assert git(there.harness.repo, "rev-parse", done.branch or "") == done.head
    changelog = git(there.harness.repo, "show", "v1.4.0:CHANGELOG.md")
    assert changelog.startswith(f"# Changelog\n\n## 1.4.0 - {done.created_at:%Y-%m-%d}\n\n- a change")
    assert git(there.harness.repo, "log", "-1", "--format=%s", "v1.4.0").endswith(": Changelog of 1.4.0")
    assert git(there.harness.repo, "rev-parse", "v1.4.0^") == git(there.harness.repo, "rev-parse", "main")


def test_a_release_is_tagged_and_pushed_when_a_person_has_said_so_and_not_before(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path) as there:
        task = submit(there.harness)
        ask = there.harness.wait_until_it_asks(task)
        assert (ask.kind, there.harness.client.task(task).status) == ("review", TaskStatus.REVIEW)
        assert (tag_of(there.harness.repo), tag_of(there.upstream.bare)) == ("", "")
        assert list(there.upstream.refs()) == ["main"]
        there.harness.approve(task)
        assert_released(there, task)


def test_a_release_needs_no_word_where_the_settings_say_so(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path, auto_merge=True) as there:
        task = submit(there.harness)
        assert_released(there, task)
        assert there.harness.state(task).get("requests", []) == []


def test_a_daemon_killed_over_a_release_makes_it_once(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path) as there:
        task = submit(there.harness)
        there.harness.wait_until_it_asks(task)
        there.harness.approve(task)
        there.harness.kill()
        there.harness.start()
        assert_released(there, task)
        assert len(there.harness.journal(task, "ReleasePrepared")) == 1


@pytest.mark.parametrize("where", ["here", "there"])
def test_a_tag_that_stands_elsewhere_is_never_moved_nor_asked_about(tmp_path: Path, where: str) -> None:
    with pull_request_harness(tmp_path) as there:
        repository = there.harness.repo if where == "here" else there.upstream.bare
        git(repository, "tag", "v1.4.0", "main")
        task = submit(there.harness)
        halted = there.harness.wait_for_end(task, TaskStatus.BLOCKED)
        assert "v1.4.0" in (halted.block_reason or "")
        assert there.harness.state(task).get("requests", []) == []
        assert tag_of(repository) == git(there.harness.repo, "rev-parse", "main")
        other = there.upstream.bare if where == "here" else there.harness.repo
        assert tag_of(other) == ""
        git(repository, "tag", "--delete", "v1.4.0")
        there.harness.client.request(task, "retry")
        there.harness.wait_until_it_asks(task)
        there.harness.approve(task)
        assert_released(there, task)


def test_a_release_without_a_version_says_how_to_name_one(tmp_path: Path) -> None:
    with pull_request_harness(tmp_path) as there:
        task = there.harness.submit("Release what we have\n\nAll of it.\n", pipeline="release")
        halted = there.harness.wait_for_end(task, TaskStatus.BLOCKED)
        assert "## Version" in (halted.block_reason or "")
