"""Servers of the Model Context Protocol that roles name: registered in one file, looked for before a task is begun.

A server that a role needs and nobody registered stops a submission: every agent of that role would work without its
tools. One that is registered and lacks variables will most likely not start; that is said and put on record, and the
CLI tells the rest (seed 001).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from orchestrator.core.errors import OrchestratorError
from orchestrator.core.escape import shown
from orchestrator.core.preflight import Preflight, variables_in
from orchestrator.core.role import Role
from orchestrator.core.table import nearest
from orchestrator.declared import read_declared


class ServersMissing(OrchestratorError):
    """A role needs servers that are not registered, or nobody can say whether they are."""


class _Server(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = Field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = Field(default_factory=dict)

    @property
    def variables(self) -> tuple[str, ...]:
        """What it takes from the environment, where the CLI puts variables in."""
        return variables_in((self.command, *self.args, *self.env.values(), self.url, *self.headers.values()))


class _Registered(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    servers: Mapping[str, _Server] = Field(alias="mcpServers")


def look_before(roles: Iterable[Role], config: Path | None, env: Mapping[str, str]) -> Preflight:
    """What the roles' agents will find under `env`; raises ServersMissing, and DefinitionError without that file."""
    needed = {server: role.name for role in roles for server in role.mcp_servers}
    if not needed:
        return Preflight()
    if config is None:
        server, role = next(iter(needed.items()))
        raise ServersMissing(
            f"the role {role} needs the server {server!r}, and none is registered; "
            "name the file that registers it as mcp_config in [agent] of orchestrator.toml"
        )
    registered = _registered(config)
    for server, role in needed.items():
        if server not in registered:
            raise ServersMissing(
                f"the role {role} needs the server {server!r}, which {config} does not register; "
                f"{nearest(server, registered)}"
            )
    wanted = dict.fromkeys(name for server in needed for name in registered[server].variables)
    return Preflight(servers_registered=tuple(needed), env_unset=tuple(name for name in wanted if not env.get(name)))


def _registered(config: Path) -> Mapping[str, _Server]:
    try:
        return _Registered.model_validate_json(read_declared(config)).servers
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = shown(".".join(map(str, first["loc"]))) or "the whole of it"
        raise ServersMissing(f"{config} registers no servers ({where}: {first['msg']}); mend it") from error
