"""A harness whose repository has a forge: a bare repository that git pushes to, and a server that looks at it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.core.task.task import TaskStatus
from orchestrator.server.schemas.tasks import TaskView
from tests.acceptance.harness import DaemonHarness
from tests.fakes import github_api
from tests.fakes.forge_server import REPO, TOKEN, Answer, Asked, ForgeServer, Pull
from tests.fakes.repositories import git

HOST = "git.example.test"
TOKEN_VARIABLE = "FORGE_TOKEN_OF_THE_TESTS"
LOOK_EVERY = 0.5
"""Seconds."""
REFUSAL = "#!/bin/sh\necho 'protected branch' >&2\nexit 1\n"


class Upstream:
    """The remote of a user's repository, and the forge that shows it."""

    def __init__(self, root: Path) -> None:
        self.bare = root / "bare.git"
        root.mkdir(parents=True, exist_ok=True)
        git(root, "init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))
        self.forge = ForgeServer(self._answer)

    def settings(self, **forge: object) -> dict[str, object]:
        """The daemon's section `forge`."""
        hosts = {HOST: {"kind": "github", "api": self.forge.api, "token_env": TOKEN_VARIABLE}}
        return {"look_every": LOOK_EVERY, "hosts": hosts, **forge}

    def adopt(self, repository: Path) -> None:
        """Be the origin of a user's repository."""
        git(repository, "remote", "add", "origin", f"https://{HOST}/{REPO}.git")
        git(repository, "config", "remote.origin.pushurl", str(self.bare))
        git(repository, "push", "--quiet", "origin", "main")

    def refs(self, pattern: str = "refs/heads") -> dict[str, str]:
        """The refs that were pushed, by their short names."""
        rows = git(self.bare, "for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", pattern).splitlines()
        return dict(row.split(" ") for row in rows if row)

    def refuse(self, *, pushes: bool) -> None:
        """Take no push from now on, or every one again."""
        hook = self.bare / "hooks/pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.unlink(missing_ok=True)
        if pushes:
            hook.write_text(REFUSAL)
            hook.chmod(0o755)

    def _answer(self, forge: ForgeServer, asked: Asked) -> Answer:
        """The branches are those that git has, but for the base, which merges move on the forge alone."""
        forge.branches = self.refs()
        for pull in forge.pulls:
            if pull.status == "open":
                pull.head_sha = forge.branches.get(pull.head, pull.head_sha)
        answer = github_api.answer(forge, asked)
        for gone in set(self.refs()) - set(forge.branches):
            git(self.bare, "update-ref", "-d", f"refs/heads/{gone}")
        return answer


class ForgeDaemonHarness(DaemonHarness):
    """A harness whose daemon has a token for the forge."""

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), TOKEN_VARIABLE: TOKEN}

    def approve(self, task: str) -> None:
        """Say that what is under review may go on."""
        (ask,) = self.client.task(task).waiting
        self.request("POST", f"/api/reviews/{ask.id}/approve")


class PullRequestHarness:
    """A harness and the forge that its repository is pushed to."""

    def __init__(self, root: Path, scenario: dict[str, object] | None = None, **forge: object) -> None:
        self.upstream = Upstream(root)
        self.forge = self.upstream.forge
        self.harness = ForgeDaemonHarness(root / "harness", scenario, forge=self.upstream.settings(**forge))
        self.upstream.adopt(self.harness.repo)

    def under_review(self, task: str) -> Pull:
        """The task's pull request, once it waits for what happens there."""
        self.harness.wait_until(
            task, lambda now: now.status is TaskStatus.REVIEW and now.publication.number is not None
        )
        return self.forge.pulls[-1]

    def hindered(self, task: str, *words: str) -> TaskView:
        """Wait until just so many things hinder the merge, each told in words that hold these."""
        return self.harness.wait_until(
            task,
            lambda now: (
                now.status is TaskStatus.REVIEW
                and len(now.publication.hindrances) == len(words)
                and all(any(word in said for said in now.publication.hindrances) for word in words)
            ),
        )

    def accept(self) -> None:
        """Do all on the forge that a merge waits for."""
        self.forge.runs("ci", "SUCCESS")
        self.forge.reviews("alice", "APPROVED")
        for said in self.forge.pulls[-1].threads:
            said.resolved = True


@contextmanager
def pull_request_harness(
    root: Path, scenario: dict[str, object] | None = None, **forge: object
) -> Iterator[PullRequestHarness]:
    """A harness with a daemon and a forge, both at work."""
    there = PullRequestHarness(root, scenario, **forge)
    with there.forge, there.harness:
        yield there
