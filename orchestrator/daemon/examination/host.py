"""What the machine may do to a night: run out of memory or of file watches, or fall asleep."""

from collections.abc import Iterator
from pathlib import Path

import psutil

from orchestrator.daemon.inspection.doctor_checks import DoctorFinding, Level
from orchestrator.formats.units import size
from orchestrator.settings.settings import Settings

AGENT_BYTES = 600 * 1024**2
"""What an agent with its tools usually takes."""
FEWEST_WATCHES, FEWEST_INSTANCES = 8192, 128
INOTIFY = Path("/proc/sys/fs/inotify")
LOGIND = (Path("/etc/systemd/logind.conf"), Path("/etc/systemd/logind.conf.d"), Path("/run/systemd/logind.conf.d"))
UNITS = (Path("/etc/systemd/system"), Path("/run/systemd/system"))
POWER = Path("/sys/class/power_supply")
SLEEPS = frozenset({"suspend", "hibernate", "hybrid-sleep", "suspend-then-hibernate", "sleep"})


def check_memory(settings: Settings) -> DoctorFinding:
    """Check that there is memory for as many agents as may run."""
    available, floor = psutil.virtual_memory().available, int(settings.free_memory_floor)
    wanted = settings.max_agents * AGENT_BYTES
    text = f"{size(available)} available, agents are frozen below {size(floor)}"
    if available >= floor + wanted:
        return DoctorFinding(name="memory", level=Level.OK, text=text)
    text = f"{text}; {settings.max_agents} of them may take {size(wanted)}"
    mend = "close what else runs on this machine, or set a smaller max_agents"
    return DoctorFinding(name="memory", level=Level.WARN, text=text, mend=mend)


def check_watches() -> Iterator[DoctorFinding]:
    """Check that the daemon, and the tools of its agents, may watch enough files."""
    for name, fewest in (("max_user_watches", FEWEST_WATCHES), ("max_user_instances", FEWEST_INSTANCES)):
        try:
            allowed = int((INOTIFY / name).read_text())
        except (OSError, ValueError):
            continue
        if allowed < fewest:
            text = f"fs.inotify.{name} is {allowed}: watching files may fail, for the daemon and for agents' tools"
            mend = f"echo fs.inotify.{name}={fewest} | sudo tee /etc/sysctl.d/60-inotify.conf && sudo sysctl --system"
            yield DoctorFinding(name="file watches", level=Level.WARN, text=text, mend=mend)


def check_sleep(
    power: Path = POWER, logind: tuple[Path, ...] = LOGIND, units: tuple[Path, ...] = UNITS
) -> Iterator[DoctorFinding]:
    """Check that the machine does not fall asleep while nobody sits at it."""
    if any(_is_masked(folder / "sleep.target") or _is_masked(folder / "suspend.target") for folder in units):
        return
    action = _idle_action(logind)
    reasons = [f"logind is set to IdleAction={action}"] if action in SLEEPS else []
    reasons += ["it has a battery, as laptops do"] if any(power.glob("BAT*")) else []
    if reasons:
        text = f"this machine may fall asleep in the night: {', and '.join(reasons)}"
        mend = "sudo systemctl mask sleep.target suspend.target hibernate.target hybrid-sleep.target"
        yield DoctorFinding(name="sleep", level=Level.WARN, text=text, mend=mend)


def _is_masked(unit: Path) -> bool:
    return unit.is_symlink() and str(unit.readlink()) == "/dev/null"


def _idle_action(places: tuple[Path, ...]) -> str:
    """Return what logind does with an idle machine; the last file that says it counts."""
    files = [file for place in places for file in (sorted(place.glob("*.conf")) if place.is_dir() else [place])]
    found = ""
    for file in files:
        try:
            lines = file.read_text(errors="replace").splitlines()
        except OSError:
            continue
        values = [line.partition("=")[2].strip() for line in lines if line.strip().startswith("IdleAction=")]
        found = values[-1] if values else found
    return found
