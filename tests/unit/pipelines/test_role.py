"""Roles: the keys of Claude Code's agent files, and every way to get one wrong."""

from dataclasses import replace

import pytest

from orchestrator.core.events.agent_messages import AgentTool
from orchestrator.core.task.task_policy import TaskPolicy
from orchestrator.formats.table import DefinitionError
from orchestrator.pipelines.definitions import parse_role
from orchestrator.pipelines.role import Role, Tier, model_of

WORKER = """\
---
name: worker
description: Does the work.
tools: Read, Edit, Bash(git log:*, git show:*)
disallowedTools:
  - AskUserQuestion
  - WebFetch
model: sonnet
permissionMode: dontAsk
maxTurns: 40
effort: high
mcpServers: cks, chain
color: blue
---

You do the work.

---
And nothing else.
"""


def problems_of(text: str) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        parse_role(text, "roles/worker.md")
    return [str(problem) for problem in caught.value.problems]


def test_a_role_is_read_as_claude_code_reads_its_own_agent_files() -> None:
    assert parse_role(WORKER, "roles/worker.md") == Role(
        name="worker",
        description="Does the work.",
        tools=("Read", "Edit", "Bash(git log:*, git show:*)"),
        disallowed_tools=("AskUserQuestion", "WebFetch"),
        model="sonnet",
        permission_mode="dontAsk",
        max_turns=40,
        effort="high",
        mcp_servers=("cks", "chain"),
        prompt="You do the work.\n\n---\nAnd nothing else.",
    )


def test_omitted_keys_of_a_role_stay_unset() -> None:
    role = parse_role("---\nname: worker\ndescription: Works.\ntools:\n---\nWork.\n", "worker.md")
    assert (role.tools, role.disallowed_tools, role.model, role.permission_mode) == ((), (), None, None)


def test_a_role_has_the_network_unless_it_says_false() -> None:
    for said, has in (("", True), ("network: true", True), ("network: false", False)):
        assert parse_role(WORKER.replace("color: blue", said), "worker.md").network is has


def test_a_role_may_write_to_its_worktree_unless_it_is_read_only() -> None:
    for said, only_reads in (("", False), ("readOnly: true", True), ("readOnly: false", False)):
        assert parse_role(WORKER.replace("color: blue", said), "worker.md").read_only is only_reads


def test_a_role_names_the_daemons_own_tools_that_it_wants() -> None:
    text = WORKER.replace("color: blue", "orchestratorTools: ask_user, step, ask_user")
    assert parse_role(text, "worker.md").orchestrator_tools == (AgentTool.ASK_USER, AgentTool.STEP)
    assert (
        "unknown tool 'asc_user'; did you mean 'ask_user'?" in problems_of(text.replace(": ask_user", ": asc_user"))[0]
    )
    taken = text.replace("mcpServers: cks, chain", "mcpServers: orchestrator")
    assert "'orchestrator' is the name of the server of orchestratorTools" in problems_of(taken)[0]


