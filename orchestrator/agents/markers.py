r"""Translate the line protocol in an agent's own text into messages to the daemon.

    [USER_QUESTION]                     [DEPENDENCY_REQUEST]            [ERROR]
    category: choice                    type: env_variable              type: recoverable
    question: Which database?           name: STRIPE_KEY                message: The build server is down.
    options:                            description: For the tests.     details: connection refused
    - PostgreSQL                        required: true                  recovery: pause_and_retry
    - SQLite                            [/DEPENDENCY_REQUEST]           [/ERROR]
    default: SQLite
    required: false
    [/USER_QUESTION]

    === PHASE 2 COMPLETE ===            === CUSTOM TASK COMPLETE ===    === VERIFICATION_RESULT ===
    Completed: Phase 2 (Design)         Task: Rename the module         {"criteria": [{"id": "P1_CONS_01",
    Documents created:                  Summary: Renamed, all green.      "status": "passed", "details": "…",
    - design.md                                                           "suggestion": "", "affectedDocuments": []}]}
    Ready for review.

    [USER_QUESTION_JSON]
    {"category": "confirmation", "question": "Drop the table?", "default": "no", "required": true}
    [/USER_QUESTION_JSON]               likewise DEPENDENCY_REQUEST_JSON and ERROR_JSON

A marker is alone on its line, indented by at most three spaces; within a code fence it is a quotation. A line that is
no field continues the field before it; `\n` in a value is a line break; options may also be one line `[a, b]`.

Only the main conversation's text is read: what a tool or a subagent printed is not addressed to the daemon. Build tools
print `[ERROR]` too, so it begins a message only if a field follows it.
"""

import re
from typing import Final, Protocol

from orchestrator.agents.messages import (
    ERROR,
    FIELDS,
    ITEM,
    LARGEST_FIELD,
    MOST_DOCUMENTS,
    VERIFICATION,
    cleaned,
    document_name,
    malformed,
    read_fields,
    read_json,
)
from orchestrator.core.events.agent_messages import AgentMessage, PhaseComplete, TaskComplete

LARGEST_MESSAGE: Final = 100 * 1024
"""Bytes of UTF-8 between the markers, and characters that are kept of an unfinished line."""

_BRACKETS: Final = re.compile(rf" {{0,3}}\[(/?)({'|'.join(FIELDS)})(_JSON)?\][ \t]*")
_PHASE: Final = re.compile(r" {0,3}===[ \t]+PHASE[ \t]+([1-9][0-9]{0,2})[ \t]+COMPLETE[ \t]+===[ \t]*")
_TASK: Final = re.compile(r" {0,3}===[ \t]+CUSTOM TASK COMPLETE[ \t]+===[ \t]*")
_VERIFICATION: Final = re.compile(rf" {{0,3}}===[ \t]+{VERIFICATION}[ \t]+===[ \t]*")

_FIELD: Final = re.compile(r" {0,3}([A-Za-z_]{1,20}):[ \t]*(.*)", re.DOTALL)
_FENCE: Final = re.compile(r"[ \t]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?(`{3,}+(?!.*`)|~{3,}).*", re.DOTALL)
_FENCE_END: Final = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*")
_JSON_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*"?')


