"""`orchestrator demo --pipeline`: the scripted agent plays every bundled pipeline to its end, in under a minute."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from orchestrator.cli.demo.demo import BUNDLED, FULL
from orchestrator.cli.demo.tour import parts_of_others
from orchestrator.pipelines.definitions import load_definitions
from tests.acceptance.test_demo import demo, left_running
from tests.fakes.repositories import git

DECLARED = load_definitions(BUNDLED).pipelines
PLAYED = sorted(set(DECLARED) - parts_of_others(DECLARED) - {FULL})
MINUTE = 60.0


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short name, as a user's /tmp has: a socket's path has room for 107 bytes."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


def commits(answer: dict[str, Any]) -> list[str]:
    return git(Path(answer["repository"]), "log", "--reverse", "--format=%s", f"main..{answer['branch']}").splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYED)
def test_every_bundled_pipeline_is_played_to_its_end_in_under_a_minute(place: Path, name: str) -> None:
    answer, told = demo(place, "--pipeline", name)
    assert answer["status"] == "completed", told
    assert isinstance(answer["seconds"], float)
    assert answer["seconds"] < MINUTE
    assert f"--pipeline {name}" in told
    assert left_running(place) == []


@pytest.mark.slow
def test_a_specified_work_has_one_commit_for_each_of_its_tasks(place: Path) -> None:
    answer, told = demo(place, "--pipeline", "work-full")
    assert commits(answer) == [
        "docs(WORK-01): plan Slugs for textkit",
        "feat(TASK-00): Add slugify with its test",
        "feat(TASK-01): Describe slugify in README.md",
        "docs(WORK-01): record its outcome",
    ]
    assert told.count("a person has to review it") == 2


@pytest.mark.parametrize(("name", "said"), [("wrok", "did you mean 'work'?"), ("work-task", "there is no demo")])
def test_a_pipeline_that_is_not_there_or_only_a_part_of_others_is_refused(place: Path, name: str, said: str) -> None:
    command = [sys.executable, "-m", "orchestrator", "demo", "--pipeline", name]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(place)}, check=False
    )
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert list(place.iterdir()) == []
