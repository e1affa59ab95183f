"""Quarantine texts that must not be published, where a person can read them but no agent can.

The folder is beside the tasks' folders, belongs to the daemon alone, and is neither mounted for agents nor named to
them. The error that a sender gets names the file, the rules and the lines. A person reads the text, corrects its
source, and deletes both files. No API or command shows the content.
"""

import hashlib
from pathlib import Path

import orjson

from orchestrator.formats.files import make_private, write_atomically
from orchestrator.redaction.rules import Scan


def quarantine(folder: Path, text: str, scan: Scan) -> Path:
    """Keep a blocked text as `<digest>.txt`, with the reason in `<digest>.json`; the same text is kept once.

    Both files have mode 0600; the second is written last, so that if it is there, the first is complete. Blocks. Raises
    OSError.
    """
    content = text.encode("utf-8", "surrogatepass")
    path = make_private(folder) / f"{hashlib.sha256(content).hexdigest()[:16]}.txt"
    write_atomically(path, content)
    found = [{"rule": finding.rule, "line": finding.line} for finding in scan.findings]
    why = {"result": scan.result.value, "bytes": len(content), "findings": found}
    write_atomically(path.with_suffix(".json"), orjson.dumps(why, option=orjson.OPT_INDENT_2))
    return path
