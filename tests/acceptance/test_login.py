"""Nothing begins while nobody is logged in, and what one task learns of the account holds for all."""

import re
from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.claude_harness import ClaudeHarness
from tests.acceptance.claude_roles import Roles
from tests.acceptance.harness import DaemonHarness

REFUSED = {"error": {"text": "Failed to authenticate: OAuth session expired", "status": 401}}


def test_an_account_that_was_refused_is_tried_again_at_a_word_though_nothing_is_left_to_retry(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"ANALYSIS": [REFUSED]}) as harness:
        first, second = harness.submit(), harness.submit()
        harness.wait_for_end(first, TaskStatus.BLOCKED)
        harness.request("POST", f"/api/tasks/{first}/cancel")
        assert "orchestrator resume --all" in harness.client.why(second).next
        harness.request("POST", "/api/resume")
        harness.wait_for_end(second, TaskStatus.BLOCKED)


def test_one_refusal_of_the_account_stops_the_others_until_a_person_has_tried_again(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"ANALYSIS": [REFUSED]}) as harness:
        first, second = harness.submit(), harness.submit()
        harness.wait_for_end(first, TaskStatus.BLOCKED)
        assert "orchestrator resume --all" in harness.client.why(second).next
        assert harness.client.task(second).status is TaskStatus.PENDING
        harness.request("POST", f"/api/tasks/{first}/retry")
        harness.wait_for_end(first)
        harness.wait_for_end(second, TaskStatus.BLOCKED)
        assert harness.client.task(second).agent.attempt == 1, "it began only when it was thought that all is well"


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
