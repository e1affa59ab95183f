"""What commands print of tasks."""

import pytest

from orchestrator.cli.output import status_text
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.task import TaskStatus


@pytest.mark.parametrize("reason", [None, *PauseReason])
def test_what_a_paused_task_waits_for_is_said_in_words(reason: PauseReason | None) -> None:
    assert str(status_text(TaskStatus.IN_PROGRESS, paused=True, blocked_by=reason)) not in {"", "in_progress"}
