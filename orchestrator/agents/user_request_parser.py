"""Translate what an agent asks for, in blocks of its text or in requests of its CLI, into `RequestDraft`.

All of it is untrusted text from the agent: it is cut to a readable length, and options are suggestions only.
"""

import json

from orchestrator.core.decide.pausing import ALLOW, DENY
from orchestrator.core.events.agent_events import Asked
from orchestrator.core.events.agent_messages import DependencyRequest, Question
from orchestrator.core.task.user_requests import RequestDraft, Subject
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import line_of, list_of, object_of, text_of

LONGEST_TEXT = 10_000
LONGEST_OPTION = 500
DEEPEST_INPUT = 100
"""Levels of nested lists and objects; the answer repeats the input, and orjson writes at most 254."""
MOST_QUESTIONS, MOST_OPTIONS = 10, 50


def asking_of_request(asked: Asked, start: int) -> tuple[RequestDraft, ...]:
    """Return what a request of the CLI asks of a person, nothing for one that no person can answer.

    `start` is the offset of its line in the agent's output: the answer must repeat its input.
    """
    if asked.subtype != "can_use_tool" or not asked.tool or _is_deeper(asked.input, DEEPEST_INPUT):
        return ()
    given = object_of(asked.input)
    content = json.dumps(asked.input, sort_keys=True)
    match asked.tool:
        case "AskUserQuestion":
            questions = list_of(given.get("questions"))[:MOST_QUESTIONS]
            return tuple(_question(object_of(one), asked.request_id, start) for one in questions)
        case "ExitPlanMode":
            text = text_of(given.get("plan"), LONGEST_TEXT) or "it has finished its plan and wants to begin"
            return (
                RequestDraft(
                    subject=Subject.PLAN, text=text, request_id=asked.request_id, start=start, content=content
                ),
            )
        case tool:
            return (
                RequestDraft(
                    subject=Subject.PERMISSION,
                    text=_shown(given),
                    name=tool[:100],
                    options=(ALLOW, DENY),
                    request_id=asked.request_id,
                    start=start,
                    content=content,
                ),
            )


def asking_of_block(said: Question | DependencyRequest) -> RequestDraft:
    """Return what a block in an agent's text asks of a person."""
    match said:
        case Question():
            return RequestDraft(
                subject=Subject.QUESTION,
                text=said.question,
                type=said.category.value,
                options=said.options,
                default=said.default,
                required=said.required,
            )
        case DependencyRequest():
            return RequestDraft(
                subject=Subject.DEPENDENCY,
                text=said.description,
                name=said.name,
                type=said.type.value,
                default=said.default,
                required=said.required,
            )


def _is_deeper(value: Json, limit: int) -> bool:
    """Return whether lists and objects are nested deeper than the limit."""
    level = [value]
    for _ in range(limit + 1):
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return False
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else list_of(one))]
    return True


def _question(one: JsonObject, request_id: str, start: int) -> RequestDraft:
    """Return a question; where several options may be chosen, any text is accepted."""
    labels = [line_of(object_of(option).get("label"), LONGEST_OPTION) for option in list_of(one.get("options"))]
    options = tuple(dict.fromkeys(filter(None, labels[:MOST_OPTIONS])))
    text = text_of(one.get("question"), LONGEST_TEXT) or "it asks without words"
    several = one.get("multiSelect") is True
    return RequestDraft(
        subject=Subject.QUESTION,
        text=f"{text} (one or more of: {', '.join(options)})" if several and options else text,
        name="",
        options=() if several else options,
        request_id=request_id,
        start=start,
    )


def _shown(given: JsonObject) -> str:
    """Return the input of a tool, one line for each argument."""
    lines = [f"{name}: {_value(value)}" for name, value in list(given.items())[:20]]
    return "\n".join(lines)[:LONGEST_TEXT] or "without input"


def _value(value: Json) -> str:
    return value[:4000] if isinstance(value, str) else line_of(json.dumps(value))