def test_windows_line_ends_and_a_byte_order_mark_change_nothing() -> None:
    assert parse_role("\ufeff" + WORKER.replace("\n", "\r\n"), "roles/worker.md") == parse_role(WORKER, "worker.md")


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("disallowedTools", "disalowedTools", "roles/worker.md:5: unknown key 'disalowedTools'; did you mean 'disall"),
        ("name: worker\n", "", "roles/worker.md: 'name' is missing: text in quotes"),
        ("name: worker", "name: walker", "roles/worker.md:2: name is 'walker' in a file called 'worker'"),
        ("name: worker", "name: The Worker", "roles/worker.md:2: a role name has small letters"),
        ("name: worker", "name: [a]", "roles/worker.md:2: name = ['a'] must be text in quotes"),
        ("model: sonnet", "model: sonnet\nmodel: opus", "roles/worker.md:9: model is said twice"),
        ("dontAsk", "dontask", "roles/worker.md:9: unknown permissionMode 'dontask'; did you mean 'dontAsk'?"),
        ("effort: high", "effort: hihg", "roles/worker.md:11: unknown effort 'hihg'; did you mean 'high'?"),
        ("maxTurns: 40", "maxTurns: 0", "roles/worker.md:10: maxTurns = 0 must be a whole number, 1 or more"),
        ("maxTurns: 40", "maxTurns: many", "roles/worker.md:10: maxTurns = 'many' must be a whole number"),
        ("color: blue", "network: no", "roles/worker.md:13: unknown network 'no'"),
        ("color: blue", "hooks: {}", "roles/worker.md:13: hooks is not passed on to unattended agents"),
        ("model: sonnet", "model: !!python/object/apply:os.system [id]", "roles/worker.md:8: anchors (&), aliases"),
        ("model: sonnet", "model: &a sonnet", "roles/worker.md:8: anchors (&), aliases (*) and tags (!)"),
        ("model: sonnet", "model: *a", "roles/worker.md:8: anchors (&), aliases (*) and tags (!)"),
        ("model: sonnet", "model: a: b", "roles/worker.md:8: this is not YAML"),
        (
            "model: sonnet",
            "model: " + "[" * 1000 + "]" * 1000,
            "roles/worker.md:8: the front matter is nested too deeply",
        ),
        ("model: sonnet", "model: " + "a" * 70000, "roles/worker.md:1: the front matter is longer than 8 KiB"),
        ("---\nname", "name", "roles/worker.md:1: a role begins with front matter"),
        (WORKER, "", "roles/worker.md:1: a role begins with front matter"),
        (WORKER, "---\nname: worker\n", "roles/worker.md:1: a role begins with front matter"),
        (WORKER, "---\n- a\n---\nWork.", "roles/worker.md:1: the front matter must be lines of the form key: value"),
        (WORKER, "---\nname: worker\ndescription: x\n---\n \n", "roles/worker.md: the text below the front matter is"),
    ],
)
def test_an_error_in_a_role_is_reported_with_its_line(right: str, wrong: str, message: str) -> None:
    assert right in WORKER
    found = problems_of(WORKER.replace(right, wrong, 1))
    assert any(problem.startswith(message) for problem in found), found


TIERS = {Tier.DEEP: "opus", Tier.FAST: "haiku"}


@pytest.mark.parametrize(
    ("role", "terms", "model"),
    [
        ({}, {}, None),
        ({"tier": Tier.DEEP}, {}, "opus"),
        ({"tier": Tier.STANDARD}, {}, None),
        ({"tier": Tier.DEEP}, {"planning_model": "sonnet", "impl_model": "haiku"}, "sonnet"),
        ({"tier": Tier.STANDARD}, {"planning_model": "sonnet", "impl_model": "haiku"}, "haiku"),
        ({"tier": Tier.FAST}, {"planning_model": "sonnet", "impl_model": "sonnet"}, "haiku"),
        ({"tier": Tier.DEEP, "model": "inherit"}, {"planning_model": "sonnet"}, "inherit"),
        ({}, {"planning_model": "sonnet", "impl_model": "sonnet"}, None),
    ],
)
def test_a_role_uses_its_own_model_or_the_tasks_or_the_one_in_the_settings(
    role: dict[str, Tier | str], terms: dict[str, str], model: str | None
) -> None:
    played = replace(parse_role("---\nname: worker\ndescription: Works.\n---\nWork.\n", "worker.md"), **role)  # type: ignore[arg-type]  # any field
    assert model_of(played, TaskPolicy(**terms), TIERS) == model  # type: ignore[arg-type]  # any model


def test_a_tier_is_named_in_the_file() -> None:
    assert parse_role(WORKER.replace("model: sonnet", "tier: deep"), "roles/worker.md").tier is Tier.DEEP
    wrong = WORKER.replace("model: sonnet", "tier: depe")
    assert problems_of(wrong) == ["roles/worker.md:8: unknown tier 'depe'; did you mean 'deep'?"]
