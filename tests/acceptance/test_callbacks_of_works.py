"""A specified work tells other programs how its tasks are doing and how they ended, over a kill -9 of the daemon."""

from pathlib import Path

import pytest

from orchestrator.cli.demo.demo import BUNDLED
from orchestrator.cli.demo.scripts.job import REPOSITORY
from orchestrator.cli.demo.scripts.script import script_of
from orchestrator.core.task.task import TaskStatus
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.pipelines.definitions import load_definitions
from tests.acceptance.harness import DaemonHarness, Json
from tests.fakes.callback_server import CallbackServer
from tests.fakes.repositories import commit, git

DECLARED = load_definitions(BUNDLED)
JOB = {name: text for name, text in REPOSITORY.items() if name != ".orchestrator.toml"}
TEXT = "Add slugify(text). Proceed automatically"


def script(name: str, **more: object) -> Json:
    return {**script_of(DECLARED.pipelines[name], DECLARED), **more}


def submit(harness: DaemonHarness, pipeline: str, instructions: str = "# Rules\n") -> str:
    """Hand the job of the script in; the repository has what it begins from, and this CLAUDE.md."""
    commit(harness.repo, {**JOB, "CLAUDE.md": instructions})
    return harness.submit(TEXT, pipeline=pipeline, autonomy=Autonomy.AUTO)


def ended(server: CallbackServer) -> dict[str, Json]:
    """What was told about the end of each task."""
    return {got.body["taskId"]: got.body for got in server.received if got.path == "/task"}


@pytest.mark.slow
def test_each_task_tells_how_it_ended_once_and_how_it_is_doing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLBACK_TOKEN", "a-token-of-ours")
    with CallbackServer() as server:
        urls = {"task": f"{server.url}/task", "progress": f"{server.url}/progress"}
        with DaemonHarness(tmp_path, script("work-full"), callbacks=urls) as harness:
            task = submit(harness, "work-full")
            done = harness.wait_for_end(task)
            harness.wait_for("both callbacks", lambda: len(ended(server)) == 2)
        told = ended(server)
        subjects = git(harness.repo, "log", "--format=%H %s", f"main..{done.branch}").splitlines()
        hashes = {line.split()[1]: line.split()[0] for line in subjects}
        for key in ("TASK-00", "TASK-01"):
            assert (told[key]["workId"], told[key]["status"]) == ("WORK-01", "SUCCESS")
            assert told[key]["commitHash"] == hashes[f"feat({key}):"]
        assert told["TASK-00"]["filesChanged"] == ["textkit/__init__.py", "tests/test_slugify.py"]
        assert len([got for got in server.received if got.path == "/task"]) == 2
        progress = [got.body for got in server.received if got.path == "/progress"]
        assert {body["status"] for body in progress} == {"IN_PROGRESS"}
        assert {"TASK-00", "TASK-01"} == {body["taskId"] for body in progress}
        assert {got.headers["X-Runner-Api-Key"] for got in server.received} == {"a-token-of-ours"}


@pytest.mark.slow
def test_a_receiver_that_is_down_stops_no_work_and_hears_of_it_after_a_kill_9(tmp_path: Path) -> None:
    with CallbackServer() as server:
        port, host = server.port, server.host
    with DaemonHarness(tmp_path, script("work-direct"), callbacks={"hosts": [host]}) as harness:
        task = submit(
            harness, "work-direct", f"# Rules\r\nTaskCallback: http://{host}/task\r\nCallbackToken: theirs\r\n"
        )
        harness.wait_for_end(task)
        harness.kill()
        with CallbackServer(port) as server:
            harness.start()
            harness.wait_for("the callback", lambda: ended(server))
            assert ended(server)["TASK-00"]["status"] == "SUCCESS"
            (got,) = server.received
            assert got.headers["X-Runner-Api-Key"] == "theirs"


@pytest.mark.slow
def test_a_task_that_was_cancelled_is_told_as_failed(tmp_path: Path) -> None:
    waiting = {"BUILD of TASK-00": [{"wait_for": str(tmp_path / "never")}]}
    with CallbackServer() as server:
        urls = {"task": f"{server.url}/task"}
        with DaemonHarness(tmp_path, script("work-direct", **waiting), callbacks=urls) as harness:
            task = submit(harness, "work-direct")
            harness.wait_for("the task's child", (harness.folder(f"{task}.TASK-00") / "journal.jsonl").exists)
            harness.wait_until_it_works(f"{task}.TASK-00", "BUILD")
            harness.client.request(task, "cancel")
            harness.wait_for_end(task, TaskStatus.CANCELLED)
            harness.wait_for("the callback", lambda: ended(server))
    assert (ended(server)["TASK-00"]["status"], ended(server)["TASK-00"]["commitHash"]) == ("FAILED", None)
