"""A gateway: a registered MCP server that reads and writes tickets for us.

It is untrusted, started for each ticket and ended afterwards. mcp_client.py speaks with it in a process of its own;
this module checks its answers and translates its errors.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import orjson
import structlog
from pydantic import ValidationError

from orchestrator import __version__
from orchestrator.agents.mcp_servers import registered
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import list_of, object_of, text_of
from orchestrator.integrations.child_process import OutputTail, end_command
from orchestrator.integrations.errors import AuthenticationFailed, NotFound, RemoteError, UnfitAnswer, Unreachable
from orchestrator.integrations.http import Patience
from orchestrator.integrations.refusals import first_problem
from orchestrator.integrations.tickets.text.ticket import TrackerRecord
from orchestrator.processes.spec import MARKER
from orchestrator.redaction.display import escape_text

log = structlog.get_logger()

A = TypeVar("A", bound=TrackerRecord)

PROGRAM = (sys.executable, "-P", str(Path(__file__).with_name("mcp_client.py")))
LARGEST_ANSWER = 4 * 1024 * 1024
"""Bytes."""
GRACE = 10.0
"""Seconds for that program to end the server and itself: more than the SDK gives a server."""

_OURS = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""Variables that a server gets besides those it is registered with."""
_WAY_OUT = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_DIR", "SSL_CERT_FILE")
_LONGEST_LINE = LARGEST_ANSWER + 65536
"""Bytes of a line from the program: an answer with its envelope."""


class GatewayMissing(RemoteError):
    """The configured gateway cannot be used on this machine."""


class SecretWithheld(RemoteError):
    """The gateway withholds a ticket because it contains secrets."""


class ToolRefused(UnfitAnswer):
    """The gateway has no such tool, or rejects its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A server by its name; it is registered in `config`, where variables are expanded from `env`."""

    name: str
    config: Path | None
    env: Mapping[str, str] = field(repr=False)

    def order(self, patience: Patience, mark: str) -> JsonObject:
        """Return what the program talks to. Raises GatewayMissing."""
        try:
            server = registered(self.name, self.config, self.env)
        except OrchestratorError as error:
            raise GatewayMissing(f"Jira tickets are fetched by the gateway {self.name!r}, but {error}") from error
        return {
            "command": [server.command, *server.args] if server.command else [],
            "env": {**self._given(_OURS), **server.env, MARKER: mark},
            "url": server.url,
            "headers": dict(server.headers),
            "version": __version__,
            "patience": patience.request,
            "largest": LARGEST_ANSWER,
        }

    def environment(self, mark: str) -> dict[str, str]:
        """Return the environment of the program: proxy settings for remote servers, and nothing secret."""
        return {**self._given((*_OURS, *_WAY_OUT, *map(str.lower, _WAY_OUT))), MARKER: mark}

    def _given(self, names: tuple[str, ...]) -> dict[str, str]:
        return {name: self.env[name] for name in names if name in self.env}


