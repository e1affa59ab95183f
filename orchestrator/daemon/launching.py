"""What runs are started with, and the order to launch an agent that follows from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.agents.claude_folder import SharedLogin
from orchestrator.agents.drivers import ClaudeDriver, CommandDriver, Driver, Launch, inherited
from orchestrator.agents.installation import Installation
from orchestrator.core.decide.obligations import agent_run_folder
from orchestrator.core.events import commands as do
from orchestrator.core.task.budget import usd_left
from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.daemon.isolation import Isolation
from orchestrator.pipelines.role import Role, Tier, model_of
from orchestrator.processes.spec import Limits
from orchestrator.settings.sections.agent import GraceSettings
from orchestrator.settings.settings import Settings
from orchestrator.storage.task_files import CLI_STATE, TaskFiles
from orchestrator.workspaces.evaluation.judge import Judge


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchConfig:
    """What runs are started with; `role` returns a role as it is declared now.

    `provided` returns the variables that people gave a task, `masked` the values to hide in the output of its runs.
    `login` is the one that sandboxed agents share; None if they use the user's. `installation` is looked at before each
    agent; there is none for a program that is not claude.
    """

    driver: Driver
    installation: Installation | None = None
    judge: Judge
    role: Callable[[str], Role]
    provided: Callable[[Task], Mapping[str, str]]
    masked: Callable[[Task], Mapping[str, str]]
    model: str = ""
    tiers: Mapping[Tier, str] = field(default_factory=dict)
    base_env: Mapping[str, str]
    limits: Limits
    isolation: Isolation
    login: SharedLogin | None = None
    socket: Path = Path()


def order_of(config: LaunchConfig, task: Task, command: do.StartAgent, files: TaskFiles, token: str) -> Launch:
    """Return the order to launch an agent. Blocks: it opens what people provided, and brings the login up to date.

    Raises NotIsolated where the role must have no network and cannot be kept from it.
    """
    role = config.role(command.role)
    if config.login:
        config.login.exchange()
    return Launch(
        task=task.id,
        role=role.name,
        attempt=command.attempt,
        session_id=command.session_id,
        resume=command.resume,
        cwd=Path(task.source.worktree) if task.source.worktree else files.path_of(task.id),
        outbox=files.run_folder(task.id, agent_run_folder(command.attempt)) / "out",
        base_env=config.base_env,
        model=model_of(role, task.policy, config.tiers),
        allowed_tools=role.tools,
        disallowed_tools=role.disallowed_tools,
        system_prompt=role.prompt,
        permission_mode=role.permission_mode,
        max_turns=role.max_turns,
        effort=role.effort,
        mcp_servers=role.mcp_servers,
        own_tools=role.orchestrator_tools,
        add_dirs=(files.path_of(task.id),),
        asks=task.policy.autonomy is Autonomy.INTERACTIVE,
        max_usd=usd_left(task.spending.whole, task.policy.caps),
        provided=config.provided(task),
        token=token,
        socket=config.socket,
        state=files.path_of(task.id, CLI_STATE),
        login=config.login.folder if config.login else None,
        read_only=role.read_only,
        offline_shell=None if role.network else config.isolation.offline_shell(),
    )


def limits_of(orphan_after: float, graces: GraceSettings) -> Limits:
    """Return what runs may use; times in seconds."""
    eof = graces.interrupt + graces.eof
    return Limits(orphan_after=orphan_after, eof_grace=eof, term_grace=graces.term, kill_grace=graces.kill)


def installation_of(settings: Settings, base_env: Mapping[str, str]) -> Installation | None:
    """Return the claude that agents are started with; None for another program."""
    agent = settings.agent
    if agent.driver == "command":
        return None
    env = inherited(base_env, agent.pass_env) | dict(agent.env)
    return Installation(agent.executable, base_env.get("PATH"), env, allow_newer=agent.allow_newer)


def driver_of(settings: Settings) -> Driver:
    """Return the driver of agents."""
    agent = settings.agent
    if agent.driver == "command":
        return CommandDriver(argv=agent.command, pass_env=agent.pass_env, env=agent.env)
    return ClaudeDriver(
        executable=Path(agent.executable or "claude"),
        model=agent.model or None,
        permission_mode=agent.permission_mode,
        mcp_config=agent.mcp_config,
        setting_sources=agent.setting_sources,
        pass_env=agent.pass_env,
        env=agent.env,
    )
