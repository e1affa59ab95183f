"""The first ticket as README tells it: what its commands print, but for names, times and hashes."""

import re
from collections.abc import Mapping
from pathlib import Path

from tests.acceptance.harness import DaemonHarness
from tests.fakes.repositories import commit, git

README = Path(__file__).resolve().parents[2] / "README.md"
CHECKS = '[checks.unit_test]\ncommand = "python3 -m unittest -v"\n'
OMITTED = "…"
VARIES = (
    (re.compile(r"LOCAL-[0-9]{8}_[0-9]{6}"), "TASK"),
    (re.compile(r"(?<=\s)(?:~|/)\S+"), "PATH"),
    (re.compile(r"\b[0-9.]+s\b"), "TIME"),
    (re.compile(r"^[0-9a-f]{7}\b"), "HASH"),
    (re.compile(r"\s+"), " "),
)
"""What is different each time, and what it is compared as."""


def compared(line: str) -> str:
    """Return a printed line without what is different each time."""
    for pattern, word in VARIES:
        line = pattern.sub(word, line)
    return line.strip()


def session() -> Mapping[str, list[str]]:
    """Return what README says that each command of the first ticket prints, by the command's first two words."""
    section = README.read_text("utf-8").partition("## The first ticket")[2].partition("\n## ")[0]
    told: dict[str, list[str]] = {}
    for line in (line.removeprefix("    ") for line in section.splitlines() if line.startswith("    ")):
        if line.startswith("$ "):
            told[" ".join(line.split()[1:3])] = []
        else:
            told[[*told][-1]].append(compared(line))
    return told


def test_the_first_ticket_prints_what_readme_says(tmp_path: Path) -> None:
    told, go_on = session(), tmp_path / "go-on"
    assert list(told) == [
        "orchestrator serve",
        "orchestrator submit",
        "orchestrator why",
        "orchestrator show",
        "git -C",
    ]
    with DaemonHarness(tmp_path, scenario={"IMPLEMENTATION": [{"wait_for": str(go_on)}]}) as harness:
        commit(harness.repo, {".orchestrator.toml": CHECKS})
        handed_in = harness.cli("submit", "Add slugify(text)", "--repo", str(harness.repo))
        task = handed_in.stdout.strip()
        harness.wait_for("the implementer's turn", lambda: "implementer works at turn" in harness.client.why(task).next)
        printed = {
            "orchestrator submit": handed_in.stdout + handed_in.stderr,
            "orchestrator why": harness.cli("why", "LOCAL").stdout,
        }
        go_on.touch()
        harness.wait_for_end(task)
        printed["orchestrator show"] = harness.cli("show", "LOCAL").stdout
        printed["git -C"] = git(harness.repo, "log", "--oneline", f"main..feature/{task}")
        assert "daemon_started" in {entry["event"] for entry in harness.log}
    assert "daemon_started data_dir=" in told["orchestrator serve"][0]
    for command, output in printed.items():
        lines = [compared(line) for line in output.splitlines()]
        assert [line for line in told[command] if line not in (*lines, OMITTED)] == [], output
