"""Translate the body of one message into what the agent said, or `Malformed` with a hint on how to fix it.

Fields come as text or as JSON and are treated alike. Small errors are tolerated: an unknown category is guessed, words
are compared without case, a missing `required` means yes. What a decision depends on is never guessed: a missing
question, an unknown type of dependency, or a default that is not an option makes a message malformed.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeVar
from unicodedata import category, combining, is_normalized, normalize

from orchestrator.core.events.agent_messages import (
    AgentError,
    AgentMessage,
    Category,
    Criterion,
    DependencyRequest,
    DependencyType,
    Malformed,
    Question,
    Recovery,
    Verification,
)
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import list_of, object_of, text_of
from orchestrator.redaction.display import escape_text

LARGEST_FIELD: Final = 10_000  # characters
LONGEST_NAME: Final = 255  # characters
MOST_ACCENTS: Final = 30
MOST_OPTIONS: Final = 50
MOST_CRITERIA: Final = 200
MOST_DOCUMENTS: Final = 200
MOST_NAMED: Final = 1000  # characters looked at for a document's name

QUESTION: Final = "USER_QUESTION"
DEPENDENCY: Final = "DEPENDENCY_REQUEST"
ERROR: Final = "ERROR"
VERIFICATION: Final = "VERIFICATION_RESULT"

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    QUESTION: ("category", "question", "options", "default", "required"),
    DEPENDENCY: ("type", "name", "description", "required", "default"),
    ERROR: ("type", "message", "details", "recovery"),
}
"""The messages that are written between brackets, and what each may hold."""

SHAPES: Final[Mapping[str, str]] = {
    QUESTION: "[USER_QUESTION], then lines `category: business|clarification|choice|confirmation`, `question: …`, "
    "`options:` with one line `- …` for each (needed for a choice), `default: …` and `required: true|false` if wanted, "
    "then [/USER_QUESTION]",
    DEPENDENCY: "[DEPENDENCY_REQUEST], then lines `type: api_key|env_variable|service|file|permission|package`, "
    "`name: …`, `description: …`, `required: true|false`, then [/DEPENDENCY_REQUEST]",
    ERROR: "[ERROR], then lines `type: recoverable|fatal`, `message: …`, "
    "`recovery: pause_and_retry|checkpoint_and_fail|notify_user`, then [/ERROR]",
    VERIFICATION: "=== VERIFICATION_RESULT ===, then a JSON object "
    '{"criteria": [{"id": "…", "status": "passed" or "failed", "details": "…", "suggestion": "…", '
    '"affectedDocuments": ["…"]}]}',
}

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ITEM: Final = re.compile(r"[ \t]*+(?:[-*•]|\d{1,2}[.)])[ \t]++(.*)")
_INLINE: Final = re.compile(r"\[(.*)\]", re.DOTALL)
_PIECE: Final = re.compile(r"""\s*("[^"]*"|'[^']*'|[^,]+)""")
_FENCED: Final = re.compile(r"(?:```|~~~)[^\n]*\n(.*)\n[ \t]*+(?:```|~~~)", re.DOTALL)
_BIDIRECTIONAL: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_QUOTED: Final = re.compile(r"`([^`]+)`")
_YES_AND_NO: Final = {"true": True, "yes": True, "false": False, "no": False}
_PASSED: Final = {"passed": True, "pass": True, "failed": False, "fail": False}

Word = TypeVar("Word", bound=StrEnum)
Fallback = TypeVar("Fallback")


class _WrongError(Exception):
    """A message is not valid; the argument says why."""


def read_fields(name: str, fields: JsonObject) -> AgentMessage:
    """Return what a message of this name with these fields says."""
    try:
        return _BUILDERS[name](fields)
    except _WrongError as wrong:
        return malformed(name, str(wrong))


def objection_to(name: str, fields: JsonObject) -> str:
    """Return what is wrong with the fields of a message of this name; empty if nothing is."""
    try:
        _BUILDERS[name](fields)
    except _WrongError as wrong:
        return str(wrong)
    return ""


def read_json(name: str, body: str) -> AgentMessage:
    """Return what a message of this name says whose body is one JSON object, in a code fence or not."""
    fenced = _FENCED.fullmatch(body.strip())
    try:
        value: Json = json.loads(fenced[1] if fenced else body)
    except (ValueError, RecursionError) as error:
        return malformed(name, f"its body is no JSON: {escape_text(str(error))}")
    if not isinstance(value, dict):
        return malformed(name, "its body is JSON, but no object")
    return read_fields(name, value)


def malformed(name: str, wrong: str) -> Malformed:
    """Return the message that could not be understood, with what is wrong and how it must look."""
    return Malformed(block=name, reason=f"{name} was not understood: {wrong}. It must look like this: {SHAPES[name]}.")


def cleaned(text: str) -> str:
    """Return the text in Unicode's composed form, without control characters, and white space around it."""
    if not text.isascii():
        text = _thinned(text)
        text = text if is_normalized("NFC", text) else normalize("NFC", text)
    text = text.replace("\r\n", "\n")
    if not text.isprintable():
        text = "".join(letter for letter in text if letter in "\n\t" or _may_stay(letter))
    return text.strip()


def _thinned(text: str) -> str:
    """The text with no more accents on one letter than Unicode's stream-safe form has: composing them is quadratic."""
    accents, letters = 0, []
    for letter in text:
        accents = accents + 1 if combining(letter) else 0
        if accents <= MOST_ACCENTS:
            letters.append(letter)
    return "".join(letters)


def _may_stay(letter: str) -> bool:
    return category(letter) not in {"Cc", "Cs"} and letter not in _BIDIRECTIONAL


