"""Where a text is kept that must not be passed on: never lost, never in an agent's way.

The folder belongs to the daemon alone, beside the tasks' and not within one, and is never mounted or named to an agent.
Whoever was refused is told the file, the rules and the lines; a person looks, mends the source, and deletes both files.
What is kept there is a secret: it is shown by no view, and no task refers to it by more than its name.
"""

import hashlib
from pathlib import Path

import orjson

from orchestrator.formats.files import make_private, write_atomically
from orchestrator.redaction.rules import Scan


def quarantine(folder: Path, text: str, scan: Scan) -> Path:
    """Keep a blocked text as `<digest>.txt`, with `<digest>.json` to say why; the same text is kept once.

    Both files are 0600; the second is written last, so where it stands the first is whole. Blocks. Raises OSError.
    """
    content = text.encode("utf-8", "surrogatepass")
    path = make_private(folder) / f"{hashlib.sha256(content).hexdigest()[:16]}.txt"
    write_atomically(path, content)
    found = [{"rule": finding.rule, "line": finding.line} for finding in scan.findings]
    why = {"result": scan.result.value, "bytes": len(content), "findings": found}
    write_atomically(path.with_suffix(".json"), orjson.dumps(why, option=orjson.OPT_INDENT_2))
    return path
