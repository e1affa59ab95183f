"""Simulate a year of nights, and print what was told and which laws were broken.

    python -m tests.year --days 365 --seed 0
    python -m tests.year --days 14 --start 2026-10-20

Runs a second time without any channel, which must dispatch the same work at the same times, unless --once is given.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from time import monotonic

import httpx
import pytest
import structlog

from orchestrator.supervisor.simulation.metrics import SimulationReport
from orchestrator.supervisor.simulation.probabilities import Probabilities
from orchestrator.supervisor.simulation.runner import DaemonConfig, SimulationPlan
from tests.year.laws import Watch, broken, broken_by_work, figures
from tests.year.night_watch import NightWatch, crashes_when_much_is_told, data_folder
from tests.year.receivers import Receivers, troubles
from tests.year.settings import BERLIN, LINES, NOTIFY, config, settings
from tests.year.virtual_loop import VirtualLoop

MEMORY = Path("/dev/shm")
"""A file system in memory, where syncing files costs nothing."""
START = datetime(2026, 3, 26, 18, tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class Result:
    """What became of some nights; `broken` names each law that was broken."""

    report: SimulationReport
    watch: NightWatch
    receivers: Receivers
    broken: list[str] = field(default_factory=list)
    looked: Watch | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Nights:
    """Which nights to simulate, and of what kind; without channels nobody is told anything.

    The daemon dies at the times of `crash_at` too, or a few steps later.
    """

    start: datetime = START
    days: float
    seed: int = 0
    has_channels: bool = True
    tickets_a_day: float = 4.0
    schedules: tuple[str, ...] = LINES
    config: DaemonConfig = field(default_factory=config)
    probabilities: Probabilities = field(default_factory=Probabilities)
    repos: tuple[str, ...] = ("/simulated/repo",)
    crash_at: tuple[datetime, ...] = ()
    kind: type[NightWatch] = NightWatch

    @property
    def plan(self) -> SimulationPlan:
        """The plan of the simulation of the work."""
        return SimulationPlan(
            tasks=round(self.tickets_a_day * self.days),
            days=self.days,
            seed=self.seed,
            crashes=round(self.days),
            probabilities=self.probabilities,
            schedules=self.schedules,
            zone=BERLIN,
            start=self.start,
            repos=self.repos,
        )


def simulate(root: Path, nights: Nights) -> Result:
    """Simulate some nights; `root` gets the daemon's folder."""
    start, days, seed, has_channels = nights.start, nights.days, nights.seed, nights.has_channels
    rng = Random(f"{seed} channels")
    holder: list[NightWatch] = []

    def jump(now: datetime) -> None:
        for watch in holder:
            watch.jump(now)

    loop = VirtualLoop(start, jump, Random(f"{seed} disk"))
    chosen = settings(data_folder(root, "with" if has_channels else "without"), has_channels=has_channels)
    midnight = datetime.combine(start.astimezone(BERLIN).date(), datetime.min.time(), BERLIN)
    hours = tuple(midnight + timedelta(hours=one) for one in (2.5, 7.0))
    crashes = crashes_when_much_is_told(start, days, Random(f"{seed} kills"), hours)

    async def run() -> Result:
        watch = nights.kind(nights.config, nights.plan, chosen, [*crashes, *nights.crash_at])
        holder.append(watch)
        wrong = troubles(NOTIFY["channels"], start, days, rng, _nights_of_changes(start, days))  # type: ignore[arg-type]
        receivers = Receivers(troubles=wrong, clock=watch.time, rng=rng)
        looked = Watch(receivers)
        watch.hourly(_show_progress(start))
        if has_channels:
            watch.hourly(looked.look)
        began = monotonic()
        with _network(receivers):
            report = await watch.run()
            found = Result(report=report, watch=watch, receivers=receivers, broken=list(broken_by_work(watch)))
            if has_channels:
                found.looked = looked
                rules = chosen.notify.core_rules(has_command=False)
                found.broken += list(broken(watch, receivers, looked, rules, _report_days(start, watch.time())))
            if watch.notices is not None:
                watch.notices.process.kill(watch.time())
                await asyncio.sleep(1)
        found.seconds = monotonic() - began
        return found

    try:
        return loop.run_until_complete(run())
    finally:
        loop.close()


