"""Whether systemd starts the daemon as this version wants it: the installed unit, its drop-ins, and lingering."""

import getpass
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from orchestrator.daemon.inspection.doctor_checks import DoctorFinding, Environment, Level
from orchestrator.formats.files import read_file
from orchestrator.pipelines.bundled import Kind, bundled

UNIT = "orchestrator.service"
LINGER = Path("/var/lib/systemd/linger")
ADAPTED = ("ExecStart", "User", "Group", "Environment", "LoadCredential", "StateDirectory", "RuntimeDirectory")
"""What an installation may say otherwise than the bundled unit."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one kind of unit is installed, and how its manager is called."""

    folder: Path
    systemctl: str
    is_users: bool


def places(variables: Environment) -> tuple[Place, ...]:
    """Return where the unit may be installed."""
    home = Path(variables.get("XDG_CONFIG_HOME") or Path(variables.get("HOME") or "/") / ".config")
    system = Place(Path("/etc/systemd/system"), "sudo systemctl", is_users=False)
    return system, Place(home / "systemd/user", "systemctl --user", is_users=True)


def check_unit(variables: Environment, where: tuple[Place, ...] | None = None) -> Iterator[DoctorFinding]:
    """Check each unit that is installed; without one nothing is said, as the daemon may be started otherwise."""
    for place in places(variables) if where is None else where:
        if (place.folder / UNIT).is_file():
            yield from _check(place)


def _check(place: Place) -> Iterator[DoctorFinding]:
    installed, bundled_unit = place.folder / UNIT, bundled(Kind.SYSTEMD) / UNIT
    fine = True
    if differing := sorted(_directives(installed) ^ _directives(bundled_unit)):
        fine = False
        keys = ", ".join(dict.fromkeys(line.partition("=")[0] for line in differing))
        text = f"{installed} is not the unit of this version; it differs in {keys:.200}"
        mend = f"orchestrator service upgrade --{'user' if place.is_users else 'system'}"
        yield DoctorFinding(name="unit", level=Level.WARN, text=text, mend=mend)
    if not any(link.is_symlink() for link in place.folder.glob(f"*.wants/{UNIT}")):
        fine = False
        text = f"{installed} is not enabled: after a reboot nothing starts the daemon"
        yield DoctorFinding(name="unit", level=Level.WARN, text=text, mend=f"{place.systemctl} enable {UNIT}")
    if place.is_users and not (LINGER / getpass.getuser()).exists():
        fine = False
        text = "this user's services end when the user logs out, the daemon among them"
        mend = "loginctl enable-linger"
        yield DoctorFinding(name="linger", level=Level.BAD, text=text, mend=mend)
    if fine:
        drop_ins = ", ".join(sorted(file.name for file in (place.folder / f"{UNIT}.d").glob("*.conf")))
        text = f"{installed} is enabled and of this version" + (f", with {drop_ins:.200}" if drop_ins else "")
        yield DoctorFinding(name="unit", level=Level.OK, text=text)


def _directives(unit: Path) -> set[str]:
    """Return the lines of a unit that every installation of this version has."""
    lines = (line.strip() for line in (read_file(unit) or b"").decode(errors="replace").splitlines())
    return {line for line in lines if line and line[0] not in "#;[" and not line.startswith(ADAPTED)}
