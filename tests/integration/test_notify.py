"""Users are notified once, whatever the configured command does."""

import asyncio
import json
import os
import shlex
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from orchestrator.core.events.notice import Notice, NoticeKind
from orchestrator.core.task.task import Task
from orchestrator.integrations.notify import DeliveryResult, NotificationResult, Notifier
from orchestrator.storage.task_files import FolderTaskFiles
from tests.fakes.tasks import TASK_ID, submitted
from tests.fakes.world import START
from tests.integration.processes.stage import state_of, until

KEY = f"{TASK_ID}:41:0"
SLEEPERS = "setsid sh -c 'setsid sleep 1000 & echo $! >escaped' & sleep 1000 & echo $! >child"
"""Start a detached process in its own session, and one that is not detached."""


@pytest.fixture
def task(tmp_path: Path) -> Task:
    (tmp_path / "task").mkdir()
    return submitted("task", folder=str(tmp_path / "task"))


def notice(text: str = "Which port?", key: str = KEY) -> Notice:
    return Notice(key=key, kind=NoticeKind.QUESTION_ASKED, text=text, at=START)


def notifier(tmp_path: Path, script: str, limit: float = 60.0, env: dict[str, str] | None = None) -> Notifier:
    """A notifier whose command is a shell script that runs in the test's folder."""
    command = ("/bin/sh", "-c", f"cd {shlex.quote(str(tmp_path))}\n{script}")
    return Notifier(command, {"PATH": os.environ["PATH"], **(env or {})}, FolderTaskFiles(tmp_path), limit)


def marker(task: Task) -> Path:
    return Path(task.folder, "notices", KEY)


async def assert_both_end(folder: Path) -> None:
    """Wait until both sleepers, whose pids are in files, have exited; a killed process may take a moment."""
    pids = [int((folder / name).read_text()) for name in ("child", "escaped")]
    await until(lambda: all(state_of(pid) in "-ZX" for pid in pids), "the end of both")


def open_files() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


async def test_the_command_gets_one_json_document_and_the_notice_is_recorded(tmp_path: Path, task: Task) -> None:
    answer = await notifier(tmp_path, "cat >got").tell(task, notice("Größe?\n\x1b[2J"))
    assert answer == NotificationResult(told=DeliveryResult.SENT)
    got = json.loads((tmp_path / "got").read_text())
    assert (got["key"], got["event"], got["task_id"], got["text"]) == (
        KEY,
        "question_asked",
        "task",
        "Größe?\n\x1b[2J",
    )
    assert json.loads(marker(task).read_text()) == got
    assert stat.S_IMODE(marker(task).stat().st_mode) == 0o600
    assert stat.S_IMODE(marker(task).parent.stat().st_mode) == 0o700


async def test_a_notice_is_sent_once_also_after_a_restart_and_another_one_is_sent_too(
    tmp_path: Path, task: Task
) -> None:
    script = "echo x >>told"
    first = notifier(tmp_path, script)
    answers = await asyncio.gather(*(first.tell(task, notice()) for _ in range(3)))
    answers.append(await notifier(tmp_path, script).tell(task, notice()))
    assert [answer.told for answer in answers] == [DeliveryResult.SENT, *[DeliveryResult.ALREADY_SENT] * 3]
    assert (await first.tell(task, notice(key="another"))).told is DeliveryResult.SENT
    assert (tmp_path / "told").read_text() == "x\nx\n"


async def test_a_failed_notice_is_sent_again_when_it_is_requested_again(tmp_path: Path, task: Task) -> None:
    teller = notifier(tmp_path, "test -e ready")
    with capture_logs() as lines:
        answer = await teller.tell(task, notice())
    assert answer.reason == "notify_command failed with exit code 1; the log has its output"
    assert [line["event"] for line in lines] == ["notice_not_sent"]
    assert not marker(task).exists()
    (tmp_path / "ready").touch()
    assert (await teller.tell(task, notice())).told is DeliveryResult.SENT


async def test_a_command_that_does_not_read_blocks_nobody(tmp_path: Path, task: Task) -> None:
    assert (await notifier(tmp_path, "exit 0").tell(task, notice("x" * 1024 * 1024))).told is DeliveryResult.SENT


async def test_of_megabytes_of_output_the_end_is_logged(tmp_path: Path, task: Task) -> None:
    with capture_logs() as lines:
        await notifier(tmp_path, "head -c 50000000 /dev/zero; echo the end >&2; exit 3").tell(task, notice())
    output = lines[0]["output"]
    assert len(output) < 10_000
    assert output.isprintable()
    assert output.endswith("the end")


