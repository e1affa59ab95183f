"""The daemon backs itself up every day, keeps the newest, and says when that fails."""

import json
from pathlib import Path

from tests.acceptance.harness import DaemonHarness, Json, line_count

OLD = [f"orchestrator-0123456789ab-2026010{day}T050000Z.tar.zst" for day in range(1, 6)]


def test_a_backup_that_was_due_is_made_at_the_start_and_removes_none_of_others(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    for name in (*OLD, "of the user.tar.zst"):
        (folder / name).write_bytes(b"")
    with DaemonHarness(tmp_path, backup={"folder": str(folder), "keep": 3}) as harness:
        harness.wait_for("the backup", lambda: logged(harness, "backup_made"))
        (name,) = {path.name for path in folder.iterdir()} - {*OLD, "of the user.tar.zst"}
        assert name.startswith(f"orchestrator-{json.loads((harness.data / 'format').read_bytes())['id'][:12]}-")
        assert len(list(folder.iterdir())) == len(OLD) + 2
        assert harness.cli("backup", "verify", str(folder / name)).returncode == 0
        harness.kill()
        harness.start()
        harness.wait_for("a look at the clock", lambda: len(logged(harness, "daemon_started")) == 2)
        assert len(logged(harness, "backup_made")) == 1


def test_a_backup_that_fails_is_told_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    tell = ["sh", "-c", f"cat >> {tmp_path}/told"]
    folder = {"folder": str(tmp_path / "file")}
    with DaemonHarness(tmp_path, backup=folder, people={"notify_command": tell}) as harness:
        (failed,) = harness.wait_for("the failure", lambda: logged(harness, "backup_failed"))
        assert str(tmp_path / "file") in failed["file"]
        known = harness.wait_for("the note", lambda: json.loads((harness.data / "backups.json").read_bytes()))
        assert known["failure"] == failed["reason"]
        harness.wait_for("the notice", lambda: line_count(tmp_path / "told"))
        assert "The daily backup to" in (tmp_path / "told").read_text()
        assert "the backup failed: " in harness.cli("report").stdout


def logged(harness: DaemonHarness, event: str) -> list[Json]:
    return [line for line in harness.log if line["event"] == event]
