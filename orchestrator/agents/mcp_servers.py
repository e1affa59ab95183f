"""MCP servers that roles need: they are registered in one file, which is checked before a task is submitted.

A submission is refused if a role needs a server that is not registered: every agent of that role would work without its
tools. A registered server whose variables are not set will probably not start; this is reported and recorded.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.core.task.ticket import Preflight, put_in, variables_in
from orchestrator.errors import OrchestratorError
from orchestrator.formats.table import nearest
from orchestrator.pipelines.definition_files import read_declared
from orchestrator.pipelines.role import Role
from orchestrator.redaction.display import escape_text


class ServersMissing(OrchestratorError):
    """A role needs servers that are not registered, or the file that registers them cannot be read."""


class McpServer(BaseModel):
    """A registered server: a command to start, or the `url` of a running one."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = Field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = Field(default_factory=dict)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that it takes from the environment."""
        return variables_in((self.command, *self.args, *self.env.values(), self.url, *self.headers.values()))


class _Registered(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    servers: Mapping[str, McpServer] = Field(alias="mcpServers")


def preflight(roles: Iterable[Role], config: Path | None, env: Mapping[str, str]) -> Preflight:
    """Check the servers of these roles under `env`. Raises ServersMissing, and DefinitionError without the file."""
    needed = {server: role.name for role in roles for server in role.mcp_servers}
    if not needed:
        return Preflight()
    if config is None:
        server, role = next(iter(needed.items()))
        raise ServersMissing(
            f"the role {role} needs the server {server!r}, and none is registered; "
            "name the file that registers it as mcp_config in [agent] of orchestrator.toml"
        )
    there = _registered(config)
    for server, role in needed.items():
        if server not in there:
            raise ServersMissing(
                f"the role {role} needs the server {server!r}, which {config} does not register; "
                f"{nearest(server, there)}"
            )
    wanted = dict.fromkeys(name for server in needed for name in there[server].variables)
    return Preflight(servers_registered=tuple(needed), env_unset=tuple(name for name in wanted if not env.get(name)))


def find_server(name: str, config: Path | None) -> McpServer:
    """Return the server of this name, variables unexpanded. Raises ServersMissing and DefinitionError."""
    if config is None:
        raise ServersMissing(f"the server {name!r} is not registered; name a file that does as mcp_config in [agent]")
    servers = _registered(config)
    if name not in servers:
        raise ServersMissing(f"{config} does not register the server {name!r}; {nearest(name, servers)}")
    server = servers[name]
    if bool(server.command) == bool(server.url):
        raise ServersMissing(f"{config} gives the server {name!r} no command and no url, or both; give one of them")
    return server


def registered(name: str, config: Path | None, env: Mapping[str, str]) -> McpServer:
    """Return the server of this name with its variables expanded from `env`. Raises as `find_server`."""
    server = find_server(name, config)
    if unset := [variable for variable in server.variables if variable not in env]:
        raise ServersMissing(
            f"the server {name!r} of {config} needs {', '.join(unset)} in the daemon's environment; set it there"
        )
    return McpServer(
        command=put_in(server.command, env),
        args=tuple(put_in(text, env) for text in server.args),
        env={key: put_in(text, env) for key, text in server.env.items()},
        url=put_in(server.url, env),
        headers={key: put_in(text, env) for key, text in server.headers.items()},
    )


def _registered(config: Path) -> Mapping[str, McpServer]:
    try:
        return _Registered.model_validate_json(read_declared(config)).servers
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = escape_text(".".join(map(str, first["loc"]))) or "the whole of it"
        raise ServersMissing(f"{config} registers no servers ({where}: {first['msg']}); fix it") from error
