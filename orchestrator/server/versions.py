"""Which version a client and a daemon are, and what to say when they differ."""

import re

VERSION = "Orchestrator-Version"
"""The header with the sender's version, in requests and in answers; strangers are not told."""


def difference(ours: str, daemons: str) -> str:
    """Return which of a command and its daemon is older, and what to do; empty if they are the same version.

    A daemon that does not say its version is older than the header.
    """
    if ours == daemons:
        return ""
    both = f"this command is orchestrator {ours}, the daemon {daemons or 'an earlier one'}"
    if _parts(daemons) < _parts(ours):
        return (
            f"{both}: the daemon is older; restart it to use what is installed: `orchestrator drain`, then"
            " `systemctl restart orchestrator`, or end and start `orchestrator serve`"
        )
    return f"{both}: the command is older; use the program that the daemon runs, or update this one"


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]{1,9}", version.partition("+")[0]))
