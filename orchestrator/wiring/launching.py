"""What agents, checks and new tasks are started with, as the settings say."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from orchestrator.agents.claude_folder import SharedLogin, users_folder
from orchestrator.agents.drivers import inherited
from orchestrator.agents.mcp_servers import preflight
from orchestrator.core.task.checks import Check
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.core.task.ticket import Preflight
from orchestrator.daemon.isolation import isolation_of
from orchestrator.daemon.launching import LaunchConfig, driver_of, installation_of, limits_of
from orchestrator.daemon.runs import RunExecutor
from orchestrator.daemon.task_factory import TaskFactory
from orchestrator.errors import OrchestratorError
from orchestrator.pipelines.definitions import DefinitionRegistry, UnknownRole
from orchestrator.pipelines.role import Role, Tier, model_of
from orchestrator.settings.environment import environment, environment_with_secrets
from orchestrator.settings.settings import Settings
from orchestrator.wiring.base import QUARANTINE, Base
from orchestrator.workspaces.evaluation.judge import Judge


def _preflight(settings: Settings, definitions: DefinitionRegistry) -> Callable[[Pipeline], Preflight]:
    """Return a check of what the roles of a pipeline need, in the environment that agents get."""
    agent = settings.agent
    env = {**inherited(environment_with_secrets(), agent.pass_env), **agent.env}
    return lambda pipeline: preflight(map(definitions.role, pipeline.roles), agent.mcp_config, env)


class ModelChoice(Protocol):
    """What names models: roles by their names, the models of tiers, and the model of all others."""

    @property
    def role(self) -> Callable[[str], Role]: ...

    @property
    def tiers(self) -> Mapping[Tier, str]: ...

    @property
    def model(self) -> str: ...


class ModelsOfTasks:
    """The models that the next turns of tasks use. Tasks that share a pipeline, stage and policy share the answer,
    because scheduling asks for every task that waits; it counts until definitions or settings change.
    """

    def __init__(
        self,
        pipeline_of: Callable[[Task], Pipeline],
        definitions: Callable[[], object],
        choice: Callable[[], ModelChoice],
    ) -> None:
        self._pipeline_of, self._definitions, self._choice = pipeline_of, definitions, choice
        self._made_from: tuple[object, object] = (None, None)
        self._known: dict[tuple[str | None, ...], str] = {}

    def model_of(self, task: Task) -> str:
        """Return the model named by the role of the task's stage or by the settings; empty if the CLI chooses.

        It is also empty if the task's pipeline or role is lost, which must not keep other tasks from being scheduled:
        the task's own next decision or turn finds that. Any thread may ask.
        """
        choice, definitions = self._choice(), self._definitions()
        if self._made_from[0] is not choice or self._made_from[1] is not definitions:
            self._known, self._made_from = {}, (choice, definitions)
        known, pipeline = self._known, task.pipeline_digest or task.id
        key = (pipeline, task.stage, task.policy.planning_model, task.policy.impl_model)
        if key not in known:
            try:
                known[key] = self._named(task, choice) or choice.model
            except UnknownRole:
                known[key] = ""
            except OrchestratorError:
                return ""
        return known[key]

    def _named(self, task: Task, choice: ModelChoice) -> str | None:
        role = self._pipeline_of(task).stage(task.stage).role
        return model_of(choice.role(role), task.policy, choice.tiers) if role else None


def task_factory(base: Base, settings: Settings, running: RunExecutor) -> TaskFactory:
    def objection(pipeline: Pipeline, checks: Sequence[Check]) -> str:
        return running.launching.isolation.objection(map(base.definitions.role, pipeline.roles), checks)

    return TaskFactory(
        files=base.files,
        quarantine_dir=settings.data_dir / QUARANTINE,
        settings=settings,
        pipelines=lambda: base.definitions.now.pipelines,
        redactor=base.redactor,
        preflight=_preflight(settings, base.definitions),
        objection=objection,
    )


def launch_config(base: Base, settings: Settings, judge: Judge) -> LaunchConfig:
    tokens = {host.token_env for host in settings.forge.hosts.values()}.difference(settings.agent.pass_env)
    base_env = {name: value for name, value in environment_with_secrets().items() if name not in tokens}
    isolation = isolation_of(settings, environment(), base.config, base.files, base.workspace.objects_of)
    users = users_folder({**inherited(base_env, settings.agent.pass_env), **settings.agent.env})
    shares_login = isolation.program is not None and settings.agent.driver == "claude"
    return LaunchConfig(
        driver=driver_of(settings),
        installation=installation_of(settings, base_env),
        judge=judge,
        role=base.definitions.role,
        provided=base.secrets.environment,
        masked=base.secrets.values,
        model=settings.agent.model,
        tiers={Tier(name): model for name, model in settings.agent.tiers if model},
        base_env=base_env,
        limits=limits_of(settings.orphan_after, settings.graces),
        isolation=isolation,
        login=SharedLogin(users=users.login, folder=settings.data_dir / "login") if shares_login else None,
        socket=settings.agents_socket,
    )