async def test_a_command_with_endless_output_is_ended(tmp_path: Path, task: Task) -> None:
    answer = await notifier(tmp_path, "yes", 1.0).tell(task, notice())
    assert answer.reason == "notify_command did not end within 1 s and was stopped; make it faster"


async def test_the_last_output_of_a_command_is_logged_without_control_characters(tmp_path: Path, task: Task) -> None:
    with capture_logs() as lines:
        await notifier(tmp_path, "printf '\\033[2Jno route \\377' >&2; exit 1").tell(task, notice())
    assert lines[0]["output"] == "\\x1b[2Jno route �"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("/no/such/program",), "No such file or directory"),
        (("/etc/passwd",), "Permission denied"),
        (("/",), "Permission denied"),
        (("nul\0",), "embedded null byte"),
    ],
)
async def test_a_command_that_cannot_be_started_is_named_by_its_setting(
    tmp_path: Path, task: Task, command: tuple[str, ...], reason: str
) -> None:
    answer = await Notifier(command, {"PATH": "/bin"}, FolderTaskFiles(tmp_path)).tell(task, notice())
    assert answer.told is DeliveryResult.FAILED
    assert answer.reason.startswith("notify_command could not start ")
    assert answer.reason.endswith(f": {reason}")
    assert answer.reason.isprintable()


def test_an_empty_command_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unpack"):
        Notifier((), {}, FolderTaskFiles(tmp_path))


async def test_a_command_that_hangs_is_ended_with_all_its_processes(tmp_path: Path, task: Task) -> None:
    answer = await notifier(tmp_path, f"trap '' TERM\n{SLEEPERS}\nwait\nsleep 1000", 3.0).tell(task, notice())
    assert answer.reason == "notify_command did not end within 3 s and was stopped; make it faster"
    await assert_both_end(tmp_path)
    assert not marker(task).exists()


async def test_a_command_that_leaves_processes_behind_succeeds_and_they_are_ended(tmp_path: Path, task: Task) -> None:
    script = f"{SLEEPERS}\nwhile ! test -s escaped; do sleep 0.01; done"
    assert (await notifier(tmp_path, script).tell(task, notice())).told is DeliveryResult.SENT
    await assert_both_end(tmp_path)


async def test_a_command_ends_when_its_caller_is_cancelled(tmp_path: Path, task: Task) -> None:
    os.mkfifo(tmp_path / "up")
    script = f"{SLEEPERS}\nwhile ! test -s escaped; do sleep 0.01; done\necho up >up\nsleep 1000"
    asked = asyncio.ensure_future(notifier(tmp_path, script).tell(task, notice()))
    await asyncio.to_thread((tmp_path / "up").read_text)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await assert_both_end(tmp_path)


async def test_a_command_gets_no_secret_and_runs_in_its_own_session(tmp_path: Path, task: Task) -> None:
    env = {"ANTHROPIC_API_KEY": "s", "GITHUB_TOKEN": "s", "ORCHESTRATOR_DATA_DIR": "/d", "DISPLAY": ":0", "HOME": "/h"}
    script = "env -0 >env; cut -d' ' -f6 /proc/$$/stat >session; echo $$ >pid"
    assert (await notifier(tmp_path, script, env=env).tell(task, notice())).told is DeliveryResult.SENT
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().split("\0")}
    assert {"PATH", "DISPLAY", "HOME"} <= names
    assert names.isdisjoint({"ANTHROPIC_API_KEY", "GITHUB_TOKEN", "ORCHESTRATOR_DATA_DIR"})
    assert (tmp_path / "session").read_text() == (tmp_path / "pid").read_text()


async def test_a_command_is_not_treated_as_an_agent_and_may_answer_requests(tmp_path: Path, task: Task) -> None:
    await notifier(tmp_path, 'echo "$ORCHESTRATOR_RUN" >mark').tell(task, notice())
    assert not (tmp_path / "mark").read_text().startswith(str(tmp_path))


async def test_users_are_notified_even_if_the_record_cannot_be_written(tmp_path: Path, task: Task) -> None:
    (tmp_path / "task").rmdir()
    teller = notifier(tmp_path, "cat >>got")
    for _ in range(2):
        with capture_logs() as lines:
            assert (await teller.tell(task, notice())).told is DeliveryResult.SENT
        assert lines[0]["event"] == "notice_not_remembered"
    assert len((tmp_path / "got").read_text().splitlines()) == 2
    assert not (tmp_path / "task").exists()


async def test_no_descriptor_stays_open(tmp_path: Path, task: Task) -> None:
    teller = notifier(tmp_path, "exit 1")
    await teller.tell(task, notice())
    before = open_files()
    for _ in range(5):
        await teller.tell(task, notice())
        await Notifier(("/no/such/program",), {}, FolderTaskFiles(tmp_path)).tell(task, notice())
    assert open_files() == before
