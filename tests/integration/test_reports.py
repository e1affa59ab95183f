"""Reports of evaluations on disk."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from orchestrator.core.events.events import AlarmRang, AskAnswered
from orchestrator.core.task.checks import Check, CheckResult, Verdict
from orchestrator.core.task.failures import Analysis, Failure
from orchestrator.core.task.progress import StageRecord
from orchestrator.core.task.publication import Publication
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.task_policy import DEFAULT_POLICY, Autonomy
from orchestrator.core.task.user_requests import RequestStatus
from orchestrator.daemon.reporting.reports import Reports, change_of
from orchestrator.daemon.reporting.summary import Change
from orchestrator.storage.task_files import FolderTaskFiles
from orchestrator.workspaces.workspace import Workspace
from tests.fakes.repositories import commit, repository
from tests.fakes.tasks import full_pipeline, submitted, with_results
from tests.fakes.world import START
from tests.unit.playbook import Playbook, a_task, answered, at, proposed, told

FAILED = CheckResult(verdict=Verdict.FAIL, reason="exit code 1", exit_code=1, seconds=1, log="logs/1-unit_test/x")
EVENT = AlarmRang(at=START)


def reports(folder: Path) -> Reports:
    """Return the reports of the task with this folder."""
    return Reports(
        lambda _: full_pipeline(),
        lambda _: Change(size="1 file"),
        lambda text: text.replace("hunter2", "[REDACTED]"),
        FolderTaskFiles(folder.parent),
    )


def evaluated(folder: Path, visits: int = 1) -> Task:
    stages = {name: StageRecord() for name in full_pipeline().stages} | {"EVALUATION": StageRecord(visits=visits)}
    checks = (Check(name="unit_test", command="pytest"),)
    return submitted(
        folder.name, folder=str(folder), checks=checks, results={"unit_test": FAILED}, stages=stages, updated_at=START
    )


def test_every_evaluation_has_its_report_and_the_newest_has_the_plain_name(tmp_path: Path) -> None:
    keeper = reports(tmp_path)
    keeper.on_decision(evaluated(tmp_path), EVENT)
    first = (tmp_path / "test-report.md").read_text()
    assert (tmp_path / "test-report-1.md").read_text() == first
    keeper.on_decision(replace(evaluated(tmp_path, visits=2), title="The second"), EVENT)
    assert (tmp_path / "test-report-1.md").read_text() == first
    assert "The second" in (tmp_path / "test-report.md").read_text()
    assert (tmp_path / "test-report.md").read_text() == (tmp_path / "test-report-2.md").read_text()


def test_an_explanation_is_added_and_the_time_of_the_evaluation_stays(tmp_path: Path) -> None:
    keeper, task = reports(tmp_path), evaluated(tmp_path)
    keeper.on_decision(task, EVENT)
    why = Analysis(root_cause_hypothesis="the password hunter2", confidence="low", suggested_fix="none")
    entry = Failure(
        id="", occurred_at=START, state="EVALUATION", agent="evaluator", step="unit_test", attempted="", command=None,
        expected="", type="test_failure", summary="exit code 1", log_file=FAILED.log, analysis=why,
    )  # fmt: skip
    explained = replace(task, failures=task.failures.with_failure(entry))
    keeper.on_decision(explained, AlarmRang(at=START + timedelta(hours=1)))
    told = (tmp_path / "test-report-1.md").read_text()
    assert "Likely cause (low): the password [REDACTED]" in told
    assert "Generated: 2026-11-21T22:00:00.000Z" in told


def test_an_incomplete_evaluation_has_no_report_and_a_report_missing_after_a_crash_is_written(tmp_path: Path) -> None:
    keeper = reports(tmp_path)
    keeper.on_decision(with_results(evaluated(tmp_path), {}), EVENT)
    keeper.catch_up(with_results(evaluated(tmp_path), {}))
    assert not list(tmp_path.iterdir())
    keeper.catch_up(evaluated(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"test-report.md", "test-report-1.md"}


def test_a_report_that_the_disk_refuses_is_written_with_the_next_decision(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    keeper = reports(folder)
    keeper.on_decision(evaluated(folder), EVENT)
    folder.mkdir()
    keeper.on_decision(evaluated(folder), EVENT)
    assert (folder / "test-report.md").is_file()


def test_a_halt_is_summarised_once_and_again_after_further_failures(tmp_path: Path) -> None:
    keeper = reports(tmp_path)
    halt = submitted(
        tmp_path.name, folder=str(tmp_path), status=TaskStatus.BLOCKED, block_reason="the password hunter2"
    )
    keeper.on_decision(halt, EVENT)
    file = tmp_path / "BLOCKED-summary.md"
    assert "reason: the password [REDACTED]" in file.read_text()
    file.unlink()
    keeper.on_decision(halt, EVENT)
    assert not file.exists()
    keeper.on_decision(replace(halt, block_reason="another"), EVENT)
    assert "reason: another" in file.read_text()
    assert not (tmp_path / "summary.md").exists()


def test_a_summary_missing_after_a_crash_is_written_at_the_next_start(tmp_path: Path) -> None:
    for status, name in ((TaskStatus.BLOCKED, "BLOCKED-summary.md"), (TaskStatus.COMPLETED, "summary.md")):
        folder = tmp_path / status
        folder.mkdir()
        reports(folder).catch_up(submitted(folder.name, folder=str(folder), status=status))
        assert [path.name for path in folder.iterdir()] == [name]
    reports(tmp_path).catch_up(submitted(tmp_path.name, folder=str(tmp_path), status=TaskStatus.IN_PROGRESS))
    assert not list(tmp_path.glob("*.md"))


def test_a_summary_is_updated_when_the_change_is_published(tmp_path: Path) -> None:
    keeper = reports(tmp_path)
    task = submitted(tmp_path.name, folder=str(tmp_path), status=TaskStatus.REVIEW)
    keeper.on_decision(task, EVENT)
    assert "| Change | 1 file |" in (tmp_path / "summary.md").read_text()
    tagged = replace(task, status=TaskStatus.COMPLETED, publication=Publication(tag="v1.0.0"))
    keeper.on_decision(tagged, EVENT)
    assert "tag: v1.0.0" in (tmp_path / "summary.md").read_text()


def test_a_change_is_measured_in_the_clone_and_left_out_without_it(tmp_path: Path) -> None:
    base = repository(tmp_path / "repo")
    workspace = Workspace(tmp_path / "data")
    task = submitted(repo=str(tmp_path / "repo"), base_commit=base)
    assert change_of(workspace, task) == Change(size="nothing was committed")
    assert "cannot be read" in change_of(workspace, replace(task, source=replace(task.source, head="f" * 40))).size
    made = workspace.prepare(task.id, tmp_path / "repo", base, task.source.branch)
    head = commit(made.worktree, {".orchestrator.toml": "[checks]\n", "b.txt": "two\n"})
    workspace.facts(task.id, base, base)
    found = change_of(workspace, replace(task, source=replace(task.source, head=head)))
    said = ".orchestrator.toml was added: it declares the checks; those that ran are of the base commit"
    assert found == Change(size="2 files, 2 lines added, 0 removed", checks_differ=True, look_first=(said,))


def test_tests_that_a_branch_skips_are_found_in_the_clone(tmp_path: Path) -> None:
    repository(tmp_path / "repo")
    base = commit(tmp_path / "repo", {"tests/test_a.py": "def test_a():\n    pass\n", "tests/*": "*\n"})
    workspace = Workspace(tmp_path / "data")
    task = submitted(repo=str(tmp_path / "repo"), base_commit=base)
    made = workspace.prepare(task.id, tmp_path / "repo", base, task.source.branch)
    head = commit(
        made.worktree, {"tests/test_a.py": "import pytest\npytest.skip()\n", 'tests/é "b".py': "pytest.skip()\n"}
    )
    workspace.facts(task.id, base, base)
    assert change_of(workspace, replace(task, source=replace(task.source, head=head))).look_first == (
        "tests/test_a.py has 1 test fewer than before",
        "tests/test_a.py skips tests, in line 2",
        'tests/é "b".py skips tests, in line 1',
    )


def test_changes_that_a_person_requests_of_an_open_pull_request_are_left_as_its_review_feedback(tmp_path: Path) -> None:
    policy = replace(DEFAULT_POLICY, autonomy=Autonomy.INTERACTIVE, reminders=())
    waiting = replace(
        a_task(), folder=str(tmp_path), policy=policy, publication=Publication(forge="https://x.test/a/b")
    )
    play = Playbook(at("COMPLETION", NextAction.PUBLISH, waiting)) >> proposed << "tell review_asked" >> told
    said = "Do not log hunter2.\n# And say why"
    play = play >> answered(1, RequestStatus.CHANGES_REQUESTED, said)
    task = replace(play.task, id=tmp_path.name)
    event = AskAnswered(at=START, number=1, status=RequestStatus.CHANGES_REQUESTED, answer=said, by="ada")
    reports(tmp_path).on_decision(task, event)
    text = (tmp_path / "review-feedback-1.md").read_text()
    assert "# Review feedback 1\n" in text
    assert "> Do not log [REDACTED].\n> # And say why\n" in text
    assert "https://forge.example/pull/7" in text
    document = json.loads((tmp_path / "review-feedback-1.json").read_text())
    assert (document["pr_number"], document["comments"][0]["body"]) == (7, "Do not log [REDACTED].\n# And say why")
    (tmp_path / "review-feedback-1.md").write_text("from the forge")
    reports(tmp_path).catch_up(task)
    assert (tmp_path / "review-feedback-1.md").read_text() == "from the forge"
    (tmp_path / "review-feedback-1.md").unlink()
    reports(tmp_path).catch_up(task)
    assert (tmp_path / "review-feedback-1.md").read_text() == text
