"""Results of checks: real commands and tools in real repositories, evaluated as by the daemon."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.core.task.checks import Check, CheckKind, CheckResult, ResultSource, Rules, Verdict, with_result
from orchestrator.core.task.task import Task
from orchestrator.pipelines.bundled import bundled_redactor
from orchestrator.workspaces.evaluation.judge import REPORT, CheckRun, Judge, argv, first_failing_line
from orchestrator.workspaces.evaluation.resolve import resolve
from orchestrator.workspaces.git import Git
from tests.fakes.repositories import commit, git, repository
from tests.fakes.tasks import submitted

PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
SECRET = "aB3dE6gH9jK2mN5pQ8"


class CheckHarness:
    """A repository with a base commit and a branch, and a task whose branch is evaluated."""

    def __init__(self, folder: Path, base: dict[str, str], changed: dict[str, str], rules: Rules | None = None) -> None:
        self.repo, self.data = folder / "repo", folder / "data"
        commit_of_base = repository(self.repo, base)
        git(self.repo, "checkout", "--quiet", "-b", "work")
        head = commit(self.repo, changed)
        self.data.mkdir()
        checks = resolve(Git.foreign(self.repo), commit_of_base, {}, rules or Rules(path=PATH))
        self.task = submitted(folder=str(self.data), base_commit=commit_of_base, head=head, checks=checks)
        self.judge = Judge(git_of=lambda _: Git.foreign(self.repo), redactor=bundled_redactor())

    def evaluate(self) -> dict[str, CheckResult]:
        """Run every check in the order of the state machine."""
        while (check := self.task.evaluation.next_check) is not None:
            result = self.run(check) if check.command else self.judge.of_look(self.task, check)
            results = with_result(self.task.evaluation.checks, self.task.evaluation.results, check.name, result)
            self.task = replace(self.task, evaluation=replace(self.task.evaluation, results=results))
        return dict(self.task.evaluation.results)

    def run(self, check: Check) -> CheckResult:
        """Run one command to its end."""
        run = f"logs/{len(self.task.evaluation.results)}-{check.name}"
        folder = self.data / run
        (folder / REPORT).parent.mkdir(parents=True)
        env = {"PATH": PATH, "HOME": "/nonexistent", "ORCHESTRATOR_REPORT": str(folder / REPORT)}
        with (folder / "stdout.jsonl").open("wb") as out:
            done = subprocess.run(argv(check), cwd=self.repo, env=env, stdout=out, check=False)
        return self.judge.of_run(
            self.task, check, CheckRun(run=run, folder=folder, exit_code=done.returncode, seconds=0.1)
        )


RUFF = {"ruff.toml": '[format]\n[lint]\nselect = ["F"]\n', "old.py": "import os\n"}


def test_linter_findings_on_old_lines_warn_and_on_new_ones_fail(tmp_path: Path) -> None:
    before = CheckHarness(tmp_path / "a", RUFF, {"new.py": "x = 1\n"}).evaluate()
    assert before["lint"].verdict is Verdict.WARN
    assert "1 finding, none in changed lines: " in before["lint"].reason
    assert "old.py:1: F401" in before["lint"].reason
    after = CheckHarness(tmp_path / "b", RUFF, {"new.py": "import sys\n"}).evaluate()
    assert (after["lint"].verdict, after["lint"].exit_code) == (Verdict.FAIL, 1)
    assert "new.py:1: F401" in after["lint"].reason


def test_a_failure_keeps_the_end_of_its_output_and_the_changed_files_without_secrets(tmp_path: Path) -> None:
    noisy = f"seq 100; echo password={SECRET}; printf 'a\\033[31mb\\n'; exit 3"
    rules = Rules(path=PATH, commands={"noisy": noisy, "fine": "seq 100"})
    results = CheckHarness(tmp_path, {"old.py": "x = 1\n"}, {"new.py": "x = 1\n", "b.py": ""}, rules).evaluate()
    failed = results["noisy"]
    assert failed.modified_files == ("b.py", "new.py")
    assert failed.details.splitlines()[-3:] == ["100", "password=[REDACTED:password_assignment]", "ab"]
    assert len(failed.details.splitlines()) == 20
    assert (results["fine"].details, results["fine"].modified_files) == ("", ())


def test_a_violation_of_the_format_fails(tmp_path: Path) -> None:
    results = CheckHarness(tmp_path, RUFF, {"new.py": "x   =   1\n"}).evaluate()
    assert results["format"].verdict is Verdict.FAIL
    assert results["format"].reason.startswith("exit code 1: ")
    assert "reformat" in results["format"].reason


def test_a_linter_that_could_not_run_is_not_a_success(tmp_path: Path) -> None:
    results = CheckHarness(tmp_path, RUFF, {"ruff.toml": "select = 1\n"}).evaluate()
    assert (results["lint"].verdict, results["lint"].exit_code) == (Verdict.FAIL, 2)


def test_a_scanner_fails_serious_new_findings(tmp_path: Path) -> None:
    base = {"pyproject.toml": "[tool.bandit]\n"}
    bad = "import subprocess\nsubprocess.run('ls ' + input(), shell=True)\n"
    results = CheckHarness(tmp_path / "a", base, {"a.py": bad}).evaluate()
    assert results["security"].verdict is Verdict.FAIL
    assert "a.py:2: B602" in results["security"].reason
    assert (
        CheckHarness(tmp_path / "b", {**base, "a.py": bad}, {"b.py": "x = 1\n"}).evaluate()["security"].verdict
        is Verdict.WARN
    )
    assert CheckHarness(tmp_path / "c", base, {"b.py": "x = 1\n"}).evaluate()["security"].verdict is Verdict.PASS


CODE = "def sign(x):\n    if x < 0:\n        return -1\n    return 1\n"
TESTED = {
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n[tool.coverage.run]\nbranch = true\n',
    "test_a.py": "def test_it():\n    assert True\n",
}
CHANGED = {"a.py": CODE, "test_a.py": "import a\n\ndef test_it():\n    assert a.sign(3) == 1\n"}


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        (Rules(path=PATH), Verdict.PASS),
        (Rules(path=PATH, changed_coverage=80), Verdict.PASS),
        (Rules(path=PATH, changed_coverage=90), Verdict.WARN),
        (Rules(path=PATH, changed_coverage=90, coverage_required=True), Verdict.FAIL),
    ],
)
def test_the_coverage_of_the_change_is_reported(tmp_path: Path, rules: Rules, verdict: Verdict) -> None:
    results = CheckHarness(tmp_path, TESTED, CHANGED, rules).evaluate()
    assert results["unit_test"].reason == "exit code 0"
    assert results["coverage"].verdict is verdict
    assert results["coverage"].reason.startswith("tests reach 5 of 6 changed lines (83 %)")


def test_tests_without_a_report_have_their_coverage_skipped_with_the_reason(tmp_path: Path) -> None:
    text = '[checks.unit_test]\ncommand = "true"\n[checks.coverage]\nreads = "lcov"\n'
    results = CheckHarness(tmp_path, {".orchestrator.toml": text}, {"a.py": CODE}).evaluate()
    assert results["coverage"].verdict is Verdict.SKIPPED
    assert results["coverage"].reason == "the tests wrote no coverage report to $ORCHESTRATOR_REPORT"


def test_a_failed_test_names_its_first_failing_line(tmp_path: Path) -> None:
    wrong = {"a.py": CODE, "test_a.py": "import a\n\ndef test_it():\n    assert a.sign(-3) == 1\n"}
    results = CheckHarness(tmp_path, TESTED, wrong).evaluate()
    assert results["unit_test"].verdict is Verdict.FAIL
    assert results["unit_test"].reason.startswith("exit code 1: E       assert -1 == 1")
    assert results["unit_test"].log == "logs/0-unit_test/stdout.jsonl"


def test_a_new_secret_fails_and_an_old_one_is_not_mentioned(tmp_path: Path) -> None:
    leaky = {"a.py": f'API_KEY = "{SECRET}"\n'}
    results = CheckHarness(tmp_path / "a", {"x.txt": ""}, leaky).evaluate()
    assert results["security"].verdict is Verdict.FAIL
    assert results["security"].reason.startswith("1 finding in changed lines: a.py:1: ")
    assert SECRET not in results["security"].reason
    assert CheckHarness(tmp_path / "b", leaky, {"b.py": "x = 1\n"}).evaluate()["security"].verdict is Verdict.PASS


def test_a_secret_in_a_commit_message_fails(tmp_path: Path) -> None:
    desk = CheckHarness(tmp_path, {"x.txt": ""}, {"a.py": "x = 1\n"})
    token = "ghp_" + SECRET * 2
    git(desk.repo, "commit", "--quiet", "--amend", "--message", f"Call the forge\n\nwith {token}")
    head = git(desk.repo, "rev-parse", "HEAD")
    desk.task = replace(desk.task, source=replace(desk.task.source, head=head))
    result = desk.evaluate()["security"]
    assert result.verdict is Verdict.FAIL
    assert result.reason.startswith(f"1 finding in changed lines: the message of commit {head[:12]}:3: ")
    assert token not in result.reason


def test_a_secret_in_the_output_does_not_reach_the_reason(tmp_path: Path) -> None:
    text = f"[checks.unit_test]\ncommand = \"echo 'error: password={SECRET}9'; exit 1\"\n"
    results = CheckHarness(tmp_path, {".orchestrator.toml": text}, {"a.txt": "x"}).evaluate()
    assert results["unit_test"].reason == "exit code 1: error: password=[REDACTED:password_assignment]"


def test_no_report_can_turn_a_failure_into_a_success(tmp_path: Path) -> None:
    ask = "[checks.{}]\ncommand = '''{}; exit 1'''\nreads = \"ruff\"\n"
    text = ask.format("lint", "echo '[]' > \"$ORCHESTRATOR_REPORT\"")
    text += ask.format("lint_b", 'ln -s /etc/passwd "$ORCHESTRATOR_REPORT"')
    text += ask.format("lint_c", 'mkfifo "$ORCHESTRATOR_REPORT"')
    results = CheckHarness(tmp_path, {".orchestrator.toml": text}, {"a.txt": "x"}).evaluate()
    assert {one.verdict for one in results.values()} == {Verdict.FAIL}


def test_an_integration_test_that_cannot_run_here_is_skipped_with_a_reason(tmp_path: Path) -> None:
    text = "[checks.integration]\ncommand = 'run'\npreflight = 'no-such-tool --health'\ncleanup = 'touch cleaned'\n"
    desk = CheckHarness(tmp_path, {".orchestrator.toml": text}, {"a.txt": "x"})
    results = desk.evaluate()
    assert results["integration_probe"].verdict is Verdict.SKIPPED
    assert results["integration"].verdict is Verdict.SKIPPED
    assert "exit code 127: command not found" in results["integration"].reason
    assert not (desk.repo / "cleaned").exists()


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 7", 7), ("exec sh -c 'exit 3'", 3), ("((", 2)])
def test_cleanup_runs_after_any_end_and_the_exit_code_stays(tmp_path: Path, command: str, code: int) -> None:
    check = Check(name="integration", command=command, cleanup="echo cleaned; exit 9", kind=CheckKind.INTEGRATION)
    done = subprocess.run(argv(check), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, "cleaned")


def test_cleanup_runs_after_sigterm_too(tmp_path: Path) -> None:
    command = "trap '' TERM; echo begun; sleep 600 & wait; wait"
    check = Check(name="integration", command=command, cleanup="echo cleaned", kind=CheckKind.INTEGRATION)
    process = subprocess.Popen(argv(check), cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.terminate()
    assert process.stdout.readline() == "cleaned\n"
    assert process.wait() == 143
    os.killpg(process.pid, 9)
    process.stdout.close()


def test_the_first_failing_line_is_searched_in_rotated_output_first_and_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "stdout.0.jsonl").write_bytes(b"fine\n0 errors\n\x1b[31merror: " + b"x" * 9000 + b"\n")
    (tmp_path / "stdout.jsonl").write_text("error: the second\n")
    line = first_failing_line(tmp_path)
    assert line.startswith("error: xxx")
    assert len(line) == 200
    (tmp_path / "stdout.0.jsonl").unlink()
    (tmp_path / "stdout.jsonl").write_text("nothing\nthe end\n\n")
    assert first_failing_line(tmp_path) == "the end"
    assert first_failing_line(tmp_path / "none") == ""


def test_a_change_that_cannot_be_read_is_no_success(tmp_path: Path) -> None:
    desk = CheckHarness(tmp_path, {"x.txt": ""}, {"a.txt": "x"})
    look = next(check for check in desk.task.evaluation.checks if check.reads is ResultSource.CHANGE)
    gone: Task = replace(desk.task, source=replace(desk.task.source, head="f" * 40))
    result = desk.judge.of_look(gone, look)
    assert result.verdict is Verdict.FAIL
    assert result.reason.startswith("the change could not be read: `git ")
