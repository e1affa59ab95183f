"""Thousands of tasks that wait for a slot, and ended ones, in a minute: a daemon makes a few, the others copy them.

    make_many_queued_tasks(root, queued=10_000, ended=2_000)     # root/data, root/orchestrator.toml

One task is at work and holds the only slot; its agent thinks for an hour. The daemon does not run any more.
"""

import shutil
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path

import orjson

from orchestrator.formats.codec import JsonObject, stamp
from orchestrator.formats.files import sealed, unsealed
from orchestrator.storage.journal import NAME as JOURNAL
from orchestrator.storage.journal import seal_key
from orchestrator.storage.state_file import BELOW
from orchestrator.storage.state_file import NAME as STATE
from tests.acceptance.harness import DaemonHarness

PIPELINES = ("full", "review_only", "custom", "workflow")
WORKING = {"think_ms": 3_600_000}
FIRST = datetime(2026, 11, 1, tzinfo=UTC)


def make_many_queued_tasks(root: Path, queued: int, ended: int) -> None:
    """Make a data folder with so many tasks that wait, and so many cancelled ones, of several pipelines."""
    with DaemonHarness(root, scenario={"ANALYSIS": [WORKING]}, max_agents=1, isolation="none") as harness:
        harness.wait_until_it_works(harness.submit(), "ANALYSIS")
        waiting = [harness.submit(f"Add the flag {name}\n", pipeline=name) for name in PIPELINES]
        over = [harness.submit(f"Add the option {name}\n", pipeline=name, draft=True) for name in PIPELINES]
        for task in over:
            harness.request("POST", f"/api/tasks/{task}/cancel", {})
        harness.stop()
        harness.stop_all()
    folders = [root / "data/tasks" / task for task in waiting], [root / "data/tasks" / task for task in over]
    _copy(folders[0], [f"WAITS-{number:05d}_20261101_220000" for number in range(queued - len(waiting))])
    _copy(folders[1], [f"ENDED-{number:05d}_20261101_220000" for number in range(ended - len(over))])


def _copy(folders: list[Path], names: list[str]) -> None:
    templates = [(folder, unsealed((folder / STATE).read_bytes(), key=seal_key(folder)) or {}) for folder in folders]
    for number, (name, (folder, state)) in enumerate(zip(names, cycle(templates), strict=False)):
        another = folder.with_name(name)
        shutil.copytree(folder, another)
        renamed = {folder.name: name, str(state["created_at"]): stamp(FIRST + timedelta(minutes=number))}
        journal = _renamed((folder / JOURNAL).read_bytes(), renamed)
        document: JsonObject = orjson.loads(_renamed(orjson.dumps(state), renamed))
        document["journal_bytes"] = len(journal)
        (another / JOURNAL).write_bytes(journal)
        (another / STATE).write_bytes(sealed(document, below=BELOW, key=seal_key(another)))


def _renamed(content: bytes, names: Mapping[str, str]) -> bytes:
    for old, new in names.items():
        content = content.replace(old.encode(), new.encode())
    return content
