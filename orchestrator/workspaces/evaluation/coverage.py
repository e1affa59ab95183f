"""How much of a change the tests reached, from the reports of coverage.py, lcov and go.

Only lines that the report lists as code are counted; blank lines and comments are in no report.
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.core.task.checks import ResultSource
from orchestrator.workspaces.evaluation.diff import Diff

_GO_BLOCK = re.compile(r"(?P<path>.+):(?P<first>\d+)\.\d+,(?P<last>\d+)\.\d+ \d+ (?P<count>\d+)")
_MOST_LINES = 5_000_000
"""Of all blocks together; a report that lists more is not the report of a real program."""

Lines = Mapping[str, Mapping[int, bool]]
"""File → line → whether a test reached it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How many changed lines of code there are, and how many of them the tests reached."""

    lines: int
    reached: int

    @property
    def percent(self) -> float:
        """From 0 to 100; 100 if there is nothing to reach."""
        return 100.0 * self.reached / self.lines if self.lines else 100.0


def read_coverage(reading: ResultSource, report: str) -> Lines:
    """Return the lines of a coverage report. Raises ValueError if it is not a report of that tool."""
    try:
        match reading:
            case ResultSource.COVERAGE_PY:
                return _coverage_py(report)
            case ResultSource.LCOV:
                return _lcov(report)
            case _:
                return _go_cover(report)
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"this is not a coverage report of the form {reading}") from error


def measure_coverage(lines: Lines, change: Diff) -> Coverage:
    """Return how much of a change the tests reached; if a name fits several files, the shortest path is meant."""
    counted: dict[str, Mapping[int, bool]] = {}
    for path in sorted(lines, key=len, reverse=True):
        own = change.own_path(path)
        if own is not None:
            counted[own] = lines[path]
    hits = [hit for own, known in counted.items() for line, hit in known.items() if line in change.added[own]]
    return Coverage(lines=len(hits), reached=sum(hits))


def _coverage_py(report: str) -> Lines:
    files = json.loads(report)["files"]
    return {
        str(path): dict.fromkeys(map(int, one["missing_lines"]), False)
        | dict.fromkeys(map(int, one["executed_lines"]), True)
        for path, one in files.items()
    }


def _lcov(report: str) -> Lines:
    """Read `SF:<file>`, then `DA:<line>,<times>` for each line of code."""
    files: defaultdict[str, dict[int, bool]] = defaultdict(dict)
    path = ""
    for row in report.splitlines():
        word, _, rest = row.partition(":")
        if word == "SF":
            path = rest.strip()
        elif word == "DA" and path:
            line, times = rest.split(",")[:2]
            files[path][int(line)] = int(times) > 0 or files[path].get(int(line), False)
    if not files:
        raise ValueError("this is not an lcov report")
    return files


def _go_cover(report: str) -> Lines:
    """Read `mode: …`, then one block of lines per row; a line counts as reached if one of its blocks was."""
    first, *rows = report.splitlines() or [""]
    if not first.startswith("mode: "):
        raise ValueError("this is not a coverage profile of go")
    files: defaultdict[str, dict[int, bool]] = defaultdict(dict)
    left = _MOST_LINES
    for row in rows:
        block = _GO_BLOCK.fullmatch(row)
        left -= int(block["last"]) - int(block["first"]) if block else 0
        if block is None or left < 0:
            raise ValueError(f"this is not a block of go's coverage profile: {row!r:.80}")
        known = files[block["path"]]
        for line in range(int(block["first"]), int(block["last"]) + 1):
            known[line] = known.get(line, False) or int(block["count"]) > 0
    return files
