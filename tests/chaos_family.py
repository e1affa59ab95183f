"""A family for the storms of kills and restores: a parent that divides its work, and children that depend on others."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.acceptance.harness import DaemonHarness
from tests.documents import ROOT
from tests.fakes.repositories import git

CHILDREN, PLACES = "ABCDEF", 3
AFTER: Mapping[str, tuple[str, ...]] = {"C": ("A", "B"), "F": ("C",)}
TURNS_OF_FAMILY = 1 + 3 * len(CHILDREN)
"""One divides the work; each child takes one to plan and one for each of two steps."""
STEPS_OF_CHILD = ("begin", "end")
ANEW = 20
"""How often a turn of a stage may be taken, also those that were cut short."""


def family_harness(folder: Path, after: Mapping[str, tuple[str, ...]] | None = None) -> DaemonHarness:
    """Return a daemon whose tasks divide their work among children, each of which commits twice.

    `after` names for some children those that they depend on. As a model would, an agent that was cut short in a step
    does what is missing of it.
    """
    depends = after or {}
    children = [
        {"key": key, "title": f"Part {key}", "text": key, "after": list(depends.get(key, ()))} for key in CHILDREN
    ]
    steps = "".join(f"## Step {number}: {word}\n" for number, word in enumerate(STEPS_OF_CHILD, 1))
    think: Mapping[str, object] = {"think_ms": 80, "no_work": True}
    division = {"file": "$ORCHESTRATOR_OUTBOX/children.json", "text": json.dumps({"children": children})}
    append = "grep -sqx $STEP $ORCHESTRATOR_TASK.txt || echo $STEP >> $ORCHESTRATOR_TASK.txt"
    build = {"run": append, "commit": "{step} it", **think}
    scenario = {
        "DIVISION": [{"write": division, **think}] * ANEW,
        "PART_PLAN": [{"write": {"file": "$ORCHESTRATOR_OUTBOX/plan.md", "text": steps}, **think}] * ANEW,
        "BUILD": [build] * ANEW,
    }
    folders = {"pipelines": [str(ROOT / "tests/data/pipelines_with_children")]}
    return DaemonHarness(folder, scenario=scenario, max_agents=PLACES, folders=folders)


def lines_of(repo: Path, name: str) -> list[str]:
    """Return the lines of a file in a commit, `COMMIT:PATH`; none if it is not there."""
    try:
        return git(repo, "show", name).split()
    except subprocess.CalledProcessError:
        return []
