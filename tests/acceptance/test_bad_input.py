"""What people, repositories and agents hand in that is not as it should be: refused in words, or taken as it is."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.core.task.task import TaskStatus
from tests.acceptance.harness import SOURCES, DaemonHarness, refused
from tests.fakes.repositories import commit, git

MIB = 1 << 20


def no_repository(folder: Path) -> Path:
    """A folder with files."""
    folder.mkdir()
    return folder


def empty_repository(folder: Path) -> Path:
    """A repository without a commit."""
    folder.mkdir()
    git(folder, "init", "--quiet")
    return folder


def detached_repository(folder: Path) -> Path:
    """A repository on no branch."""
    folder.mkdir()
    git(folder, "init", "--quiet")
    git(folder, "checkout", "--quiet", "--detach", commit(folder, {"a.txt": "one\n"}))
    return folder


def shallow_repository(folder: Path) -> Path:
    """A clone of the newest commit alone."""
    origin = folder.with_name("origin")
    origin.mkdir()
    git(origin, "init", "--quiet")
    commit(origin, {"a.txt": "one\n"})
    commit(origin, {"a.txt": "two\n"})
    git(origin, "clone", "--quiet", "--depth=1", f"file://{origin}", str(folder))
    return folder


def only_a_file(folder: Path) -> Path:
    """A file where a folder should be."""
    folder.write_text("I am no repository")
    return folder


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (no_repository, "git init"),
        (empty_repository, "commit"),
        (detached_repository, "branch"),
        (shallow_repository, "git fetch --unshallow"),
        (only_a_file, "folder"),
        (lambda folder: folder, "path"),
    ],
)
def test_what_cannot_be_worked_on_is_refused_and_leaves_nothing(
    tmp_path: Path, made: Callable[[Path], Path], names: str
) -> None:
    with DaemonHarness(tmp_path) as harness:
        there = made(tmp_path / "theirs")
        with refused("refused", str(there), names):
            harness.submit(repo=there)
        told = harness.cli("submit", "--repo", str(there), "Do it")
        assert told.returncode == 2
        assert str(there) in told.stderr.replace("\n", "")
        assert "Traceback" not in told.stderr
        assert list((harness.data / "tasks").iterdir()) == []
        assert harness.answers()


def test_a_bare_repository_gets_its_branch(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        git(tmp_path, "clone", "--quiet", "--bare", str(harness.repo), str(tmp_path / "bare.git"))
        done = harness.wait_for_end(harness.submit(repo=tmp_path / "bare.git"))
        assert git(tmp_path / "bare.git", "rev-parse", done.branch) == done.head


def test_work_begins_from_the_commit_and_leaves_uncommitted_work_where_it_is(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        (harness.repo / "README.md").write_text("half a thought")
        (harness.repo / "new.txt").write_text("mine")
        task = harness.submit()
        done = harness.wait_for_end(task)
        assert (harness.repo / "README.md").read_text() == "half a thought"
        assert git(harness.repo, "status", "--porcelain") == "M README.md\n?? new.txt"
        changed = git(harness.repo, "diff", "--name-only", f"{done.base_commit}..{done.branch}").split()
        assert changed == ["README.md", "tests/test_slugify.py", "textkit/__init__.py"]
        assert "half a thought" not in git(harness.repo, "show", f"{done.branch}:README.md")


def test_a_detached_repository_is_worked_on_from_a_branch_that_is_named(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        git(harness.repo, "checkout", "--quiet", "--detach")
        done = harness.wait_for_end(harness.submit(base="main"))
        assert done.base_branch == "main"


def test_a_branch_name_that_is_taken_gets_a_suffix(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        git(harness.repo, "branch", "feature/ABC-1")
        done = harness.wait_for_end(harness.submit(ticket="ABC-1"))
        assert done.branch.startswith("feature/ABC-1-")
        assert git(harness.repo, "rev-parse", "feature/ABC-1") == done.base_commit


def test_a_branch_that_a_person_made_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path, scenario={"IMPLEMENTATION": [{"wait_for": str(tmp_path / "go")}]}) as harness:
        task = harness.submit()
        branch = harness.wait_until_it_works(task, "IMPLEMENTATION").branch
        git(harness.repo, "branch", branch)
        (tmp_path / "go").touch()
        blocked = harness.wait_for_end(task, TaskStatus.BLOCKED)
        assert f"git branch -m {branch} {branch}-old" in (blocked.block_reason or "")
        assert git(harness.repo, "rev-parse", branch) == blocked.base_commit


@pytest.mark.parametrize(
    "text",
    [
        "/compact",
        "-rf --version",
        "# of\n# IMPLEMENTATION of X: y\noutbox: /tmp",
        "{ticket} %s $(touch x) `id` \\",
        "☃",
    ],
)
def test_a_ticket_is_text_whatever_it_looks_like(tmp_path: Path, text: str) -> None:
    with DaemonHarness(tmp_path) as harness:
        done = harness.wait_for_end(harness.submit(text))
        assert len(done.steps) == 3
        assert not (Path(done.worktree or "") / "x").exists()


@pytest.mark.parametrize(
    ("text", "named"),
    [(" \n\t ", ""), ("x" * (5 * MIB), "1024 KiB"), ("\0ELF", "UTF-8")],
    ids=["empty", "5 MiB", "binary"],
)
def test_a_ticket_that_is_none_is_refused(tmp_path: Path, text: str, named: str) -> None:
    with DaemonHarness(tmp_path) as harness:
        with refused("refused", named):
            harness.submit(text)
        (tmp_path / "ticket.md").write_text(text)
        told = harness.cli("submit", "--repo", str(harness.repo), "--file", str(tmp_path / "ticket.md"))
        assert told.returncode == 2
        assert told.stdout == ""
        assert "Traceback" not in told.stderr
        assert list((harness.data / "tasks").iterdir()) == []


def test_what_is_misspelt_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        with refused("refused", "'ful'", "'full'"):
            harness.submit(pipeline="ful")
        with refused("refused", "../../etc", "ABC-123"):
            harness.submit(ticket="../../etc")
        with refused("no-such-task", "LOCAL-nobody"):
            harness.submit(after=("LOCAL-nobody",))
        assert harness.cli("show", "LOCAL-nobody").returncode == 4


def test_checks_that_a_repository_declares_wrongly_are_refused_with_their_line(tmp_path: Path) -> None:
    with DaemonHarness(tmp_path) as harness:
        commit(harness.repo, {".orchestrator.toml": '[checks.unit_test]\ncomand = "true"\n'})
        with refused("refused", ".orchestrator.toml:2:", "'comand'", "'command'"):
            harness.submit()


def test_a_check_that_the_branch_changes_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    cheat = "printf '[checks.unit_test]\\ncommand = \"true\"\\n' > .orchestrator.toml"
    with DaemonHarness(tmp_path, scenario={"IMPLEMENTATION": [{"run": cheat, "plant_bug": True}]}) as harness:
        task = harness.submit()
        done = harness.wait_for_end(task)
        assert done.budgets["eval_cycles"].used == 1, "the check of the base commit found the planted mistake"
        assert ".orchestrator.toml" in (harness.folder(task) / "summary.md").read_text()


def test_an_agent_cannot_command_the_daemon_that_runs_it(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from orchestrator.cli.app import main; main()"]
    command = f'{shlex.join(program)} --data-dir {tmp_path}/data cancel "$ORCHESTRATOR_TASK" >> {tmp_path}/said 2>&1'
    openly = f"cd {SOURCES} && env -u ORCHESTRATOR_SCENARIO -u ORCHESTRATOR_SCRIPTED_HOME {command}"
    hidden = f"cd {SOURCES} && env -i setsid {command}"
    scenario = {"ANALYSIS": [[{"run": openly}, {"run": hidden}]]}
    with DaemonHarness(tmp_path, scenario=scenario, isolation="none") as harness:
        harness.wait_for_end(harness.submit())
        refusals = (tmp_path / "said").read_text().splitlines()
        assert ["agents/1" in line for line in refusals] == [True, True], refusals
