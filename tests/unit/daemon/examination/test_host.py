"""What the machine may do to a night: fall asleep, run without its unit, run out of disk."""

import json
from pathlib import Path

import pytest
from pydantic import ByteSize

from orchestrator.daemon.examination.host import check_sleep
from orchestrator.daemon.examination.night_disk import check_space_for_night
from orchestrator.daemon.examination.service_unit import UNIT, Place, check_unit
from orchestrator.daemon.inspection.doctor_checks import Level
from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.settings.settings import Settings

MIB = 1024**2


@pytest.mark.parametrize(
    ("battery", "action", "masked", "said"),
    [
        (False, "", False, None),
        (False, "ignore", False, None),
        (True, "", False, "it has a battery, as laptops do"),
        (False, "suspend", False, "logind is set to IdleAction=suspend"),
        (True, "suspend", True, None),
    ],
)
def test_a_machine_that_may_fall_asleep_is_told(
    tmp_path: Path, battery: bool, action: str, masked: bool, said: str | None
) -> None:
    power, logind, units = tmp_path / "power", tmp_path / "logind.conf", tmp_path / "units"
    for folder in (power, units):
        folder.mkdir()
    if battery:
        (power / "BAT0").mkdir()
    logind.write_text(f"[Login]\n#IdleAction=hibernate\nIdleAction={action}\n" if action else "[Login]\n")
    if masked:
        (units / "sleep.target").symlink_to("/dev/null")
    found = list(check_sleep(power, (logind, tmp_path / "missing"), (units,)))
    assert [said in one.text for one in found if said] == ([True] if said else [])
    assert len(found) == bool(said)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "default.target.wants").mkdir()
    return Place(tmp_path, "sudo systemctl", is_users=False)


def test_an_installed_unit_is_compared_with_that_of_this_version(place: Place) -> None:
    assert list(check_unit({}, (place,))) == []
    unit = place.folder / UNIT
    text = (bundled(Kind.SYSTEMD) / UNIT).read_text()
    unit.write_text(text.replace("ExecStart=/usr/bin/env orchestrator", "ExecStart=/opt/orchestrator/bin/orchestrator"))
    (found,) = check_unit({}, (place,))
    assert found.text.endswith("is not enabled: after a reboot nothing starts the daemon")
    (place.folder / "default.target.wants" / UNIT).symlink_to(unit)
    (place.folder / f"{UNIT}.d").mkdir()
    (place.folder / f"{UNIT}.d/user.conf").write_text("[Service]\nUser=ada\n")
    (found,) = check_unit({}, (place,))
    assert (found.level, found.text) == (Level.OK, f"{unit} is enabled and of this version, with user.conf")
    unit.write_text(text.replace("KillMode=process", "KillMode=control-group"))
    (found,) = check_unit({}, (place,))
    assert (found.level, "it differs in KillMode" in found.text) == (Level.WARN, True)


def test_the_night_s_disk_is_estimated_from_what_earlier_tasks_took(tmp_path: Path) -> None:
    def tell(floor: int) -> list[tuple[Level, str]]:
        settings = Settings(data_dir=tmp_path, socket=tmp_path / "socket", free_space_floor=ByteSize(floor))
        return [(one.level, one.text) for one in check_space_for_night(settings)]

    assert tell(64 * MIB) == []
    for name, status in (("A-1", "completed"), ("A-2", "failed"), ("A-3", "pending"), ("A-4", "in_progress")):
        folder = tmp_path / "tasks" / name
        folder.mkdir(parents=True)
        (folder / "state.json").write_text(json.dumps({"status": status}))
        (folder / "stdout.jsonl").write_bytes(b"x" * 2 * MIB)
    ((level, text),) = tell(64 * MIB)
    assert level is Level.OK
    assert text.startswith("2 tasks to do may take 4.0 MiB, as the last 2 took 2.0 MiB each")
    ((level, _),) = tell(2**60)
    assert level is Level.WARN
