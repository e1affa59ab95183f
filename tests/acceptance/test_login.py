"""Nothing begins while nobody is logged in, and what one task learns of the account holds for all."""

import re
from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.claude_house import ClaudeHouse
from tests.acceptance.claude_roles import Roles
from tests.acceptance.house import House

REFUSED = {"error": {"text": "Failed to authenticate: OAuth session expired", "status": 401}}


def test_an_account_that_was_refused_is_tried_again_at_a_word_though_nothing_is_left_to_retry(tmp_path: Path) -> None:
    with House(tmp_path, scenario={"ANALYSIS": [REFUSED]}) as house:
        first, second = house.submit(), house.submit()
        house.wait_for_end(first, TaskStatus.BLOCKED)
        house.say("POST", f"/api/tasks/{first}/cancel")
        assert "orchestrator resume --all" in house.client.why(second).next
        house.say("POST", "/api/resume")
        house.wait_for_end(second, TaskStatus.BLOCKED)


def test_one_refusal_of_the_account_stops_the_others_until_a_person_has_tried_again(tmp_path: Path) -> None:
    with House(tmp_path, scenario={"ANALYSIS": [REFUSED]}) as house:
        first, second = house.submit(), house.submit()
        house.wait_for_end(first, TaskStatus.BLOCKED)
        assert "orchestrator resume --all" in house.client.why(second).next
        assert house.client.task(second).status is TaskStatus.PENDING
        house.say("POST", f"/api/tasks/{first}/retry")
        house.wait_for_end(first)
        house.wait_for_end(second, TaskStatus.BLOCKED)
        assert house.client.task(second).agent.attempt == 1, "it began only when it was thought that all is well"


class LoggedOut(ClaudeHouse):
    """A house whose agents have no key and no login."""

    def _write_settings(self) -> None:
        super()._write_settings()
        file = self.root / "orchestrator.toml"
        without = re.sub(r"^ANTHROPIC_API_KEY = .*$", 'ANTHROPIC_API_KEY = ""', file.read_text(), flags=re.MULTILINE)
        file.write_text(without)


@pytest.mark.claude
def test_a_claude_that_nobody_is_logged_in_to_is_given_no_task(tmp_path: Path, claude: Path) -> None:
    with LoggedOut(claude, tmp_path, Roles()) as house:
        task = house.submit()
        house.until(lambda: "not logged in" in str(house.client.why(task).facts), "it says that nobody is logged in")
        waiting = house.client.task(task)
        assert (waiting.status, waiting.agent.attempt) == (TaskStatus.PENDING, 0)
