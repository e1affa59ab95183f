"""A run from its start to its exit, and repeated starts."""

import asyncio

import psutil
import pytest

from orchestrator.processes.process_stats import activity_of, kill_run
from orchestrator.processes.spec import Limits, Stdin
from tests.fakes.waiting import until
from tests.folder_search import try_remove
from tests.integration.processes.stage import QUICK, Stage, python, shell, state_of


async def test_an_exit_code_is_found_with_all_output(stage: Stage) -> None:
    folder = await stage.start(shell("echo one; echo two >&2; exit 7"))
    ended = await stage.exit_of(folder)
    assert (ended.code, ended.signal, ended.lost, ended.stopped_by) == (7, None, False, None)
    assert stage.output(folder) == b"one\n"
    assert (folder / "stderr.log").read_text() == "two\n"


async def test_a_run_killed_by_a_signal_names_the_signal(stage: Stage) -> None:
    ended = await stage.exit_of(await stage.start(shell("kill -9 $$")))
    assert ended.signal == 9


@pytest.mark.parametrize("code", [1, 129, 160, 255])
async def test_an_exit_code_that_no_signal_leaves_stays_a_code(stage: Stage, code: int) -> None:
    ended = await stage.exit_of(await stage.start(shell(f"exit {code}")))
    assert (ended.code, ended.signal) == (code, None)


async def test_neither_the_holder_nor_its_sandbox_counts_as_activity(stage: Stage) -> None:
    folder = await stage.start(shell("echo ready; exec sleep 600"))
    await stage.says(folder, b"ready")
    await until(lambda: [psutil.Process(pid).name() for pid in activity_of(folder).pids] == ["sleep"])


async def test_a_second_start_starts_nothing(stage: Stage) -> None:
    folder = await stage.start(shell("echo x >> started; read line"))
    holder = stage.holder(folder)
    await stage.start(shell("echo y >> started"))
    assert stage.holder(folder) == holder
    await stage.runs.close_input(folder)
    await stage.exit_of(folder)
    await stage.start(shell("echo z >> started"))
    assert (stage.base / "started").read_text() == "x\n"


async def test_a_folder_left_by_a_crash_before_the_spawn_is_started(stage: Stage) -> None:
    folder = stage.folder()
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text("half a spe")
    (folder / "lock").touch()
    assert not stage.runs.is_alive(folder)
    assert stage.runs.exit_of(folder) is None
    await stage.start(shell("echo fine"))
    assert (await stage.exit_of(folder)).code == 0


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (("no-such-command-anywhere",), "no such command"),
        (("/nowhere/agent",), "no such command"),
        (("/etc/passwd",), "Permission denied"),
        (("true", "x" * 3_000_000), "Argument list too long"),
        (("true", "nul\0byte"), "null byte"),
        ((), "cannot be passed on"),
    ],
)
async def test_a_command_that_cannot_be_spawned_states_the_reason(
    stage: Stage, argv: tuple[str, ...], reason: str
) -> None:
    folder = await stage.start(argv)
    ended = await stage.exit_of(folder)
    assert reason in (ended.spawn_error or "")
    assert (ended.code, ended.lost) == (None, False)
    assert (folder / "stderr.log").read_text() == ""


async def test_a_missing_working_directory_is_named(stage: Stage) -> None:
    stage.cwd = stage.base / "gone"
    ended = await stage.exit_of(await stage.start(("true",)))
    assert str(stage.cwd) in (ended.spawn_error or "")


async def test_an_agent_gets_its_own_group_its_environment_and_default_signals(stage: Stage) -> None:
    code = (
        "import os, os.path; print(os.getpgrp() == os.getpid(), os.getsid(0) == os.getppid(), sorted(os.environ));"
        "print([row.split()[1] for row in open('/proc/self/status') if row[:6] in ('SigIgn', 'SigBlk')]);"
        "print([fd for fd in range(1000) if os.path.exists(f'/proc/self/fd/{fd}')]);"
        "print(open('/proc/self/oom_score_adj').read())"
    )
    folder = await stage.start(("env", "-u", "LC_CTYPE", *python(code)))
    await stage.exit_of(folder)
    lines = stage.output(folder).decode().splitlines()
    assert stage.sandbox or lines[0].startswith("True True")  # inside, its group has no number
    assert "ORCHESTRATOR_RUN" in lines[0]
    blocked, ignored = (int(mask.strip("'[]"), 16) for mask in lines[1].split(", "))
    assert (blocked, ignored & 0b110_0000_0000_0000_0011) == (0, 0)  # HUP, INT, … the interpreter ignores PIPE itself
    assert lines[2] == "[0, 1, 2]"
    assert lines[3] == "500"


