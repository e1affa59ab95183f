"""A data folder says its format: a later one is refused with words, an earlier one is copied before it is changed."""

import json
from pathlib import Path

import pytest

from orchestrator import __version__
from orchestrator.storage.folder.format import CURRENT, UnfitFolder
from orchestrator.storage.store import FolderStore
from tests import fork_server
from tests.fakes.recorded import recorded

HOME = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


def test_a_new_folder_has_the_present_format_and_an_id_that_stays(tmp_path: Path) -> None:
    FolderStore(tmp_path).close()
    said = json.loads((tmp_path / "format").read_bytes())
    assert (said["format"], said["program"], len(said["id"])) == (CURRENT, __version__, 32)
    FolderStore(tmp_path).close()
    assert json.loads((tmp_path / "format").read_bytes()) == said


def test_an_older_program_refuses_the_folder_and_says_how_to_get_back(tmp_path: Path) -> None:
    FolderStore(tmp_path).close()
    later = {**json.loads((tmp_path / "format").read_bytes()), "format": CURRENT + 1, "program": "9.9.0"}
    (tmp_path / "format").write_text(json.dumps(later))
    (tmp_path / "before-format-3-20270101T000000").mkdir()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.name != "lock"}
    refused = fork_server.run("--data-dir", str(tmp_path), "serve", stdin="", cwd=tmp_path, env=HOME, timeout=60)
    assert refused.returncode == 5
    said = " ".join(refused.stderr.split())
    for words in ("orchestrator 9.9.0 wrote", "Nothing was changed", "before-format-3-20270101T000000", "help backup"):
        assert words in said
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.name != "lock"} == before


def test_the_refused_folder_is_free_for_the_program_that_reads_it(tmp_path: Path) -> None:
    FolderStore(tmp_path).close()
    present = (tmp_path / "format").read_bytes()
    (tmp_path / "format").write_text('{"format": 99, "program": "9.9.0"}')
    with pytest.raises(UnfitFolder):
        FolderStore(tmp_path)
    (tmp_path / "format").write_bytes(present)
    FolderStore(tmp_path).close()


def test_what_a_migration_changes_is_copied_before_it() -> None:
    with recorded() as there:
        live = {
            folder.name: (folder / "journal.jsonl").read_bytes()
            for folder in (there.data / "tasks").iterdir()
            if json.loads((folder / "state.json").read_bytes())["schema_version"] == 1
        }
        FolderStore(there.data).close()
        (copy,) = there.data.glob("before-format-2-*")
        assert {path.name: (path / "journal.jsonl").read_bytes() for path in (copy / "tasks").iterdir()} == live
        said = json.loads((there.data / "format").read_bytes())
        (step,) = said["migrations"]
        assert (step["from"], step["to"], step["kept"]) == (1, 2, copy.name)
        FolderStore(there.data).close()
        assert len(list(there.data.glob("before-format-*"))) == 1


def test_a_copy_that_was_cut_short_is_made_anew_by_the_next_start() -> None:
    with recorded() as there:
        left = there.data / ".before-format-2.partial/tasks/gone"
        left.mkdir(parents=True)
        (left / "journal.jsonl").write_bytes(b"half")
        FolderStore(there.data).close()
        (copy,) = there.data.glob("*before-format-*")
        assert not copy.name.startswith(".")
        assert not (copy / "tasks/gone").exists()


def test_a_folder_whose_restore_has_not_ended_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".restoring").mkdir()
    with pytest.raises(UnfitFolder, match="has not ended"):
        FolderStore(tmp_path)


def test_systemd_starts_a_daemon_again_that_came_before_the_end_of_a_restore_but_not_on_a_later_format(
    tmp_path: Path,
) -> None:
    unit = (Path(__file__).parents[3] / "systemd/orchestrator.service").read_text(encoding="utf-8")
    (line,) = (line for line in unit.splitlines() if line.startswith("RestartPreventExitStatus="))
    in_vain = int(line.partition("=")[2])
    (tmp_path / "format").write_text('{"format": 99, "program": "9.9.0"}')
    assert serve(tmp_path) == in_vain
    (tmp_path / ".restoring").mkdir()
    assert serve(tmp_path) not in {0, in_vain}


def serve(data: Path) -> int:
    """Return the exit code of a daemon on a folder that it refuses."""
    return fork_server.run("--data-dir", str(data), "serve", stdin="", cwd=data, env=HOME, timeout=60).returncode
