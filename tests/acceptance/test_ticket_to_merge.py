"""With the real claude CLI: from a bug's ticket over two failed evaluations and a round of review to the merge."""

from collections import Counter
from pathlib import Path

import pytest

from orchestrator.cli.demo.scripts.job import REPOSITORY
from orchestrator.core.task.checks import Verdict
from orchestrator.core.task.task import TaskStatus
from tests.acceptance.claude_harness import ClaudeHarness
from tests.acceptance.claude_roles import Roles
from tests.acceptance.forge_harness import TOKEN_VARIABLE, Upstream
from tests.fakes import scripted_agent as job
from tests.fakes.forge_server import TOKEN
from tests.fakes.repositories import commit, git

pytestmark = pytest.mark.claude

TICKET = """# slugify gives addresses that nobody can read

## Type
bugfix

## Summary
Spaces and punctuation in a title become one hyphen each, also at its edges.

## Steps to reproduce
1. `textkit.slugify("Hello,  World!")`

## Expected
`hello-world`

## Actual
`hello---world-`

## Acceptance criteria
- [ ] words are joined by single hyphens
- [ ] no hyphen stands at an edge
"""
COMMENTS = ("Say in the README what is kept.", "And what is dropped.", "Give an example.")


def test_a_bug_is_mended_after_two_failed_evaluations_reviewed_and_merged(
    claude: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    upstream = Upstream(tmp_path)
    forge = upstream.forge
    with forge, ClaudeHarness(claude, tmp_path / "harness", Roles(careless=2), forge=upstream.settings()) as harness:
        module = REPOSITORY[str(job.MODULE)]
        commit(harness.repository, {str(job.MODULE): module + job.CARELESS}, "Add slugify")
        upstream.adopt(harness.repository)
        ticket = tmp_path / "ticket.md"
        ticket.write_text(TICKET, encoding="utf-8")
        name = harness.hand_in(ticket)

        proposed = harness.wait_for(name, lambda now: now.status is TaskStatus.REVIEW and now.publication.number)
        folder = Path(proposed.folder)
        assert proposed.cycle == 3
        assert [entry.state for entry in proposed.failures.entries] == ["EVALUATION"] * 2
        assert [(folder / f"plan-fix-{number}.md").exists() for number in (1, 2, 3)] == [True, True, False]
        assert [result.verdict for result in proposed.results.values()] == [Verdict.PASS]
        (pull,) = forge.pulls
        assert pull.head.startswith("bugfix/")
        assert "- no hyphen stands at an edge" in pull.body

        said = [forge.says("alice", text, place=("README.md", 1)) for text in COMMENTS]
        forge.reviews("alice", "CHANGES_REQUESTED")
        judged = pull.head_sha
        harness.client.request(name, "review")
        harness.wait_for(name, lambda now: now.publication.round == 1)
        harness.wait_for(name, lambda now: now.status is TaskStatus.REVIEW)
        answers = Counter(one.root for one in pull.threads if one.author == forge.viewer)
        assert answers == Counter(one.id for one in said)
        assert all(text in (folder / "plan-fix-3.md").read_text() for text in COMMENTS)
        assert git(upstream.bare, "log", "--format=%s", f"{judged}..{pull.head}").count("\n") == 0
        assert "alice" in pull.asked

        for one in said:
            one.resolved = True
        forge.reviews("alice", "APPROVED")
        forge.runs("ci", "SUCCESS")
        (ask,) = harness.client.task(name).waiting
        harness.request("POST", f"/api/reviews/{ask.id}/approve")
        merged = harness.end_of(name)
        assert (merged.status, pull.status) == (TaskStatus.COMPLETED, "merged")
        assert merged.publication.merge_commit == pull.merge_commit
        assert (len(forge.pulls), len(forge.merge_messages)) == (1, 1)
        assert harness.played_twice() == []
        assert harness.survivors() == []
