"""Callers of the daemon, with real processes: what an agent started is known, whatever it sheds."""

import ctypes
import os
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from orchestrator.daemon.callers import AccessControl, Caller
from orchestrator.storage.task_files import FolderTaskFiles
from tests.fakes.waiting import until
from tests.integration.processes.stage import Stage, shell

PR_SET_NO_NEW_PRIVS = 38


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


def test_a_process_of_another_user_that_is_hidden_is_trusted_only_where_agents_gain_no_rights(tmp_path: Path) -> None:
    """Systemd's ProtectProc=invisible hides it; a pid that nobody has looks the same."""

    def objection(*, gains_no_rights: bool, uid: int) -> bool:
        if (child := os.fork()) == 0:
            os.setuid(65534)
            if gains_no_rights:
                ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            hidden = Caller(pid=2**22 + 1, uid=uid)
            os._exit(AccessControl(FolderTaskFiles(tmp_path / "tasks")).objection_to(hidden) is not None)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1

    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    assert not objection(gains_no_rights=True, uid=0)
    assert objection(gains_no_rights=False, uid=0)
    assert objection(gains_no_rights=True, uid=65534), "one of its own user may be an agent"
    assert objection(gains_no_rights=True, uid=12345), "it may ask nothing anyway"
