"""A daemon that is killed, and the next daemon, which finds its runs."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.processes.spec import State
from tests.fakes.waiting import until
from tests.integration.processes.stage import TICKER, Stage, shell, stands_still

ROOT = Path(__file__).parents[3]


def daemon_that_dies(stage: Stage, wanted: str, command: tuple[str, ...]) -> Path:
    """Return the folder of a run whose daemon was killed with SIGKILL as soon as the run was in the desired state."""
    folder = stage.folder()
    argv = (sys.executable, "-m", "tests.integration.processes.daemon")
    with subprocess.Popen(
        (*argv, str(stage.base / "data"), str(folder), wanted, "cgroup" if stage.cgroup else "signals", *command),
        cwd=ROOT,
        stdout=subprocess.PIPE,
    ) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"ready\n"
        daemon.kill()
    return folder


async def test_a_running_agent_continues_and_its_output_and_exit_are_found(stage: Stage) -> None:
    folder = daemon_that_dies(stage, "running", shell("echo up; read line; echo got $line; exit 4"))
    assert stage.runs.is_alive(folder)
    assert stage.runs.exit_of(folder) is None
    await stage.runs.send(folder, b"news")
    assert (await stage.exit_of(folder)).code == 4
    assert stage.output(folder) == b"up\ngot news\n"


async def test_a_frozen_agent_stays_frozen_and_thaws_for_the_next_daemon(stage: Stage) -> None:
    folder = daemon_that_dies(stage, "frozen", shell(f"setsid sh -c '{TICKER}' & {TICKER}"))
    status = stage.runs.status_of(folder)
    assert status is not None
    assert status.state is State.FROZEN
    assert all(stands_still(pid) for pid in status.stopped)
    await stage.runs.thaw(folder)
    before = len(stage.output(folder))
    await until(lambda: len(stage.output(folder)) > before, "ticks after the thaw")
    assert (await stage.runs.freeze(folder)).stopped


async def test_an_exit_between_two_daemons_is_found(stage: Stage) -> None:
    folder = daemon_that_dies(stage, "running", shell("read line; exit 9"))
    with (folder / "stdin.jsonl").open("ab") as file:
        file.write(b"go\n")  # appended by the daemon before it died; the holder polls the file itself
    assert (await stage.exit_of(folder)).code == 9


async def test_a_start_repeated_by_the_next_daemon_starts_nothing(stage: Stage) -> None:
    folder = daemon_that_dies(stage, "running", shell("echo x >> started; read line"))
    holder = stage.holder(folder)
    await stage.start(shell("echo y >> started"))
    assert stage.holder(folder) == holder
    await stage.runs.close_input(folder)
    await stage.exit_of(folder)
    assert (stage.base / "data" / "started").read_text() == "x\n"


async def test_an_adopted_run_is_watched(stage: Stage) -> None:
    folder = daemon_that_dies(stage, "running", shell("read line; echo $line"))
    heard: list[Path] = []
    stage.runs.watch(heard.append)
    stage.runs.adopt(folder)
    await until(lambda: folder in heard, "the first look at an adopted run")
    heard.clear()
    await stage.runs.send(folder, b"hello")
    await until(lambda: heard and stage.runs.exit_of(folder))


@pytest.mark.parametrize("rest", ["", "half a spec", "[]", "{}"])
async def test_a_damaged_folder_is_not_adopted(stage: Stage, rest: str) -> None:
    folder = stage.folder()
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(rest)
    (folder / "status.json").write_text(rest)
    stage.runs.adopt(folder)
    assert stage.runs.status_of(folder) is None
    assert stage.runs.exit_of(folder) is None


async def test_concurrent_starts_start_one_run(stage: Stage) -> None:
    other = Stage(stage.base)
    command = shell("echo x >> started; read line")
    folder, same = await asyncio.gather(stage.start(command), other.start(command))
    assert folder == same
    await other.runs.close()
    await stage.runs.close_input(folder)
    await stage.exit_of(folder)
    assert (stage.base / "started").read_text() == "x\n"


async def test_a_damaged_exit_file_is_ignored(stage: Stage) -> None:
    folder = await stage.start(("true",))
    await stage.exit_of(folder)
    await until(lambda: not stage.runs.is_alive(folder))
    (folder / "exit").write_text('{"code": 0')
    assert (await stage.exit_of(folder)).lost
