"""What simulated agents print: well-formed and malformed blocks, and permission requests of the CLI's protocol.

All of it goes through the parsers that read real agents.
"""

from dataclasses import dataclass
from random import Random

from orchestrator.agents.markers import Markers
from orchestrator.agents.user_request_parser import asking_of_block, asking_of_request
from orchestrator.core.events.agent_events import Asked
from orchestrator.core.events.agent_messages import AgentError, AgentMessage, DependencyRequest, Malformed, Question
from orchestrator.core.task.user_requests import RequestDraft
from orchestrator.formats.codec import Json

_QUESTIONS = (
    "category: choice\nquestion: Which one, {number}?\noptions: [Redis, SQLite]\ndefault: SQLite\nrequired: false",
    "category: business\nquestion: What shall the limit be, {number}?\nrequired: true",
    "category: confirmation\nquestion: Drop the old table, {number}?\noptions: [yes, no]\ndefault: no",
)
_DEPENDENCIES = (
    "type: api_key\nname: STRIPE_KEY_{number}\ndescription: The tests pay with it.\nrequired: true",
    "type: package\nname: libxml2-{number}\ndescription: The build needs it.\nrequired: false",
    "type: permission\nname: network\ndescription: To fetch schema {number}.\nrequired: true",
)
_RECOVERABLE_ERRORS = (
    "type: recoverable\nmessage: The build server is down.\ndetails: connection refused\nrecovery: pause_and_retry",
    "type: recoverable\nmessage: The ticket contradicts itself, {number}.\nrecovery: notify_user",
)
_FATAL_ERROR = "type: fatal\nmessage: There is no compiler.\nrecovery: checkpoint_and_fail"
_MALFORMED = (
    "[USER_QUESTION]\nkwestion: ?\n[/USER_QUESTION]",
    "[DEPENDENCY_REQUEST]\ntype: spaceship\nname: x\ndescription: y\n[/DEPENDENCY_REQUEST]",
    "[ERROR_JSON]\n{\n[/ERROR_JSON]",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedMessage:
    """What the parsers found in a text."""

    requests: tuple[RequestDraft, ...] = ()
    error: AgentError | None = None
    malformed: tuple[str, ...] = ()


def question_block(rng: Random) -> ParsedMessage:
    """Return a question in a block."""
    return _parsed(_block("USER_QUESTION", rng.choice(_QUESTIONS), rng))


def dependency_block(rng: Random) -> ParsedMessage:
    """Return a report of a missing dependency in a block."""
    return _parsed(_block("DEPENDENCY_REQUEST", rng.choice(_DEPENDENCIES), rng))


def error_block(rng: Random, fatal: float) -> ParsedMessage:
    """Return an error in a block; `fatal` is the probability that it ends the task."""
    return _parsed(_block("ERROR", _FATAL_ERROR if rng.random() < fatal else rng.choice(_RECOVERABLE_ERRORS), rng))


def malformed_block(rng: Random) -> ParsedMessage:
    """Return a block that cannot be parsed."""
    return _parsed(rng.choice(_MALFORMED))


def permission_request(rng: Random, request_id: str, start: int) -> tuple[RequestDraft, ...]:
    """Return a request that waits for an answer: a tool, a question or a plan."""
    number = rng.randrange(1000)
    requests: tuple[tuple[str, Json], ...] = (
        ("Bash", {"command": f"rm -r build-{number}"}),
        ("AskUserQuestion", {"questions": [{"question": f"Which {number}?", "options": [{"label": "a"}]}]}),
        ("ExitPlanMode", {"plan": f"First this, then that: {number}"}),
    )
    tool, given = rng.choice(requests)
    asked = Asked(request_id=request_id, subtype="can_use_tool", tool=tool, input=given)
    return asking_of_request(asked, start)


def _block(name: str, body: str, rng: Random) -> str:
    return f"[{name}]\n{body.format(number=rng.randrange(1000))}\n[/{name}]"


def _parsed(text: str) -> ParsedMessage:
    markers = Markers()
    messages: tuple[AgentMessage, ...] = (*markers.push(f"{text}\n"), *markers.flush())
    return ParsedMessage(
        requests=tuple(asking_of_block(one) for one in messages if isinstance(one, Question | DependencyRequest)),
        error=next((one for one in messages if isinstance(one, AgentError)), None),
        malformed=tuple(one.reason for one in messages if isinstance(one, Malformed)),
    )
