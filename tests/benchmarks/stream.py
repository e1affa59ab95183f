"""Framing and parsing of every recorded line compared with bare orjson on the same lines, in one run."""

from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

import orjson

from orchestrator.agents.claude import Parser
from orchestrator.agents.framing import Framer

RECORDINGS = Path(__file__).parent.parent / "data" / "recordings"
CHUNK = 65_536
ROUNDS = 60
REPEATS = 10


def rows() -> list[tuple[str, str, str]]:
    """Return name, measured value and goal."""
    lines = list(recorded_lines()) * REPEATS
    stream = b"".join(line + b"\n" for line in lines)
    chunks = [stream[start : start + CHUNK] for start in range(0, len(stream), CHUNK)]
    bare, parsed = best_of_alternating(lambda: decode_only(lines), lambda: frame_and_parse(chunks))
    return [
        ("stream: bare orjson.loads", f"{len(lines) / bare:,.0f} lines/s", ""),
        ("stream: framing and parsing", f"{len(lines) / parsed:,.0f} lines/s", ""),
        ("stream: parsing beside bare orjson", f"{bare / parsed:.2f}", "≥ 0.6"),
    ]


def recorded_lines() -> Iterator[bytes]:
    for path in sorted(RECORDINGS.glob("*.jsonl")):
        for row in map(orjson.loads, path.read_bytes().splitlines()):
            if row.get("dir") == "out":
                yield row["line"].encode()


def best_of_alternating(first: Callable[[], None], second: Callable[[], None]) -> tuple[float, float]:
    """Return the seconds of the fastest round of each; they alternate so that both see the same machine."""
    pairs = [(seconds_of(first), seconds_of(second)) for _ in range(ROUNDS)]
    return min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)


def seconds_of(work: Callable[[], None]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def decode_only(lines: list[bytes]) -> None:
    for line in lines:
        orjson.loads(line)


def frame_and_parse(chunks: list[bytes]) -> None:
    framer, parser = Framer(), Parser()
    for chunk in chunks:
        for line in framer.push(chunk):
            parser.parse(line.body)
