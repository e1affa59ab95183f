"""The tools that an agent may have of the daemon: what each is for, what it takes, and what it answers."""

from collections.abc import Mapping, Sequence
from typing import Final

from orchestrator.agents.messages import LARGEST_FIELD, MOST_DOCUMENTS, MOST_OPTIONS
from orchestrator.core.events.agent_messages import AgentTool, Category, DependencyType
from orchestrator.core.task.progress import StepStatus
from orchestrator.formats.codec import Json, JsonObject

SERVER: Final = "orchestrator"
"""As `OWN_SERVER` of pipelines/role.py, which this program has no time to import."""
PREFIX: Final = f"mcp__{SERVER}__"
"""What precedes the name of a tool where the CLI names it."""
RECORDED: Final[Mapping[AgentTool, str]] = {
    AgentTool.ASK_USER: "Recorded. End your turn now: the answer comes with the next turn.",
    AgentTool.REQUEST_DEPENDENCY: "Recorded. End your turn now: whether it is there comes with the next turn.",
    AgentTool.PHASE_COMPLETE: "Recorded. End your turn now: what the phase must leave is checked then.",
}
"""What the tools answer of which the daemon learns from the agent's output; by this it knows its own tools' answers."""


def _text(description: str) -> JsonObject:
    return {"type": "string", "description": description, "maxLength": LARGEST_FIELD}


def _texts(description: str, most: int) -> JsonObject:
    return {"type": "array", "items": {"type": "string"}, "maxItems": most, "description": description}


def _words(description: str, words: Sequence[str]) -> JsonObject:
    return {"type": "string", "enum": [*words], "description": description}


def _tool(tool: AgentTool, purpose: str, needed: Sequence[str], /, **properties: JsonObject) -> JsonObject:
    required: list[Json] = [*needed]
    given: dict[str, Json] = {**properties}
    schema: JsonObject = {"type": "object", "properties": given, "required": required, "additionalProperties": False}
    return {"name": tool.value, "description": purpose, "inputSchema": schema}


TOOLS: Final[Mapping[AgentTool, JsonObject]] = {
    AgentTool.ASK_USER: _tool(
        AgentTool.ASK_USER,
        "Ask a person something that you cannot decide and that is expensive to undo. Then end your turn.",
        ["question"],
        question=_text("The question, with all that is needed to answer it."),
        category=_words("What kind of answer you need.", [one.value for one in Category]),
        options=_texts("What may be answered; a choice needs at least two.", MOST_OPTIONS),
        default=_text("What holds if nobody answers; one of the options, if there are any."),
        required={"type": "boolean", "description": "Whether you cannot go on without an answer; true if left out."},
    ),
    AgentTool.REQUEST_DEPENDENCY: _tool(
        AgentTool.REQUEST_DEPENDENCY,
        "Ask a person for something that only they can provide, such as a key. A value arrives in your environment "
        "under its name; never write it to a file. Then end your turn.",
        ["type", "name", "description"],
        type=_words("What is missing.", [one.value for one in DependencyType]),
        name=_text("Its name; for a key or a variable, the environment variable's."),
        description=_text("What it is needed for."),
        required={"type": "boolean", "description": "Whether you cannot go on without it; true if left out."},
        default=_text("What you do without it."),
    ),
    AgentTool.PHASE_COMPLETE: _tool(
        AgentTool.PHASE_COMPLETE,
        "Report that a phase is done. It passes nothing by itself: what the phase must leave is checked. Then end your "
        "turn.",
        ["number"],
        number={"type": "integer", "minimum": 1, "maximum": 999},
        documents=_texts("The documents that you made.", MOST_DOCUMENTS),
    ),
    AgentTool.STEP: _tool(
        AgentTool.STEP,
        "Report news of a step of the plan. A step is completed by its commits.",
        ["step_id", "status"],
        step_id={"type": "integer", "minimum": 1, "description": "The step's number in the plan."},
        status=_words("Its new status.", [one.value for one in StepStatus]),
        commits=_texts("The commits that carry it out.", 100),
    ),
    AgentTool.FAIL: _tool(
        AgentTool.FAIL,
        "Record that something failed, for those who look at the task later. Your work goes on.",
        ["summary"],
        summary=_text("What failed, and why."),
        type=_text("A word for the failure, such as test_failure."),
        step=_text("The step in which it failed."),
        command=_text("The command that was run."),
        exit_code={"type": "integer", "description": "The exit code of the command."},
    ),
}
"""Each tool as the protocol lists it."""
