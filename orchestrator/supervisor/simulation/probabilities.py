"""How often what happens in a simulated week; probabilities from 0 to 1, times in seconds."""

from dataclasses import dataclass
from random import Random

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Probabilities:
    """Per turn unless said otherwise; more trouble than a real week has."""

    asks: float = 0.06
    wants_dependency: float = 0.02
    requests: float = 0.15
    """Of an agent whose task people attend to."""
    in_trouble: float = 0.015
    fatal: float = 0.1
    """Of trouble."""
    garbles: float = 0.03
    dies: float = 0.03
    killed: float = 0.5
    """Of an agent that dies: without a word, its totals not saved."""
    hangs: float = 0.01
    fails: float = 0.02
    incomplete: float = 0.06
    session_gone: float = 0.01
    check_fails: float = 0.2
    check_lost: float = 0.01
    will_not_freeze: float = 0.01
    will_not_end: float = 0.05
    cannot: float = 0.004
    """That a workspace cannot be made, or a branch not be delivered."""
    never_answers: float = 0.08
    wrong_answer: float = 0.1
    rejects: float = 0.2
    pauses: float = 0.1
    """Of a task, in its life."""
    cancels: float = 0.04
    """Of a task, in its life."""
    interactive: float = 0.35
    capped: float = 0.15
    later: float = 0.1
    follows: float = 0.1
    draft: float = 0.03
    closed_outside: float = 0.005
    """Of a look at a pull request; so are the next two."""
    merged_outside: float = 0.02
    comments: float = 0.05
    walls_a_day: float = 2.0
    shortages_a_day: float = 1.5


def span(dice: Random, median: float, spread: float = 0.8) -> float:
    """A random time in seconds around a median; long ones are rare, and none is longer than twenty medians."""
    return min(dice.lognormvariate(0.0, spread), 20.0) * median
