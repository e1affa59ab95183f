"""Explain to a person why a run ended."""

import os
from pathlib import Path

from orchestrator.processes.files import open_plain
from orchestrator.processes.spec import Exit, StoppedBy

LAST_WORDS = 2000  # bytes that are searched


def reason_of(end: Exit, words: str) -> str:
    """Return why an agent ended."""
    if end.spawn_error:
        return f"it could not be started: {end.spawn_error}; fix [agent] in orchestrator.toml (`orchestrator doctor`)"
    if end.lost:
        return "it was killed together with its holder"
    if end.stopped_by is StoppedBy.SHUTDOWN:
        return "it was stopped together with its holder, as when the machine shuts down"
    how = f"ended by signal {end.signal}" if end.signal else f"ended with exit code {end.code}"
    wanted = "when it was stopped" if end.stopped_by is StoppedBy.REQUEST else "without a result"
    return f"the agent {how} {wanted}" + (f": {words}" if words else "")


def final_output(folder: Path) -> str:
    """Return the last line that a run wrote to stderr, at most 300 characters."""
    try:
        with os.fdopen(open_plain(str(folder / "stderr.log")), "rb") as file:
            file.seek(max(0, file.seek(0, 2) - LAST_WORDS))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")
