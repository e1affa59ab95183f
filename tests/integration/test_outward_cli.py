"""Commands on tasks whose change is published or that have ended."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from jsonschema import Draft202012Validator

from orchestrator import clock
from orchestrator.core.events.forge import PullStatus
from orchestrator.core.events.publish_events import MergeRefused, PullRequestOpened, PullRequestSeen
from orchestrator.core.task.checks import Check, CheckResult, Verdict
from orchestrator.core.task.progress import StageStatus
from orchestrator.core.task.publication import Publication
from orchestrator.core.task.task import NextAction, TaskStatus
from tests.fakes.in_process_daemon import PATIENCE, InProcessDaemon, create_daemon, serving
from tests.fakes.repositories import repository
from tests.fakes.shell import ROOT, Shell, only_error

FORGE = "https://forge.example/team/shop"


@pytest.fixture
def orchestrator(tmp_path: Path) -> Shell:
    """The program, in the user's repository."""
    repository(tmp_path / "repo")
    return Shell(tmp_path)


@pytest_asyncio.fixture
async def daemon(orchestrator: Shell) -> AsyncIterator[InProcessDaemon]:
    """A daemon without processes, running where the program looks for it."""
    daemon = create_daemon(orchestrator.data)
    async with serving(daemon):
        yield daemon
    daemon.store.close()


async def proposed(orchestrator: Shell, daemon: InProcessDaemon, number: int = 7, name: str = "shop") -> str:
    """A task whose pull request is open."""
    task = (await orchestrator("submit", "text")).out.strip()
    before = daemon.supervisor.tasks[task]
    done = {name: replace(record, status=StageStatus.COMPLETED) for name, record in before.stages.items()}
    done["COMPLETION"] = replace(done["COMPLETION"], status=StageStatus.IN_PROGRESS)
    daemon.supervisor.tasks[task] = replace(
        before,
        stage="COMPLETION",
        stages=done,
        status=TaskStatus.IN_PROGRESS,
        next_action=NextAction.PUBLISH,
        run=None,
        publication=Publication(forge=FORGE),
    )
    url = f"https://forge.example/team/{name}/pull/{number}"
    daemon.inbox.post(task, PullRequestOpened(at=clock.now(), number=number, url=url, commit="c" * 40))
    await daemon.inbox.settled()
    assert daemon.supervisor.tasks[task].status is TaskStatus.REVIEW
    return task


def kept(daemon: InProcessDaemon) -> list[str]:
    """Return the tasks that have a folder."""
    return [path.name for path in daemon.store.files.root.iterdir()]


async def at_a_terminal(orchestrator: Shell, typed: bytes, *arguments: str) -> int:
    """Return the exit code of a command at a terminal with this input."""
    ours, theirs = os.openpty()
    os.write(ours, typed)
    env = {"PATH": os.environ["PATH"], "HOME": str(orchestrator.home), "PYTHONPATH": str(ROOT)}
    argv = (*orchestrator.argv, *arguments)
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=theirs, stdout=asyncio.subprocess.DEVNULL, stderr=theirs, env=env, start_new_session=True
    )
    os.close(theirs)
    code = await asyncio.wait_for(process.wait(), PATIENCE)
    os.close(ours)
    return code


