"""What the service manager is told, in systemd's own way: a datagram on the socket that it named (sd_notify(3))."""

import socket

import structlog

log = structlog.get_logger()

READY, STOPPING, STATUS = "READY=1", "STOPPING=1", "STATUS="


def notify_systemd(address: str | None, state: str) -> None:
    """Say how the daemon is; nobody is told where there is no address, the content of `NOTIFY_SOCKET`.

    A service manager that cannot be reached is only logged: what it does about it is its own decision.
    """
    if not address:
        return
    name = "\0" + address[1:] if address.startswith("@") else address  # @ stands for a name without a file
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(name)
            sender.sendall(state.encode())
    except OSError as error:
        log.warning("service_manager_not_told", state=state, error=str(error))
