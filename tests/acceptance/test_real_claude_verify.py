"""The real claude CLI in a pipeline with a verifier: the author's own session goes on with what was found."""

from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.claude_harness import ClaudeHarness, Ticker
from tests.acceptance.claude_roles import bash
from tests.fakes.repositories import git
from tests.fakes.scripted_model import Reply, Say, Scene, ScriptedModel, in_order

pytestmark = pytest.mark.claude

CHECKED = """
name = "checked"
description = "An author, and a verifier who reads what the author left."
start = "BUILD"
branch = "{task}"

[budgets]
reworks_of_build = 3

[stages.BUILD]
work = "agent"
role = "implementer"
commits = true
resume_session = true
documents = ["docs/{ticket}.md"]
guards = [
    { guard = "commit_count", at_least = 1 },
    { guard = "tree_clean" },
    { guard = "files_min_chars", pattern = "docs/{ticket}.md", more_than = 10 },
]
next = "VERIFICATION"

[stages.VERIFICATION]
work = "verify"
role = "reviewer"
answer = "verdict.txt"
next = "DONE"
on_fail = "BUILD"
budget = "reworks_of_build"

[stages.DONE]
work = "deliver"
"""
FAILED = '{"criteria": [{"id": "NAMES", "status": "failed", "details": "the second name is missing"}]}'
PASSED = '{"criteria": [{"id": "NAMES", "status": "passed"}]}'
TOKENS_OF_A_CALL = 150


def wrote(text: str, before: str = "true") -> Reply:
    """Write the document anew and commit it, after another command."""
    return bash(f"{before}; echo '{text}' >docs/$KEY.md && git add docs && git commit -qm 'names: {text}'")


def author_and_verifier(first: str, again: str) -> ScriptedModel:
    """Return a model that forgets the second name, finds that out as the verifier, and adds it when told; the author
    runs the commands before its work.
    """

    def model(scene: Scene) -> Reply:
        key = scene.prompt.partition(" of ")[2].partition(":")[0]
        begin = f"mkdir -p docs; KEY={key}"
        if scene.prompt.startswith("# VERIFICATION"):
            asked = "asked to be changed:" in scene.prompt
            return Say(f"I looked.\n=== VERIFICATION_RESULT ===\n{PASSED if asked else FAILED}")
        if "the second name is missing" in scene.prompt:
            return in_order(scene, wrote("Ada and Grace", f"{begin}; {again}"), Say("Added."))
        return in_order(scene, wrote("Ada, and nobody", f"{begin}; {first}"), Say("Written."))

    return model


def test_what_a_verifier_finds_goes_to_the_authors_session_over_two_crashes(claude: Path, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "again").mkdir()
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/checked.toml").write_text(CHECKED)
    first, again = Ticker(tmp_path / "first"), Ticker(tmp_path / "again")
    model = author_and_verifier(first.command, again.command)
    with ClaudeHarness(claude, tmp_path, model, folders={"pipelines": [str(tmp_path / "pipelines")]}) as harness:
        name = harness.submit(pipeline="checked")
        harness.crash_during(first, again)
        task = harness.end_of(name)
        assert (task.status, task.block_reason) == (TaskStatus.COMPLETED, None)
        author, verifier, resumed, judge = (session.partition("=") for session in harness.sessions(task))
        assert [one[0] for one in (author, verifier, resumed, judge)] == [
            "--session-id",
            "--session-id",
            "--resume",
            "--session-id",
        ]
        assert author[2] == resumed[2]
        assert len({author[2], verifier[2], judge[2]}) == 3
        log = git(harness.repository, "log", "--reverse", "--format=%s", f"main..{task.branch}").splitlines()
        assert log == ["names: Ada, and nobody", "names: Ada and Grace"]
        assert [entry.summary for entry in task.failures.entries] == ["NAMES: the second name is missing"]
        assert task.agent.tokens_used == len(harness.api.scenes) * TOKENS_OF_A_CALL
        assert harness.played_twice() == []
        assert harness.survivors() == []
