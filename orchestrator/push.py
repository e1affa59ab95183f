"""Pushing exactly one ref to the remote of the user's repository, with the user's own access and nothing forced.

It is pushed from the daemon's clone, so no hook and no configuration of the user's repository runs; only the address is
read there. Over https the forge's token is handed to git in its environment, over ssh the user's own keys are used.
"""

from base64 import b64encode
from dataclasses import replace
from pathlib import Path

from orchestrator.clone import Clone
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.escape import shown
from orchestrator.forge.login import Login
from orchestrator.forge.remote import without_login
from orchestrator.git import Git, GitError
from orchestrator.repository import open_repository

PUSH_TIMEOUT = 1800.0


class PushRefused(OrchestratorError):
    """The remote did not take what was pushed; the message says which and what it said."""


def push_address(repository: Path) -> str | None:
    """Where the user's repository is pushed to; None if it has no remote `origin`."""
    git, _ = open_repository(repository)
    return git.ask("config", "--get", "remote.origin.pushurl") or git.ask("config", "--get", "remote.origin.url")


def push(clone: Clone, address: str, commit: str, ref: str, login: Login | None) -> None:
    """Have `ref` stand at `commit` on the remote; there already, it stays. Raises PushRefused.

    A ref that is not behind the commit is refused by git itself, for nothing is ever forced.
    """
    git = replace(clone.git, network=True, overrides=_access(address, login))
    try:
        git.run("push", "--quiet", "--no-verify", address, f"{commit}:{ref}", timeout=PUSH_TIMEOUT)
    except GitError as error:
        said = shown(error.stderr.replace(address, without_login(address)), 500)
        raise PushRefused(
            f"{without_login(address)} did not take {ref}: {said}; see that `git push` works there by hand, then retry"
        ) from error


def stands_at(git: Git, address: str, ref: str, login: Login | None) -> str | None:
    """The commit at which a ref stands on the remote; None if it is not there. Raises PushRefused."""
    asking = replace(git, network=True, overrides=_access(address, login))
    try:
        answer = asking.run("ls-remote", address, ref, timeout=PUSH_TIMEOUT)
    except GitError as error:
        raise PushRefused(f"{without_login(address)} cannot be read: {shown(error.stderr, 500)}") from error
    return next((line.split("\t")[0] for line in answer.splitlines() if line.endswith(f"\t{ref}")), None)


def _access(address: str, login: Login | None) -> dict[str, str]:
    """The configuration that carries a token, for https to the login's own host alone."""
    if login is None or not address.startswith(f"https://{login.host}/"):
        return {}
    basic = b64encode(f"x-access-token:{login.token}".encode()).decode()
    return {f"http.https://{login.host}/.extraHeader": f"Authorization: Basic {basic}"}
