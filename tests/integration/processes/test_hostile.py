"""Runs that forge their exit, move their folder or stop their holder: nothing is believed, and nothing of them is left.

What the tests do to a run's folder and holder, an agent without a sandbox can do as well.
"""

import ctypes
import json
import os
import shutil
import signal
import sys

import psutil
import pytest

from orchestrator.processes.process_stats import has_processes, holder_of
from orchestrator.processes.runs import Runs
from orchestrator.processes.spec import StoppedBy
from tests.fakes.waiting import until
from tests.integration.processes.stage import TICKER, Stage, shell, state_of

KEYCTL, ADD_KEY = {"x86_64": (250, 248), "aarch64": (219, 217)}.get(os.uname().machine, (-1, -1))
PASSED: dict[str, object] = {
    "code": 0, "signal": None, "timed_out": False, "spawn_error": None, "stopped_by": None, "swept": [], "lost": False,
    "ended_at": "2026-01-01T00:00:00Z",
}  # fmt: skip


async def test_an_exit_that_the_holder_did_not_write_is_not_believed(stage: Stage) -> None:
    folder = await stage.start(shell(TICKER))
    holder = stage.holder(folder)
    os.kill(holder, signal.SIGSTOP)
    for forged in (json.dumps(PASSED), f"{json.dumps(PASSED)}\n{'0' * 64}\n"):
        (folder / "exit").write_text(forged)
        assert stage.runs.exit_of(folder) is None
    os.kill(holder, signal.SIGKILL)
    ended = await stage.exit_of(folder)
    assert (ended.lost, ended.code) == (True, None)


async def test_the_exit_of_another_run_is_not_believed(stage: Stage) -> None:
    passed, folder = await stage.start(("true",)), await stage.start(shell(TICKER), attempt=2)
    assert (await stage.exit_of(passed)).code == 0
    os.kill(stage.holder(folder), signal.SIGKILL)
    shutil.copy(passed / "exit", folder / "exit")
    assert (await stage.exit_of(folder)).lost


async def test_the_exit_of_a_run_is_believed_where_its_data_folder_was_moved(stage: Stage) -> None:
    ended = await stage.exit_of(folder := await stage.start(("true",)))
    moved = (stage.base / "data").rename(stage.base / "elsewhere")
    assert Runs(data_dir=moved).exit_of(moved / folder.relative_to(stage.base / "data")) == ended


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_run_whose_folder_was_moved_is_found_and_killed_by_a_later_daemon(
    stage: Stage, is_replaced: bool
) -> None:
    folder = await stage.start(shell(f"setsid sh -c '{TICKER}' & {TICKER}"))
    await stage.says(folder, b"2\n")
    tree, holder = psutil.Process(stage.holder(folder)).children(recursive=True), holder_of(folder)
    moved = folder.rename(folder.with_name("moved"))
    if is_replaced:
        folder.mkdir()
        (folder / "exit").mkdir()
    later = Runs(data_dir=stage.base / "data")
    ended = later.exit_of(folder, holder)
    assert ended is not None
    assert ended.lost
    await until(lambda: all(state_of(process.pid) in "-Z" for process in tree), "the end of the tree")
    await until(lambda: not has_processes(folder, holder), "the end of the run")
    shutil.rmtree(moved)


async def test_a_process_that_hides_its_descent_and_has_no_folder_is_found_and_killed(stage: Stage) -> None:
    folder = await stage.start(shell(f"env -i setsid sh -c '{TICKER}' & {TICKER}"))
    await stage.says(folder, b"2\n")
    tree, holder = psutil.Process(stage.holder(folder)).children(recursive=True), holder_of(folder)
    os.kill(stage.holder(folder), signal.SIGKILL)
    shutil.rmtree(folder)
    ended = stage.runs.exit_of(folder, holder)
    assert ended is not None
    assert ended.lost
    await until(lambda: all(state_of(process.pid) in "-Z" for process in tree), "the end of the tree")


async def test_a_run_whose_holder_is_stopped_ends_all_the_same(stage: Stage) -> None:
    folder = await stage.start(shell(f"setsid sh -c '{TICKER}' & {TICKER}"))
    await stage.says(folder, b"2\n")
    tree = psutil.Process(stage.holder(folder)).children(recursive=True)
    os.kill(stage.holder(folder), signal.SIGSTOP)
    await stage.runs.stop(folder, holder_of(folder), longest=0.1)
    assert (await stage.exit_of(folder)).lost
    assert all(state_of(process.pid) in "-Z" for process in tree)


@pytest.mark.parametrize("stage", ["sandbox-signals"], indirect=True)
async def test_a_run_in_a_sandbox_has_no_keys_of_the_users_session(stage: Stage) -> None:
    search = f"import ctypes; print(ctypes.CDLL(None).syscall({KEYCTL}, 10, -3, b'user', b'test-of-a-run', 0) > 0)"
    libc = ctypes.CDLL(None)
    libc.syscall(ADD_KEY, b"user", b"test-of-a-run", b"secret", 6, -3)
    if libc.syscall(KEYCTL, 10, -3, b"user", b"test-of-a-run", 0) <= 0:
        pytest.skip("NOT TESTED: no key can be kept in the kernel here")
    folder = await stage.start((sys.executable, "-c", search))
    await stage.exit_of(folder)
    assert stage.output(folder) == b"False\n"


async def test_a_run_that_ends_in_time_is_left_to_its_holder(stage: Stage) -> None:
    folder = await stage.start(shell("cat"))
    await stage.runs.stop(folder, holder_of(folder))
    ended = await stage.exit_of(folder)
    assert (ended.code, ended.stopped_by) == (0, StoppedBy.REQUEST)
