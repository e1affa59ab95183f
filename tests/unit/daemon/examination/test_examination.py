"""All checks at the same time, of which some hang or fail."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.daemon.examination.examination import CHECKS, Check, Examiner
from orchestrator.daemon.inspection.doctor_checks import DoctorFinding, Environment, Level
from orchestrator.settings.settings import Settings

FINE = DoctorFinding(name="fine", level=Level.OK, text="it is")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path, socket=tmp_path / "socket")


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Something that a check waits for until the test has ended."""
    opened = threading.Event()
    yield opened
    opened.set()


def test_a_check_that_hangs_is_reported_and_keeps_no_other_from_being_told(
    settings: Settings, gate: threading.Event
) -> None:
    starts = []

    def hang(_: Settings, __: Environment) -> list[DoctorFinding]:
        starts.append(1)
        gate.wait()
        return []

    examiner = Examiner([Check("hangs", hang), Check("fine", lambda *_: [FINE])], patience=0.2)
    hanging, fine = examiner.examine(settings, {})
    assert (hanging.name, hanging.level, bool(hanging.mend)) == ("hangs", Level.WARN, True)
    assert "gave no answer within 0.2 s" in hanging.text
    assert fine == FINE
    assert [one.name for one in examiner.examine(settings, {})] == ["hangs", "fine"]
    assert starts == [1], "a check that still hangs is not started once more"


def test_a_check_that_fails_is_reported(settings: Settings) -> None:
    def fail(_: Settings, __: Environment) -> list[DoctorFinding]:
        raise OSError("no such disk")

    (found,) = Examiner([Check("fails", fail)]).examine(settings, {})
    assert (found.level, "no such disk" in found.text) == (Level.WARN, True)


def test_checks_run_at_the_same_time_and_are_told_in_their_order(settings: Settings) -> None:
    barrier = threading.Barrier(3)

    def meet(name: str) -> Check:
        def find(_: Settings, __: Environment) -> list[DoctorFinding]:
            barrier.wait(timeout=60)
            return [DoctorFinding(name=name, level=Level.OK, text="")]

        return Check(name, find)

    checks = [meet(name) for name in ("first", "second", "third")]
    assert [one.name for one in Examiner(checks, patience=60).examine(settings, {})] == ["first", "second", "third"]


def test_every_check_has_a_name_of_its_own() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
