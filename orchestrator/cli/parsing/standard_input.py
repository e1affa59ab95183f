"""Whether text comes on standard input without being asked for: from a pipe or a file, not from a terminal."""

import os
import stat
import sys


def is_piped() -> bool:
    """Return whether standard input is a pipe or a file; /dev/null, which timers and services get, is none."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISREG(mode)