def _question(fields: JsonObject) -> Question:
    options = _options(fields.get("options"))
    guess = Category.CHOICE if options else Category.CLARIFICATION
    kind = _word(Category, fields.get("category"), guess)
    if kind is Category.CHOICE and len(options) < 2:
        raise _WrongError("a choice needs at least two options")
    default = _text(fields, "default") or None
    if default and options:
        default = _one_of(default, options)
    return Question(
        category=kind,
        question=_needed(fields, "question"),
        options=options,
        default=default,
        required=_required(fields),
    )


def _dependency(fields: JsonObject) -> DependencyRequest:
    kind = _word(DependencyType, _needed(fields, "type"), None)
    if kind is None:
        raise _WrongError(f"there is no type {escape_text(_needed(fields, 'type'))!r}")
    name = _needed(fields, "name")
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise _WrongError(f"name must be one line of at most {LONGEST_NAME} characters")
    if kind in {DependencyType.API_KEY, DependencyType.ENV_VARIABLE} and not _VARIABLE.fullmatch(name):
        raise _WrongError("name must be an environment variable's name: letters, digits and _, no digit first")
    return DependencyRequest(
        type=kind,
        name=name,
        description=_needed(fields, "description"),
        required=_required(fields),
        default=_text(fields, "default") or None,
    )


def _agent_error(fields: JsonObject) -> AgentError:
    """Return an error; only the type `fatal` is fatal, and an unknown recovery means that people are notified."""
    return AgentError(
        fatal=_text(fields, "type").casefold() == "fatal",
        recovery=_word(Recovery, fields.get("recovery"), Recovery.NOTIFY_USER),
        message=_needed(fields, "message"),
        details=_text(fields, "details"),
    )


def _verification(fields: JsonObject) -> Verification:
    found = fields.get("criteria")
    if not isinstance(found, list) or not 1 <= len(found) <= MOST_CRITERIA:
        raise _WrongError(f"criteria must be a list of 1 to {MOST_CRITERIA} objects")
    return Verification(criteria=tuple(_criterion(object_of(one)) for one in found))


def _criterion(fields: JsonObject) -> Criterion:
    status = _needed(fields, "status").casefold()
    if status not in _PASSED:
        raise _WrongError(f"a status is passed or failed, not {escape_text(status)!r}")
    documents = list_of(fields.get("affectedDocuments"))[:MOST_DOCUMENTS]
    return Criterion(
        id=_needed(fields, "id")[:LONGEST_NAME],
        passed=_PASSED[status],
        details=_text(fields, "details"),
        suggestion=_text(fields, "suggestion"),
        affected_documents=tuple(document_name(name) for name in documents if isinstance(name, str)),
    )


_BUILDERS: Final[Mapping[str, Callable[[JsonObject], AgentMessage]]] = {
    QUESTION: _question,
    DEPENDENCY: _dependency,
    ERROR: _agent_error,
    VERIFICATION: _verification,
}


def document_name(text: str) -> str:
    """Return a document's name as an agent writes it in a list: in back quotes or bare, cut to what a name can be."""
    quoted = _QUOTED.match(text[:MOST_NAMED])
    return cleaned(quoted[1] if quoted else text[:MOST_NAMED])[:LONGEST_NAME]


def _text(fields: JsonObject, name: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if isinstance(value, list | dict):
        raise _WrongError(f"{name} must be a text")
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return _bounded(name, value)


def _bounded(name: str, value: str) -> str:
    if len(value) <= LARGEST_FIELD:
        value = cleaned(value)
    if len(value) > LARGEST_FIELD:
        raise _WrongError(f"{name} is longer than {LARGEST_FIELD:,} characters")
    return value


def _needed(fields: JsonObject, name: str) -> str:
    value = _text(fields, name)
    if not value:
        raise _WrongError(f"{name} is missing")
    return value


def _required(fields: JsonObject) -> bool:
    said = _text(fields, "required").casefold()
    if said and said not in _YES_AND_NO:
        raise _WrongError(f"required is true or false, not {escape_text(said)!r}")
    return not said or _YES_AND_NO[said]


def _word(words: type[Word], value: Json, otherwise: Fallback) -> Word | Fallback:
    said = value.strip().casefold() if isinstance(value, str) else ""
    return next((word for word in words if word.value == said), otherwise)


def _options(value: Json) -> tuple[str, ...]:
    """Return options from a JSON list, from lines with a dash each, or from one line `[a, b]`."""
    if value is None:
        return ()
    if isinstance(value, str):
        value = [*_listed(value)]
    if not isinstance(value, list) or not all(isinstance(option, str) for option in value):
        raise _WrongError("options must be a list of texts")
    options = tuple(option for one in value if (option := _bounded("options", text_of(one, LARGEST_FIELD + 1))))
    if len(options) > MOST_OPTIONS:
        raise _WrongError(f"there are more than {MOST_OPTIONS} options")
    return tuple(dict.fromkeys(options))


def _listed(text: str) -> Iterable[str]:
    if inline := _INLINE.fullmatch(text.strip()):
        return (piece.strip().strip("\"'") for piece in _PIECE.findall(inline[1]))
    options: list[str] = []
    for line in text.split("\n"):
        if item := ITEM.fullmatch(line):
            options.append(item[1])
        elif options:
            options[-1] += f"\n{line}"
        elif line.strip():
            raise _WrongError("options must be lines that begin with `- `, or one line `[a, b]`")
    return options


def _one_of(default: str, options: tuple[str, ...]) -> str:
    for option in options:
        if option.casefold() == default.casefold():
            return option
    raise _WrongError(f"the default {escape_text(default)!r} is none of the options")
