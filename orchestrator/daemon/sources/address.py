"""Addresses of repositories that may be cloned: https, ssh, and git's `user@host:path`; nothing that runs a program."""

import hashlib
import re
from urllib.parse import urlsplit

from orchestrator.errors import OrchestratorError
from orchestrator.integrations.forges.remote import without_login

LONGEST = 1000
_LOOKS_LIKE_ONE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?:://|::)|[A-Za-z0-9_.-]+@[^/\\]+:")
_SCP = re.compile(r"(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})@(?P<host>[A-Za-z0-9][A-Za-z0-9.-]{0,252}):(?P<path>.+)")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.IGNORECASE)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_PATH = re.compile(r"[A-Za-z0-9_.~/+-]{1,500}")
_SCHEMES = frozenset({"https", "ssh"})


class AddressRefused(OrchestratorError):
    """A repository cannot be cloned from an address; the message says why, and what can."""


def is_address(text: str) -> bool:
    """Return whether a text means a repository elsewhere, not a folder of this machine."""
    return _LOOKS_LIKE_ONE.match(text) is not None


def parse_address(text: str) -> str:
    """Return the address of a repository as git takes it. Raises AddressRefused, whose message shows no password."""
    if len(text) > LONGEST or not text.isascii() or not text.isprintable() or text.startswith("-"):
        raise _refused(text, "it is too long, or has characters that no address has")
    if scp := _SCP.fullmatch(text):
        _check_path(text, scp["path"])
        return text
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise _refused(text, "it is no address") from None
    if parts.scheme.lower() not in _SCHEMES:
        raise _refused(text, f"repositories are cloned over {' and '.join(sorted(_SCHEMES))} alone")
    if parts.password is not None or (parts.username and parts.scheme.lower() == "https"):
        raise _refused(text, "it holds a login; put the token into the settings of [forge], or use `gh auth login`")
    if (
        parts.query
        or parts.fragment
        or not _HOST.fullmatch(host)
        or (parts.username and not _USER.fullmatch(parts.username))
    ):
        raise _refused(text, "it is no address of a repository")
    _check_path(text, parts.path)
    user = f"{parts.username}@" if parts.username else ""
    return f"{parts.scheme.lower()}://{user}{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def folder_name(address: str) -> str:
    """Return the name of the folder of a copy: readable, and different for every address."""
    last = address.removesuffix(".git").replace(":", "/").rstrip("/").rpartition("/")[2]
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", last).strip("-.")[:40] or "repository"
    return f"{readable}-{hashlib.sha256(address.encode()).hexdigest()[:12]}"


def _check_path(text: str, path: str) -> None:
    names = path.strip("/").split("/")
    if not _PATH.fullmatch(path) or any(name in {"", ".", ".."} or name.startswith("-") for name in names):
        raise _refused(text, "its path is none of a repository")


def _refused(text: str, why: str) -> AddressRefused:
    return AddressRefused(
        f"{without_login(text).partition('?')[0][:200]} cannot be cloned: {why}; "
        "write https://HOST/OWNER/NAME.git or git@HOST:OWNER/NAME.git"
    )
