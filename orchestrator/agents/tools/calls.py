"""What an agent's calls of the daemon's own tools say, read from its output like its text.

A call counts when its tool has acknowledged it: not one that was denied, that failed, or that a subagent made. The call
and its answer are two lines; a reader that begins between them, after a restart, finds the call in the lines before.
"""

import json
from collections.abc import Callable
from typing import Final, assert_never

from orchestrator.agents.claude import Parser
from orchestrator.agents.framing import Framer
from orchestrator.agents.messages import DEPENDENCY, MOST_DOCUMENTS, QUESTION, document_name, read_fields
from orchestrator.agents.tools.catalogue import PREFIX, RECORDED
from orchestrator.core.events.agent_events import ToolFinished, ToolStarted
from orchestrator.core.events.agent_messages import AgentMessage, AgentTool, PhaseComplete
from orchestrator.formats.codec import JsonObject
from orchestrator.formats.fields import list_of, object_of
from orchestrator.processes.output import RunOutput

LARGEST_LINE: Final = 1024 * 1024
"""Bytes of a line with a call; the tools take arguments of a tenth of that."""
LOOKED_BACK: Final = 16 * 1024 * 1024
"""Bytes before the place where reading begins in which calls are looked for whose answers come after it."""
MOST_CALLS: Final = 1000
"""Calls of one attempt that are remembered until their answers; of more, the newest."""
_NAMES: Final = {f"{PREFIX}{tool}": tool for tool in RECORDED}
_ANSWERS: Final = frozenset(RECORDED.values())

Calls = dict[str, tuple[AgentTool, JsonObject]]


class ToolCalls:
    """The calls of one attempt; `earlier` returns those in the output before reading began, and is called once."""

    def __init__(self, earlier: Callable[[], Calls]) -> None:
        self._calls: Calls = {}
        self._earlier: Callable[[], Calls] | None = earlier

    def said(self, event: ToolStarted | ToolFinished, line: bytes) -> AgentMessage | None:
        """Return what a call says when its tool has acknowledged it; `line` holds the event."""
        if isinstance(event, ToolStarted):
            _remember(self._calls, event, line)
            return None
        if not event.ok or event.summary not in _ANSWERS:
            return None
        if event.id not in self._calls and self._earlier is not None:
            self._calls = {**self._earlier(), **self._calls}
            self._earlier = None
        tool, given = self._calls.pop(event.id, (None, {}))
        return message_of(tool, given) if tool is not None and event.summary == RECORDED[tool] else None


def calls_before(output: RunOutput, parser: Parser, end: int) -> Calls:
    """Return the calls in the output before an offset. Blocks."""
    calls: Calls = {}
    at = max(0, end - LOOKED_BACK)
    framer = Framer(start=at)
    while at < end:
        chunk, at = output.lines_from(at)
        if not chunk:
            break
        for line in framer.push(chunk):
            if line.end <= end and PREFIX.encode() in line.body:
                for event in parser.parse(line.body):
                    if isinstance(event, ToolStarted):
                        _remember(calls, event, line.body)
    return calls


def message_of(tool: AgentTool, given: JsonObject) -> AgentMessage | None:
    """Return what a call of a tool with these arguments says, as the text protocol would; None where nothing."""
    match tool:
        case AgentTool.ASK_USER:
            return read_fields(QUESTION, given)
        case AgentTool.REQUEST_DEPENDENCY:
            return read_fields(DEPENDENCY, given)
        case AgentTool.PHASE_COMPLETE:
            number = given.get("number")
            documents = [one for one in list_of(given.get("documents"))[:MOST_DOCUMENTS] if isinstance(one, str)]
            is_number = type(number) is int and 1 <= number <= 999
            names = tuple(map(document_name, documents))
            return PhaseComplete(number=int(str(number)), documents=names) if is_number else None
        case AgentTool.STEP | AgentTool.FAIL:
            return None
        case _:
            assert_never(tool)


def _remember(calls: Calls, event: ToolStarted, line: bytes) -> None:
    tool = _NAMES.get(event.name)
    if tool is None or event.subagent or len(line) > LARGEST_LINE:
        return
    if len(calls) >= MOST_CALLS:
        del calls[next(iter(calls))]
    calls[event.id] = tool, _input_of(line, event.id)


def _input_of(line: bytes, call: str) -> JsonObject:
    """Return the arguments of a call; the parser keeps of a tool's input only what people are shown."""
    try:
        message = object_of(object_of(json.loads(line)).get("message"))
    except (ValueError, RecursionError):
        return {}
    blocks = map(object_of, list_of(message.get("content")))
    return next((object_of(one.get("input")) for one in blocks if one.get("id") == call), {})
