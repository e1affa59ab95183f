"""The daemon's end of a run's input: whole lines, each once, on the disk before it is sent."""

import os
from pathlib import Path

import orjson

from orchestrator.processes import files


def append_line(path: Path, line: bytes) -> bool:
    """Append one line and flush it to the disk, unless one with its `uuid` stands there; False after the end of input.

    Half a line that a killed daemon left behind is cut off: no holder has delivered it.
    """
    line = line.rstrip(b"\n") + b"\n"
    if b"\n" in line[:-1]:
        raise ValueError("one line is sent at a time")
    path.touch(mode=0o600)
    with path.open("r+b") as file:
        *earlier, half = file.read().split(b"\n")
        uuid = _uuid_of(line)
        if line[:-1] in earlier[-1:] == [files.END_OF_INPUT[:-1]]:
            return True
        if uuid is not None and any(_uuid_of(other) == uuid for other in earlier):
            return True
        if earlier[-1:] == [files.END_OF_INPUT[:-1]]:
            return False
        file.seek(-len(half), os.SEEK_END)
        file.truncate()
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return True


def _uuid_of(line: bytes) -> str | None:
    try:
        message: object = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    uuid = message.get("uuid") if isinstance(message, dict) else None
    return uuid if isinstance(uuid, str) else None
