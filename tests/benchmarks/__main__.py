"""Run all benchmarks, or the named ones, and print one table: `python -m tests.benchmarks [NAME…]`.

Those that take hours run only if they are named. Each is a module here with `rows()`. A goal is compared with the last
number of the measured value, ignoring text in parentheses; a missed goal makes the exit code 1. The load average shows
what else the machine was doing.
"""

import importlib
import os
import re
import sys

from rich.console import Console
from rich.table import Table

NAMES = (
    "stream",
    "store",
    "holder",
    "reaction",
    "daemon",
    "freezing",
    "redact",
    "operations",
    "simulation",
    "crowd",
    "family",
    "pages",
    "backlog",
)
LONG = ("retention",)
_GOAL = re.compile(r"([≤≥])\s*([\d.]+)")
_ASIDE = re.compile(r"\([^)]*\)")
_FIGURE = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def reached(measured: str, goal: str) -> bool | None:
    """Whether a measured value meets its goal; None without a goal."""
    wanted = _GOAL.search(goal)
    if wanted is None:
        return None
    value = float(_FIGURE.findall(_ASIDE.sub("", measured))[-1].replace(",", ""))
    limit = float(wanted[2])
    return value <= limit if wanted[1] == "≤" else value >= limit


def main(names: list[str]) -> int:
    """Measure, and print the table."""
    unknown = set(names) - {*NAMES, *LONG}
    if unknown:
        known = ", ".join((*NAMES, *LONG))
        print(f"there is no benchmark {', '.join(sorted(unknown))}; there are {known}", file=sys.stderr)
        return 2
    load = os.getloadavg()[0]
    table = Table("what", "measured", "goal", "ok?")
    missed = 0
    for name in names or NAMES:
        for what, measured, goal in importlib.import_module(f"tests.benchmarks.{name}").rows():
            ok = reached(measured, goal)
            missed += ok is False
            table.add_row(what, measured, goal, {True: "yes", False: "NO", None: ""}[ok])
        table.add_section()
    table.caption = f"{os.cpu_count()} processors; load {load:.1f} before, {os.getloadavg()[0]:.1f} after"
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
