"""MCP servers that are looked up before a task starts: real files of registered servers."""

from pathlib import Path

import pytest

from orchestrator.agents.mcp_servers import McpServer, ServersMissing, find_server, preflight
from orchestrator.agents.mcp_servers import registered as server_of
from orchestrator.core.task.ticket import Preflight, put_in, variables_in
from orchestrator.pipelines.role import Role

SERVERS = """{"mcpServers": {
    "cks": {"command": "${CKS_BIN}", "args": ["--config", "${CKS_CONFIG}", "${HOME}"], "env": {"LEVEL": "${LEVEL:-1}"}},
    "chain": {"type": "http", "url": "https://chain.example/${PLACE}", "headers": {"X": "${TOKEN}"}},
    "idle": {"command": "${NEVER_ASKED}"}
}}"""


def role(name: str, *servers: str) -> Role:
    return Role(name=name, description="d", prompt="p", mcp_servers=servers)


def registered(folder: Path, text: str = SERVERS) -> Path:
    path = folder / "mcp.json"
    path.write_text(text)
    return path


def test_servers_that_roles_name_are_found_and_missing_variables_are_reported(tmp_path: Path) -> None:
    roles = [role("planner", "cks"), role("implementer"), role("evaluator", "chain", "cks")]
    env = {"HOME": "/root", "TOKEN": "x", "CKS_CONFIG": ""}
    assert preflight(roles, registered(tmp_path), env) == Preflight(
        servers_registered=("cks", "chain"), env_unset=("CKS_BIN", "CKS_CONFIG", "PLACE")
    )


def test_roles_without_servers_read_no_file(tmp_path: Path) -> None:
    assert preflight([role("planner")], tmp_path / "gone.json", {}) == Preflight()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SERVERS, r"the role planner needs the server 'ckx', which .*mcp\.json does not register; did you mean 'cks'"),
        ('{"servers": {}}', r"mcp\.json registers no servers \(mcpServers: Field required\); fix it"),
        ('{"mcpServers": {"ckx": {"args": "--all"}}}', r"registers no servers \(mcpServers\.ckx\.args: "),
        ("{", r"registers no servers \(the whole of it: Invalid JSON"),
    ],
)
def test_an_unregistered_server_stops_the_task(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ServersMissing, match=said):
        preflight([role("planner", "ckx")], registered(tmp_path, text), {})


def test_without_a_file_the_setting_is_named() -> None:
    with pytest.raises(ServersMissing, match=r"name the file that registers it as mcp_config in \[agent\]"):
        preflight([role("planner", "cks")], None, {})


def test_only_variables_without_a_default_are_required() -> None:
    assert variables_in(["${A} ${B:-1} $C ${A}${D}", "${1}"]) == ("A", "D")


def test_a_registered_server_is_expanded_with_its_variables(tmp_path: Path) -> None:
    env = {"CKS_BIN": "/bin/cks", "CKS_CONFIG": "", "HOME": "/root", "TOKEN": "x${HOME}", "PLACE": "p"}
    assert server_of("cks", registered(tmp_path), env) == McpServer(
        command="/bin/cks", args=("--config", "", "/root"), env={"LEVEL": "1"}
    )
    there = server_of("chain", registered(tmp_path), env)
    assert (there.url, there.headers) == ("https://chain.example/p", {"X": "x${HOME}"})


def test_an_unusable_server_is_reported_with_instructions(tmp_path: Path) -> None:
    with pytest.raises(ServersMissing, match=r"needs CKS_BIN, HOME in the daemon's environment; set it there"):
        server_of("cks", registered(tmp_path), {"CKS_CONFIG": "c"})
    with pytest.raises(ServersMissing, match=r"mcp\.json does not register the server 'ckx'; did you mean 'cks'"):
        find_server("ckx", registered(tmp_path))
    with pytest.raises(ServersMissing, match=r"name a file that does as mcp_config in \[agent\]"):
        find_server("cks", None)
    with pytest.raises(ServersMissing, match="no command and no url, or both; give one of them"):
        find_server("x", registered(tmp_path, '{"mcpServers": {"x": {}}}'))


def test_an_empty_or_missing_variable_has_its_default() -> None:
    assert put_in("${A}-${B:-b}-${C:-c}-${D}-$A", {"A": "a", "C": "", "B": "${A}"}) == "a-${A}-c--$A"
