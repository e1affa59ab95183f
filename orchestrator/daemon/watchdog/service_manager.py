"""What the daemon tells the service manager, as sd_notify(3) does, and how often it wants to hear that all is well."""

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

log = structlog.get_logger()

READY, RELOADING, STOPPING, STATUS, WATCHDOG = "READY=1", "RELOADING=1", "STOPPING=1", "STATUS=", "WATCHDOG=1"
"""States for the service manager."""
WAIT_SECONDS = 1.0
"""How long a service manager that reads nothing is waited for."""


@dataclass(frozen=True, slots=True)
class ServiceManager:
    """The service manager behind a socket, if there is one.

    It restarts the daemon when it hears no `WATCHDOG` for `watchdog_seconds`; None if it does not watch.
    """

    address: str = ""
    watchdog_seconds: float | None = None

    def notify(self, *states: str) -> None:
        """Send states in one message. A manager that cannot be reached is only logged: what follows is its decision."""
        if not self.address:
            return
        name = "\0" + self.address[1:] if self.address.startswith("@") else self.address  # @ marks an abstract socket
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(WAIT_SECONDS)
                sender.connect(name)
                sender.sendall("\n".join(states).encode("utf-8", "replace"))
        except OSError as error:
            log.warning("service_manager_not_told", state=states[0], error=str(error))

    def begin_reload(self) -> None:
        """Say that a reload begins; `READY` ends it."""
        self.notify(RELOADING, f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")


def service_manager_of(variables: Mapping[str, str]) -> ServiceManager:
    """Return the service manager that these variables of a process name, read as sd_watchdog_enabled(3) does.

    A watchdog that is meant for another process, or whose time is no positive number, is none.
    """
    address = variables.get("NOTIFY_SOCKET", "")
    if variables.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return ServiceManager(address)
    given = variables.get("WATCHDOG_USEC", "")
    microseconds = int(given) if given.isascii() and given.isdigit() else 0
    if given and not microseconds:
        log.warning("watchdog_not_used", reason=f"WATCHDOG_USEC is {given[:50]!r}, which is no positive number")
    return ServiceManager(address, microseconds / 1_000_000 or None)
