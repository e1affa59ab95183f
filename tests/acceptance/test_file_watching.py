"""The daemon notices changed files: by whatever path they were named, once they exist, and without inotify too."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.daemon.isolation import usable_program
from orchestrator.settings.settings import Settings
from tests.acceptance.harness import SOURCES, DaemonHarness

WITHOUT_INOTIFY = (
    *("unshare", "--user", "--map-root-user", "sh", "-c"),
    'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"',
    "sh",
)


class RelativeHarness(DaemonHarness):
    """A daemon that is given its settings by a path relative to its working directory."""

    def _options(self) -> tuple[str, ...]:
        mine = self.root / "mine.toml"
        shutil.copy(self.root / "orchestrator.toml", mine)
        return ("--config", os.path.relpath(mine, SOURCES), "--data-dir", str(self.data))


def applied(harness: DaemonHarness) -> list[object]:
    """The lines of the log that say that changed settings are in force."""
    return [line for line in harness.log if line["event"] == "settings_applied"]


def change_settings(harness: DaemonHarness, settings: Path) -> None:
    """Allow another number of agents at a time."""
    harness.overwrite(settings, settings.read_text().replace("max_agents = 1", "max_agents = 2"))
    harness.wait_for("the changed settings", lambda: applied(harness), patience=20)


def test_settings_named_by_a_relative_path_are_taken_over_when_they_change(tmp_path: Path) -> None:
    with RelativeHarness(tmp_path, max_agents=1) as harness:
        change_settings(harness, tmp_path / "mine.toml")


def told_by(harness: DaemonHarness) -> list[str]:
    """The programs that were run when a task of the harness had ended, by the names of the files that they made."""
    harness.wait_for_end(harness.submit())
    harness.wait_for("a notice", lambda: list(harness.root.glob("told-*")))
    told = sorted(harness.root.glob("told-*"))
    for path in told:
        path.unlink()
    return [path.name for path in told]


def change_program(harness: DaemonHarness) -> None:
    """Name another program for notices, in one change with another number of agents at a time."""
    settings = harness.root / "orchestrator.toml"
    harness.settings = {**harness.settings, "people": {"notify_command": telling(harness.root, "new")}}
    text = settings.read_text().replace("told-old", "told-new").replace("max_agents = 1", "max_agents = 2")
    harness.overwrite(settings, text)
    harness.wait_for("the changed settings", lambda: applied(harness))


def telling(root: Path, name: str) -> list[str]:
    return ["/usr/bin/touch", str(root / f"told-{name}")]


def test_without_sandboxes_a_program_that_an_agent_could_have_named_waits_for_a_restart(tmp_path: Path) -> None:
    people = {"notify_command": telling(tmp_path, "old")}
    with DaemonHarness(tmp_path, isolation="none", max_agents=1, people=people) as harness:
        change_program(harness)
        assert harness.client.status().places == 2
        waiting = [line["settings"] for line in harness.log if line["event"] == "settings_wait_for_restart"]
        assert waiting == [["people.notify_command"]]
        assert told_by(harness) == ["told-old"]
        harness.stop()
        harness.start()
        assert told_by(harness) == ["told-new"]


def test_in_sandboxes_a_program_is_taken_over_at_once(tmp_path: Path) -> None:
    program, reason = usable_program(Settings(), os.environ)
    if program is None:
        pytest.skip(f"NOT TESTED IN A SANDBOX: {reason}")
    people = {"notify_command": telling(tmp_path, "old")}
    with DaemonHarness(tmp_path, isolation="bubblewrap", max_agents=1, people=people) as harness:
        change_program(harness)
        assert told_by(harness) == ["told-new"]


def test_settings_in_a_folder_that_did_not_exist_are_taken_over(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        folder = tmp_path / "config/orchestrator"
        (folder / "pipelines").mkdir(parents=True)
        (folder / "orchestrator.toml").write_text("stall_after = 1234\n")
        (folder / "pipelines/broken.toml").write_text("nothing = 1\n")
        harness.wait_for("the new settings", lambda: applied(harness), patience=20)
        harness.wait_for(
            "the new pipeline", lambda: [one for one in harness.log if one["event"] == "definitions_refused"]
        )


def test_a_daemon_without_inotify_starts_works_and_notices_changes(tmp_path: Path) -> None:
    if subprocess.run([*WITHOUT_INOTIFY, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine allows no user namespace")
    program = (*WITHOUT_INOTIFY, sys.executable, "-m", "orchestrator")
    with DaemonHarness(tmp_path, program=program, max_agents=1) as harness:
        for _ in range(2):
            harness.wait_for_end(harness.submit())
        change_settings(harness, tmp_path / "orchestrator.toml")
        assert harness.stop() == 0
        assert len([line for line in harness.log if line["event"] == "files_not_watched"]) == 1
