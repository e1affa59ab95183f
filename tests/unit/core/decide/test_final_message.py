"""The final message of a task."""

from dataclasses import replace
from datetime import timedelta

import pytest

from orchestrator.core.decide.final_message import final_message, has_ended, recommended
from orchestrator.core.task.checks import CheckResult, Evaluation, Verdict
from orchestrator.core.task.failures import Failure
from orchestrator.core.task.progress import StageRecord
from orchestrator.core.task.publication import Publication
from orchestrator.core.task.task import NextAction, Task, TaskStatus, Timing
from tests.fakes.world import START
from tests.unit.playbook import a_task, at, at_work

LATER = START + timedelta(hours=2, minutes=10)

STARTED = Timing(created_at=START, started_at=START)


def completed(publication: Publication | None = None) -> Task:
    done = replace(at("COMPLETION", NextAction.NOTHING), status=TaskStatus.COMPLETED, timing=STARTED)
    return replace(done, publication=publication or Publication())


def failing(task: Task, summary: str, log_file: str | None = None) -> Task:
    failure = Failure(
        id="", occurred_at=START, state="EVALUATION", agent=None, step=None, attempted="", command=None, expected="",
        type="test_failure", summary=summary, log_file=log_file,
    )  # fmt: skip
    return replace(task, failures=task.failures.with_failure(failure))


def halted(**changes: object) -> Task:
    task = replace(at_work(), stage="EVALUATION", status=TaskStatus.BLOCKED, block_reason="no way\non", timing=STARTED)
    return replace(task, **changes)  # type: ignore[arg-type]  # any field


def test_a_completed_task_states_its_duration_and_its_branch() -> None:
    assert final_message(completed(), LATER).splitlines() == [
        "LOCAL-20261121_220000 completed after 2h10m: Add a flag",
        "branch: feature/LOCAL-20261121_220000 in /repo",
    ]


@pytest.mark.parametrize(
    ("publication", "says"),
    [
        (Publication(pr_url="https://f/1"), "pull request: https://f/1"),
        (Publication(pr_url="https://f/1", merge_commit="m" * 40), "pull request: https://f/1, merged as mmmmmmmmmmmm"),
        (Publication(tag="v1.2.0"), "tag: v1.2.0 (git -C /repo show v1.2.0 -- CHANGELOG.md)"),
    ],
)
def test_the_publication_replaces_the_branch(publication: Publication, says: str) -> None:
    assert final_message(completed(publication), LATER).splitlines()[1:] == [says]


def test_a_report_is_named_by_its_path_and_its_ticket() -> None:
    task = completed(Publication(report_url="https://jira/ABC-1"))
    stages = {**task.stages, "PLANNING": StageRecord(artifacts=("notes.md", "review-report.md"))}
    said = final_message(
        replace(task, stages=stages, source=replace(task.source, head=task.source.base_commit)), LATER
    ).splitlines()
    assert said[1:] == [f"report: {task.folder}/review-report.md, posted at https://jira/ABC-1"]


def test_an_unchecked_change_is_never_described_as_checked() -> None:
    unseen = {"unit_test": CheckResult(verdict=Verdict.SKIPPED)}
    assert final_message(replace(completed(), evaluation=Evaluation(results=unseen)), LATER).endswith(
        "nothing shows that this change works"
    )


def test_a_halt_states_why_what_recurs_and_what_to_do() -> None:
    task = halted()
    for number in range(3):
        task = failing(failing(task, f"nil pointer in a/b.go:{number}"), f"timeout of {number} s in c/d.go")
    task = failing(failing(task, "nil pointer in a/b.go:9"), "one of its kind", "logs/1-unit_test/out.log")
    then = f"then orchestrator retry {task.id}, or orchestrator cancel {task.id}"
    assert final_message(task, START + timedelta(seconds=61)).splitlines() == [
        f"LOCAL-20261121_220000 blocked in {task.stage} after 1m01s: Add a flag",
        "reason: no way on",
        "failures: 8 (EVALUATION 8; test_failure 8)",
        "recurring: nil_pointer:a/b.go (4 times)",
        "recurring: timeout:c/d.go (3 times)",
        f"next: read {task.folder}/logs/1-unit_test/out.log; {then}",
    ]


def test_blockers_of_a_merge_are_named_when_nothing_failed() -> None:
    task = halted(publication=Publication(hindrances=("no approval", "ci is red")))
    assert recommended(task).startswith(
        "resolve what prevents the merge: no approval; ci is red; then orchestrator retry"
    )


def test_an_earlier_failed_check_is_not_named_as_the_cause_of_another_end() -> None:
    failed = failing(halted(), "exit code 1", "logs/1-unit_test/out.log")
    assert recommended(failed).startswith(f"read {failed.folder}/logs/1-unit_test/out.log; then")
    later = replace(failed, stage="COMPLETION", block_reason="COMPLETION: the branch could not be delivered")
    assert recommended(later).startswith("fix what the reason says; then")


def test_a_failed_task_suggests_a_retry_and_a_cancelled_one_nothing() -> None:
    failed = halted(status=TaskStatus.FAILED)
    assert recommended(failed).endswith(f"then orchestrator retry {failed.id}, which makes a new task of it")
    cancelled = halted(status=TaskStatus.CANCELLED, block_reason=None)
    assert final_message(cancelled, START).splitlines() == [
        f"LOCAL-20261121_220000 cancelled in {cancelled.stage} after 0s: Add a flag"
    ]


def test_the_message_stays_short_for_any_ticket_text() -> None:
    task = failing(halted(title="t" * 5000, block_reason="r" * 5000), "x" * 5000)
    assert len(final_message(task, LATER)) < 2000


def test_only_a_task_that_needs_a_user_has_a_final_message() -> None:
    assert has_ended(completed())
    assert has_ended(halted())
    assert not has_ended(a_task())
