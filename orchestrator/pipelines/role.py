"""A role: who an agent is, in the format of Claude Code's own agent files (front matter and a prompt)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from orchestrator.core.events.agent_messages import AgentTool
from orchestrator.core.task.task_policy import TaskPolicy
from orchestrator.core.task.user_requests import DECIDE_YOURSELF, Answer, RequestDraft, RequestStatus, Subject
from orchestrator.formats.table import Table, nearest

PERMISSION_MODES = ("default", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions")
EFFORTS = ("low", "medium", "high", "xhigh", "max")

NOT_PASSED_ON = ("skills", "hooks", "memory", "background", "isolation", "initialPrompt")
"""Keys of Claude Code's agent files that are not passed on to an unattended agent."""

OWN_SERVER = "orchestrator"
"""The name under which an agent's CLI knows the daemon's own tools."""

_NAME = re.compile(r"[a-z][a-z0-9-]*")
_LIST = re.compile(r"(?:[^,(]|\([^)]*\)?)+")


class OnAsk(StrEnum):
    """What happens to a request of an agent of this role, if its task is interactive."""

    ASK = "ask"
    ALLOW = "allow"
    DENY = "deny"


class Tier(StrEnum):
    """How capable a model the role needs; the settings say which model that is."""

    DEEP = "deep"
    STANDARD = "standard"
    FAST = "fast"


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Who an agent is; None and empty leave the choice to the settings or to the CLI.

    `tier`, `orchestrator_tools`, `on_permission`, `on_question`, `on_plan`, `network` and `read_only` are keys of this
    program; a denied question is left to the agent. Without `network` the commands that an agent runs have none; a
    `read_only` one cannot write to its worktree, where there is a sandbox.
    """

    name: str
    description: str
    tools: tuple[str, ...] = ()
    disallowed_tools: tuple[str, ...] = ()
    model: str | None = None
    permission_mode: str | None = None
    max_turns: int | None = None
    effort: str | None = None
    tier: Tier | None = None
    mcp_servers: tuple[str, ...] = ()
    orchestrator_tools: tuple[AgentTool, ...] = ()
    on_permission: OnAsk = OnAsk.ASK
    on_question: OnAsk = OnAsk.ASK
    on_plan: OnAsk = OnAsk.ASK
    network: bool = True
    read_only: bool = False
    prompt: str
    source: str = field(default="", compare=False)


def read_role(front: Table, prompt: str, expected_name: str) -> Role:
    """Return the role that a file's front matter and text declare; problems are noted in the table's report.

    A role has the name of its file, so that one can see which file hides which.
    """
    role = Role(
        name=front.text("name"),
        description=front.text("description"),
        tools=_tools(front, "tools"),
        disallowed_tools=_tools(front, "disallowedTools"),
        model=front.maybe_text("model"),
        permission_mode=front.choice("permissionMode", {word: word for word in PERMISSION_MODES}, "permissionMode"),
        max_turns=front.whole("maxTurns", at_least=1) if front.has("maxTurns") else None,
        effort=front.choice("effort", {word: word for word in EFFORTS}, "effort"),
        tier=front.choice("tier", {one.value: one for one in Tier}, "tier"),
        mcp_servers=_tools(front, "mcpServers"),
        orchestrator_tools=_own_tools(front),
        on_permission=_on_ask(front, "onPermission"),
        on_question=_on_ask(front, "onQuestion"),
        on_plan=_on_ask(front, "onPlan"),
        network=front.choice("network", {"true": True, "false": False}, "network") is not False,
        read_only=front.choice("readOnly", {"true": True, "false": False}, "readOnly") is True,
        prompt=prompt.strip(),
        source=front.report.source,
    )
    front.has("color")  # for Claude Code's own display; accepted and ignored
    for name in NOT_PASSED_ON:
        if front.has(name):
            front.note(name, f"{name} is not passed on to unattended agents: remove it")
    front.done()
    if role.name and not _NAME.fullmatch(role.name):
        front.note("name", f"a role name has small letters, digits and - only, not {role.name!r}")
    elif role.name and role.name != expected_name:
        front.note("name", f"name is {role.name!r} in a file called {expected_name!r}: make them the same")
    if not role.prompt:
        front.report.note((), "the text below the front matter is empty: it is what the agent is told")
    return role


def _tools(front: Table, name: str) -> tuple[str, ...]:
    """Return the names of a YAML list, or of one text with commas; a rule in parentheses may hold commas of its own."""
    if not front.is_text(name):
        return front.texts(name, ())
    return tuple(filter(None, (item.strip() for item in _LIST.findall(front.text(name)))))


def _own_tools(front: Table) -> tuple[AgentTool, ...]:
    """Return the daemon's own tools that the role wants; problems are noted."""
    known = {one.value: one for one in AgentTool}
    named = _tools(front, "orchestratorTools")
    for word in named:
        if word not in known:
            front.note("orchestratorTools", f"unknown tool {word!r:.80}; {nearest(word, known)}")
    if named and OWN_SERVER in _tools(front, "mcpServers"):
        front.note(
            "mcpServers", f"{OWN_SERVER!r} is the name of the server of orchestratorTools: call this one otherwise"
        )
    return tuple(dict.fromkeys(known[word] for word in named if word in known))


def _on_ask(front: Table, name: str) -> OnAsk:
    return front.choice(name, {one.value: one for one in OnAsk}, name) or OnAsk.ASK


def model_of(role: Role, policy: TaskPolicy, tiers: Mapping[Tier, str]) -> str | None:
    """Return the model of a role: its own, the task's for its tier, or the settings'; None leaves it open."""
    of_task = {Tier.DEEP: policy.planning_model, Tier.STANDARD: policy.impl_model}
    if role.model or role.tier is None:
        return role.model
    return of_task.get(role.tier) or tiers.get(role.tier) or None


def answer_of(role: Role, asking: RequestDraft) -> Answer | None:
    """Return what a role's own rules answer; None where a person is to be asked, or the task's policy."""
    match asking.subject:
        case Subject.PERMISSION if role.on_permission is not OnAsk.ASK:
            return Answer(status=RequestStatus.ANSWERED, text=role.on_permission.value)
        case Subject.QUESTION if role.on_question is OnAsk.DENY:
            return Answer(status=RequestStatus.ANSWERED, text=asking.default or DECIDE_YOURSELF)
        case Subject.PLAN if role.on_plan is OnAsk.ALLOW:
            return Answer(status=RequestStatus.APPROVED)
        case _:
            return None
