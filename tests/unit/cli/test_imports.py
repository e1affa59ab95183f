"""What the program imports before it knows which command is wanted."""

import subprocess
import sys

SLOW = ("orchestrator.core", "orchestrator.server.client", "orchestrator.settings", "httpx", "pydantic")
"""What takes most of the time of a command that asks the daemon, and what a list of commands does without."""

PROGRAM = f"""
import sys
from orchestrator.cli.app import run
run(["--help"])
print([name for name in {SLOW!r} if name in sys.modules], file=sys.stderr)
"""


def test_the_list_of_commands_is_shown_without_importing_what_commands_need() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    assert done.stderr.strip() == "[]"
