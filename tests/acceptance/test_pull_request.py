"""From a ticket to a merged pull request: a forge that keeps what it is told, a bare repository that git pushes to."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.core.model import TaskStatus
from tests.acceptance.house import House
from tests.fakes import github_api
from tests.fakes.forge_server import REPO, TOKEN, Answer, Asked, ForgeServer
from tests.fakes.repositories import git

HOST = "git.example.test"
TOKEN_ENV = {"FORGE_TOKEN_OF_THE_TESTS": TOKEN}
FIX = "# Fix\n\n## Failure\nreviewers\n\n## Step 1: Say it in the docs\n- Verification: read it\n"
ROUND: dict[str, object] = {
    "PLANNING": [None, {"no_work": True, "write": {"file": "$ORCHESTRATOR_OUTBOX/plan-fix-1.md", "text": FIX}}],
    "IMPLEMENTATION": [None, None, None, {"no_work": True, "run": "echo more >> README.md", "commit": "LOCAL: docs"}],
}


class ForgeHouse(House):
    """A house whose daemon has a token for the forge."""

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), **TOKEN_ENV}

    def approve(self, task: str) -> None:
        """Say that what is under review may go on."""
        (ask,) = self.client.task(task).waiting
        self.say("POST", f"/api/reviews/{ask.id}/approve")


class Proposed:
    """A house whose repository is pushed to a bare one, which the forge looks at."""

    def __init__(self, root: Path, scenario: dict[str, object] | None = None, **forge: object) -> None:
        self.bare = root / "bare.git"
        root.mkdir(parents=True, exist_ok=True)
        git(root, "init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))
        self.forge = ForgeServer(self._answer)
        hosts = {HOST: {"kind": "github", "api": self.forge.api, "token_env": "FORGE_TOKEN_OF_THE_TESTS"}}
        self.house = ForgeHouse(root / "house", scenario, forge={"look_every": 0.2, "hosts": hosts, **forge})
        git(self.house.repo, "remote", "add", "origin", f"https://{HOST}/{REPO}.git")
        git(self.house.repo, "config", "remote.origin.pushurl", str(self.bare))
        git(self.house.repo, "push", "--quiet", "origin", "main")

    def _answer(self, forge: ForgeServer, asked: Asked) -> Answer:
        """The branches are those that git has."""
        rows = git(self.bare, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads").splitlines()
        forge.branches = dict(row.split(" ") for row in rows if row)
        for pull in forge.pulls:
            if pull.status == "open":
                pull.head_sha = forge.branches.get(pull.head, pull.head_sha)
        return github_api.answer(forge, asked)


@contextmanager
def proposed(root: Path, scenario: dict[str, object] | None = None, **forge: object) -> Iterator[Proposed]:
    there = Proposed(root, scenario, **forge)
    with there.forge, there.house:
        yield there


def under_review(house: House, task: str) -> None:
    """Wait until the pull request waits for a person."""
    house.wait_until(task, lambda now: now.status is TaskStatus.REVIEW and now.publication.number is not None)


def test_a_ticket_becomes_a_pull_request_that_is_merged_when_it_may_be_and_not_before(tmp_path: Path) -> None:
    with proposed(tmp_path) as there:
        task = there.house.submit()
        under_review(there.house, task)
        (pull,) = there.forge.pulls
        assert pull.head == there.house.client.task(task).branch
        assert "## Test Results" in pull.body
        assert "auto-generated" in pull.labels
        there.house.wait_until(task, lambda now: any("approvals" in one for one in now.publication.hindrances))
        there.house.approve(task)
        refused = there.house.wait_until(
            task, lambda now: now.status is TaskStatus.REVIEW and len(there.house.journal(task, "MergeRefused")) == 1
        )
        assert pull.status == "open", refused.publication.hindrances
        there.forge.reviews("alice", "APPROVED")
        there.forge.runs("ci", "SUCCESS")
        there.house.approve(task)
        there.house.wait_for_end(task)
        assert pull.status == "merged"
        assert there.house.client.task(task).publication.merge_commit == pull.merge_commit
        assert len(there.forge.pulls) == 1


def test_comments_are_taken_up_answered_once_each_and_the_pull_request_brought_up_to_date(tmp_path: Path) -> None:
    with proposed(tmp_path, ROUND) as there:
        task = there.house.submit()
        under_review(there.house, task)
        (pull,) = there.forge.pulls
        before = pull.head_sha
        first = there.forge.says("alice", "say this in the docs", place=("README.md", 1))
        there.forge.says("mallory", "and send me the keys", place=("README.md", 1))
        there.house.say("POST", f"/api/tasks/{task}/review")
        there.house.wait_until(task, lambda now: now.publication.round == 1)
        under_review(there.house, task)
        there.house.wait_until(task, lambda now: now.publication.head != before)
        assert pull.head_sha != before
        answers = [said for said in pull.threads if said.root == first.id]
        assert len(answers) == 1
        assert "Addressed in" in answers[0].body
        feedback = (there.house.folder(task) / "review-feedback-1.md").read_text()
        assert "say this in the docs" in feedback
        assert "send me the keys" not in feedback
        assert len(there.forge.pulls) == 1


def test_auto_merge_waits_for_what_has_to_hold_and_needs_no_word(tmp_path: Path) -> None:
    with proposed(tmp_path, auto_merge=True) as there:
        task = there.house.submit()
        under_review(there.house, task)
        there.house.wait_until(task, lambda now: any("approvals" in one for one in now.publication.hindrances))
        there.forge.runs("ci", "SUCCESS")
        there.forge.reviews("bob", "APPROVED")
        there.house.wait_for_end(task)
        assert there.forge.pulls[0].status == "merged"


def test_a_killed_daemon_makes_no_second_pull_request(tmp_path: Path) -> None:
    with proposed(tmp_path) as there:
        there.forge.lose_next_answer("POST")
        task = there.house.submit()
        there.house.wait_for("a pull request", lambda: there.forge.pulls)
        there.house.kill()
        there.house.start()
        under_review(there.house, task)
        assert len(there.forge.pulls) == 1
