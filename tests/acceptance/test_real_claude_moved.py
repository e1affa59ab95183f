"""A session of the real CLI goes on in a data folder that was restored at another path."""

from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from orchestrator.core.task.task import TaskStatus
from orchestrator.server.client import Client
from tests.acceptance.claude_harness import STEPS, ClaudeHarness, Ticker
from tests.acceptance.claude_roles import running_first

pytestmark = pytest.mark.claude


class MovedHarness(ClaudeHarness):
    """A harness whose daemon is lost, and goes on from a backup at another path."""

    def back_up(self, file: Path) -> None:
        """Make a backup while agents work."""
        self._cli("backup", str(file))

    def move(self, backup: Path, data: Path) -> None:
        """Lose the daemon and every process of its agents, and restore a backup elsewhere."""
        self.kill()
        for process in self.survivors():
            with suppress(psutil.NoSuchProcess):  # a holder takes its agent along
                process.kill()
        self.until(lambda: self.survivors() == [], "the end of every process")
        settings = self.root / "orchestrator.toml"
        settings.write_text(settings.read_text().replace(str(self.data), str(data)))
        self._cli("restore", str(backup))
        self.client.__exit__(None, None, None)
        self.data = data
        self.client = Client(data / "orchestrator.sock")


@pytest.mark.long
def test_a_session_is_resumed_from_a_backup_at_another_path(claude: Path, tmp_path: Path, ticker: Ticker) -> None:
    with MovedHarness(claude, tmp_path, running_first(ticker.command, "IMPLEMENTATION 2")) as harness:
        name = harness.submit()
        ticker.begins(harness)
        harness.back_up(tmp_path / "backup.tar.zst")
        harness.move(tmp_path / "backup.tar.zst", tmp_path / "elsewhere" / "data of the copy")
        harness.start()
        ticker.let_go()
        task = harness.end_of(name)
        planner, implementer, resumed = (session.partition("=") for session in harness.sessions(task))
        assert (planner[0], implementer[0], resumed[0]) == ("--session-id", "--session-id", "--resume")
        assert planner[2] != implementer[2] == resumed[2]
        assert (task.status, harness.steps(task)) == (TaskStatus.COMPLETED, STEPS)
        assert [entry.type for entry in task.failures.entries] == ["agent_lost"]