async def test_a_merge_is_requested_and_its_earlier_blockers_are_shown(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    task = await proposed(orchestrator, daemon)
    done = await orchestrator("merge", task)
    assert (done.code, done.out) == (0, f"{task} will be merged: https://forge.example/team/shop/pull/7\n"), done.err
    assert "it was just pushed" in done.err
    assert daemon.supervisor.tasks[task].next_action is NextAction.MERGE


async def test_without_a_pending_merge_the_reason_of_the_last_refusal_is_shown(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    task = await proposed(orchestrator, daemon)
    daemon.supervisor.tasks[task] = replace(
        daemon.supervisor.tasks[task],
        requests=(),
        publication=replace(daemon.supervisor.tasks[task].publication, hindrances=("no approvals", "ci failed")),
    )
    said = only_error(await orchestrator("merge", task), 5)
    assert "could not be merged: no approvals; ci failed" in said
    assert "allowed now: review" in said


async def test_a_refused_merge_can_be_requested_again(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    task = await proposed(orchestrator, daemon)
    assert (await orchestrator("merge", task)).code == 0
    daemon.inbox.post(task, MergeRefused(at=clock.now(), hindrances=("1 of 2 approvals",)))
    await daemon.inbox.settled()
    done = await orchestrator("merge", task, "--json")
    assert json.loads(done.out)["nextAction"] == "merge"
    assert done.err == ""


async def test_a_task_without_a_pull_request_is_not_merged(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    task = (await orchestrator("submit", "text")).out.strip()
    assert "cannot merge" in only_error(await orchestrator("merge", task), 5)
    assert "cannot review" in only_error(await orchestrator("review", task), 5)
    assert daemon.supervisor.tasks[task].publication == Publication()


@pytest.mark.parametrize(
    "name", ["7", "#7", "https://forge.example/team/shop/pull/7", "https://forge.example/team/shop/pull/7/files"]
)
async def test_a_round_of_review_is_requested_by_number_or_url(
    orchestrator: Shell, daemon: InProcessDaemon, name: str
) -> None:
    task = await proposed(orchestrator, daemon)
    done = await orchestrator("review", name)
    assert done.out == f"{task} is being checked for comments: https://forge.example/team/shop/pull/7\n", done.err
    assert daemon.supervisor.tasks[task].publication.asked_for_round


async def test_a_round_of_review_is_requested_by_the_task(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    task = await proposed(orchestrator, daemon)
    assert json.loads((await orchestrator("review", task, "--json")).out)["id"] == task
    assert daemon.supervisor.tasks[task].publication.asked_for_round


async def test_an_ambiguous_pull_request_number_is_refused(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    first, second = await proposed(orchestrator, daemon), await proposed(orchestrator, daemon, name="bakery")
    said = only_error(await orchestrator("review", "7"), 2)
    assert first in said
    assert second in said
    assert "no task under review has the pull request 8" in only_error(await orchestrator("review", "8"), 2)


async def test_an_ended_task_is_archived_and_deleted_with_its_files(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    task = await proposed(orchestrator, daemon)
    assert "allowed now" in only_error(await orchestrator("archive", task), 5)
    assert "allowed now" in only_error(await orchestrator("delete", task, "--yes"), 5)
    seen = PullRequestSeen(at=clock.now(), number=7, status=PullStatus.MERGED, merge_commit="d" * 40)
    daemon.inbox.post(task, seen)
    await daemon.inbox.settled()
    assert (await orchestrator("archive", task)).out == f"{task} archived\n"
    assert task not in (await orchestrator("tasks")).out
    assert "--yes" in only_error(await orchestrator("delete", task), 2)
    assert task in kept(daemon)
    assert json.loads((await orchestrator("delete", task, "--yes", "--json")).out) == {"deleted": task}
    assert task not in kept(daemon)
    only_error(await orchestrator("show", task), 4)


async def test_a_draft_is_deleted_without_being_cancelled_first(orchestrator: Shell, daemon: InProcessDaemon) -> None:
    draft = (await orchestrator("submit", "text", "--draft")).out.strip()
    assert (await orchestrator("delete", draft, "--yes")).out == f"{draft} is deleted\n"
    assert draft not in kept(daemon)
    assert draft not in daemon.supervisor.tasks
    only_error(await orchestrator("submit", "--task", draft), 4)


async def test_at_a_terminal_a_task_is_deleted_only_after_confirmation(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    task = (await orchestrator("submit", "text")).out.strip()
    assert (await orchestrator("cancel", task)).code == 0
    assert await at_a_terminal(orchestrator, b"n\n", "delete", task) == 1
    assert task in kept(daemon)
    assert await at_a_terminal(orchestrator, b"y\n", "delete", task) == 0
    assert task not in kept(daemon)


async def test_show_displays_the_state_of_the_change_and_who_answered(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    task = await proposed(orchestrator, daemon)
    results = {
        "unit_test (first try)": CheckResult(verdict=Verdict.FAIL, reason="exit code 1"),
        "unit_test": CheckResult(verdict=Verdict.PASS, reason="exit code 0"),
    }
    before = daemon.supervisor.tasks[task]
    checks = (Check(name="clean", command=""), Check(name="unit_test", command="pytest"))
    daemon.supervisor.tasks[task] = replace(
        before, evaluation=replace(before.evaluation, checks=checks, results=results)
    )
    shown = " ".join((await orchestrator("show", task)).out.split())
    assert "pull request https://forge.example/team/shop/pull/7" in shown
    assert "merge blocked by it was just pushed" in shown
    assert f"orchestrator merge {task}" in shown
    assert "(evaluated by the daemon)" in shown
    assert shown.index("unit_test (first try)") < shown.index("exit code 0")
    seen = PullRequestSeen(at=clock.now(), number=7, status=PullStatus.MERGED, merge_commit="d" * 40)
    daemon.inbox.post(task, seen)
    await daemon.inbox.settled()
    shown = (await orchestrator("show", task)).out
    assert "merge withdrawn forge" in " ".join(shown.split())
    assert (
        f"to read {daemon.store.files.path_of(task)}/summary.md {daemon.store.files.path_of(task)}/test-report.md"
        in " ".join(shown.split())
    )
    assert shown.splitlines()[-1].startswith("pull request: https://forge.example/team/shop/pull/7, merged as dddd")


async def test_a_command_that_waits_for_a_task_ends_with_its_result(
    orchestrator: Shell, daemon: InProcessDaemon
) -> None:
    draft = (await orchestrator("submit", "text", "--draft")).out.strip()
    waiting = await orchestrator.start("submit", "--task", draft, "--wait")
    assert waiting.stdout is not None
    while b"in_progress" not in await asyncio.wait_for(waiting.stdout.readline(), PATIENCE):
        pass
    assert (await orchestrator("cancel", draft)).code == 0
    out, _ = await asyncio.wait_for(waiting.communicate(), PATIENCE)
    assert f"{draft} cancelled in TICKET_INTAKE after".encode() in out
    assert waiting.returncode == 1


@pytest.mark.parametrize("name", ["state", "settings", "pipeline", "role", "ticket", "task"])
async def test_a_schema_is_one_json_document_and_needs_no_daemon(orchestrator: Shell, name: str) -> None:
    done = await orchestrator("schema", name)
    assert done.code == 0, done.err
    Draft202012Validator.check_schema(json.loads(done.out))


async def test_a_pipeline_is_drawn_by_its_name_or_its_file_and_needs_no_daemon(orchestrator: Shell) -> None:
    assert "EVALUATION  (checks, evaluator)" in (await orchestrator("graph", "full")).out
    assert (await orchestrator("graph", "full", "--format", "dot")).out.startswith('digraph "full" {')
    file = str(ROOT / "config" / "pipelines" / "release.toml")
    assert (await orchestrator("graph", file, "--format", "mermaid")).out.startswith("flowchart TD")
    assert json.loads((await orchestrator("graph", "release", "--json")).out)["start"] == "TICKET_INTAKE"
    assert "did you mean 'full'?" in only_error(await orchestrator("graph", "ful"), 2)
