"""A release: the changelog entry as a commit, then, once it is confirmed, the tag at exactly that commit.

The order is changelog, confirmation, tag, push. The commit is made with git's plumbing commands in the daemon's clone,
so no hook of the repository runs; a ref records it, so that a repetition makes no second one.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from orchestrator.core.events import commands as do
from orchestrator.core.task.task import Task
from orchestrator.errors import OrchestratorError
from orchestrator.formats.fields import object_of, text_of
from orchestrator.formats.files import parsed
from orchestrator.integrations.credentials import Credentials
from orchestrator.integrations.forges.remote import without_login
from orchestrator.integrations.publishing.changelog import entry_of, version_of, with_entry
from orchestrator.integrations.publishing.push import push, remote_commit
from orchestrator.redaction.display import escape_text
from orchestrator.storage.task_files import TaskFiles
from orchestrator.workspaces.clone import Clone
from orchestrator.workspaces.repository import open_repository
from orchestrator.workspaces.workspace import Workspace

CHANGELOG = "CHANGELOG.md"
_MODE = "100644"


class ReleaseError(OrchestratorError):
    """A release cannot be prepared or tagged as it is; the message says what to fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """The address that a release is pushed to, and the login for it."""

    address: str
    login: Credentials | None


@dataclass(frozen=True, slots=True)
class Release:
    """Prepares and tags releases; every method blocks and may be called again."""

    workspace: Workspace
    files: TaskFiles

    def prepare(
        self, task: Task, summary: str, commit: str, fit: Callable[[str], str], upstream: Upstream | None
    ) -> tuple[str, str]:
        """Return the version, and the commit that adds the summary to the changelog; `fit` filters its texts.

        Raises ReleaseError if the version is taken already, before anybody is asked to confirm it.
        """
        ticket = object_of(object_of(parsed(self.files.read(task.id, "ticket-parsed.json"))).get("fields"))
        version = version_of(text_of(ticket.get("version"), 100), summary, task.title)
        if version is None:
            raise ReleaseError(
                "no version is named: write `## Version` with a number like 1.2.3 into the ticket, then submit it again"
            )
        entry = fit(entry_of(summary))
        ref = f"refs/orchestrator/{task.id}/release-{version}-{sha256(entry.encode()).hexdigest()[:12]}"
        clone = self.workspace.clone_of(task.id)
        made = clone.ref(ref)
        self._must_be_free(task, f"v{version}", made, upstream)
        if made is not None:
            return version, made
        if clone.git.ask("check-ref-format", f"refs/tags/v{version}") is None:
            raise ReleaseError(f"v{version} cannot be the name of a tag; name another version, then submit it again")
        text = with_entry(_changelog(clone, commit), version, f"{task.timing.created_at:%Y-%m-%d}", entry)
        tree = self.workspace.tree_with(task.id, commit, CHANGELOG, os.fsencode(text), _MODE)
        subject = f"{task.ticket.key}: Changelog of {version}"
        made = clone.git.run("commit-tree", tree, "-p", commit, "-m", fit(subject)).strip()
        clone.git.run("update-ref", ref, made, "0" * len(made))
        return version, made

    def tag(self, task: Task, command: do.TagRelease, upstream: Upstream | None) -> str:
        """Set the tag in the user's repository, push it with the branch, and return its name.

        Raises ReleaseError if the tag is at another commit, and what delivering and pushing raise.
        """
        tag = f"v{command.version}"
        self._must_be_free(task, tag, command.commit, upstream)
        self.workspace.deliver(task.id, Path(task.source.repo), command.branch, command.commit)
        self.workspace.set_tag(Path(task.source.repo), tag, command.commit)
        if upstream:
            clone = self.workspace.clone_of(task.id)
            push(clone, upstream.address, command.commit, f"refs/heads/{command.branch}", upstream.login)
            push(clone, upstream.address, command.commit, f"refs/tags/{tag}", upstream.login)
        return tag

    def _must_be_free(self, task: Task, tag: str, commit: str | None, upstream: Upstream | None) -> None:
        """Raise ReleaseError if the tag is at another commit in the user's repository or upstream."""
        ref, (user, _) = f"refs/tags/{tag}", open_repository(Path(task.source.repo))
        places = {escape_text(task.source.repo): user.ask("rev-parse", "--verify", "--quiet", ref)}
        if upstream:
            git = self.workspace.clone_of(task.id).git
            places[without_login(upstream.address)] = remote_commit(git, upstream.address, ref, upstream.login)
        for place, there in places.items():
            if there not in (None, commit):
                raise ReleaseError(
                    f"{place} has a tag {tag} already, at {there[:12]}; delete it there and retry, or choose another"
                    " version: name it under `## Version` in the ticket, then submit it again"
                )


def _changelog(clone: Clone, commit: str) -> str:
    """Return the text of the changelog, with surrogates for bytes that are not UTF-8; "" if there is none."""
    listed = clone.git.run("ls-tree", commit, CHANGELOG)
    if not listed:
        return ""
    if listed.split(" ")[1] != "blob":
        raise ReleaseError(f"{CHANGELOG} is not a file in {commit[:12]}; make it one, then submit the release again")
    return clone.git.run("cat-file", "blob", f"{commit}:{CHANGELOG}")
