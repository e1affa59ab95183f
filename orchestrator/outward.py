"""Where a task's change goes when it is done: whether its repository has a forge, and as whom we come there."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from orchestrator.core.model import Task
from orchestrator.core.pipeline import Pipeline
from orchestrator.core.publication import Publication, Publish
from orchestrator.forge.errors import ForgeError, UnknownForge
from orchestrator.forge.opening import Host, open_forge
from orchestrator.forge.remote import Kind, remote_of, without_login
from orchestrator.repository import open_repository
from orchestrator.settings import ForgeSettings

TOKENS = {"github.com": (Kind.GITHUB, "GITHUB_TOKEN"), "gitlab.com": (Kind.GITLAB, "GITLAB_TOKEN")}
"""The variables that hold the public forges' tokens; without one, `gh` and `glab` are asked."""


def hosts_of(settings: ForgeSettings, environment: Mapping[str, str]) -> Mapping[str, Host]:
    """What is told of each forge; a token goes to the host that it was named for and nowhere else."""
    public = {
        name: Host(kind=kind, token=environment.get(variable) or None) for name, (kind, variable) in TOKENS.items()
    }
    declared = {
        name.lower(): Host(
            kind=Kind(one.kind), api=one.api or None, token=environment.get(one.token_env) if one.token_env else None
        )
        for name, one in settings.hosts.items()
    }
    return {**public, **declared}


def to_be_published(task: Task, pipeline: Pipeline, settings: ForgeSettings, hosts: Mapping[str, Host]) -> Task:
    """The task with the forge that its change will be brought to, if it has one. Blocks.

    Where the forge is known but cannot be used, the change stays at home, and the task says why.
    """
    publishes = {stage.publish for stage in pipeline.stages.values()} & {Publish.PULL_REQUEST, Publish.RELEASE}
    if not settings.publish or not publishes:
        return task
    git, _ = open_repository(Path(task.repo))
    address = git.ask("config", "--get", "remote.origin.url")
    if address is None:
        return task
    try:
        remote_of(address)
    except UnknownForge:
        return task  # a folder of this machine: there is nothing to propose anything on
    try:
        open_forge(address, hosts).forge.close()
    except ForgeError as error:
        return replace(task, publication=Publication(hindrances=(f"no pull request will be made: {error}",)))
    return replace(task, publication=Publication(forge=without_login(address)))
