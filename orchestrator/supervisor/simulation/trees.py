"""A process tree that works for a time, can be frozen meanwhile, and ends; what a check is."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from orchestrator.core.task.checks import CheckResult, Verdict
from orchestrator.supervisor.simulation.probabilities import MINUTE, Probabilities, span
from orchestrator.supervisor.simulation.virtual_clock import Due, VirtualClock


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a tree ended; a killed one has no code."""

    code: int | None


class Tree:
    """A tree of processes under a holder; it outlives the daemon."""

    def __init__(self, timeline: VirtualClock, task_id: str, folder: str) -> None:
        self.task_id, self.folder = task_id, folder
        self.end: End | None = None
        self.frozen = self.froze_itself = False
        self.ring: Callable[[], None] = lambda: None
        self._timeline = timeline
        self._due: Due | None = None
        self._left: tuple[float, Callable[[], None]] | None = None

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.end is None

    @property
    def busy(self) -> bool:
        """Whether it will do something by itself, or would if it were not frozen."""
        return self._due is not None or self._left is not None

    def freeze(self) -> None:
        """Stand still; what was to be done is done later by as much."""
        self.frozen = True
        if self._due is not None:
            left = (self._due.at - self._timeline.now).total_seconds()
            self._left, self._due.off, self._due = (left, self._due.act), True, None

    def thaw(self) -> None:
        """Go on."""
        self.frozen = self.froze_itself = False
        if self._left is not None:
            left, self._left = self._left, None
            self._work(*left)

    def exit(self, code: int | None) -> None:
        """End, whatever it was at; a holder tells whoever listens."""
        if self.end is not None:
            return
        self.rest()
        self.end = End(code=code)
        self.ring()

    def rest(self) -> None:
        """Do nothing more of what was to be done."""
        if self._due is not None:
            self._due.off = True
        self._due = self._left = None

    def _work(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something after so many seconds of its own time; what was to be done before is not done."""
        self.rest()
        if self.frozen:
            self._left = (seconds, act)
            return

        def done() -> None:
            self._due = None
            act()

        self._due = self._timeline.after(seconds, done)


class CheckTree(Tree):
    """A check at work."""

    def __init__(self, timeline: VirtualClock, task_id: str, folder: str, name: str) -> None:
        super().__init__(timeline, task_id, folder)
        self.name = name
        self.result: CheckResult | None = None

    def run(self, dice: Random, odds: Probabilities) -> None:
        """Take some minutes, and pass or fail; or be lost with its holder."""
        seconds = span(dice, 3 * MINUTE)
        if dice.random() < odds.check_lost:
            self._work(seconds, lambda: self.exit(None))
            return
        fails = dice.random() < odds.check_fails
        result = CheckResult(
            verdict=Verdict.FAIL if fails else Verdict.PASS,
            reason="exit code 1" if fails else "exit code 0",
            exit_code=int(fails),
            seconds=round(seconds, 2),
        )
        self._work(seconds, lambda: self._judge(result))

    def _judge(self, result: CheckResult) -> None:
        self.result = result
        self.exit(result.exit_code)
