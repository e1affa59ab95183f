"""Push exactly one ref to the remote of the user's repository, with the user's own access and never by force.

It is pushed from the daemon's clone, so no hook and no configuration of the user's repository applies; only the address
is read there. Over https git gets the forge's token in its environment, over ssh it uses the user's own keys.
"""

import re
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.integrations.credentials import Credentials
from orchestrator.integrations.errors import Unreachable
from orchestrator.integrations.forges.remote import UnknownForge, remote_of, without_login
from orchestrator.redaction.display import escape_text
from orchestrator.workspaces.clone import Clone
from orchestrator.workspaces.git import Git, GitError
from orchestrator.workspaces.repository import open_repository

PUSH_TIMEOUT = 1800.0
PUSH_AGAIN = 60.0
"""Seconds until a push to an unreachable remote is repeated."""
_UNREACHED = re.compile(
    r"could not resolve host|network is unreachable|connection (?:refused|reset|closed|timed out)|failed to connect|"
    r"unexpected disconnect|early eof|requested url returned error: (?:429|5[0-9]{2})",
    re.IGNORECASE,
)
_FORCED = re.compile(r"^ ! \[rejected\]|'Note about fast-forwards'", re.MULTILINE)
"""What git prints for a push that would need force; a refusal by the server is `[remote rejected]`."""
_OF_THE_REMOTE = re.compile(r"^remote:.*$", re.MULTILINE)


class PushRefused(OrchestratorError):
    """The remote refused a push; the message has its answer."""


def push_address(repository: Path) -> str | None:
    """Return where the user's repository is pushed to; None if it has no remote `origin`."""
    git, _ = open_repository(repository)
    return git.ask("config", "--get", "remote.origin.pushurl") or git.ask("config", "--get", "remote.origin.url")


def forge_address(repository: Path) -> str | None:
    """Return the address of the user's remote `origin`; None if that is on no forge."""
    git, _ = open_repository(repository)
    address = git.ask("config", "--get", "remote.origin.url")
    try:
        remote_of(address or "")
    except UnknownForge:
        return None
    return address


def push(clone: Clone, address: str, commit: str, ref: str, login: Credentials | None) -> None:
    """Set `ref` to `commit` on the remote, unless it is there already. Raises PushRefused and Unreachable.

    Git itself refuses a ref that is not behind the commit, because nothing is ever forced.
    """
    git = replace(clone.git, network=True, overrides=access_to(address, login))
    try:
        git.run("push", "--quiet", "--no-verify", address, f"{commit}:{ref}", timeout=PUSH_TIMEOUT)
    except GitError as error:
        said, place = _said(error, address), without_login(address)
        if _FORCED.search(_OF_THE_REMOTE.sub("", error.stderr)):
            raise PushRefused(
                f"{place} has commits of others on {ref}, which are never overwritten; move them elsewhere and reset "
                "or delete the ref there, then retry, or continue by hand"
            ) from error
        raise PushRefused(
            f"{place} did not take {ref}: {said}; make sure that `git push` works by hand, then retry"
        ) from error


def remote_commit(git: Git, address: str, ref: str, login: Credentials | None) -> str | None:
    """Return the commit of a ref on the remote; None if it has none. Raises as `push`."""
    asking = replace(git, network=True, overrides=access_to(address, login))
    try:
        answer = asking.run("ls-remote", address, ref, timeout=PUSH_TIMEOUT)
    except GitError as error:
        said = _said(error, address)
        raise PushRefused(
            f"{without_login(address)} cannot be read: {said}; make sure that `git ls-remote` works by hand, then retry"
        ) from error
    return next((line.split("\t")[0] for line in answer.splitlines() if line.endswith(f"\t{ref}")), None)


def _said(error: GitError, address: str) -> str:
    """What git said about a failure that a person has to fix. Raises Unreachable for one that passes by itself."""
    said = escape_text(error.stderr.replace(address, without_login(address)), 500)
    if error.code is None or _UNREACHED.search(_OF_THE_REMOTE.sub("", error.stderr)):
        raise Unreachable(f"{without_login(address)} cannot be reached: {said}", PUSH_AGAIN) from error
    return said


def access_to(address: str, login: Credentials | None) -> dict[str, str]:
    """Return the git configuration that carries a token, for https to the login's own host only."""
    if login is None or not address.startswith(f"https://{login.host}/"):
        return {}
    basic = b64encode(f"x-access-token:{login.token}".encode()).decode()
    return {f"http.https://{login.host}/.extraHeader": f"Authorization: Basic {basic}"}