class Conversation:
    """Calls of one gateway's tools about one ticket, which messages call `ticket`."""

    def __init__(self, gateway: Gateway, process: asyncio.subprocess.Process, words: OutputTail, ticket: str) -> None:
        self._name, self._config, self._ticket = gateway.name, gateway.config, ticket
        self._process, self._words = process, words

    async def call_as(self, kind: type[A], tool: str, **arguments: str) -> A:
        """Call a tool and return its answer as `kind`. Raises RemoteError."""
        try:
            return kind.model_validate(await self.call(tool, **arguments))
        except ValidationError as error:
            raise UnfitAnswer(
                f"the gateway {self._name!r} answered {tool} with something else than {self._ticket}"
                f" ({first_problem(error)})"
            ) from error

    async def call(self, tool: str, **arguments: str) -> JsonObject:
        """Call a tool and return its answer. Raises RemoteError for a refusal, and if there is no answer."""
        said = object_of(await self._line({"tool": tool, "arguments": dict(arguments)}))
        if "failed" in said:
            raise self._broken(tool, said)
        if "refused" in said:
            raise ToolRefused(
                f"the gateway {self._name!r} refuses {tool}: {escape_text(text_of(said['refused'], 1000))}"
            )
        text = text_of(said.get("text"), LARGEST_ANSWER)
        answer = object_of(said.get("answer")) or object_of(_parsed(text))
        if said.get("is_error") or "error" in answer:
            raise self._refusal(tool, answer, text)
        return answer

    async def _line(self, call: JsonObject) -> Json:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin  # noqa: S101 - pipes were asked for
        assert stdout  # noqa: S101
        try:
            stdin.write(orjson.dumps(call) + b"\n")
            await stdin.drain()
            return _parsed(await stdout.readline()) or {"failed": "gone"}
        except ValueError:
            return {"failed": "too large"}
        except OSError:
            return {"failed": "gone"}

    def _broken(self, tool: str, said: JsonObject) -> RemoteError:
        """The error for a missing answer; what the server wrote on stderr goes to the log only, which masks secrets."""
        kind, why = text_of(said["failed"]), text_of(said.get("why"), 1000)
        log.warning("gateway_failed", server=self._name, tool=tool, kind=kind, why=why, words=self._words.last())
        name, look = f"the gateway {self._name!r}", "the daemon's log has its last output"
        match kind:
            case "start":
                return GatewayMissing(
                    f"{name} cannot be started ({escape_text(why)}); check its command in {self._config}"
                )
            case "login":
                return AuthenticationFailed(f"{name} does not accept our login; check its headers in {self._config}")
            case "too large":
                most = LARGEST_ANSWER // 1024
                return UnfitAnswer(
                    f"{name} answered more than {most} KiB for {self._ticket}; submit the relevant part as a text"
                )
            case "timeout":
                return Unreachable(f"{name} did not answer {tool} in time; {look}")
            case "ended":
                return Unreachable(f"{name} ended without an answer to {tool}; {look}")
            case "unfit":
                return UnfitAnswer(f"{name} gave an invalid answer to {tool} ({escape_text(why, 300)}); {look}")
            case "gone":
                return Unreachable(f"the client of {name} failed; {look}")
            case _:
                return Unreachable(f"{name} cannot be reached ({escape_text(why, 300)}); check its url")

    def _refusal(self, tool: str, answer: JsonObject, text: str) -> RemoteError:
        """Return the error that the gateway's own code for it stands for."""
        code = text_of(answer.get("error"))
        name, why = f"the gateway {self._name!r}", escape_text(text_of(answer.get("message"), 1000) or text, 300)
        match code:
            case "AUTH_FAILED":
                return AuthenticationFailed(
                    f"Jira does not accept the login of {name} ({why}); correct it in {self._config}"
                )
            case "NOT_FOUND":
                return NotFound(f"{self._ticket} does not exist, or {name} may not see it; check the number")
            case "SENSITIVE_CONTENT_BLOCKED":
                found = ", ".join(
                    escape_text(text_of(one), 60) for one in list_of(answer.get("detected_patterns"))[:20]
                )
                return secret_withheld(name, self._ticket, found)
            case "INTERNAL_ERROR":
                return Unreachable(f"{name} failed at {tool} ({why}); the same may work later")
            case _:
                return ToolRefused(f"{name} rejects {tool} for {self._ticket}: {why or 'it does not say why'}")


def secret_withheld(name: str, ticket: str, found: str) -> SecretWithheld:
    """Return the error for a ticket with secrets of the kinds `found`."""
    return SecretWithheld(
        f"{name} withholds {ticket} because it contains secrets ({found or 'it does not say which'}); remove them"
    )


@asynccontextmanager
async def conversation(gateway: Gateway, ticket: str, patience: Patience) -> AsyncIterator[Conversation]:
    """Provide a gateway whose tools can be called; on leaving, it ends with all that it started. Raises RemoteError."""
    mark = f"/dev/null/gateway-{uuid4().hex}"  # no task's folder, so the API does not take its processes for agents
    order = await asyncio.to_thread(gateway.order, patience, mark)
    with closing(OutputTail()) as words:
        process = await asyncio.create_subprocess_exec(
            *PROGRAM,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=words.theirs,
            env=gateway.environment(mark),
            limit=_LONGEST_LINE,
            start_new_session=True,
        )
        try:
            assert process.stdin  # noqa: S101 - a pipe was asked for
            process.stdin.write(orjson.dumps(order) + b"\n")
            yield Conversation(gateway, process, words, ticket)
        finally:
            await asyncio.shield(_end(process, Path(mark)))


async def _end(process: asyncio.subprocess.Process, mark: Path) -> None:
    """Let the program end its server and itself, then kill what is left of either."""
    with suppress(ProcessLookupError, TimeoutError):
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(GRACE):
            await process.wait()
    if killed := await end_command(process, mark):
        log.info("gateway_swept", pids=killed)


def _parsed(text: str | bytes) -> Json:
    try:
        found: Json = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return found
