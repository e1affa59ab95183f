"""What to launch for an attempt and how to talk to it: the claude CLI, or any program that speaks the same stream.

A driver is a value: it starts nothing. Prompts go over standard input, one stream-json line per turn, each with a
uuid under which the CLI runs it once however often it is sent, also across a resume (measured.md, "Turns over
stdin").

The fence of an unattended claude (measured with 2.1.329, as root too): mode dontAsk denies whatever no rule allows,
and nobody is asked. A bare rule for Edit or Write would allow every path of the machine; so a role that names Edit
gets a rule for its worktree, every role gets one for its outbox, and Write is ruled by the same two. `--tools` takes
everything else out of sight.

Where somebody is there to answer, the same rules decide in mode default, and what they leave open is asked for on
standard output, at once and for as long as it takes. The tools that ask have to be named as well, else they are out of
sight too; ExitPlanMode exists in mode plan only, and a role whose mode is dontAsk cannot ask at all.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import orjson

from orchestrator.agents.claude import Parser
from orchestrator.core.decide.pausing import ALLOW, DENY
from orchestrator.core.task.user_requests import DECIDE_YOURSELF, RequestStatus, Subject, UserRequest
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.fields import list_of, object_of

# Of another claude, of systemd, of a git hook: what would make an agent behave as somebody's child (collected.md §6).
STRIPPED = frozenset({
    "CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SSE_PORT", "CLAUDE_EFFORT", "CLAUDE_PID",
    "CLAUDE_CODE_EXIT_AFTER_STOP_DELAY", "CLAUDE_CODE_RESUME_INTERRUPTED_TURN", "CLAUDE_CODE_RETRY_WATCHDOG",
    "CREDENTIALS_DIRECTORY", "INVOCATION_ID", "JOURNAL_STREAM", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID",
    "MAINPID", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
    "GIT_WORK_TREE",
})  # fmt: skip

# A stray key would silently take the bill of a subscription, and the daemon's tokens for trackers are not for agents:
# only what `pass_env` names comes through.
KEYS = frozenset({
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN", "JIRA_API_TOKEN",
})  # fmt: skip

OURS = "ORCHESTRATOR_"

CLAUDE_ENV = {
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
    "CLAUDE_CODE_STARTUP_FAILURE_RESULTS": "1",
    "DISABLE_AUTOUPDATER": "1",
    "TZ": "UTC",  # a reset that is only told in prose is told in this zone
}

FILE_TOOLS = frozenset({"Edit", "NotebookEdit", "Write"})
QUESTION_TOOL, PLAN_TOOL = "AskUserQuestion", "ExitPlanMode"


class EmptyTurn(OrchestratorError):
    """A turn without a word in it was to be sent."""

    def __init__(self) -> None:
        super().__init__("a turn for an agent must hold some text, and this one is empty or only white space")


class RequestLost(OrchestratorError):
    """What an agent's program asked is not where it stood in its output, so it cannot be answered."""

    def __init__(self, request_id: str | None) -> None:
        super().__init__(
            f"the agent's request {request_id} does not stand in its output any more, which another hand must have "
            "changed; `orchestrator retry` begins the stage anew"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One attempt of a role at a task; of `base_env`, the daemon's environment, an agent gets the harmless part."""

    task: str
    role: str
    attempt: int
    session_id: str  # a UUID; new unless `resume`
    resume: bool
    cwd: Path
    outbox: Path
    base_env: Mapping[str, str] = field(repr=False)
    model: str | None = None
    allowed_tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    system_prompt: str = ""
    permission_mode: str | None = None
    max_turns: int | None = None
    effort: str | None = None
    mcp_servers: tuple[str, ...] = ()
    add_dirs: tuple[Path, ...] = ()
    asks: bool = False  # whether somebody is there to answer what no rule decides
    max_usd: float | None = None
    provided: Mapping[str, str] = field(default_factory=dict, repr=False)
    token: str = field(default="", repr=False)  # what opens the state of its own task to it, on `socket`
    socket: Path = Path()


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A command and its whole environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)


class Driver(Protocol):
    """One kind of agent program."""

    @property
    def parser(self) -> Parser:
        """Gives its output lines a meaning."""

    def launch(self, order: Launch) -> Process:
        """What to start; the same order gives the same answer."""

    def turn(self, text: str, uuid: str) -> bytes:
        """The line that hands it a turn; raises EmptyTurn."""

    def interrupt(self, request_id: str) -> bytes:
        """The line that ends the running turn and nothing else; answered under `request_id`."""

    def refuse(self, request_id: str, reason: str) -> bytes:
        """The line that answers a request of its own with no, so that it does not wait for ever."""

    def answer(self, request: bytes, asks: Sequence[UserRequest]) -> bytes:
        """The line that answers a request of its own, given as the line that it was; raises RequestLost."""


