"""A program that serves the daemon's tools to one agent's CLI, over standard input and output.

The protocol is written out here, because every agent would pay for the SDK, which takes nine times as long to start
and three times the memory: a message is a line, and four methods are all that a client needs. What an agent asks for is
only checked and acknowledged: the daemon reads the call and its answer in the agent's output, exactly once. News of
steps and failures go to the daemon at once, under the attempt's token, because a guard may refuse them.
"""

import json
import os
import socket
import sys
from collections.abc import Iterable, Sequence
from http.client import HTTPConnection, HTTPException
from typing import IO
from urllib.parse import quote

from orchestrator import __version__
from orchestrator.agents.messages import DEPENDENCY, QUESTION, objection_to
from orchestrator.agents.tools.catalogue import RECORDED, SERVER, TOOLS
from orchestrator.core.events.agent_messages import AgentTool
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import list_of, object_of, text_of

LARGEST_CALL = 100 * 1024
"""Bytes of a call's arguments, as of a message in an agent's text."""
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
NO_MESSAGE, NO_METHOD, NO_TOOL = -32700, -32601, -32602
"""JSON-RPC codes."""
PATIENCE = 60.0
"""Seconds for the daemon to answer."""
BOOT = "import sys; sys.path.append(sys.argv[1]); from orchestrator.agents.tools.server import main; main(sys.argv[2:])"


class CallRefused(Exception):
    """A call is not carried out; the agent is told why."""


def main(names: Sequence[str]) -> None:
    """Serve the tools of these names until the input ends."""
    serve(sys.stdin.buffer, sys.stdout.buffer, tuple(AgentTool(name) for name in names))


def serve(lines: Iterable[bytes], output: IO[bytes], tools: Sequence[AgentTool]) -> None:
    """Answer each line that wants an answer."""
    for line in lines:
        answer = _answer(line, tools)
        if answer is not None:
            output.write(json.dumps(answer).encode() + b"\n")
            output.flush()


def _answer(line: bytes, tools: Sequence[AgentTool]) -> JsonObject | None:
    try:
        message = object_of(json.loads(line))
    except (ValueError, RecursionError):
        return _error(None, NO_MESSAGE, "the line is no JSON")
    number, given = message.get("id"), object_of(message.get("params"))
    if "id" not in message:
        return None
    match message.get("method"):
        case "initialize":
            wanted = text_of(given.get("protocolVersion"))
            version = wanted if wanted in VERSIONS else VERSIONS[0]
            about: JsonObject = {"name": SERVER, "version": __version__}
            return _result(number, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about})
        case "ping":
            return _result(number, {})
        case "tools/list":
            return _result(number, {"tools": [TOOLS[tool] for tool in tools]})
        case "tools/call":
            tool = next((one for one in tools if one.value == given.get("name")), None)
            if tool is None:
                return _error(number, NO_TOOL, "there is no such tool")
            return _result(number, _called(tool, given.get("arguments")))
        case _:
            return _error(number, NO_METHOD, "there is no such method")


def _called(tool: AgentTool, arguments: Json) -> JsonObject:
    try:
        text, is_error = _outcome(tool, arguments), False
    except CallRefused as refused:
        text, is_error = f"Not done: {refused}.", True
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def _outcome(tool: AgentTool, arguments: Json) -> str:
    """Return what the tool answers. Raises CallRefused."""
    given = object_of(arguments)
    if len(json.dumps(given)) > LARGEST_CALL:
        raise CallRefused(f"the arguments are larger than {LARGEST_CALL // 1024} KiB")
    if unknown := given.keys() - object_of(object_of(TOOLS[tool]["inputSchema"])["properties"]).keys():
        raise CallRefused(f"there is no argument {min(unknown)[:80]!r}")
    match tool:
        case AgentTool.ASK_USER:
            wrong = objection_to(QUESTION, given)
        case AgentTool.REQUEST_DEPENDENCY:
            wrong = objection_to(DEPENDENCY, given)
        case AgentTool.PHASE_COMPLETE:
            wrong = _objection_to_phase(given)
        case AgentTool.STEP:
            return _told("step", given)
        case AgentTool.FAIL:
            return _told("fail", failure_document(given))
    if wrong:
        raise CallRefused(wrong)
    return RECORDED[tool]


def _objection_to_phase(given: JsonObject) -> str:
    number, documents = given.get("number"), given.get("documents", [])
    if type(number) is not int or not 1 <= number <= 999:
        return "number must be a whole number from 1 to 999"
    if not isinstance(documents, list) or not all(isinstance(one, str) for one in documents):
        return "documents must be a list of texts"
    return ""


def failure_document(given: JsonObject) -> JsonObject:
    """Return a failure as the state operations take it. Raises CallRefused."""
    if not isinstance(given.get("summary"), str) or not given["summary"]:
        raise CallRefused("summary is missing")
    outcome = {name: given.get(name) for name in ("summary", "exit_code")}
    return {
        "agent": os.environ.get("ORCHESTRATOR_ROLE"),
        "step": given.get("step"),
        "attempted_action": {"description": "", "command": given.get("command")},
        "actual_outcome": {**outcome, "type": given.get("type") or "failure"},
    }


class _OverSocket(HTTPConnection):
    """HTTP to the daemon's socket for agents."""

    def __init__(self, path: str) -> None:
        super().__init__("orchestrator", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _told(operation: str, document: JsonObject) -> str:
    """Return that the daemon has recorded it. Raises CallRefused."""
    path, token, task = (os.environ.get(f"ORCHESTRATOR_{name}", "") for name in ("SOCKET", "TOKEN", "TASK"))
    if not (path and token and task):
        raise CallRefused("this agent may not report to the daemon")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    daemon = _OverSocket(path)
    try:
        daemon.request("POST", f"/api/tasks/{quote(task)}/state/{operation}", json.dumps(document), headers)
        response = daemon.getresponse()
        said = object_of(json.loads(response.read()))
    except (OSError, HTTPException, ValueError) as error:
        raise CallRefused(f"the daemon did not answer ({type(error).__name__}); try again in a minute") from error
    finally:
        daemon.close()
    if response.status >= 400:
        missing = ", ".join(one for one in list_of(said.get("missing")) if isinstance(one, str))
        raise CallRefused(text_of(said.get("detail"), 2000).rstrip(".") + (f"; missing: {missing}" if missing else ""))
    return "Recorded."


def _result(number: Json, result: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _error(number: Json, code: int, message: str) -> JsonObject:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
