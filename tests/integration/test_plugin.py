"""`orchestrator plugin`: what it writes, what it never touches, and that the real CLI accepts it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from orchestrator import __version__
from orchestrator.agents.installation import find_claude
from orchestrator.cli.plugin.installer import NotOurs, install, plugin_files, uninstall
from orchestrator.formats.front_matter import read_front_matter
from tests.fakes.repositories import repository
from tests.fakes.shell import Shell, only_error

BELOW = "skills/orchestrator"
COMMANDS = {"answer", "approve", "merge", "request-changes", "review", "show", "status", "submit", "why"}


@pytest.fixture
def orchestrator(tmp_path: Path) -> Shell:
    """The program, in the user's repository."""
    repository(tmp_path / "repo")
    return Shell(tmp_path)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_it_is_installed_for_the_user_brought_up_to_date_and_removed(orchestrator: Shell) -> None:
    folder = orchestrator.home / ".claude/skills/orchestrator"
    first = json.loads((await orchestrator("plugin", "install", "--json")).out)
    assert (first["folder"], first["version"], first["left"]) == (str(folder), __version__, [])
    assert set(first["written"]) == set(plugin_files())
    there = contents(folder)
    again = await orchestrator("plugin", "install")
    assert f"{folder} version {__version__}, is up to date" in again.out
    assert contents(folder) == there
    (folder / "commands/status.md").unlink()
    assert json.loads((await orchestrator("plugin", "install", "--json")).out)["written"] == ["commands/status.md"]
    assert contents(folder) == there
    removed = await orchestrator("plugin", "uninstall")
    assert f"removed {len(plugin_files())} files" in removed.out
    assert not folder.exists()
    assert folder.parent.is_dir()
    assert "there is no plugin of" in only_error(await orchestrator("plugin", "uninstall"), 1)


async def test_it_is_installed_into_a_project(orchestrator: Shell) -> None:
    done = await orchestrator("plugin", "install", "--project", ".")
    folder = orchestrator.home / "repo/.claude/skills/orchestrator"
    assert done.code == 0, done.err
    assert set(plugin_files()) < set(contents(folder))
    assert "--user or --project, not both" in only_error(
        await orchestrator("plugin", "install", "--user", "--project", "."), 2
    )


def test_a_folder_that_something_else_wrote_is_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / BELOW
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("mine")
    with pytest.raises(NotOurs, match="was not written by"):
        install(tmp_path, BELOW)
    with pytest.raises(NotOurs, match="there is no plugin"):
        uninstall(tmp_path, BELOW)
    assert contents(folder) == {"SKILL.md": b"mine"}


def test_a_file_that_was_changed_is_neither_overwritten_nor_removed(tmp_path: Path) -> None:
    folder = install(tmp_path, BELOW).folder
    mine, own = folder / "commands/submit.md", folder / "commands/own.md"
    for file in (mine, own):
        file.write_text("mine")
    (folder / "commands/why.md").unlink()
    with pytest.raises(NotOurs, match=f"changed since it was installed: {mine};"):
        install(tmp_path, BELOW)
    assert not (folder / "commands/why.md").exists()
    assert uninstall(tmp_path, BELOW).left == ("commands/submit.md",)
    assert contents(folder) == {"commands/submit.md": b"mine", "commands/own.md": b"mine"}


def test_files_of_an_older_version_are_replaced_and_those_without_a_successor_removed(tmp_path: Path) -> None:
    folder = install(tmp_path, BELOW).folder
    record = folder / ".orchestrator.json"
    document = json.loads(record.read_text())
    older = {"commands/submit.md": b"older", "commands/gone.md": b"gone", "commands/kept.md": b"changed since"}
    for name, content in older.items():
        (folder / name).write_bytes(content)
    digests = {"commands/submit.md": "older", "commands/gone.md": "gone", "commands/kept.md": "before"}
    for name, text in digests.items():
        document["files"][name] = [subprocess.check_output(["sha256sum"], input=text.encode()).decode().split()[0]]
    record.write_text(json.dumps({**document, "version": "0.0.1"}))
    done = install(tmp_path, BELOW)
    assert (done.written, done.removed, done.left) == (
        ("commands/submit.md",),
        ("commands/gone.md",),
        ("commands/kept.md",),
    )
    assert (folder / "commands/submit.md").read_bytes() == plugin_files()["commands/submit.md"]
    assert json.loads(record.read_text())["version"] == __version__
    assert install(tmp_path, BELOW).written == ()


@pytest.mark.parametrize("link", ["skills", BELOW, f"{BELOW}/commands", f"{BELOW}/commands/submit.md"])
def test_nothing_is_written_through_a_link_that_a_repository_planted(tmp_path: Path, link: str) -> None:
    outside, base = tmp_path / "outside", tmp_path / "repo"
    outside.mkdir()
    (base / link).parent.mkdir(parents=True)
    (base / link).symlink_to(outside)
    with pytest.raises(NotOurs, match="is a link"):
        install(base, BELOW)
    assert contents(outside) == {}


def test_a_hostile_record_reaches_nothing_outside_of_the_folder(tmp_path: Path) -> None:
    folder, outside = tmp_path / BELOW, tmp_path / "outside.md"
    folder.mkdir(parents=True)
    outside.write_text("mine")
    digest = subprocess.check_output(["sha256sum"], input=b"mine").decode().split()[0]
    listed = {name: [digest] for name in ("../../outside.md", str(outside), "", "a/../../../outside.md")}
    (folder / ".orchestrator.json").write_text(json.dumps({"files": listed}))
    install(tmp_path, BELOW)
    uninstall(tmp_path, BELOW)
    assert outside.read_text() == "mine"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_no_command_puts_its_arguments_into_a_shell_or_into_the_middle_of_its_text(name: str) -> None:
    text = plugin_files()[f"commands/{name}.md"].decode()
    matter = read_front_matter(text, name)
    assert matter is not None
    assert "$" not in text
    assert [line for line in text.splitlines() if "!`" in line and name != "status"] == []


@pytest.mark.claude
def test_the_real_cli_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    folder = install(tmp_path, BELOW).folder
    command = [str(find_claude("", os.environ["PATH"])), "plugin", "validate", "--strict", "--json", str(folder)]
    env = {**os.environ, "HOME": str(tmp_path), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert (done.returncode, report["success"]) == (0, True), report
    assert set(report["provides"]["commands"]) == {f"orchestrator:{name}" for name in COMMANDS}
    assert report["provides"]["skills"] == ["orchestrator:orchestrator"]
