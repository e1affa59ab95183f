"""Where a task's change goes when it is done: whether its repository has a forge, and as whom we come there."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.publication import Publication, Publish
from orchestrator.core.task.task import Task
from orchestrator.formats.fields import object_of, text_of
from orchestrator.formats.files import parsed
from orchestrator.integrations.forges.errors import ForgeError, UnknownForge
from orchestrator.integrations.forges.open_forge import Host, open_forge
from orchestrator.integrations.forges.remote import Kind, remote_of, without_login
from orchestrator.integrations.tickets.trackers import Trackers
from orchestrator.settings_sections import ForgeSettings
from orchestrator.storage.task_files import TaskFiles
from orchestrator.workspaces.repository import open_repository

LEAVES = frozenset({Publish.PULL_REQUEST, Publish.RELEASE})
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


class PublishTargets:
    """Forges and trackers as the settings name them now; every method but `tell` blocks."""

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
        """Go by these from now on."""
        self._settings, self._trackers = settings, trackers

    def hosts(self) -> Mapping[str, Host]:
        """What is told of each forge."""
        return hosts_of(self._settings, self._environment)

    def with_forge(self, task: Task) -> Task:
        """The task with the forge that its change will be brought to, if it has one.

        Where the forge is known but cannot be used, the change stays at home, and the task says why.
        """
        stages = self._pipeline_of(task).stages.values()
        if not self._settings.publish or not {stage.publish for stage in stages} & LEAVES:
            return task
        git, _ = open_repository(Path(task.source.repo))
        address = git.ask("config", "--get", "remote.origin.url")
        if address is None:
            return task
        try:
            remote_of(address)
        except UnknownForge:
            return task  # a folder of this machine: there is nothing to propose anything on
        try:
            open_forge(address, self.hosts()).forge.close()
        except ForgeError as error:
            return replace(task, publication=Publication(hindrances=(f"no pull request will be made: {error}",)))
        return replace(task, publication=Publication(forge=without_login(address)))

    async def tell(self, task: Task, text: str, status: str | None) -> str:
        """Leave words on a task's ticket and set its status; why that could not be, or nothing."""
        ticket = object_of(parsed(self._files.read(task.id, "ticket.json")))
        url = text_of(ticket.get("url"), 2000)
        return await self._trackers.tell(url, text, status) if url else ""
