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
