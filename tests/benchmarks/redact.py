"""The secret filter: its speed on ordinary text, adversarial text and log lines, and what it finds and mistakes."""

from collections.abc import Callable
from time import process_time

from orchestrator.pipelines.bundled import Kind, bundled
from orchestrator.pipelines.definition_files import read_declared
from orchestrator.redaction.rules import LARGEST_TEXT, Redactor, Result, parse_rules
from tests.fakes.made_up_secrets import ordinary_lines, samples

ROUNDS = 5
LINES = 2000
LINE = "task moved on from ANALYSIS to PLANNING after 12 s"
HOSTILE = ("token=", "token=aA1.", "://a:b@", "webhook_secret=", "\x00", "secret_access_key=", "a@a.", "sk-", "\x1b[")


def rows() -> list[tuple[str, str, str]]:
    """Return name, measured value and goal."""
    path = bundled(Kind.CONFIG) / "redaction.toml"
    redactor = Redactor(parse_rules(read_declared(path), str(path)))
    lines = ordinary_lines()
    text = "\n".join(lines).encode()[: LARGEST_TEXT // 2].decode("utf-8", "ignore")
    megabytes = len(text.encode()) / 1e6
    worst = max(
        seconds_of(lambda piece=piece: redactor.scan(piece * (LARGEST_TEXT // len(piece))))  # type: ignore[misc]
        for piece in HOSTILE
    )
    made_up = list(samples())
    found = sum(one.rule in {finding.rule for finding in redactor.scan(one.text).findings} for one in made_up)
    alarms = sum(redactor.scan(line).result is not Result.CLEAN for line in lines)
    return [
        ("redact: sources, scanned", f"{megabytes / seconds_of(lambda: redactor.scan(text)):.1f} MB/s", "≥ 4"),
        ("redact: sources, masked only", f"{megabytes / seconds_of(lambda: redactor.masked(text)):.1f} MB/s", "≥ 6"),
        (
            "redact: a log line",
            f"{seconds_of(lambda: [redactor.masked(LINE) for _ in range(LINES)]) / LINES * 1e6:.0f} µs",
            "≤ 50",
        ),
        ("redact: the worst MiB", f"{worst:.2f} s", "≤ 0.5"),
        (f"redact: made-up secrets found (of {len(made_up)})", str(found), f"≥ {len(made_up)}"),
        (f"redact: false alarms (in {len(lines)} lines)", str(alarms), "≤ 3"),
    ]


def seconds_of(work: Callable[[], object]) -> float:
    """Return the processor seconds of the fastest round."""
    rounds = []
    for _ in range(ROUNDS):
        start = process_time()
        work()
        rounds.append(process_time() - start)
    return min(rounds)
