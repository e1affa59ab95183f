"""What to launch for an attempt and how to talk to it: the claude CLI, or any program that speaks the same stream.

A driver is a value and starts nothing. Prompts go over standard input, one stream-json line per turn, each with a uuid:
the CLI runs the same uuid once, however often it is sent, also after a resume.

How an unattended claude is confined (verified with 2.1.329, also as root): mode dontAsk denies whatever no rule allows,
without asking anybody. A bare rule for Edit or Write would allow every path of the machine, so a role that names Edit
gets a rule for its worktree, every role gets one for its outbox, and the same two rules govern Write. `--tools` hides
all other tools.

If people can answer, the same rules apply in mode default, and what they leave open is asked for on standard output;
the CLI waits for the answer. The tools that ask must be named too, else they are hidden; ExitPlanMode exists in mode
plan only, and a role with mode dontAsk cannot ask at all.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import orjson

import orchestrator
from orchestrator.agents.claude import Parser
from orchestrator.agents.claude_folder import ClaudeFolder, users_folder, variables
from orchestrator.agents.tools.catalogue import PREFIX, SERVER
from orchestrator.agents.tools.server import BOOT
from orchestrator.core.decide.pausing import ALLOW, DENY
from orchestrator.core.events.agent_messages import AgentTool
from orchestrator.core.task.user_requests import DECIDE_YOURSELF, RequestStatus, Subject, UserRequest
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.fields import list_of, object_of

# Variables of another claude, which would make an agent behave as its child.
STRIPPED = frozenset({
    "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_EXECPATH", "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT", "CLAUDE_EFFORT", "CLAUDE_PID", "CLAUDE_CODE_EXIT_AFTER_STOP_DELAY",
    "CLAUDE_CODE_RESUME_INTERRUPTED_TURN", "CLAUDE_CODE_RETRY_WATCHDOG",
})  # fmt: skip

# A stray API key would silently be billed instead of a subscription: `pass_env` names what is passed on all the same.
KEYS = frozenset({"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"})

# What an agent gets of the daemon's environment, and nothing else, because anything else may be a secret: who and where
# it is, how to reach the network, where tools are installed, and the settings of the CLI.
PASSED_ON = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "TZ", "TMPDIR",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "VIRTUAL_ENV", "PYENV_ROOT", "CARGO_HOME", "RUSTUP_HOME",
    "GOPATH", "GOCACHE", "GOMODCACHE", "GOROOT", "JAVA_HOME", "NVM_DIR", "LD_LIBRARY_PATH",
    "API_TIMEOUT_MS", "BASH_DEFAULT_TIMEOUT_MS", "BASH_MAX_OUTPUT_LENGTH", "BASH_MAX_TIMEOUT_MS", "CLOUD_ML_REGION",
    "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING", "DISABLE_TELEMETRY", "IS_SANDBOX", "MAX_MCP_OUTPUT_TOKENS",
    "MAX_THINKING_TOKENS", "MCP_TIMEOUT", "MCP_TOOL_TIMEOUT", "USE_BUILTIN_RIPGREP",
})  # fmt: skip
PASSED_ON_PREFIXES = ("LC_", "CLAUDE_", "ANTHROPIC_")

OURS = "ORCHESTRATOR_"

CLAUDE_ENV = {
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
    "CLAUDE_CODE_STARTUP_FAILURE_RESULTS": "1",
    "DISABLE_AUTOUPDATER": "1",
    "TZ": "UTC",  # the zone of reset times that are only named in messages
}

SOURCES = Path(orchestrator.__file__).parent.parent
FILE_TOOLS = frozenset({"Edit", "NotebookEdit", "Write"})
QUESTION_TOOL, PLAN_TOOL = "AskUserQuestion", "ExitPlanMode"
NETWORK_TOOLS = ("WebFetch", "WebSearch")
SHELL_VARIABLE = "CLAUDE_CODE_SHELL_PREFIX"
"""Names a program that the CLI hands each shell command to, as one argument; a role without a network has one."""


class EmptyTurn(OrchestratorError):
    """A turn without any text was to be sent."""

    def __init__(self) -> None:
        super().__init__("a turn for an agent must hold some text, and this one is empty or only white space")


class RequestLost(OrchestratorError):
    """An agent's request is no longer at its place in the output, so it cannot be answered."""

    def __init__(self, request_id: str | None) -> None:
        super().__init__(
            f"the agent's request {request_id} is no longer in its output, which something else must have changed; "
            "`orchestrator retry` starts the stage again"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One attempt of a role at a task; an agent gets the harmless part of `base_env`, the daemon's environment."""

    task: str
    role: str
    attempt: int
    session_id: str  # a UUID; new unless `resume`
    resume: bool
    cwd: Path
    outbox: Path
    base_env: Mapping[str, str] = field(repr=False)
    executable: Path | None = None  # where the program was found just now; None: where the driver says
    model: str | None = None
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    system_prompt: str = ""
    permission_mode: str | None = None
    max_turns: int | None = None
    effort: str | None = None
    mcp_servers: tuple[str, ...] = ()
    own_tools: tuple[AgentTool, ...] = ()  # the daemon's own that the role has
    add_dirs: tuple[Path, ...] = ()
    asks: bool = False  # whether a person can answer what no rule decides
    max_usd: float | None = None
    provided: Mapping[str, str] = field(default_factory=dict, repr=False)
    token: str = field(default="", repr=False)  # authorizes state operations on its own task, on `socket`
    socket: Path = Path()
    state: Path | None = None  # the task's own folder for what the program keeps; None for the user's
    login: Path | None = None  # the folder of the login, if it is not the user's
    offline_shell: Path | None = None  # runs commands without a network, if the role has none
    read_only: bool = False  # whether the role must not write to the worktree, which only a sandbox can enforce


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCommand:
    """A command and its whole environment; `writable` are folders that the program needs, `folder` one to prepare.

    `network` is whether the program itself has the network.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    writable: tuple[Path, ...] = ()
    folder: ClaudeFolder | None = None
    network: bool = True

    def prepare(self) -> None:
        """Make the folder that the program needs. Blocks; raises OSError."""
        if self.folder:
            self.folder.prepare()


class Driver(Protocol):
    """One kind of agent program."""

    @property
    def parser(self) -> Parser:
        """The parser of its output."""

    def launch(self, order: Launch) -> AgentCommand:
        """Return the process to start; pure."""

    def turn(self, text: str, uuid: str) -> bytes:
        """Return the input line that sends a turn. Raises EmptyTurn."""

    def interrupt(self, request_id: str) -> bytes:
        """Return the line that interrupts the running turn; it is answered under `request_id`."""

    def refuse(self, request_id: str, reason: str) -> bytes:
        """Return the line that denies a request of the agent, so that it does not wait forever."""

    def answer(self, request: bytes, asks: Sequence[UserRequest]) -> bytes:
        """Return the line that answers a request of the agent, given its original line. Raises RequestLost."""


class StreamDriver:
    """The lines of stream-json, which all drivers speak."""

    parser = Parser()

    def turn(self, text: str, uuid: str) -> bytes:
        """As `Driver.turn`; a leading newline keeps "/…" from being run as a command, which would do nothing."""
        if not text.strip():
            raise EmptyTurn
        said = f"\n{text}" if text.startswith("/") else text
        message = {"role": "user", "content": [{"type": "text", "text": _plain(said)}]}
        return _line({"type": "user", "uuid": uuid, "message": message})

    def interrupt(self, request_id: str) -> bytes:
        """As `Driver.interrupt`."""
        return _line({"type": "control_request", "request_id": request_id, "request": {"subtype": "interrupt"}})

    def refuse(self, request_id: str, reason: str) -> bytes:
        """As `Driver.refuse`."""
        response = {"subtype": "error", "request_id": request_id, "error": reason}
        return _line({"type": "control_response", "response": response})

    def answer(self, request: bytes, asks: Sequence[UserRequest]) -> bytes:
        """As `Driver.answer`; permission is granted by repeating the whole input.

        The CLI ignores a second answer to a request, and one to a request that is over.
        """
        wanted = asks[0].draft.request_id
        message = _message(request)
        if wanted is None or message.get("request_id") != wanted:
            raise RequestLost(wanted)
        given = object_of(object_of(message.get("request")).get("input"))
        response = {"subtype": "success", "request_id": wanted, "response": _decision(given, asks)}
        try:
            return _line({"type": "control_response", "response": response})
        except orjson.JSONEncodeError as error:  # nested deeper than when it was asked
            raise RequestLost(wanted) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeDriver(StreamDriver):
    """The claude CLI; a launch's own model and permission mode win over these."""

    executable: Path
    model: str | None = None
    permission_mode: str = "dontAsk"
    mcp_config: Path | None = None  # registers MCP servers; passed to roles that need any
    setting_sources: str = "user"  # never "project": hooks of the repository would run without asking
    pass_env: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    def launch(self, order: Launch) -> AgentCommand:
        """As `Driver.launch`; values are joined to their flags, so that none is taken for another flag or list item."""
        model = order.model or self.model
        mode = order.permission_mode or self.permission_mode
        if order.asks and order.permission_mode is None and mode == "dontAsk":
            mode = "default"
        rules = (*allow_rules(order.allowed_tools, order.outbox), *(f"{PREFIX}{tool}" for tool in order.own_tools))
        tools = (
            (*tool_names(order.allowed_tools), *asking_tools(mode)) if order.asks else tool_names(order.allowed_tools)
        )
        denied = order.disallowed_tools if order.asks else (QUESTION_TOOL, *order.disallowed_tools)
        denied = (*denied, *NETWORK_TOOLS) if order.offline_shell else denied
        argv = [
            str(order.executable or self.executable),
            "-p",
            "--input-format=stream-json",
            "--output-format=stream-json",
            "--verbose",
            f"--resume={order.session_id}" if order.resume else f"--session-id={order.session_id}",
            f"--permission-mode={mode}",
            *(["--permission-prompt-tool=stdio"] if order.asks else []),
            f"--setting-sources={self.setting_sources}",
            "--strict-mcp-config",
            *([f"--mcp-config={self.mcp_config}"] if self.mcp_config and order.mcp_servers else []),
            *([f"--mcp-config={_own_server(order.own_tools)}"] if order.own_tools else []),  # the last of a name wins
            *(f"--add-dir={folder}" for folder in (order.outbox, *order.add_dirs)),
            *([f"--tools={','.join(dict.fromkeys(tools))}"] if order.allowed_tools else []),
            f"--allowedTools={','.join(rules)}",
            f"--disallowedTools={','.join(denied)}",
            *([f"--model={model}"] if model else []),
            *([f"--max-turns={order.max_turns}"] if order.max_turns else []),
            *([f"--max-budget-usd={order.max_usd:.6f}"] if order.max_usd is not None else []),
            *([f"--effort={order.effort}"] if order.effort else []),
            *([f"--append-system-prompt={order.system_prompt}"] if order.system_prompt else []),
        ]
        env = _environment(order, self.pass_env, {**CLAUDE_ENV, **self.env})
        if order.offline_shell:
            env |= {SHELL_VARIABLE: str(order.offline_shell)}
        users = users_folder(env)
        if order.state is None:
            return AgentCommand(argv=tuple(argv), env=env, writable=(users.path, users.login))
        session = order.session_id if order.resume else ""
        return AgentCommand(
            argv=tuple(argv),
            env=env | variables(env, order.state, order.login),
            writable=(order.state, order.login or users.login),
            folder=ClaudeFolder(path=order.state, users=users, session_id=session),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDriver(StreamDriver):
    """Any program that reads and writes the same stream; ORCHESTRATOR_… variables tell it its task and role."""

    argv: tuple[str, ...]
    pass_env: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    def launch(self, order: Launch) -> AgentCommand:
        """As `Driver.launch`."""
        env = _environment(order, self.pass_env, self.env)
        return AgentCommand(argv=self.argv, env=env, network=order.offline_shell is None)


def allow_rules(tools: tuple[str, ...], outbox: Path) -> tuple[str, ...]:
    """Return the permission rules for a role's tools: file tools are confined, all others allowed as they are named."""
    others = tuple(tool for tool in tools if tool not in FILE_TOOLS)
    worktree = ("Edit(./**)",) if "Edit" in tools else ()
    return (*others, *worktree, f"Edit(/{_pattern(outbox)}/**)")


def tool_names(tools: tuple[str, ...]) -> tuple[str, ...]:
    """Return the CLI's own tools that rules such as `Bash(git *)` name, and Write for the outbox."""
    own = (tool.partition("(")[0] for tool in tools if not tool.startswith("mcp__"))
    return tuple(dict.fromkeys([*own, "Write"]))


def asking_tools(mode: str) -> tuple[str, ...]:
    """Return the tools with which claude asks a person in that permission mode."""
    return (QUESTION_TOOL, PLAN_TOOL) if mode == "plan" else (QUESTION_TOOL,)


def _own_server(tools: Sequence[AgentTool]) -> str:
    """Return the configuration of the server of the daemon's own tools; nothing in the worktree decides what runs."""
    arguments = ["-I", "-c", BOOT, str(SOURCES), *tools]
    return orjson.dumps({"mcpServers": {SERVER: {"command": sys.executable, "args": arguments}}}).decode()


def _pattern(path: Path) -> str:
    """Return the path as a rule's pattern: special characters become `?`, because no escaping works for all of them."""
    return re.sub(r"[\[\]()\\]", "?", str(path))


def inherited(base_env: Mapping[str, str], pass_env: tuple[str, ...]) -> dict[str, str]:
    """Return the part of the daemon's environment that an agent gets; `pass_env` names additional variables."""
    return {name: value for name, value in base_env.items() if name in pass_env or _is_passed_on(name)}


def _is_passed_on(name: str) -> bool:
    is_known = name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    return is_known and name not in STRIPPED and name not in KEYS


def _environment(order: Launch, pass_env: tuple[str, ...], extra: Mapping[str, str]) -> dict[str, str]:
    word = {"TOKEN": order.token, "SOCKET": str(order.socket)} if order.token else {}
    told = {
        **word,
        "TASK": order.task,
        "ROLE": order.role,
        "ATTEMPT": str(order.attempt),
        "SESSION_ID": order.session_id,
        "RESUME": str(int(order.resume)),
        "OUTBOX": str(order.outbox),
    }
    given = {**inherited(order.base_env, pass_env), **extra, **order.provided}
    return {**given, **{f"{OURS}{name}": value for name, value in told.items()}}


def _decision(given: JsonObject, asks: Sequence[UserRequest]) -> Mapping[str, object]:
    """Return the decision as the CLI expects it; answers to questions are part of the allowed input."""
    first = asks[0]
    if first.draft.subject is Subject.QUESTION:
        questions = [object_of(one).get("question") for one in list_of(given.get("questions"))]
        answers = {str(text): _plain(ask.answer or DECIDE_YOURSELF) for text, ask in zip(questions, asks, strict=False)}
        return {"behavior": "allow", "updatedInput": {**given, "answers": answers}}
    if first.status is RequestStatus.APPROVED or (first.status, first.answer) == (RequestStatus.ANSWERED, ALLOW):
        return {"behavior": "allow", "updatedInput": given}
    said = first.answer if first.answer not in (None, "", DENY) else "this is not allowed here; find another way"
    return {"behavior": "deny", "message": _plain(said)}


def _message(line: bytes) -> JsonObject:
    try:
        return object_of(orjson.loads(line))
    except orjson.JSONDecodeError:
        return {}


def _plain(text: str) -> str:
    """Return the text without lone surrogates, which JSON cannot hold."""
    return text.encode("utf-8", "replace").decode()


def _line(message: Mapping[str, object]) -> bytes:
    return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
