"""work_WORK-NN.log: what happened in a work, one line per entry, so that a line is a fact and a grep is enough."""

from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from hashlib import sha256

from orchestrator.formats.markdown import cleaned

LONGEST_ENTRY = 500
"""Characters of an entry's text; a longer one is cut, and its hash says which text it was."""


class LogStage(StrEnum):
    """What an entry is about."""

    INIT = "INIT"
    REF = "REF"
    PLAN = "PLAN"
    IMPL = "IMPL"
    BUILD = "BUILD"
    COMMIT = "COMMIT"
    DISPATCH = "DISPATCH"
    VERIFY = "VERIFY"
    DONE = "DONE"
    FAILED = "FAILED"


def entry(at: datetime, agent: str, stage: LogStage, text: str, masked: Callable[[str], str]) -> str:
    """Return one line of the log, without its line end; `masked` returns a text without secrets.

    The text is masked before it is cut, so that no part of a secret is left at its end.
    """
    known = cleaned(masked(text)).strip()
    shown = known.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", " ")
    if len(shown) > LONGEST_ENTRY:
        digest = sha256(known.encode("utf-8", "replace")).hexdigest()[:12]
        shown = f"{shown[:LONGEST_ENTRY]}… ({len(known)} characters, sha256 {digest})"
    name = "".join(sign for sign in agent.upper() if sign.isalnum() or sign == "-")[:40] or "UNKNOWN"
    return f"[{at.strftime('%Y-%m-%dT%H:%M:%S')}]_{name}_{stage}_{shown}"
