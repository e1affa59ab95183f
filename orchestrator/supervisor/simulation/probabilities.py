"""How often each kind of event happens in a simulation; probabilities from 0 to 1, times in seconds."""

from dataclasses import dataclass
from random import Random

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Probabilities:
    """Probabilities per turn unless said otherwise; the defaults cause more trouble than a real week has."""

    question: float = 0.06
    dependency: float = 0.02
    """That the agent reports a missing dependency."""
    permission: float = 0.15
    """That the agent of an interactive task sends a request and waits for the answer."""
    agent_error: float = 0.015
    fatal: float = 0.1
    """That a reported error is fatal."""
    malformed_block: float = 0.03
    agent_exits: float = 0.03
    killed: float = 0.5
    """That an agent that exits in a turn was killed: it prints nothing and its totals are not saved."""
    agent_hangs: float = 0.01
    turn_fails: float = 0.02
    more_children: float = 0.7
    """That a plan names more children than it has to, which depend on each other at random."""
    incomplete: float = 0.06
    """That the turn succeeds but leaves incomplete work behind."""
    session_lost: float = 0.01
    check_fails: float = 0.2
    check_lost: float = 0.01
    freeze_fails: float = 0.01
    stop_ignored: float = 0.05
    command_fails: float = 0.004
    """That a workspace cannot be prepared, or a branch cannot be delivered."""
    never_answered: float = 0.08
    wrong_answer: float = 0.1
    rejected: float = 0.2
    paused: float = 0.1
    """That a user pauses a task, once in its life."""
    cancelled: float = 0.04
    """That a user cancels a task, once in its life."""
    interactive: float = 0.35
    """That a task is interactive; this and the next four are per task."""
    capped: float = 0.15
    starts_later: float = 0.1
    depends_on_earlier: float = 0.1
    draft: float = 0.03
    let_run: float = 0.05
    """That a user lets a task run while its run windows are closed; each time that it waits for them."""
    closed_externally: float = 0.005
    """Per poll of a pull request; so are the next two."""
    merged_externally: float = 0.02
    comment: float = 0.05
    outages_per_day: float = 2.0
    shortages_per_day: float = 1.5


def random_duration(rng: Random, median: float, spread: float = 0.8) -> float:
    """Return a log-normal random time in seconds with this median, at most twenty medians."""
    return min(rng.lognormvariate(0.0, spread), 20.0) * median
