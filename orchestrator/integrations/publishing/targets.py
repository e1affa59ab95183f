"""Where the change of a task is published: whether its repository is on a forge, and with which login."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.publication import Publication, Publish
from orchestrator.core.task.task import Task
from orchestrator.formats.fields import object_of, text_of
from orchestrator.formats.files import parsed
from orchestrator.integrations.credentials import Credentials
from orchestrator.integrations.errors import RemoteError
from orchestrator.integrations.forges.open_forge import Host, open_forge
from orchestrator.integrations.forges.remote import ForgeKind, UnknownForge, remote_of, without_login
from orchestrator.integrations.tickets.trackers import Trackers
from orchestrator.settings.sections.forge import ForgeSettings
from orchestrator.storage.task_files import TaskFiles
from orchestrator.workspaces.git import Git

LEAVES = frozenset({Publish.PULL_REQUEST, Publish.RELEASE})
TOKENS = {"github.com": (ForgeKind.GITHUB, "GITHUB_TOKEN"), "gitlab.com": (ForgeKind.GITLAB, "GITLAB_TOKEN")}
"""Variables with the tokens of public forges; without one, `gh` and `glab` are asked."""


def hosts_of(settings: ForgeSettings, environment: Mapping[str, str]) -> Mapping[str, Host]:
    """Return what is configured for each forge; a token is sent to the host it was configured for only."""
    public = {
        name: Host(kind=kind, token=environment.get(variable) or None) for name, (kind, variable) in TOKENS.items()
    }
    declared = {
        name.lower(): Host(
            kind=ForgeKind(one.kind),
            api=one.api or None,
            token=environment.get(one.token_env) if one.token_env else None,
        )
        for name, one in settings.hosts.items()
    }
    return {**public, **declared}


class PublishTargets:
    """The forges and trackers of the current settings; every method but `tell` blocks."""

    def __init__(
        self,
        settings: ForgeSettings,
        trackers: Trackers,
        environment: Mapping[str, str],
        pipeline_of: Callable[[Task], Pipeline],
        files: TaskFiles,
    ) -> None:
        self._environment, self._pipeline_of, self._files = environment, pipeline_of, files
        self.use(settings, trackers)

    def use(self, settings: ForgeSettings, trackers: Trackers) -> None:
        """Use these settings from now on."""
        self._settings, self._trackers = settings, trackers

    def hosts(self) -> Mapping[str, Host]:
        """Return what is configured for each forge."""
        return hosts_of(self._settings, self._environment)

    def login_of(self, address: str) -> Credentials | None:
        """Return the login for a remote's address; None if its forge is unknown, or nobody is logged in there."""
        try:
            opened = open_forge(address, self.hosts())
        except RemoteError:
            return None
        opened.forge.close()
        return opened.login

    def with_forge(self, task: Task) -> Task:
        """Return the task with the forge on which its change will be published, if there is one.

        If the forge is known but cannot be used, the change stays in the local repository, and the task says why.
        """
        stages = self._pipeline_of(task).stages.values()
        if not self._settings.publish or not {stage.publish for stage in stages} & LEAVES:
            return task
        address = Git(folder=Path(task.source.repo)).ask("config", "--get", "remote.origin.url")
        if address is None:
            return task
        try:
            remote_of(address)
        except UnknownForge:
            return task  # a local path: there is no forge
        try:
            open_forge(address, self.hosts()).forge.close()
        except RemoteError as error:
            return replace(task, publication=Publication(hindrances=(f"no pull request will be made: {error}",)))
        return replace(task, publication=Publication(forge=without_login(address)))

    async def tell(self, task: Task, text: str, status: str | None) -> str:
        """Comment on a task's ticket and set its status; return why that failed, or ""."""
        ticket = object_of(parsed(self._files.read(task.id, "ticket.json")))
        url = text_of(ticket.get("url"), 2000)
        return await self._trackers.tell(url, text, status) if url else ""
