"""What simulated agents say: blocks in their text, sound and garbled, and requests of the CLI's own protocol.

All of it goes through the parsers that real agents are heard with.
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
_TROUBLES = (
    "type: recoverable\nmessage: The build server is down.\ndetails: connection refused\nrecovery: pause_and_retry",
    "type: recoverable\nmessage: The ticket contradicts itself, {number}.\nrecovery: notify_user",
)
_FATAL = "type: fatal\nmessage: There is no compiler.\nrecovery: checkpoint_and_fail"
_GARBLED = (
    "[USER_QUESTION]\nkwestion: ?\n[/USER_QUESTION]",
    "[DEPENDENCY_REQUEST]\ntype: spaceship\nname: x\ndescription: y\n[/DEPENDENCY_REQUEST]",
    "[ERROR_JSON]\n{\n[/ERROR_JSON]",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageWords:
    """What a text meant."""

    asking: tuple[RequestDraft, ...] = ()
    trouble: AgentError | None = None
    malformed: tuple[str, ...] = ()


def question(dice: Random) -> MessageWords:
    """A question in a block."""
    return _heard(_block("USER_QUESTION", dice.choice(_QUESTIONS), dice))


def dependency(dice: Random) -> MessageWords:
    """Something that is missing, in a block."""
    return _heard(_block("DEPENDENCY_REQUEST", dice.choice(_DEPENDENCIES), dice))


def trouble(dice: Random, fatal: float) -> MessageWords:
    """Trouble in a block; `fatal` is how probable it is that it ends the task."""
    return _heard(_block("ERROR", _FATAL if dice.random() < fatal else dice.choice(_TROUBLES), dice))


def garbled(dice: Random) -> MessageWords:
    """A block that cannot be read."""
    return _heard(dice.choice(_GARBLED))


def request(dice: Random, request_id: str, start: int) -> tuple[RequestDraft, ...]:
    """A request that waits for an answer: a tool, a question or a plan."""
    number = dice.randrange(1000)
    requests: tuple[tuple[str, Json], ...] = (
        ("Bash", {"command": f"rm -r build-{number}"}),
        ("AskUserQuestion", {"questions": [{"question": f"Which {number}?", "options": [{"label": "a"}]}]}),
        ("ExitPlanMode", {"plan": f"First this, then that: {number}"}),
    )
    tool, given = dice.choice(requests)
    asked = Asked(request_id=request_id, subtype="can_use_tool", tool=tool, input=given)
    return asking_of_request(asked, start)


def _block(name: str, body: str, dice: Random) -> str:
    return f"[{name}]\n{body.format(number=dice.randrange(1000))}\n[/{name}]"


def _heard(text: str) -> MessageWords:
    markers = Markers()
    said: tuple[AgentMessage, ...] = (*markers.push(f"{text}\n"), *markers.flush())
    return MessageWords(
        asking=tuple(asking_of_block(one) for one in said if isinstance(one, Question | DependencyRequest)),
        trouble=next((one for one in said if isinstance(one, AgentError)), None),
        malformed=tuple(one.reason for one in said if isinstance(one, Malformed)),
    )
