"""Addresses of HTTP servers, as people write them into settings and files."""

from ipaddress import ip_address
from urllib.parse import urlsplit

LONGEST = 2000
_USUAL_PORTS = {"http": 80, "https": 443}


def host_of(url: str) -> str:
    """Return host and port of an address, the port only if it is not the usual one.

    Raises ValueError for what is no `http://` or `https://` address, and for one that holds a user.
    """
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        host, port = None, None
    if len(url) > LONGEST or not url.isascii() or not url.isprintable() or " " in url or not host:
        raise ValueError(f"{url!r:.200} is not an address; write https://host/path")
    if parts.scheme not in _USUAL_PORTS or "@" in parts.netloc:
        raise ValueError(f"{parts.scheme}://{host} cannot be called; write https://host/path, without a user")
    name = f"[{host}]" if ":" in host else host
    return name if port in (None, _USUAL_PORTS[parts.scheme]) else f"{name}:{port}"


def is_in_the_clear(url: str) -> bool:
    """Return whether others on the network can read what is sent to an address."""
    parts = urlsplit(url)
    return parts.scheme == "http" and not is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_private_network(url: str) -> bool:
    """Return whether the host of an address is this machine, or is written as an address of a private network."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_private
    except ValueError:
        return is_loopback(host)


def parse_listen(text: str) -> tuple[str, int]:
    """Return host and port of `127.0.0.1:8700` or `[::1]:8700`; port 0 is any free one. Raises ValueError."""
    host, _, port = text.rpartition(":")
    name = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        address = ip_address(name)
    except ValueError:
        address = None
    if address is None or (address.version == 6) is (name == host) or not (port.isascii() and port.isdecimal()):
        raise ValueError(f"{text!r:.80} is not an address; write 127.0.0.1:8700 or [::1]:8700")
    if not address.is_loopback:
        raise ValueError(
            f"{name} can be reached from other machines, and what is sent there from a browser can be read on the way; "
            "listen on 127.0.0.1, put a reverse proxy with TLS before it, and name its host in `allowed_hosts`"
        )
    if int(port) > 65535:
        raise ValueError(f"there is no port {port:.20}; choose one below 65536")
    return str(address), int(port)