async def test_the_time_limit_of_a_check_does_not_count_frozen_time(stage: Stage) -> None:
    folder = await stage.start(("sleep", "100"), timeout=2.5, stdin=Stdin.NULL)
    await stage.runs.freeze(folder)
    await asyncio.sleep(3.0)  # longer than the time limit of the run
    assert stage.runs.exit_of(folder) is None
    await stage.runs.thaw(folder)
    ended = await stage.exit_of(folder)
    assert (ended.timed_out, ended.stopped_by, ended.signal) == (True, "timeout", 15)


async def test_a_watcher_is_notified_of_output_and_of_the_end(stage: Stage) -> None:
    heard: list[tuple[bytes, bool]] = []
    stage.runs.watch(lambda folder: heard.append((stage.output(folder), stage.runs.exit_of(folder) is not None)))
    folder = await stage.start(shell("while read line; do echo $line; done"))
    await stage.runs.send(folder, b"hello")
    await until(lambda: (b"hello\n", False) in heard, "word of output")
    await stage.runs.close_input(folder)
    await until(lambda: heard[-1] == (b"hello\n", True), "the last word about a run that ended")


async def test_twenty_runs_live_side_by_side_and_leave_no_zombie(stage: Stage) -> None:
    folders = [await stage.start(shell("read line; echo $line"), attempt=number) for number in range(20)]
    holders = {stage.holder(folder) for folder in folders}
    assert len(holders) == 20
    for number, folder in enumerate(folders):
        await stage.runs.send(folder, f"line {number}".encode())
        await stage.runs.close_input(folder)
    for number, folder in enumerate(folders):
        assert (await stage.exit_of(folder)).code == 0
        assert stage.output(folder) == f"line {number}\n".encode()
    await until(lambda: all(state_of(pid) == "-" for pid in holders), "the daemon reaps its holders")


async def test_usage_counts_the_whole_tree(stage: Stage) -> None:
    folder = await stage.start(shell("setsid sh -c 'while :; do :; done' & echo up; read line"))
    await stage.says(folder, b"up")
    await until(lambda: stage.runs.usage(folder).cpu_seconds > 0.1)
    assert stage.runs.usage(folder).rss_bytes > 1 << 20
    await stage.runs.stop(folder)
    await stage.exit_of(folder)
    await until(lambda: stage.runs.usage(folder).rss_bytes == 0, "the end of the holder")


async def test_a_path_longer_than_a_socket_allows_works(stage: Stage) -> None:
    stage.base = stage.base / ("deep-" * 30) / ("deeper-" * 20)
    folder = await stage.start(("sleep", "100"))
    assert (await stage.runs.freeze(folder)).stopped
    await stage.runs.stop(folder)
    assert (await stage.exit_of(folder)).stopped_by == "request"


async def test_a_run_whose_folder_is_removed_is_ended(stage: Stage) -> None:
    folder = await stage.start(("sleep", "100"), limits=Limits(term_grace=0.3, eof_grace=0.1))
    tree = [stage.holder(folder), *(child.pid for child in psutil.Process(stage.holder(folder)).children())]
    await until(lambda: try_remove(folder))
    await until(lambda: all(state_of(pid) in "-Z" for pid in tree), "the end of holder and agent")


async def test_a_holder_that_cannot_do_its_work_ends_the_agent_and_states_the_reason(stage: Stage) -> None:
    folder = stage.folder()
    (folder / "stdout.jsonl").mkdir(parents=True)
    await stage.start(shell("sleep 100"))
    ended = await stage.exit_of(folder)
    assert "the holder itself failed: IsADirectoryError" in (ended.spawn_error or "")
    await until(lambda: "Traceback" in (folder / "stderr.log").read_text(), "the traceback, which follows the exit")
    await until(lambda: kill_run(folder) == (), "the end of the agent")


async def test_a_hostile_line_on_control_changes_nothing(stage: Stage) -> None:
    folder = await stage.start(shell("read line; echo $line"), limits=QUICK)
    with (folder / "control").open("wb") as control:
        control.write(b"\xff\xfe nonsense\n\n" + b"x" * 60_000 + b"\nfreeze\n")
    await stage.runs.send(folder, b"still here")
    await stage.says(folder, b"still here")
