"""A release from its ticket to the tag: changelog, a person's word, the tag at home and on the remote."""

from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.forge_house import Proposed, proposed
from tests.acceptance.house import House
from tests.fakes.repositories import git

TICKET = "Release 1.4.0\n\n## Version\n\n1.4.0\n\n## Included Changes\n\n- slugify\n"


def submit(house: House) -> str:
    """The task of a release."""
    return house.submit(TICKET, pipeline="release")


def tag_of(repository: Path) -> str:
    """The commit of the tag, empty where there is none."""
    return git(repository, "for-each-ref", "--format=%(objectname)", "refs/tags/v1.4.0")


def assert_released(there: Proposed, task: str) -> None:
    done = there.house.wait_for_end(task)
    assert (done.publication.version, done.publication.tag) == ("1.4.0", "v1.4.0")
    assert tag_of(there.house.repo) == tag_of(there.upstream.bare) == done.head
    assert git(there.house.repo, "rev-parse", done.branch or "") == done.head
    changelog = git(there.house.repo, "show", "v1.4.0:CHANGELOG.md")
    assert changelog.startswith(f"# Changelog\n\n## 1.4.0 - {done.created_at:%Y-%m-%d}\n\n- a change")
    assert git(there.house.repo, "log", "-1", "--format=%s", "v1.4.0").endswith(": Changelog of 1.4.0")
    assert git(there.house.repo, "rev-parse", "v1.4.0^") == git(there.house.repo, "rev-parse", "main")


def test_a_release_is_tagged_and_pushed_when_a_person_has_said_so_and_not_before(tmp_path: Path) -> None:
    with proposed(tmp_path) as there:
        task = submit(there.house)
        ask = there.house.wait_until_it_asks(task)
        assert (ask.kind, there.house.client.task(task).status) == ("review", TaskStatus.REVIEW)
        assert (tag_of(there.house.repo), tag_of(there.upstream.bare)) == ("", "")
        assert list(there.upstream.refs()) == ["main"]
        there.house.approve(task)
        assert_released(there, task)


def test_a_release_needs_no_word_where_the_settings_say_so(tmp_path: Path) -> None:
    with proposed(tmp_path, auto_merge=True) as there:
        task = submit(there.house)
        assert_released(there, task)
        assert there.house.state(task).get("requests", []) == []


def test_a_daemon_killed_over_a_release_makes_it_once(tmp_path: Path) -> None:
    with proposed(tmp_path) as there:
        task = submit(there.house)
        there.house.wait_until_it_asks(task)
        there.house.approve(task)
        there.house.kill()
        there.house.start()
        assert_released(there, task)
        assert len(there.house.journal(task, "ReleasePrepared")) == 1


@pytest.mark.parametrize("where", ["here", "there"])
def test_a_tag_that_stands_elsewhere_is_never_moved_nor_asked_about(tmp_path: Path, where: str) -> None:
    with proposed(tmp_path) as there:
        repository = there.house.repo if where == "here" else there.upstream.bare
        git(repository, "tag", "v1.4.0", "main")
        task = submit(there.house)
        halted = there.house.wait_for_end(task, TaskStatus.BLOCKED)
        assert "v1.4.0" in (halted.block_reason or "")
        assert there.house.state(task).get("requests", []) == []
        assert tag_of(repository) == git(there.house.repo, "rev-parse", "main")
        other = there.upstream.bare if where == "here" else there.house.repo
        assert tag_of(other) == ""
        git(repository, "tag", "--delete", "v1.4.0")
        there.house.client.request(task, "retry")
        there.house.wait_until_it_asks(task)
        there.house.approve(task)
        assert_released(there, task)


def test_a_release_without_a_version_says_how_to_name_one(tmp_path: Path) -> None:
    with proposed(tmp_path) as there:
        task = there.house.submit("Release what we have\n\nAll of it.\n", pipeline="release")
        halted = there.house.wait_for_end(task, TaskStatus.BLOCKED)
        assert "## Version" in (halted.block_reason or "")
