"""A release: the changelog's entry as a commit, then, once it is confirmed, the tag at exactly that commit.

The order is changelog, confirmation, tag, push (sources.md §5.2 row 56). The commit is made with git's plumbing in the
daemon's clone, so nothing of the repository runs; a ref remembers it, so that asking again makes no second one.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from orchestrator.clone import Clone
from orchestrator.core import commands as do
from orchestrator.core.changelog import entry_of, version_of, with_entry
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.model import Task
from orchestrator.core.stream.fields import object_of, text_of
from orchestrator.files import content_of, parsed
from orchestrator.forge.login import Login
from orchestrator.push import push, stands_at
from orchestrator.workspace import Workspace

CHANGELOG, SUMMARY = "CHANGELOG.md", "release-summary.md"
_MODE = "100644"


class ReleaseError(OrchestratorError):
    """A release cannot be prepared or tagged as it stands; the message says what to mend."""


@dataclass(frozen=True, slots=True)
class Release:
    """Prepares and tags releases; every method blocks and may be called again."""

    workspace: Workspace

    def prepare(self, task: Task, commit: str, fit: Callable[[str], str]) -> tuple[str, str]:
        """The version, and the commit that adds it to the changelog; `fit` makes its words fit to leave."""
        folder = Path(task.folder)
        summary = (content_of(folder / SUMMARY) or b"").decode("utf-8", "replace")
        ticket = object_of(object_of(parsed(content_of(folder / "ticket-parsed.json") or b"")).get("fields"))
        version = version_of(text_of(ticket.get("version"), 100), summary, task.title)
        if version is None:
            raise ReleaseError(
                "no version is named: write `## Version` with a number like 1.2.3 into the ticket, then submit it anew"
            )
        entry = fit(entry_of(summary))
        ref = f"refs/orchestrator/{task.id}/release-{version}-{sha256(entry.encode()).hexdigest()[:12]}"
        clone = self.workspace.clone_of(task.id)
        made = clone.ref(ref)
        if made is not None:
            return version, made
        if clone.git.ask("check-ref-format", f"refs/tags/v{version}") is None:
            raise ReleaseError(f"v{version} cannot be the name of a tag; name another version, then submit it anew")
        text = with_entry(_changelog(clone, commit), version, f"{task.created_at:%Y-%m-%d}", entry)
        tree = self.workspace.tree_with(task.id, commit, CHANGELOG, os.fsencode(text), _MODE)
        subject = f"{task.ticket.key}: Changelog of {version}"
        made = clone.git.run("commit-tree", tree, "-p", commit, "-m", fit(subject)).strip()
        clone.git.run("update-ref", ref, made, "0" * len(made))
        return version, made

    def tag(self, task: Task, command: do.TagRelease, address: str | None, login: Login | None) -> str:
        """Set the tag in the user's repository and push it with the branch; the tag's name.

        Raises ReleaseError where that tag stands at another commit, and what delivering and pushing raise.
        """
        tag = f"v{command.version}"
        ref = f"refs/tags/{tag}"
        clone = self.workspace.clone_of(task.id)
        there = stands_at(clone.git, address, ref, login) if address else None
        if there not in (None, command.commit):
            raise ReleaseError(f"the remote has a tag {tag} at {there[:12]}; choose another version")
        self.workspace.deliver(task.id, Path(task.repo), command.branch, command.commit)
        self.workspace.set_tag(Path(task.repo), tag, command.commit)
        if address:
            push(clone, address, command.commit, f"refs/heads/{command.branch}", login)
            push(clone, address, command.commit, ref, login)
        return tag


def _changelog(clone: Clone, commit: str) -> str:
    """What the changelog holds, bytes that are no UTF-8 kept as surrogates; "" where there is none."""
    listed = clone.git.run("ls-tree", commit, CHANGELOG)
    if not listed:
        return ""
    if listed.split(" ")[1] != "blob":
        raise ReleaseError(f"{CHANGELOG} is no file in {commit[:12]}; make it one, then submit the release anew")
    return clone.git.run("cat-file", "blob", f"{commit}:{CHANGELOG}")
