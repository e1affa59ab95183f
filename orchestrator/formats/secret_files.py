"""Secrets in files: one for each, named as the environment variable that it stands in for, as in systemd's credentials.

An environment is passed on to every program, and shows in a unit file; a file is read by whoever needs it.
"""

import os
import re
import shlex
import stat
from pathlib import Path

from orchestrator.formats.files import open_regular

LONGEST = 64 * 1024
"""Bytes of a secret; a longer file is no secret of ours."""
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


def read_secrets(folder: Path, *, by_systemd: bool = False) -> tuple[dict[str, str], list[str]]:
    """Return the secrets in a folder by name, without the line end, and why others are not used.

    Links and what this user cannot read are left out. A file that other users may read is not used; systemd lets the
    service's user read its credentials by an access list, which shows as the rights of the group.
    """
    found: dict[str, str] = {}
    problems: list[str] = []
    try:
        paths = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    except OSError:
        return {}, []
    for path in paths:
        try:
            descriptor = open_regular(path)
        except OSError:
            continue
        try:
            mode = os.fstat(descriptor).st_mode
            content = os.read(descriptor, LONGEST + 1)
        finally:
            os.close(descriptor)
        wrong = _wrong_with(path, mode & (stat.S_IRWXO if by_systemd else stat.S_IRWXG | stat.S_IRWXO), content)
        if wrong:
            problems.append(wrong)
        else:
            found[path.name] = content.decode().removesuffix("\n").removesuffix("\r")
    return found, problems


def _wrong_with(path: Path, others: int, content: bytes) -> str:
    if others:
        return f"{path} can be read by others and is therefore not used: chmod 600 {shlex.quote(str(path))}"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if len(content) > LONGEST or "\0" in text or not text.strip():
        return f"{path} holds no secret: write one line of text into it"
    return ""
