"""Which Chromium the tests drive: the first on PATH that starts, or else Playwright's own.

python -m tests.browser.chromium      # prints it; the exit code is 1 if there is none
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = (
    "no Chromium starts here: install one with `playwright install chromium`, or as root on Debian with "
    "`apt-get install chromium fonts-noto-cjk`"
)
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")
"""Chromium's own sandbox does not start for root, nor in most containers; the pages are those of the tests."""
PATIENCE = 30.0


@cache
def find_chromium() -> str | None:
    """Return the path of a Chromium that starts."""
    return next(filter(_starts, _candidates()), None)


def _candidates() -> Iterator[str]:
    yield from filter(None, map(shutil.which, NAMES))
    folder = Path("~/.cache/ms-playwright").expanduser()
    for pattern in ("chromium-*/chrome-linux*/chrome", "chromium_headless_shell-*/chrome-linux*/headless_shell"):
        yield from map(str, sorted(folder.glob(pattern), reverse=True))


def _starts(program: str) -> bool:
    """Whether a program begins at all: libraries may be missing, or a package may be only a hint to install another."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and b"chrom" in done.stdout.lower()


if __name__ == "__main__":
    found = find_chromium()
    print(found or MISSING)  # noqa: T201
    sys.exit(found is None)
