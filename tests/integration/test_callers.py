"""Callers of the daemon, with real processes: what an agent started is known, whatever it sheds."""

import os
import signal
import subprocess
from pathlib import Path

import psutil

from orchestrator.daemon.callers import AccessControl, Caller
from orchestrator.storage.task_files import FolderTaskFiles
from tests.integration.processes.stage import Stage, shell, until


def objection_to(pid: int, data: Path) -> str | None:
    return AccessControl(FolderTaskFiles(data / "tasks")).objection_to(Caller(pid=pid, uid=os.getuid()))


def test_a_process_of_ones_own_may_command_the_daemon(tmp_path: Path) -> None:
    with subprocess.Popen(["setsid", "sleep", "100"], env={"PATH": os.environ["PATH"]}) as person:
        assert objection_to(person.pid, tmp_path) is None
        person.kill()


async def test_an_orphan_of_an_agent_without_environment_session_and_group_may_not(tmp_path: Path) -> None:
    stage = Stage(tmp_path, cgroup=False)
    folder = await stage.start(shell("env -i setsid sh -c 'echo $$ > orphan.pid; sleep 100; true' & sleep 100"))
    try:
        written = tmp_path / "orphan.pid"
        await until(lambda: written.exists() and written.read_text().endswith("\n"), "the orphan")
        orphan, holder = int(written.read_text()), stage.holder(folder)
        os.kill(holder, signal.SIGKILL)
        await until(lambda: psutil.Process(orphan).ppid() != holder, "the end of the holder")
        assert "limit of file locks" in (objection_to(orphan, tmp_path / "elsewhere") or "")
    finally:
        await stage.exit_of(folder)
        await stage.runs.close()
        stage.clear()
