"""What `submit --wait` and `logs -f` share: how long they follow a task, and what they do while the daemon is away."""

import time
from collections.abc import Callable
from typing import TypeVar

from orchestrator.cli.output import note
from orchestrator.core.task.task import TaskStatus
from orchestrator.server.client import DaemonUnreachable

T = TypeVar("T")

RESTART_TIME = 60.0
"""Seconds that a daemon may be away, as it is while it is restarted."""
TRY_EVERY = 0.5


def moves_no_more(status: TaskStatus) -> bool:
    """Whether nothing but a person would move a task of this status."""
    return status.is_final or status is TaskStatus.BLOCKED


def retry_while_down(ask: Callable[[], T]) -> T:
    """What the daemon answers, asked again while it is away; raises DaemonUnreachable when that takes too long."""
    given_up_at: float | None = None
    while True:
        try:
            return ask()
        except DaemonUnreachable:
            if given_up_at is None:
                given_up_at = time.monotonic() + RESTART_TIME
                note(f"the daemon is away; trying again for {RESTART_TIME:.0f} s")
            elif time.monotonic() > given_up_at:
                raise
            time.sleep(TRY_EVERY)
