"""Process trees that work for a while, can be frozen meanwhile, and exit; the processes of checks."""

from collections.abc import Callable
from random import Random

from orchestrator.core.task.checks import CheckResult, Verdict
from orchestrator.supervisor.simulation.clockwork.virtual_clock import ScheduledCall, VirtualClock
from orchestrator.supervisor.simulation.probabilities import MINUTE, Probabilities, random_duration


class SimulatedTree:
    """A tree of processes under a holder process; it outlives the daemon. `on_change` is called when it has news."""

    def __init__(self, clock: VirtualClock, task_id: str, folder: str) -> None:
        self.task_id, self.folder = task_id, folder
        self.alive = True
        self.exit_code: int | None = None
        self.frozen = self.self_frozen = False
        self.on_change: Callable[[], None] = lambda: None
        self._clock = clock
        self._scheduled: ScheduledCall | None = None
        self._remaining: tuple[float, Callable[[], None]] | None = None

    @property
    def busy(self) -> bool:
        """Whether it has scheduled work, even if it is frozen."""
        return self._scheduled is not None or self._remaining is not None

    def freeze(self) -> None:
        """Stop all work; what was scheduled is delayed by the time until `thaw`."""
        self.frozen = True
        if self._scheduled is not None:
            remaining = (self._scheduled.at - self._clock.now).total_seconds()
            self._remaining, self._scheduled.cancelled, self._scheduled = (
                (remaining, self._scheduled.callback),
                True,
                None,
            )

    def thaw(self) -> None:
        """Continue the work that `freeze` stopped."""
        self.frozen = self.self_frozen = False
        if self._remaining is not None:
            remaining, self._remaining = self._remaining, None
            self._schedule(*remaining)

    def exit(self, code: int | None) -> None:
        """Exit, whatever it was doing, and notify the listener; a killed tree has no exit code."""
        if not self.alive:
            return
        self.cancel_work()
        self.alive, self.exit_code = False, code
        self.on_change()

    def cancel_work(self) -> None:
        """Drop the scheduled work."""
        if self._scheduled is not None:
            self._scheduled.cancelled = True
        self._scheduled = self._remaining = None

    def _schedule(self, seconds: float, action: Callable[[], None]) -> None:
        """Schedule work after that many seconds in which it is not frozen; it replaces the work scheduled before."""
        self.cancel_work()
        if self.frozen:
            self._remaining = (seconds, action)
            return

        def run() -> None:
            self._scheduled = None
            action()

        self._scheduled = self._clock.schedule_after(seconds, run)


class CheckTree(SimulatedTree):
    """The process tree of a check."""

    def __init__(self, clock: VirtualClock, task_id: str, folder: str, name: str) -> None:
        super().__init__(clock, task_id, folder)
        self.name = name
        self.result: CheckResult | None = None

    def run(self, rng: Random, probabilities: Probabilities) -> None:
        """Run for some minutes, then pass, fail, or be lost with its holder."""
        seconds = random_duration(rng, 3 * MINUTE)
        if rng.random() < probabilities.check_lost:
            self._schedule(seconds, lambda: self.exit(None))
            return
        fails = rng.random() < probabilities.check_fails
        result = CheckResult(
            verdict=Verdict.FAIL if fails else Verdict.PASS,
            reason="exit code 1" if fails else "exit code 0",
            exit_code=int(fails),
            seconds=round(seconds, 2),
        )
        self._schedule(seconds, lambda: self._finish(result))

    def _finish(self, result: CheckResult) -> None:
        self.result = result
        self.exit(result.exit_code)
