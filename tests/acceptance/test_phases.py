"""Phased tasks, from an empty folder to the final approval: documents, verifications, reviews and reworks."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from orchestrator.core.task.task import TaskStatus
from orchestrator.server.schemas.tasks import TaskView
from tests.acceptance.harness import ISOLATION, DaemonHarness, Json, refused
from tests.fakes.repositories import git, repository

PLANNING = (
    *("01_idea", "02_market", "03_persona", "04_user_journey", "05_business_model"),
    *("06_product", "07_features", "08_tech", "09_roadmap"),
)
DESIGN = ("01_screen", "02_data_model", "03_task_flow", "04_api", "05_architecture")
WORDS = "Adding one word to a list is one feature, and it has a test. " * 10
CODE = {
    "./README.md": "# Words\n\nA list of words on the command line. Run `python3 words.py add WORD`, and it is kept. "
    * 3,
    "./.gitignore": "__pycache__/\n",
    "./words.py": "WORDS = []\n\n\ndef add(word):\n    WORDS.append(word)\n",
    "tests/test_words.py": "import unittest\n\nimport words\n\n\nclass WordsTest(unittest.TestCase):\n"
    "    def test_a_word_is_kept(self):\n        words.add('a')\n        self.assertEqual(words.WORDS, ['a'])\n",
}


def documents(folder: str, names: Sequence[str], phase: int) -> Json:
    """A turn of the author that leaves documents and commits them."""
    left = {f"docs/{folder}/{name}.md": f"# {name}\n\n{WORDS}\n" for name in names}
    return turn(left, f"{{ticket}}: write {folder}", f"=== PHASE {phase} COMPLETE ===\nReady for review.")


def turn(left: Json, subject: str, said: str) -> Json:
    return {"no_work": True, "leave": left, "commit": subject, "answer": said}


def verdict(*failures: str) -> Json:
    """A turn of the verifier."""
    criteria = [{"id": "P1_CONS_01", "status": "passed", "details": "one name each"}]
    criteria += [{"id": f"P1_OTHER_0{n}", "status": "failed", "details": text} for n, text in enumerate(failures, 1)]
    return {"no_work": True, "answer": f"=== VERIFICATION_RESULT ===\n{json.dumps({'criteria': criteria})}"}


PLAN, PASSED = documents("planning", PLANNING, 1), verdict()
REWORK = turn({"docs/planning/07_features.md": f"# Features\n\n{WORDS} Removed."}, "{ticket}: rework", "Done.")
STORY: Json = {
    "PLANNING": [PLAN, REWORK, REWORK, REWORK, REWORK],
    "PLANNING_VERIFICATION": [PASSED] * 5,
    "DESIGN": [documents("design", DESIGN, 2)],
    "DESIGN_VERIFICATION": [PASSED],
    "DEVELOPMENT": [turn(CODE, "{ticket}: keep words", "=== PHASE 3 COMPLETE ===")],
    "DEVELOPMENT_VERIFICATION": [PASSED],
    "TESTING": [PASSED],
}
"""The scenario of an application that is verified at once."""


@contextmanager
def begun(
    tmp_path: Path, story: Json, pipeline: str = "create_app", **more: Any
) -> Iterator[tuple[DaemonHarness, str]]:
    """A daemon with a task that begins in a folder which is not there yet."""
    with DaemonHarness(tmp_path, scenario=story) as harness:
        task = harness.submit(
            "A list of words\n\nOn the command line.\n", repo=tmp_path / "app", pipeline=pipeline, **more
        )
        yield harness, task


def under_review(harness: DaemonHarness, task: str, stage: str) -> TaskView:
    """The task when a person is asked to approve that stage."""
    reached = harness.wait_until(task, lambda now: now.status in {TaskStatus.REVIEW, TaskStatus.BLOCKED})
    assert (reached.status, reached.stage) == (TaskStatus.REVIEW, stage), reached.block_reason
    harness.wait_until_it_asks(task)
    return reached


def approve(harness: DaemonHarness, task: str) -> None:
    assert harness.cli("approve", task).returncode == 0


def request_changes(harness: DaemonHarness, task: str, words: str) -> None:
    assert harness.cli("request-changes", task, "-m", words).returncode == 0


def sessions_of(harness: DaemonHarness, task: str, *stages: str) -> set[str]:
    """The conversations that worked in these stages."""
    lines = harness.journal(task, "SessionStarted")
    return {line["event"]["session_id"] for line in lines if line["metadata"]["stage"] in stages}


def test_an_application_goes_from_an_empty_folder_through_reworks_to_the_final_approval(tmp_path: Path) -> None:
    verdicts = [PASSED, verdict("Feature F1 is in no screen."), PASSED]
    with begun(tmp_path, {**STORY, "PLANNING_VERIFICATION": verdicts}) as (harness, task):
        first = under_review(harness, task, "PLANNING_VERIFICATION")
        assert (first.current_phase, first.total_phases, first.autonomy) == (1, 4, "interactive")
        assert "docs/planning/*.md" in first.waiting[0].text
        assert "verification-planning.txt" in first.waiting[0].text
        agent = harness.request("GET", f"/api/tasks/{task}/agent")
        assert (agent["status"], agent["blockedBy"], agent["currentPhase"]) == ("waiting_review", "review", 1)
        request_changes(harness, task, "Leave the second feature out.")
        again = under_review(harness, task, "PLANNING_VERIFICATION")
        texts = [
            text for attempt in range(1, 9) for text in turns_of(harness, task, attempt) if "# PLANNING of" in text
        ]
        assert "- A person asks for changes: Leave the second feature out." in texts[1]
        assert "- P1_OTHER_01: Feature F1 is in no screen." in texts[2]
        assert again.budgets["planning_verifications"].used == 1
        approve(harness, task)
        assert under_review(harness, task, "DESIGN_VERIFICATION").current_phase == 2
        approve(harness, task)
        assert under_review(harness, task, "DEVELOPMENT_VERIFICATION").progress == 62
        approve(harness, task)
        final = under_review(harness, task, "CHECKS")
        assert (final.current_phase, final.agent.role) == (4, "phase-verifier")
        approve(harness, task)
        done = harness.wait_for_end(task)
        assert (done.progress, done.current_phase, done.failures.total) == (100, 4, 1)
        assert len(sessions_of(harness, task, "PLANNING", "DESIGN", "DEVELOPMENT")) == 1
        changes = [line for line in harness.journal(task) if line["type"] == "state_transition"]
        assert any(line["metadata"].get("phase") == 1 and line["to"] == "review" for line in changes)
        assert git(tmp_path / "app", "log", "--format=%s", "main") == "Begin with nothing"
        assert harness.subjects(task)[0] == f"{task}: write planning"
        target = tmp_path / "made.zip"
        assert harness.cli("download", task, "--output", str(target)).returncode == 0
        with ZipFile(target) as archive:
            names = set(archive.namelist())
        assert {f"files/docs/planning/{name}.md" for name in PLANNING} <= names
        assert {"files/tests/test_words.py", "artifacts/verification-testing.txt"} <= names


def turns_of(harness: DaemonHarness, task: str, attempt: int) -> list[str]:
    if not (harness.folder(task) / f"agents/{attempt}/stdin.jsonl").exists():
        return []
    return harness.turn_texts(task, attempt)


def test_documents_that_are_too_short_or_unfinished_do_not_pass(tmp_path: Path) -> None:
    unfinished = {
        "docs/planning/01_idea.md": "too short",
        "docs/planning/02_market.md": f"{WORDS} TODO",
    }
    plan = [{**PLAN, "leave": {**PLAN["leave"], **unfinished}}, PLAN]
    with begun(tmp_path, {**STORY, "PLANNING": plan}) as (harness, task):
        under_review(harness, task, "PLANNING_VERIFICATION")
        (text,) = [text for text in turns_of(harness, task, 1) if "Still missing" in text]
        assert "- docs/planning/01_idea.md has 9 characters, more than 499 needed" in text
        assert "- docs/planning/02_market.md still says TODO" in text


@pytest.mark.skipif(ISOLATION == "none", reason="what holds a verifier back is its sandbox")
def test_a_verifier_cannot_write_to_what_it_judges(tmp_path: Path) -> None:
    planting = {
        **PASSED,
        "run": "touch planted.py; git commit -q --allow-empty -m planted; touch $ORCHESTRATOR_OUTBOX/x",
    }
    with begun(tmp_path, {**STORY, "PLANNING_VERIFICATION": [planting]}) as (harness, task):
        worktree = Path(under_review(harness, task, "PLANNING_VERIFICATION").worktree or "")
        assert not (worktree / "planted.py").exists()
        assert git(worktree, "log", "-1", "--format=%s") == f"{task}: write planning"
        verifier = harness.client.task(task).agent
        assert verifier.role == "phase-verifier"
        assert (harness.folder(task) / f"agents/{verifier.attempt}/out/x").exists()


def test_the_document_that_the_author_is_at_is_its_current_step(tmp_path: Path) -> None:
    go = tmp_path / "go"
    some = {name: text for name, text in PLAN["leave"].items() if "/01_" in name or "/02_" in name}
    plan = [{"no_work": True, "leave": some, "wait_for": str(go)}]
    with begun(tmp_path, {**STORY, "PLANNING": plan}) as (harness, task):
        worktree = Path(harness.wait_until_it_works(task, "PLANNING").worktree or "")
        harness.wait_for("two documents", (worktree / "docs/planning/02_market.md").exists)
        agent = harness.request("GET", f"/api/tasks/{task}/agent")
        assert (agent["status"], agent["currentPhase"], agent["currentStep"]) == ("running", 1, "03_persona")
        assert agent["progress"] == int(100 * 2 / 9 / 2)
        (worktree / "docs/planning/03_persona.md").symlink_to("/etc/passwd")
        assert harness.request("GET", f"/api/tasks/{task}/agent")["currentStep"] == "03_persona"
        go.touch()


def test_after_three_reworks_in_vain_a_person_decides_and_feedback_starts_them_anew(tmp_path: Path) -> None:
    verdicts = [*[verdict("Nobody needs it.")] * 4, verdict("Still nobody."), PASSED]
    with begun(tmp_path, {**STORY, "PLANNING_VERIFICATION": verdicts, "PLANNING": [PLAN, *[REWORK] * 5]}) as (
        harness,
        task,
    ):
        stuck = under_review(harness, task, "PLANNING_VERIFICATION")
        assert "no try is left: P1_OTHER_01: Nobody needs it." in stuck.waiting[0].text
        assert (stuck.budgets["planning_verifications"].used, stuck.failures.total) == (4, 4)
        request_changes(harness, task, "I need it. Say so.")
        better = under_review(harness, task, "PLANNING_VERIFICATION")
        assert "no try is left" not in better.waiting[0].text
        assert better.budgets["planning_verifications"].used == 1
        approve(harness, task)
        under_review(harness, task, "DESIGN_VERIFICATION")


@pytest.mark.parametrize(("policy", "status"), [("fail", TaskStatus.FAILED), ("block", TaskStatus.BLOCKED)])
def test_exhaustion_follows_the_policy_of_the_pipeline(tmp_path: Path, policy: str, status: TaskStatus) -> None:
    bundled = Path("config/pipelines/create_app.toml").read_text(encoding="utf-8")
    own = tmp_path / "config/orchestrator/pipelines"
    own.mkdir(parents=True)
    (own / "create_app.toml").write_text(bundled.replace('on_exhausted = "review"', f'on_exhausted = "{policy}"'))
    with begun(tmp_path, {**STORY, "PLANNING_VERIFICATION": [verdict("No.")] * 4}) as (harness, task):
        ended = harness.wait_for_end(task, status)
        assert "no try is left: P1_OTHER_01: No." in (ended.block_reason or "")
        assert harness.nothing_is_left()
        if status is TaskStatus.FAILED:
            again = harness.client.request(task, "retry")
            assert (again.id != task, again.retry_of, again.pipeline) == (True, task, "create_app")


def test_a_task_that_asks_nobody_is_blocked_instead_of_accepting_what_never_passed(tmp_path: Path) -> None:
    with begun(tmp_path, {**STORY, "PLANNING_VERIFICATION": [verdict("No.")] * 4}, autonomy="auto") as (harness, task):
        harness.wait_for_end(task, TaskStatus.BLOCKED)


def test_unattended_every_phase_that_passes_is_taken_as_it_is(tmp_path: Path) -> None:
    with begun(tmp_path, STORY, autonomy="auto") as (harness, task):
        done = harness.wait_for_end(task)
        assert [request.status for request in done.requests] == ["approved"] * 4


QUESTION = {"category": "clarification", "question": "For whom?", "required": "true"}
KEY = {"type": "env_variable", "name": "API_KEY", "description": "For the tests.", "required": "true"}


@pytest.mark.parametrize(
    ("state", "story"),
    [
        ("waiting_question", {"PLANNING": [{"no_work": True, "question": QUESTION}]}),
        ("waiting_dependency", {"PLANNING": [{"no_work": True, "dependency": KEY}]}),
        ("waiting_review", STORY),
        ("paused", {"PLANNING": [{"no_work": True, "think_ms": 600_000}]}),
    ],
)
def test_a_task_is_cancelled_in_every_waiting_state(tmp_path: Path, state: str, story: Json) -> None:
    with begun(tmp_path, story) as (harness, task):
        if state == "paused":
            harness.wait_until_it_works(task, "PLANNING")
            harness.client.request(task, "pause")
        harness.wait_until(task, lambda now: now.agent.status == state)
        harness.client.request(task, "cancel")
        harness.wait_for_end(task, TaskStatus.CANCELLED)
        assert harness.nothing_is_left()


def test_a_draft_and_a_queued_task_are_cancelled_too(tmp_path: Path) -> None:
    with begun(tmp_path, STORY, draft=True) as (harness, task):
        harness.client.request(task, "cancel")
        harness.wait_for_end(task, TaskStatus.CANCELLED)
        queued = harness.submit("Words", repo=tmp_path / "app", pipeline="create_app", at="2999-01-01T00:00:00Z")
        harness.client.request(queued, "cancel")
        harness.wait_for_end(queued, TaskStatus.CANCELLED)


def test_a_killed_daemon_continues_in_the_phase_that_it_was_in(tmp_path: Path) -> None:
    with begun(tmp_path, STORY) as (harness, task):
        under_review(harness, task, "PLANNING_VERIFICATION")
        harness.kill()
        harness.start()
        assert under_review(harness, task, "PLANNING_VERIFICATION").current_phase == 1
        approve(harness, task)
        harness.wait_until(task, lambda now: now.stage.startswith("DESIGN"))
        harness.kill()
        harness.start()
        assert under_review(harness, task, "DESIGN_VERIFICATION").current_phase == 2
        subjects = git(Path(harness.client.task(task).worktree or ""), "log", "--format=%s").splitlines()
        assert subjects == [f"{task}: write design", f"{task}: write planning", "Begin with nothing"]


def test_anything_else_has_no_phases_and_one_approval(tmp_path: Path) -> None:
    story = {
        "EXECUTION": [turn({"./done.txt": "done"}, "{ticket}: do it", "=== CUSTOM TASK COMPLETE ===\nSummary: Done.")]
    }
    with begun(tmp_path, story, pipeline="custom") as (harness, task):
        asked = under_review(harness, task, "CHECKS")
        assert (asked.current_phase, asked.total_phases) == (None, None)
        approve(harness, task)
        done = harness.wait_for_end(task)
        assert git(tmp_path / "app", "show", f"{done.branch}:done.txt") == "done"


def test_a_change_needs_something_to_change(tmp_path: Path) -> None:
    repository(tmp_path / "notes", {"README.md": "# Notes\n"})
    with DaemonHarness(tmp_path) as harness:
        with refused("refused", "NO_SOURCE_FILES: "):
            harness.submit("Sort them", repo=tmp_path / "notes", pipeline="modify_app")
        with refused("refused", "DIRECTORY_NOT_FOUND"):
            harness.submit("Sort them", repo=tmp_path / "nowhere", pipeline="modify_app")
        assert not (tmp_path / "nowhere").exists()
        with refused("refused", "is not a git repository"):
            harness.submit("An app", repo=tmp_path / "data", pipeline="create_app")
        assert not (tmp_path / "data/.git").exists()
