"""Objects that an agent puts in place of its own run's files: nothing blocks on them, and no other run is affected."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.processes import files
from orchestrator.processes.output import read_lines_from
from orchestrator.processes.run_state import appearance_of, exit_of, is_alive, pid_of, status_of

KEY = "00" * 32
NAMES = ("stdout.jsonl", "stderr.log", files.STATUS, files.EXIT, files.PID)


def _link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("plant", [os.mkfifo, Path.mkdir, _link, _loop])
@pytest.mark.parametrize("name", NAMES)
def test_anything_but_a_plain_file_is_treated_as_missing(
    tmp_path: Path, name: str, plant: Callable[[Path], None]
) -> None:
    plant(tmp_path / name)
    assert read_lines_from(tmp_path, 0) == (b"", 0)
    assert status_of(tmp_path) is None
    assert pid_of(tmp_path) is None
    assert appearance_of(tmp_path) == appearance_of(tmp_path)
    if name != files.PID:
        assert exit_of(tmp_path, KEY) is None


@pytest.mark.parametrize("plant", [Path.touch, None])
def test_a_run_whose_folder_was_removed_is_not_alive_and_has_no_output(
    tmp_path: Path, plant: Callable[[Path], None] | None
) -> None:
    folder = tmp_path / "1"
    folder.mkdir()
    (folder / "stdout.jsonl").write_bytes(b"{}\n")
    assert read_lines_from(folder, 0) == (b"{}\n", 3)
    shutil.rmtree(folder)
    if plant:
        plant(folder)
    assert read_lines_from(folder, 0) == (b"", 0)
    assert not is_alive(folder)
    assert exit_of(folder, KEY) is None
    assert appearance_of(folder) == (None, None, None, None)
