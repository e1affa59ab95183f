"""What people are told of a disk that runs low: each step once, also when the daemon is killed in between."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from orchestrator.core.events.notice import MachineNoticeKind, check_key
from orchestrator.core.notices.sentence import Sentence
from orchestrator.core.schedule.disk_level import DiskLevel, disk_level
from orchestrator.daemon.housekeeping.disk_watch import PATIENCE, DiskWatch

FLOOR = 100
BEGIN = datetime(2026, 11, 23, 22, 0, tzinfo=UTC)


@dataclass
class Machine:
    """A disk and a clock that show what a test says, and what people were told, by the notices' keys."""

    folder: Path
    free: int = 1000
    now: datetime = BEGIN
    told: dict[str, str] = field(default_factory=dict)
    is_broken: Callable[[], bool] = lambda: False

    def watch(self) -> DiskWatch:
        return DiskWatch(
            data_dir=self.folder,
            free=lambda: self.free,
            floor=lambda: FLOOR,
            tell=self.tell,
            clock=lambda: self.now,
        )

    async def tell(self, key: str, kind: MachineNoticeKind, text: Sentence, *, command: str = "") -> bool:
        check_key(key)
        assert command == "orchestrator disk"
        if self.is_broken():
            raise OSError("no space left on device")
        self.told.setdefault(key, f"{kind.value}: {text}")
        return True

    @property
    def kinds(self) -> list[str]:
        return [text.partition(":")[0] for text in self.told.values()]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("free", "before", "level"),
    [
        (150, DiskLevel.ENOUGH, DiskLevel.ENOUGH),
        (149, DiskLevel.ENOUGH, DiskLevel.LOW),
        (164, DiskLevel.LOW, DiskLevel.LOW),
        (166, DiskLevel.LOW, DiskLevel.ENOUGH),
        (99, DiskLevel.LOW, DiskLevel.FULL),
        (109, DiskLevel.FULL, DiskLevel.FULL),
        (111, DiskLevel.FULL, DiskLevel.LOW),
        (166, DiskLevel.FULL, DiskLevel.ENOUGH),
    ],
)
def test_a_disk_gets_better_only_by_a_tenth_more(free: int, before: DiskLevel, level: DiskLevel) -> None:
    assert disk_level(free, FLOOR, before) is level
    assert disk_level(free, 0, before) is DiskLevel.ENOUGH


async def test_each_step_of_an_episode_is_told_once_and_then_its_end(machine: Machine) -> None:
    watch = machine.watch()
    for free, minutes in ((1000, 0), (140, 1), (140, 12), (140, 13), (90, 14), (105, 15), (140, 16), (90, 17)):
        machine.free, machine.now = free, BEGIN + timedelta(minutes=minutes)
        await watch.look()
    first, second = machine.told.values()
    assert first == (
        "disk_low: The disk of the data folder runs low: 140 B are free. "
        "Below 100 B, the setting free_space_floor, no task goes on."
    )
    assert "No task goes on: the disk of the data folder has only 90 B free" in second
    machine.free = 500
    await watch.look()
    await watch.look()
    assert machine.kinds == ["disk_low", "disk_low", "disk_recovered"]
    machine.free, machine.now = 90, BEGIN + timedelta(hours=1)
    await watch.look()
    assert machine.kinds[3:] == ["disk_low"]


async def test_a_disk_that_is_low_for_a_moment_or_emptied_in_time_is_not_told(machine: Machine) -> None:
    watch = machine.watch()
    for free in (140, 500, 140):
        machine.free = free
        await watch.look()
        machine.now += PATIENCE - timedelta(seconds=1)
    machine.now -= timedelta(days=3)  # a clock that was put back
    for _ in range(2):
        await watch.look()
        machine.now += PATIENCE - timedelta(seconds=1)
    machine.free = 500
    await watch.look()
    assert machine.told == {}


async def test_a_killed_daemon_tells_nothing_twice_and_an_end_that_it_missed(machine: Machine) -> None:
    machine.free = 90
    await machine.watch().look()
    await machine.watch().look()
    assert machine.kinds == ["disk_low"]
    machine.free = 1000
    await machine.watch().look()
    await machine.watch().look()
    assert machine.kinds == ["disk_low", "disk_recovered"]


async def test_what_could_not_be_told_is_told_at_the_next_look_and_under_the_same_key(machine: Machine) -> None:
    machine.free = 90
    machine.is_broken = lambda: True
    with pytest.raises(OSError, match="no space left"):
        await machine.watch().look()
    machine.is_broken, machine.now = lambda: False, BEGIN + timedelta(minutes=5)
    await machine.watch().look()
    assert list(machine.told) == ["disk_low:2026-11-23T22:00:00.000Z:full"]