class Markers:
    """Finds messages in a text that arrives in pieces; it never raises, and keeps a bounded amount."""

    def __init__(self) -> None:
        self._line: list[str] = []
        self._length = 0
        self._fence = ""
        self._open: _Message | None = None

    def push(self, text: str) -> tuple[AgentMessage, ...]:
        """Return the messages that this piece completes; a block of text must end with a newline."""
        *ends, rest = text.split("\n")
        said: list[AgentMessage] = []
        for end in ends:
            self._keep(end)
            said += self._take_line()
        self._keep(rest)
        return tuple(said)

    def flush(self) -> tuple[AgentMessage, ...]:
        """Return the messages at the end of a turn: one that is still open is malformed."""
        said = self._take_line() if self._length else []
        said += self._end()
        self._fence = ""
        return tuple(said)

    @property
    def is_in_message(self) -> bool:
        """Whether a message has begun that has not ended."""
        return self._open is not None

    def _keep(self, piece: str) -> None:
        if piece and self._length <= LARGEST_MESSAGE:
            self._line.append(piece[: LARGEST_MESSAGE + 1 - self._length])
            self._length += len(self._line[-1])

    def _take_line(self) -> list[AgentMessage]:
        line = "".join(self._line).removesuffix("\r")
        self._line.clear()
        self._length = 0
        fenced = self._is_fenced(line)
        if not fenced:
            if bracket := _BRACKETS.fullmatch(line):
                return self._bracket(closes=bool(bracket[1]), name=bracket[2], json=bool(bracket[3]))
            if opened := _begun(line):
                return self._end(opened)
        if self._open is None or self._open.take(line, fenced=fenced):
            return []
        return self._end()

    def _is_fenced(self, line: str) -> bool:
        """Return whether the line is in a code fence, or begins or ends one."""
        if not self._fence:
            opens = _FENCE.fullmatch(line)
            self._fence = opens[1] if opens else ""
            return bool(opens)
        closes = _FENCE_END.fullmatch(line)
        if closes and closes[1].startswith(self._fence):
            self._fence = ""
        return True

    def _bracket(self, *, closes: bool, name: str, json: bool) -> list[AgentMessage]:
        if not closes:
            return self._end(_Json(name) if json else _Fields(name))
        if self._open is None or not self._open.name:
            return [*self._end(), malformed(name, f"[/{name}] ends a message that was never begun")]
        return self._end(closed=self._open.name == name)

    def _end(self, following: "_Message | None" = None, *, closed: bool = False) -> list[AgentMessage]:
        ended, self._open = self._open, following
        return ended.end(closed=closed) if ended else []


def outside_messages(text: str) -> tuple[str, ...]:
    """Return the lines of a text that belong to no message."""
    markers, found = Markers(), []
    for line in text.splitlines():
        said = markers.push(f"{line}\n")
        if not markers.is_in_message and not (said and _BRACKETS.fullmatch(line)):
            found.append(line)
    return tuple(found)


def _begun(line: str) -> "_Message | None":
    """Return the message that a line with `===` begins."""
    if phase := _PHASE.fullmatch(line):
        return _Phase(int(phase[1]))
    if _TASK.fullmatch(line):
        return _Task()
    return _Result() if _VERIFICATION.fullmatch(line) else None


class _Message(Protocol):
    """A message whose begin marker was seen; `name` is that of its end marker, "" if it has none."""

    @property
    def name(self) -> str: ...

    def take(self, line: str, *, fenced: bool) -> bool:
        """Add a line; return False if it does not belong to the message."""

    def end(self, *, closed: bool) -> list[AgentMessage]:
        """Return what the message says."""


class _Body:
    """The lines of a message up to the size limit; `wrong` says what is wrong with them."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.wrong = ""
        self._size = 0

    def add(self, line: str) -> bool:
        """Keep a line; return False if the message is too large."""
        self._size += len(line.encode("utf-8", "surrogatepass")) + 1
        if self._size > LARGEST_MESSAGE:
            self.wrong = f"it is larger than {LARGEST_MESSAGE // 1024} KiB"
            self.lines.clear()
            return False
        self.lines.append(line)
        return True


class _Fields:
    """A message of fields between brackets."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._body = _Body()
        self._fields: dict[str, list[str]] = {}
        self._last: list[str] | None = None

    def take(self, line: str, *, fenced: bool) -> bool:
        found = None if fenced else _FIELD.fullmatch(line)
        key = found[1].casefold() if found else ""
        is_field = key in FIELDS[self.name]
        if self.name == ERROR and not is_field and self._last is None and line.strip():
            return False
        if not self._body.add(line):
            self._fields.clear()
        elif found and is_field:
            if key in self._fields:
                self._body.wrong = f"{key} is given twice"
            self._last = self._fields.setdefault(key, [])
            self._last.append(found[2])
        elif self._last is not None:
            self._last.append(line)
        elif line.strip():
            self._body.wrong = "its first line is no field"
        return True

    def end(self, *, closed: bool) -> list[AgentMessage]:
        if self.name == ERROR and self._last is None and not closed:
            return []
        wrong = self._body.wrong or ("" if closed else _never_closed(self.name))
        if wrong:
            return [malformed(self.name, wrong)]
        return [read_fields(self.name, {key: "\n".join(v).replace("\\n", "\n") for key, v in self._fields.items()})]


