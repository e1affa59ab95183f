"""The daemon's own examination: when it is made, what people are told, and what a killed daemon makes up for."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from orchestrator.daemon.examination.dusk import DuskExamination
from orchestrator.daemon.examination.examination import Check, Examiner
from orchestrator.daemon.examination.records import read_record
from orchestrator.daemon.inspection.doctor import DoctorService
from orchestrator.daemon.inspection.doctor_checks import DoctorFinding, Level
from orchestrator.settings.settings import Settings

FINE = DoctorFinding(name="git", level=Level.OK, text="git version 2.39")
WARNING = DoctorFinding(name="money", level=Level.WARN, text="there is no cap", mend="set usd = 50.0")
BAD = DoctorFinding(name="login", level=Level.BAD, text="claude is not logged in", mend="claude auth login")
START = datetime.now().astimezone().replace(hour=18, minute=0, second=0, microsecond=0).astimezone(UTC)


@dataclass
class Evenings:
    """A daemon's examination on a clock that the test moves, over a real folder."""

    folder: Path
    now: datetime = START
    findings: Sequence[DoctorFinding] = (FINE,)
    told: dict[str, str] = field(default_factory=dict)
    examined: int = 0
    opens: datetime | None = None
    is_deaf: bool = False

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Begin as a daemon does that has just been started."""
        settings = Settings(data_dir=self.folder, socket=self.folder / "socket")
        checks = [Check("all", lambda *_: self._find())]
        self.doctor = DoctorService(
            settings=lambda: settings, clock=lambda: self.now, troubles=tuple, examiner=Examiner(checks)
        )
        self.dusk = DuskExamination(
            doctor=self.doctor,
            settings=lambda: settings,
            opening=lambda _: self.opens,
            tell=self._tell,
            folder=self.folder,
            clock=lambda: self.now,
        )

    def _find(self) -> Sequence[DoctorFinding]:
        self.examined += 1
        return self.findings

    async def _tell(self, key: str, text: str) -> None:
        if self.is_deaf:
            raise OSError("nothing can be stored")
        assert key not in self.told
        self.told[key] = text

    async def look_after(self, **later: float) -> None:
        self.now += timedelta(**later)
        await self.dusk.look()


async def test_it_examines_once_each_evening_and_tells_what_would_stop_the_night(tmp_path: Path) -> None:
    evenings = Evenings(tmp_path, findings=(FINE, WARNING, BAD))
    await evenings.look_after(hours=2, minutes=59)
    assert evenings.examined == 0
    for _ in range(3):
        await evenings.look_after(minutes=1)
    assert evenings.examined == 1
    ((_, text),) = evenings.told.items()
    assert text.splitlines() == [
        "orchestrator's doctor found 2 problems; 1 of 2 would stop the night.",
        "login: claude is not logged in",
        "  claude auth login",
        "money: there is no cap",
        "  set usd = 50.0",
    ]
    await evenings.look_after(hours=24)
    assert (evenings.examined, len(evenings.told)) == (2, 2)


async def test_what_is_only_worth_knowing_is_told_once(tmp_path: Path) -> None:
    evenings = Evenings(tmp_path, findings=(FINE, WARNING))
    await evenings.look_after()
    await evenings.look_after(hours=3)
    await evenings.look_after(hours=24)
    evenings.start()
    await evenings.look_after(hours=24)
    assert (evenings.examined, len(evenings.told)) == (3, 1)
    evenings.findings = (FINE,)
    await evenings.look_after(hours=24)
    evenings.findings = (FINE, WARNING)
    await evenings.look_after(hours=24)
    assert len(evenings.told) == 2


async def test_it_examines_before_a_run_window_opens(tmp_path: Path) -> None:
    evenings = Evenings(tmp_path, opens=START + timedelta(hours=1))
    await evenings.look_after()
    await evenings.look_after(minutes=29)
    assert evenings.examined == 0
    await evenings.look_after(minutes=1)
    assert evenings.examined == 1


async def test_a_daemon_that_was_away_in_the_evening_examines_when_it_is_back(tmp_path: Path) -> None:
    evenings = Evenings(tmp_path, findings=(BAD,))
    await evenings.look_after()
    await evenings.look_after(hours=3)
    evenings.start()
    await evenings.look_after(hours=26)
    assert (evenings.examined, len(evenings.told)) == (2, 2)
    evenings.start()
    await evenings.look_after(hours=30)
    assert evenings.examined == 2, "nine hours later that night is over"


async def test_what_a_killed_daemon_had_found_is_told_by_the_next_one_and_shown(tmp_path: Path) -> None:
    evenings = Evenings(tmp_path, findings=(BAD,))
    await evenings.look_after()
    evenings.is_deaf = True
    with suppress(OSError):
        await evenings.look_after(hours=3)
    record = read_record(tmp_path)
    assert record is not None
    assert not record.is_told
    evenings.is_deaf = False
    evenings.start()
    await evenings.look_after(seconds=1)
    assert (evenings.examined, len(evenings.told)) == (1, 1)
    newest = evenings.doctor.newest
    assert newest is not None
    assert newest.findings == (BAD,)


async def test_a_record_that_is_damaged_is_none(tmp_path: Path) -> None:
    (tmp_path / "doctor.json").write_text('{"format": 1, "due": "tomorrow"')
    evenings = Evenings(tmp_path)
    await evenings.look_after()
    await evenings.look_after(hours=3)
    assert evenings.examined == 1
