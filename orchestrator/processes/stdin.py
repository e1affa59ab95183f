"""The daemon's end of a run's input: whole lines, each once, on disk before it is sent."""

import os
from pathlib import Path

import orjson

from orchestrator.processes import files


def append_line(path: Path, line: bytes) -> bool:
    """Append one line durably, unless the same one is there already; return False after the end of input.

    Half a line that a killed daemon left behind is cut off: no holder has delivered it.
    """
    line = line.rstrip(b"\n") + b"\n"
    if b"\n" in line[:-1]:
        raise ValueError("one line is sent at a time")
    path.touch(mode=0o600)
    with path.open("r+b") as file:
        *earlier, half = file.read().split(b"\n")
        identity = _identity(line)
        if line[:-1] in earlier[-1:] == [files.END_OF_INPUT[:-1]]:
            return True
        if identity is not None and any(_identity(other) == identity for other in earlier):
            return True
        if earlier[-1:] == [files.END_OF_INPUT[:-1]]:
            return False
        file.seek(-len(half), os.SEEK_END)
        file.truncate()
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return True


def _identity(line: bytes) -> tuple[str, str] | None:
    """Return what makes two lines the same: a turn's uuid, or the id of a request or an answer."""
    try:
        message: object = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(message, dict):
        return None
    kind, response = str(message.get("type")), message.get("response")
    name = message.get("uuid") or message.get("request_id")
    if name is None and isinstance(response, dict):
        name = response.get("request_id")
    return (kind, name) if isinstance(name, str) else None
