"""The real claude CLI in phases and in a batch of issues: each to its end, with the daemon killed twice on the way."""

import json
import re
import shlex
from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.server.schemas.tasks import TaskView
from tests.acceptance.claude_harness import ClaudeHarness, Ticker
from tests.acceptance.claude_roles import bash, write
from tests.fakes.repositories import git
from tests.fakes.scripted_model import Reply, Say, Scene, ScriptedModel, in_order
from tests.unit.pipelines.families.issues.test_batches_solution import RESULT, solution

pytestmark = pytest.mark.claude

PASSED = '=== VERIFICATION_RESULT ===\n{"criteria": [{"id": "P1_CONS_01", "status": "passed"}]}'
DOCUMENTS = {
    "REQUIREMENTS": ("docs/planning/workflow_requirements.md", "Trigger: schedule\n"),
    "DESIGN": ("docs/design/workflow_design.md", "# Design\n"),
    "DEVELOPMENT": ("nightly.py", "print('done')\n"),
}


@pytest.fixture
def tickers(tmp_path: Path) -> tuple[Ticker, Ticker]:
    """Two commands during which the daemon is killed."""
    for name in ("first", "again"):
        (tmp_path / name).mkdir()
    return Ticker(tmp_path / "first"), Ticker(tmp_path / "again")


def over_two_crashes(harness: ClaudeHarness, tickers: tuple[Ticker, Ticker], name: str) -> TaskView:
    """Return the task at its end; the daemon was killed -9 while each command ran."""
    harness.crash_during(*tickers)
    task = harness.end_of(name)
    assert (task.status, task.block_reason) == (TaskStatus.COMPLETED, None)
    assert harness.played_twice() == []
    assert harness.survivors() == []
    return task


def phases(first: str, again: str) -> ScriptedModel:
    """Return a model that leaves what each phase of a workflow must leave, and passes every verification."""
    before = {"DESIGN": first, "DEVELOPMENT": again}

    def model(scene: Scene) -> Reply:
        stage = scene.prompt.split()[1]
        if stage not in DOCUMENTS:
            return Say(PASSED)
        path, head = DOCUMENTS[stage]
        text = shlex.quote(head + "".join(f"# line {number} of the {stage.lower()}\n" for number in range(60)))
        work = f"mkdir -p $(dirname {path}); printf '%s' {text} >{path}; git add -A; git commit -qm 'Leave {path}'"
        return in_order(scene, bash(f"{before.get(stage, 'true')}; {work}"), Say("It is there."))

    return model


def test_phases_are_one_conversation_of_their_author(
    claude: Path, tmp_path: Path, tickers: tuple[Ticker, Ticker]
) -> None:
    model = phases(*(ticker.command for ticker in tickers))
    with ClaudeHarness(claude, tmp_path, model) as harness:
        name = harness.submit(pipeline="workflow", autonomy=Autonomy.AUTO)
        task = over_two_crashes(harness, tickers, name)
        log = git(harness.repository, "log", "--reverse", "--format=%s", f"main..{task.branch}").splitlines()
        assert log == [f"Leave {path}" for path, _ in DOCUMENTS.values()]
        sessions = [session.partition("=") for session in harness.sessions(task)]
        authors = [session[2] for session in sessions[::2][:3]]
        assert len(set(authors)) == 1, "the author of all phases has one conversation"
        assert [session[0] for session in sessions].count("--resume") == 2


def batch(first: str, again: str) -> ScriptedModel:
    """Return a model that plans every issue and carries it out."""
    before = {"A": first, "B": again}

    def model(scene: Scene) -> Reply:
        stage, key = re.findall(r"# (\w+) of \S+\.([\w-]+)", scene.prompt)[0]
        outbox = Path(re.findall(r"^outbox: (.+)$", scene.prompt, re.MULTILINE)[0])
        plan = json.dumps(solution(id=f"SOL-{key}-1", issue_id=key))
        done = json.dumps({**RESULT, "issue_id": key, "solution_id": f"SOL-{key}-1"})
        if stage == "PLAN":
            return in_order(scene, write(outbox / "solution.json", plan), Say("It is planned."))
        work = f"{before[key]}; echo {key} >{key}.txt; git add -A; git commit -qm '{key}: Solve it'"
        return in_order(scene, bash(work), write(outbox / "result.json", done), Say("It is done."))

    return model


def test_issues_of_a_batch_come_home_with_one_commit_each(
    claude: Path, tmp_path: Path, tickers: tuple[Ticker, Ticker]
) -> None:
    model = batch(*(ticker.command for ticker in tickers))
    issues = "\n".join(json.dumps({"id": key, "title": f"Issue {key}"}) for key in "AB")
    with ClaudeHarness(claude, tmp_path, model) as harness:
        name = harness.submit(pipeline="issue-plan-execute", files={"issues.jsonl": issues})
        task = over_two_crashes(harness, tickers, name)
        log = git(harness.repository, "log", "--reverse", "--format=%s", f"main..{task.branch}").splitlines()
        assert log == ["A: Solve it", "B: Solve it"]
        report = harness.data / "tasks" / name / "records/final-report.md"
        harness.until(report.exists, "the report of the batch is there")