def _show_progress(start: datetime) -> Callable[[NightWatch], None]:
    """Return a function that says on standard error when each ten days are over, and what `why` broke meanwhile."""
    told, shown, began = 0, 0, monotonic()

    def show(watch: NightWatch) -> None:
        nonlocal told, shown
        days = (watch.time() - start).days
        if days >= told + 10:
            sys.stderr.write(f"{days} days in {monotonic() - began:.0f} s\n")
            sys.stderr.writelines(f"  {text}\n" for text in watch.reasons.broken[shown:])
            told, shown = days, len(watch.reasons.broken)

    return show


@contextmanager
def _network(receivers: Receivers) -> Iterator[None]:
    async def handle(_: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        return await receivers.handle(request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", handle)
        yield


def _nights_of_changes(start: datetime, days: float) -> list[datetime]:
    """Return the evenings before clocks change."""
    evenings = [start + timedelta(days=day) for day in range(round(days))]
    return [
        datetime.combine(one.astimezone(BERLIN).date(), datetime.min.time(), BERLIN) + timedelta(hours=22)
        for one in evenings
        if one.astimezone(BERLIN).utcoffset() != (one + timedelta(days=1)).astimezone(BERLIN).utcoffset()
    ]


def _report_days(start: datetime, end: datetime) -> list[date]:
    first, last = ((one - timedelta(hours=2, minutes=31)).astimezone(BERLIN).date() for one in (start, end))
    first += timedelta(days=1)
    return [first + timedelta(days=day) for day in range((last - first).days + 1)]


def both(root: Path, nights: Nights) -> Result:
    """Simulate some nights with channels, then without any, and compare when what work was dispatched."""
    told = simulate(root, nights)
    quiet = simulate(root, replace(nights, has_channels=False))
    if told.watch.dispatched != quiet.watch.dispatched:
        pairs = zip(told.watch.dispatched, quiet.watch.dispatched, strict=False)
        first = next((pair for pair in pairs if pair[0] != pair[1]), "one of them did more")
        told.broken.append(f"work is dispatched at other times where nobody is told: {first}")
    return told


def lines(found: Result) -> Iterator[str]:
    """Yield the result in words."""
    watch, receivers, report = found.watch, found.receivers, found.report
    statuses = Counter((one.channel, one.status.value) for entry in watch.entries.values() for one in entry.deliveries)
    kinds = Counter(entry.kind for entry in watch.entries.values())
    again = Counter((one.channel, one.key) for one in receivers.taken)
    yield f"{report.days:g} days in {found.seconds:.0f} s, {report.crashes} crashes, tasks {dict(report.tasks)}"
    yield f"scheduled {dict(report.scheduled)}"
    yield f"{len(watch.entries)} notices stored, {sum(watch.told.values())} of tasks: {dict(kinds)}"
    yield f"{len(receivers.taken)} taken by receivers, {sum(count - 1 for count in again.values())} again; tries:"
    yield from (f"  {channel} {answer}: {count}" for (channel, answer), count in sorted(receivers.tries.items()))
    counts = figures(watch, receivers)
    yield "notices, counted on each channel: " + ", ".join(f"{count} {what}" for what, count in counts.items())
    if found.looked is not None:
        yield f"at most {found.looked.most_waiting} waited and {found.looked.most_kept} were kept at once"
    yield "became:"
    yield from (f"  {channel} {status}: {count}" for (channel, status), count in sorted(statuses.items()))
    yield f"why asked {watch.reasons.asked} times of tasks that stood still:"
    yield from (f"  {how}: {count}" for how, count in sorted(watch.reasons.kept.items()))
    yield f"{watch.stops.checked} stops compared with the morning reports"
    yield f"{len(watch.dispatched)} dispatched commands"
    yield f"laws broken: {len(found.broken)}"
    yield from (f"  {text}" for text in found.broken[:30])


def main() -> int:
    """Simulate, print and return 1 if a law was broken."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--days", type=float, default=365.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC), default=START)
    parser.add_argument("--once", action="store_true", help="do not compare with the same nights without channels")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    root = Path(tempfile.mkdtemp(prefix="year-", dir=MEMORY if MEMORY.is_dir() else None))
    run = simulate if given.once else both
    found = run(root, Nights(start=given.start, days=given.days, seed=given.seed))
    sys.stdout.write("\n".join(lines(found)) + "\n")
    shutil.rmtree(root)
    return int(bool(found.broken))


if __name__ == "__main__":
    sys.exit(main())