class StreamDriver:
    """The lines of stream-json, which every driver so far speaks (collected.md §1.3, §1.4)."""

    parser = Parser()

    def turn(self, text: str, uuid: str) -> bytes:
        """A leading newline keeps "/…" from being taken for a command: such a turn would end well and do nothing."""
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
        """As `Driver.answer`; what is allowed has to be told with its whole input (measured.md, "Turns over stdin").

        A second answer to the same request, or one to a request that is over, has no effect (measured).
        """
        wanted = asks[0].draft.request_id
        message = _message(request)
        if wanted is None or message.get("request_id") != wanted:
            raise RequestLost(wanted)
        given = object_of(object_of(message.get("request")).get("input"))
        response = {"subtype": "success", "request_id": wanted, "response": _decision(given, asks)}
        try:
            return _line({"type": "control_response", "response": response})
        except orjson.JSONEncodeError as error:  # it was found more deeply nested than it was asked
            raise RequestLost(wanted) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeDriver(StreamDriver):
    """The claude CLI; a launch's own model and permission mode win over these."""

    executable: Path
    model: str | None = None
    permission_mode: str = "dontAsk"
    mcp_config: Path | None = None  # where servers are registered; given to roles that need any
    setting_sources: str = "user"  # never "project": its hooks would run unasked (collected.md §6, Trust)
    pass_env: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    def launch(self, order: Launch) -> Process:
        """Every value is glued to its flag, so that no list swallows what follows and no text is read as a flag."""
        model = order.model or self.model
        mode = order.permission_mode or self.permission_mode
        if order.asks and order.permission_mode is None and mode == "dontAsk":
            mode = "default"
        rules = allow_rules(order.allowed_tools, order.outbox)
        tools = (
            (*tool_names(order.allowed_tools), *asking_tools(mode)) if order.asks else tool_names(order.allowed_tools)
        )
        denied = order.disallowed_tools if order.asks else (QUESTION_TOOL, *order.disallowed_tools)
        argv = [
            str(self.executable),
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
        return Process(argv=tuple(argv), env=_environment(order, self.pass_env, {**CLAUDE_ENV, **self.env}))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDriver(StreamDriver):
    """Any program that reads and writes the same stream; ORCHESTRATOR_… variables tell it what it is."""

    argv: tuple[str, ...]
    pass_env: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    def launch(self, order: Launch) -> Process:
        """The command as configured."""
        return Process(argv=self.argv, env=_environment(order, self.pass_env, self.env))


def allow_rules(tools: tuple[str, ...], outbox: Path) -> tuple[str, ...]:
    """The permission rules for a role's tools: file tools within their fence, all others as they are named."""
    others = tuple(tool for tool in tools if tool not in FILE_TOOLS)
    worktree = ("Edit(./**)",) if "Edit" in tools else ()
    return (*others, *worktree, f"Edit(/{_pattern(outbox)}/**)")


def tool_names(tools: tuple[str, ...]) -> tuple[str, ...]:
    """The CLI's own tools that rules such as `Bash(git *)` speak of, and Write for the outbox, each once."""
    own = (tool.partition("(")[0] for tool in tools if not tool.startswith("mcp__"))
    return tuple(dict.fromkeys([*own, "Write"]))


def asking_tools(mode: str) -> tuple[str, ...]:
    """The tools by which a claude in that permission mode asks a person."""
    return (QUESTION_TOOL, PLAN_TOOL) if mode == "plan" else (QUESTION_TOOL,)


def _pattern(path: Path) -> str:
    """The path for a rule: what means something there becomes `?`, as no way of escaping holds for all (measured)."""
    return re.sub(r"[\[\]()\\]", "?", str(path))


def inherited(base_env: Mapping[str, str], pass_env: tuple[str, ...]) -> dict[str, str]:
    """The part of the daemon's environment that an agent may have; `pass_env` names what it shall have all the same."""
    return {
        name: value
        for name, value in base_env.items()
        if name in pass_env or not (name in STRIPPED or name in KEYS or name.startswith(OURS))
    }


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
    """Allowed or denied, in the CLI's words; answers to questions are a part of the input that is allowed."""
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
    """The text as it can be sent: without halves of characters."""
    return text.encode("utf-8", "replace").decode()


def _line(message: Mapping[str, object]) -> bytes:
    return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
