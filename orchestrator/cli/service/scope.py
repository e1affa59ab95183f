"""Whose service it is, the machine's or a user's, and where its files are."""

import os
import pwd
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.settings.environment import environment

UNIT, ACCOUNT = "orchestrator.service", "orchestrator"
BOOTED = Path("/run/systemd/system")
"""Where systemd is the service manager of the machine, this folder is: sd_booted(3)."""


class ServiceRefused(OrchestratorError):
    """The service cannot be managed here."""


class Scope(StrEnum):
    """Whose service it is."""

    SYSTEM = "system"
    USER = "user"

    @property
    def words(self) -> tuple[str, ...]:
        """Return the options of systemctl that mean it."""
        return ("--user",) if self is Scope.USER else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where everything of a service is.

    `program` is what the service starts, `prefix` the installation that it belongs to. `account` is the user that the
    service runs as, `home` that user's home folder.
    """

    scope: Scope
    units: Path
    config: Path
    data_dir: Path
    socket: Path
    account: str
    home: Path
    prefix: Path

    @property
    def program(self) -> Path:
        """Return the program that the service starts."""
        return self.prefix / "bin/orchestrator"

    @property
    def unit(self) -> Path:
        """Return the file of the unit."""
        return self.units / UNIT

    @property
    def drop_ins(self) -> Path:
        """Return the folder of the unit's drop-ins."""
        return self.units / f"{UNIT}.d"

    @property
    def settings(self) -> Path:
        """Return the settings file that says where the data and the socket are."""
        return self.config / "orchestrator.toml"

    @property
    def record(self) -> Path:
        """Return the file that says what was written."""
        return self.config / "service.json"


def places_of(scope: Scope) -> Places:
    """Return the places of the machine's service, or of this user's."""
    prefix = Path(sys.prefix)
    if scope is Scope.SYSTEM:
        return Places(
            scope=scope,
            units=Path("/etc/systemd/system"),
            config=Path("/etc/orchestrator"),
            data_dir=Path("/var/lib/orchestrator"),
            socket=Path("/run/orchestrator/orchestrator.sock"),
            account=ACCOUNT,
            home=Path("/home") / ACCOUNT,
            prefix=prefix,
        )
    user, variables = pwd.getpwuid(os.geteuid()), environment()
    home = Path(variables.get("HOME") or user.pw_dir)
    config = Path(variables.get("XDG_CONFIG_HOME") or home / ".config")
    state = Path(variables.get("XDG_STATE_HOME") or home / ".local/state")
    runtime = Path(variables.get("XDG_RUNTIME_DIR") or f"/run/user/{user.pw_uid}")
    return Places(
        scope=scope,
        units=config / "systemd/user",
        config=config / "orchestrator",
        data_dir=state / "orchestrator",
        socket=runtime / "orchestrator/orchestrator.sock",
        account=user.pw_name,
        home=home,
        prefix=prefix,
    )


def chosen_scope(*, user: bool, system: bool) -> Scope:
    """Return the scope that the options name; without one, that of the service that is installed, or of who asks.

    Raises ServiceRefused for both.
    """
    if user and system:
        raise ServiceRefused("give --user or --system, not both")
    if user or system:
        return Scope.USER if user else Scope.SYSTEM
    installed = [scope for scope in (Scope.USER, Scope.SYSTEM) if places_of(scope).unit.exists()]
    own = Scope.SYSTEM if os.geteuid() == 0 else Scope.USER
    return own if not installed or own in installed else installed[0]


def has_service_manager() -> bool:
    """Return whether systemd runs this machine."""
    return BOOTED.is_dir()


def require_service_manager(scope: Scope, *, to_change: bool) -> None:
    """Raise ServiceRefused where systemd does not run this machine, or where this user may not change the service."""
    if not has_service_manager():
        raise ServiceRefused(
            "systemd does not run this machine, so there are no services; start the daemon with `orchestrator serve`"
        )
    if to_change and scope is Scope.SYSTEM and os.geteuid() != 0:
        raise ServiceRefused("to change a service of the machine needs root: use sudo, or --user for one of your own")
    runtime = Path(environment().get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}")
    if scope is Scope.USER and not (runtime / "systemd").is_dir():
        raise ServiceRefused(
            "no service manager of this user runs: log in as this user, rather than by su or sudo, or let it run "
            "without a login: sudo loginctl enable-linger USER"
        )


def require_readable_program(places: Places) -> None:
    """Raise ServiceRefused if the program is not installed where the service can start it."""
    if not places.program.is_file():
        raise ServiceRefused(f"there is no {places.program}: install orchestrator into a virtual environment first")
    if places.scope is Scope.USER:
        return
    for start in (places.prefix, Path(sys.base_prefix)):
        closed = [folder for folder in (start, *start.parents) if not folder.stat().st_mode & 0o001]
        if closed or any(start.is_relative_to(hidden) for hidden in ("/home", "/root", "/run/user")):
            raise ServiceRefused(
                f"{start} is in a place that the account {places.account} cannot read; install orchestrator into "
                "/opt/orchestrator, as `orchestrator help service` says"
            )