class _Json:
    """A message between brackets whose body is one JSON object."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._body = _Body()

    def take(self, line: str, *, fenced: bool) -> bool:  # noqa: ARG002 - the body may stand in a fence
        self._body.add(line)
        return True

    def end(self, *, closed: bool) -> list[AgentMessage]:
        wrong = self._body.wrong or ("" if closed else _never_closed(f"{self.name}_JSON"))
        return [malformed(self.name, wrong) if wrong else read_json(self.name, "\n".join(self._body.lines))]


class _Result:
    """A verification result: a JSON object, in a fence or not, that ends with its last brace."""

    name = ""

    def __init__(self) -> None:
        self._body = _Body()
        self._depth = 0

    def take(self, line: str, *, fenced: bool) -> bool:
        if not self._body.lines:
            if not line.strip() or (fenced and _FENCE.fullmatch(line)):
                return True
            if not line.lstrip().startswith("{"):
                return False
        elif not self._depth:
            return False
        bare = _JSON_TEXT.sub("", line)
        self._depth += bare.count("{") + bare.count("[") - bare.count("}") - bare.count("]")
        return self._body.add(line)

    def end(self, *, closed: bool) -> list[AgentMessage]:  # noqa: ARG002 - it has no closing marker
        if self._body.wrong or not self._body.lines:
            return [malformed(VERIFICATION, self._body.wrong or "no JSON object follows it")]
        return [read_json(VERIFICATION, "\n".join(self._body.lines))]


class _Phase:
    """A completed phase and the documents listed below it."""

    name = ""

    def __init__(self, number: int) -> None:
        self._number = number
        self._documents: list[str] | None = None

    def take(self, line: str, *, fenced: bool) -> bool:
        words = line[:LARGEST_FIELD].strip(" \t*_#").casefold()
        if fenced:
            return False
        if words.startswith(("documents created:", "files created:")):
            self._documents = self._documents or []
        elif self._documents is not None and (item := ITEM.fullmatch(line)):
            if len(self._documents) < MOST_DOCUMENTS and (name := document_name(item[1])):
                self._documents.append(name)
        else:
            return not words or words.startswith(("phase:", "completed:", "ready for review"))
        return True

    def end(self, *, closed: bool) -> list[AgentMessage]:  # noqa: ARG002 - it has no closing marker
        return [PhaseComplete(number=self._number, documents=tuple(self._documents or ()))]


class _Task:
    """A completed task without phases, with the text about it up to an empty line."""

    name = ""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}
        self._last = ""

    def take(self, line: str, *, fenced: bool) -> bool:
        found = _FIELD.fullmatch(line)
        key = found[1].casefold() if found else ""
        if fenced or (self._last and not line.strip()):
            return False
        if found and key in {"task", "summary"}:
            self._last = key
            self._add(found[2])
        elif self._last:
            self._add(f"\n{line}")
        return bool(self._last or not line.strip())

    def _add(self, text: str) -> None:
        self._said[self._last] = (self._said.get(self._last, "") + text)[:LARGEST_FIELD]

    def end(self, *, closed: bool) -> list[AgentMessage]:  # noqa: ARG002 - it has no closing marker
        task, summary = (cleaned(self._said.get(key, ""))[:LARGEST_FIELD] for key in ("task", "summary"))
        return [TaskComplete(task=task, summary=summary)]


def _never_closed(name: str) -> str:
    return f"[/{name}] is missing, alone on its line"
