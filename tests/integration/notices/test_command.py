"""A command of the user's own is given each notice, whatever it does with it."""

import asyncio
import json
import os
import shlex
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from orchestrator.integrations.notices.channel import NotDelivered
from orchestrator.integrations.notices.command import CommandChannel
from orchestrator.integrations.notices.entries import Delivery, Entry
from tests.fakes.waiting import until
from tests.fakes.world import START
from tests.integration.processes.stage import state_of

KEY = "T-1:41:0"
SLEEPERS = "setsid sh -c 'setsid sleep 1000 & echo $! >escaped' & sleep 1000 & echo $! >child"
"""Start a detached process in its own session, and one that is not detached."""


def entry(text: str = "Which port?") -> Entry:
    document = {"key": KEY, "event": "question_asked", "task_id": "task", "text": text}
    deliveries = (Delivery(channel="notify_command"),)
    return Entry(
        key=KEY, kind="question_asked", at=START, subject="", text=text, document={**document}, deliveries=deliveries
    )


def channel(tmp_path: Path, script: str, limit: float = 60.0, env: dict[str, str] | None = None) -> CommandChannel:
    """A channel whose command is a shell script that runs in the test's folder."""
    command = ("/bin/sh", "-c", f"cd {shlex.quote(str(tmp_path))}\n{script}")
    return CommandChannel(command=command, base_env={"PATH": os.environ["PATH"], **(env or {})}, limit=limit)


async def why_not(sender: CommandChannel, text: str = "Which port?") -> str:
    """Return why a notice was not delivered; empty if it was."""
    try:
        return await sender.send(entry(text))
    except NotDelivered as error:
        return f"{error}" if error.again else "never"


async def assert_both_end(folder: Path) -> None:
    """Wait until both sleepers, whose pids are in files, have exited; a killed process may take a moment."""
    pids = [int((folder / name).read_text()) for name in ("child", "escaped")]
    await until(lambda: all(state_of(pid) in "-ZX" for pid in pids), "the end of both")


def open_files() -> set[str]:
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


async def test_the_command_gets_one_json_document(tmp_path: Path) -> None:
    assert not await why_not(channel(tmp_path, "cat >got"), "Größe?\n\x1b[2J")
    got = json.loads((tmp_path / "got").read_text())
    assert got == {"key": KEY, "event": "question_asked", "task_id": "task", "text": "Größe?\n\x1b[2J"}


async def test_a_command_that_fails_says_so(tmp_path: Path) -> None:
    with capture_logs() as lines:
        reason = await why_not(channel(tmp_path, "exit 1"))
    assert reason == "notify_command failed with exit code 1; the log has its output"
    assert [line["event"] for line in lines] == ["notice_not_sent"]


async def test_a_command_that_does_not_read_blocks_nobody(tmp_path: Path) -> None:
    assert not await why_not(channel(tmp_path, "exit 0"), "x" * 1024 * 1024)


async def test_of_megabytes_of_output_the_end_is_logged(tmp_path: Path) -> None:
    with capture_logs() as lines:
        await why_not(channel(tmp_path, "head -c 50000000 /dev/zero; echo the end >&2; exit 3"))
    output = lines[0]["output"]
    assert len(output) < 10_000
    assert output.isprintable()
    assert output.endswith("the end")


async def test_a_command_with_endless_output_is_ended(tmp_path: Path) -> None:
    answer = await why_not(channel(tmp_path, "yes", 1.0))
    assert answer == "notify_command did not end within 1 s and was stopped; make it faster"


async def test_the_last_output_of_a_command_is_logged_without_control_characters(tmp_path: Path) -> None:
    with capture_logs() as lines:
        await why_not(channel(tmp_path, "printf '\\033[2Jno route \\377' >&2; exit 1"))
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
    tmp_path: Path, command: tuple[str, ...], reason: str
) -> None:
    answer = await why_not(CommandChannel(command=command, base_env={"PATH": "/bin"}))
    assert answer.startswith("notify_command could not start ")
    assert answer.endswith(f": {reason}")
    assert answer.isprintable()


async def test_a_command_that_hangs_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    answer = await why_not(channel(tmp_path, f"trap '' TERM\n{SLEEPERS}\nwait\nsleep 1000", 3.0))
    assert answer == "notify_command did not end within 3 s and was stopped; make it faster"
    await assert_both_end(tmp_path)


async def test_a_command_that_leaves_processes_behind_succeeds_and_they_are_ended(tmp_path: Path) -> None:
    script = f"{SLEEPERS}\nwhile ! test -s escaped; do sleep 0.01; done"
    assert not await why_not(channel(tmp_path, script))
    await assert_both_end(tmp_path)


async def test_a_command_ends_when_its_caller_is_cancelled(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "up")
    script = f"{SLEEPERS}\nwhile ! test -s escaped; do sleep 0.01; done\necho up >up\nsleep 1000"
    asked = asyncio.ensure_future(why_not(channel(tmp_path, script)))
    await asyncio.to_thread((tmp_path / "up").read_text)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    await assert_both_end(tmp_path)


async def test_a_command_gets_no_secret_and_runs_in_its_own_session(tmp_path: Path) -> None:
    env = {"ANTHROPIC_API_KEY": "s", "GITHUB_TOKEN": "s", "ORCHESTRATOR_DATA_DIR": "/d", "DISPLAY": ":0", "HOME": "/h"}
    script = "env -0 >env; cut -d' ' -f6 /proc/$$/stat >session; echo $$ >pid"
    assert not await why_not(channel(tmp_path, script, env=env))
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().split("\0")}
    assert {"PATH", "DISPLAY", "HOME"} <= names
    assert names.isdisjoint({"ANTHROPIC_API_KEY", "GITHUB_TOKEN", "ORCHESTRATOR_DATA_DIR"})
    assert (tmp_path / "session").read_text() == (tmp_path / "pid").read_text()


async def test_a_command_is_not_treated_as_an_agent_and_may_answer_requests(tmp_path: Path) -> None:
    await why_not(channel(tmp_path, 'echo "$ORCHESTRATOR_RUN" >mark'))
    assert not (tmp_path / "mark").read_text().startswith(str(tmp_path))


async def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    teller = channel(tmp_path, "exit 1")
    await why_not(teller)
    before = open_files()
    for _ in range(5):
        await why_not(teller)
        await why_not(CommandChannel(command=("/no/such/program",), base_env={}))
    assert open_files() == before
