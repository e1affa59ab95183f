"""The daemon's copy of a repository elsewhere: a bare repository whose `origin` is the address.

Tasks begin from it and are delivered to it, as to any repository of the user's; publishing pushes to its `origin`. A
branch of the copy follows that of the remote as long as no task's result was put there.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.daemon.sources.address import AddressRefused
from orchestrator.integrations.credentials import Credentials
from orchestrator.integrations.forges.remote import without_login
from orchestrator.integrations.publishing.push import access_to
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.folders import build_aside
from orchestrator.workspaces.git import Git, GitError
from orchestrator.workspaces.removal.tips import commits_beyond

FETCH_TIMEOUT, LOOK_TIMEOUT = 3600.0, 60.0
REMOTE, HEADS = "refs/remotes/origin/", "refs/heads/"
_FETCH = ("fetch", "--quiet", "--prune", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance")
_WHAT = (f"+{HEADS}*:{REMOTE}*", "+refs/tags/*:refs/tags/*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """The copy at `folder` of what is at `address`; `login` is for https to its own host."""

    address: str
    folder: Path
    login: Credentials | None

    def bring_up_to_date(self) -> None:
        """Clone the repository, or fetch what is new. Blocks. Raises AddressRefused with what git said."""
        try:
            if self.folder.exists():
                self._fetch(self.folder)
                os.utime(self.folder)  # when a copy was used last decides how long it is kept
            else:
                build_aside(self.folder, self._fill)
        except GitError as error:
            said = escape_text(error.stderr.replace(self.address, without_login(self.address)), 500)
            raise AddressRefused(
                f"{without_login(self.address)} cannot be cloned: {said or 'git did not end in time'}; make sure that "
                "`git ls-remote` works by hand as the daemon's user: over ssh with a key without a passphrase and a "
                "known host, over https with the forge's token in the settings or its tool's login"
            ) from error

    def only_here(self) -> str:
        """Return what of the copy the remote does not have now; empty if it can be cloned again whole. Blocks.

        Raises GitError where the remote cannot be asked.
        """
        git = Git.own(self.folder)
        online = replace(git, network=True, overrides=access_to(self.address, self.login))
        listed = online.run("ls-remote", "--heads", "--tags", "--", self.address, timeout=LOOK_TIMEOUT)
        there = {line.partition("\t")[0] for line in listed.splitlines()}
        count = len(commits_beyond(git, set(_refs(git, "refs/").values()), there))
        return f"{count} commits that {escape_text(without_login(self.address))} does not have" if count else ""

    @property
    def size(self) -> int:
        """Bytes that are here so far, also while it is being cloned."""
        places = (self.folder, self.folder.with_name(f".{self.folder.name}.new"))
        return sum(_size(place) for place in places)

    def _fill(self, folder: Path) -> None:
        Git(folder=folder).run("init", "--quiet", "--bare", "--template=", "--initial-branch=main", str(folder))
        git = Git.own(folder)
        for key, value in (("remote.origin.url", self.address), ("gc.auto", "0")):
            git.run("config", "--local", key, value)
        self._fetch(folder)

    def _fetch(self, folder: Path) -> None:
        git = Git.own(folder)
        online = replace(git, network=True, overrides=access_to(self.address, self.login))
        before = _refs(git, REMOTE)
        online.run(*_FETCH, "--", self.address, *_WHAT, timeout=FETCH_TIMEOUT)
        head = online.run("ls-remote", "--symref", "--", self.address, "HEAD", timeout=FETCH_TIMEOUT)
        _follow(git, before, _refs(git, REMOTE))
        branch = next((line.split()[1] for line in head.splitlines() if line.startswith(f"ref: {HEADS}")), None)
        if branch is not None:
            git.run("symbolic-ref", "HEAD", branch)


def copy_at(folder: Path, login_of: Callable[[str], Credentials | None]) -> Copy:
    """Return the copy in a folder. Blocks. Raises GitError if it is none."""
    address = Git.own(folder).run("config", "--get", "remote.origin.url").strip()
    return Copy(address=address, folder=folder, login=login_of(address))


def _follow(git: Git, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Set each branch to that of the remote, unless it was set by somebody else since."""
    ours = _refs(git, HEADS)
    orders = [
        f"update {HEADS}{name} {commit} {ours.get(name, '0' * len(commit))}\n"
        for name, commit in now.items()
        if ours.get(name) in {None, before.get(name)} and ours.get(name) != commit
    ]
    orders += [
        f"delete {HEADS}{name} {commit}\n"
        for name, commit in before.items()
        if name not in now and ours.get(name) == commit
    ]
    if orders:
        git.run("update-ref", "--stdin", stdin="".join(orders).encode("utf-8", "surrogateescape"))


def _refs(git: Git, prefix: str) -> dict[str, str]:
    """Return the commits of refs by their names after a prefix."""
    listed = git.run("for-each-ref", "--format=%(refname) %(objectname)", prefix)
    pairs = (line.partition(" ") for line in listed.splitlines())
    return {name.removeprefix(prefix): commit for name, _, commit in pairs}


def _size(folder: Path) -> int:
    try:
        return sum(file.stat().st_size for file in (folder / "objects/pack").iterdir())
    except OSError:
        return 0
