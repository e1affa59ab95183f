"""Nothing begins while nobody is logged in, and what one task learns of the account holds for all."""

import re
from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.claude_harness import ClaudeHarness
from tests.acceptance.claude_roles import Roles
from tests.acceptance.harness import DaemonHarness

REFUSED = {"error": {"text": "Failed to authenticate: OAuth session expired", "status": 401}}


def test_one_refusal_of_the_account_stops_all_tasks_until_a_person_resumes_them(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"ANALYSIS": [REFUSED]}) as harness:
        first, second = harness.submit(), harness.submit()
        harness.wait_until(first, lambda now: now.paused and now.run is None)
        why = harness.client.why(first)
        assert "OAuth session expired; it is tried again at" in why.facts[0]
        assert "orchestrator resume --all" in why.next
        assert harness.client.task(second).status is TaskStatus.PENDING
        status = harness.client.status()
        assert (status.health, "OAuth session expired" in (status.trouble or "")) == ("account", True)
        said = harness.cli("submit", "Another", "--repo", str(harness.repo))
        assert (said.returncode, "it waits, because no agent can work: " in said.stderr) == (0, True), said.stderr
        assert harness.client.request(said.stdout.strip(), "cancel").status is TaskStatus.CANCELLED
        assert harness.cli("resume", "--all").returncode == 0
        assert harness.wait_for_end(first).failures.total == 0
        harness.wait_until(second, lambda now: now.paused and now.run is None)
        harness.request("POST", f"/api/tasks/{second}/cancel")
        assert harness.nothing_is_left()


def test_a_refused_account_is_tried_again_at_a_word_though_no_task_is_left_that_met_it(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"ANALYSIS": [REFUSED]}) as harness:
        first, second = harness.submit(), harness.submit()
        harness.wait_until(first, lambda now: now.paused and now.run is None)
        harness.request("POST", f"/api/tasks/{first}/cancel")
        assert "orchestrator resume --all" in harness.client.why(second).next
        harness.request("POST", "/api/resume")
        harness.wait_until(second, lambda now: now.agent.attempt == 1 and now.paused and now.run is None)


class LoggedOut(ClaudeHarness):
    """A harness whose agents have no key and no login."""

    def _write_settings(self) -> None:
        super()._write_settings()
        file = self.root / "orchestrator.toml"
        without = re.sub(r"^ANTHROPIC_API_KEY = .*$", 'ANTHROPIC_API_KEY = ""', file.read_text(), flags=re.MULTILINE)
        file.write_text(without)


@pytest.mark.claude
def test_a_claude_that_nobody_is_logged_in_to_is_given_no_task(tmp_path: Path, claude: Path) -> None:
    with LoggedOut(claude, tmp_path, Roles()) as harness:
        task = harness.submit()
        harness.until(
            lambda: "not logged in" in str(harness.client.why(task).facts), "it says that nobody is logged in"
        )
        waiting = harness.client.task(task)
        assert (waiting.status, waiting.agent.attempt) == (TaskStatus.PENDING, 0)
