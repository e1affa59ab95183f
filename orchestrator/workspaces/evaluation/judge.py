"""Judge a check by its exit code, by the report it left, or by the change itself.

A report can make a failure less severe but never turn it into a success: the judged code itself may have written the
output. So without a report that lists findings, only the exit code counts.
"""

import os
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.core.task.checks import Check, CheckKind, CheckResult, ResultSource, Verdict
from orchestrator.core.task.task import Task
from orchestrator.formats.files import open_regular, read_file
from orchestrator.redaction.display import escape_text
from orchestrator.redaction.rules import Redactor
from orchestrator.workspaces.clone import WorkspaceError
from orchestrator.workspaces.evaluation.coverage import measure_coverage, read_coverage
from orchestrator.workspaces.evaluation.diff import Diff, read_diff
from orchestrator.workspaces.evaluation.findings import read_findings, verdict_on
from orchestrator.workspaces.evaluation.secret_patterns import find_secrets
from orchestrator.workspaces.evaluation.secret_scan import messages
from orchestrator.workspaces.git import Git, GitError

REPORT = "out/report"
"""The file in a run's folder that a command writes its report to; ORCHESTRATOR_REPORT is its path.

A check may write everything in the folder around it, because some programs write a draft first.
"""
LOOKED_THROUGH = 4 * 1024 * 1024
"""Bytes of a check's output that are searched for the first failing line."""
REPORT_EXIT_CODES = frozenset({0, 1})
"""Exit codes with which linters and scanners say that they did their work; any other code says that they did not."""
LONGEST_DETAILS = 2000
MOST_LINES = 20
MOST_MODIFIED = 50
"""Characters and lines of the end of a failed check's output, and changed files, that are kept with its failure."""
_PYTEST = re.compile(r"(^|[\s/;&|])(pytest|py\.test)(\s|$)")
_FAILING = re.compile(
    r"\b(?:error|fatal|panic|failed|failure|exception|traceback|undefined|cannot|not found)\b"
    r"|^(?:E\s{3}|FAIL|not ok|--- FAIL|would reformat)",
    re.IGNORECASE,
)
_COLOURS = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_HARMLESS = re.compile(r"\b(?:0|no) (?:errors?|failed|failures?)\b|^\s*(?:#|//)", re.IGNORECASE)
# fmt: off
_PASSED_ON = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR", "XDG_CACHE_HOME",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "ORCHESTRATOR_RUN", "VIRTUAL_ENV", "PYENV_ROOT", "CARGO_HOME", "RUSTUP_HOME",
    "GOPATH", "GOCACHE", "GOMODCACHE", "GOROOT", "JAVA_HOME", "NVM_DIR",
})
# fmt: on
WITH_CLEANUP = """exec 2>&1
trap 'trap "" TERM; /bin/sh -c "$2"' EXIT
trap 'exit 143' TERM
/bin/sh -c "$1" &
wait $!"""
"""Runs the cleanup after the command, and after SIGTERM too; the exit code is the command's."""
CLEANUP_GRACE = 60.0
"""Seconds that a cleanup has after its check timed out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRun:
    """How a check's run ended; a negative exit code is a signal, as in `subprocess`.

    `run` is the run's name within the task, `folder` holds its output and report.
    """

    run: str
    folder: Path
    exit_code: int | None
    timed_out: bool = False
    spawn_error: str | None = None
    seconds: float | None = None


def environment(base_env: Mapping[str, str]) -> dict[str, str]:
    """Return what of an environment a check gets: the variables that locate tools and caches, never a token."""
    kept = {name: value for name, value in base_env.items() if name in _PASSED_ON or name.startswith("LC_")}
    return kept | {"CI": "true", "GIT_TERMINAL_PROMPT": "0"}


def argv(check: Check) -> tuple[str, ...]:
    """Return how a check is started, with standard output and error combined as on a terminal."""
    if check.cleanup:
        return ("/bin/sh", "-c", WITH_CLEANUP, "check", check.command, check.cleanup)
    return ("/bin/sh", "-c", f"exec 2>&1\n{check.command}")


def judge(
    check: Check, exit_code: int | None, timed_out: bool = False, spawn_error: str | None = None
) -> tuple[Verdict, str]:
    """Return what a check's end means; a failure is WARN if the check is not required, and SKIPPED for such a probe.

    Finding no tests (pytest, exit code 5) is a failure: the check was chosen because there were tests, or should be.
    """
    if exit_code == 0 and not timed_out and not spawn_error:
        return Verdict.PASS, "exit code 0"
    lenient = Verdict.SKIPPED if check.kind is CheckKind.PROBE else Verdict.WARN
    verdict = Verdict.FAIL if check.required else lenient
    if spawn_error:
        return verdict, f"it could not be started: {escape_text(spawn_error)}"
    if timed_out:
        return verdict, f"it was stopped after {check.timeout:g} s"
    if exit_code is None:
        return verdict, "it ended without an exit code"
    return verdict, f"exit code {exit_code}{_meaning(check, exit_code)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Judges checks; every method blocks. `git_of` returns git for the clone that a task uses."""

    git_of: Callable[[str], Git]
    redactor: Redactor

    def of_run(self, task: Task, check: Check, ended: CheckRun) -> CheckResult:
        """Return the result of a command, with the first failing line of its output."""
        verdict, reason = judge(check, ended.exit_code, ended.timed_out, ended.spawn_error)
        reported = None
        if ended.exit_code in REPORT_EXIT_CODES and not ended.timed_out:
            reported = self._by_report(task, check, ended)
        if reported is not None:
            verdict, reason = reported
        elif verdict is not Verdict.PASS and (line := first_failing_line(ended.folder)):
            reason = f"{reason}: {line}"
        failed = verdict is Verdict.FAIL
        return CheckResult(
            verdict=verdict,
            reason=self.redactor.masked(reason),
            exit_code=ended.exit_code,
            seconds=ended.seconds,
            log=f"{ended.run}/stdout.jsonl",
            details=self.redactor.masked(last_lines(ended.folder / "stdout.jsonl")) if failed else "",
            modified_files=self._modified(task) if failed else (),
        )

    def of_look(self, task: Task, check: Check) -> CheckResult:
        """Return the result of a check that the daemon makes itself: of the tests' report, or of the change."""
        try:
            verdict, reason = self._of_tests(task, check) if check.reads.of_tests else self._of_change(task, check)
        except GitError as error:
            verdict, reason = _unless_optional(check, Verdict.FAIL), f"the change could not be read: {error}"
        return CheckResult(verdict=verdict, reason=self.redactor.masked(reason))

    def _by_report(self, task: Task, check: Check, ended: CheckRun) -> tuple[Verdict, str] | None:
        """Return what the report says; None if it cannot be read, or does not explain a failure."""
        if check.reads is ResultSource.EXIT_CODE or check.reads.by_daemon:
            return None
        try:
            found = read_findings(check.reads, _text(ended.folder / REPORT))
            verdict, reason = verdict_on(found, self._change(task))
        except (ValueError, GitError):
            return None
        if verdict is Verdict.PASS and ended.exit_code != 0:
            return (Verdict.WARN, "only minor findings") if found else None
        return _unless_optional(check, verdict), reason

    def _of_change(self, task: Task, check: Check) -> tuple[Verdict, str]:
        texts = messages(self.git_of(task.id), task.source.base_commit, task.source.commit)
        change = Diff(added={**self._change(task).added, **texts.added})
        verdict, reason = verdict_on(find_secrets(change, self.redactor), change)
        return _unless_optional(check, verdict), reason

    def _of_tests(self, task: Task, check: Check) -> tuple[Verdict, str]:
        log = next(
            (task.evaluation.results[one.name].log for one in task.evaluation.checks if _has_tests(one, task)), None
        )
        if log is None:
            return Verdict.SKIPPED, "no test ran that could have written a coverage report"
        report = _text((Path(task.folder) / log).parent / REPORT)
        if not report:
            return Verdict.SKIPPED, "the tests wrote no coverage report to $ORCHESTRATOR_REPORT"
        try:
            seen = measure_coverage(read_coverage(check.reads, report), self._change(task))
        except ValueError as error:
            return Verdict.SKIPPED, f"the coverage report cannot be read: {error}"
        if not seen.lines:
            return Verdict.SKIPPED, "no line of code in the coverage report was changed"
        reached = f"tests reach {seen.reached} of {seen.lines} changed lines ({seen.percent:.0f} %)"
        if seen.percent >= check.floor:
            return Verdict.PASS, reached
        return _unless_optional(check, Verdict.FAIL), f"{reached}, and {check.floor:g} % are required"

    def _modified(self, task: Task) -> tuple[str, ...]:
        """Return the files that the branch changes, as many as an entry of the failure log may name."""
        flags = ("-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=all")
        try:
            listed = self.git_of(task.id).run("diff-tree", *flags, task.source.base_commit, task.source.commit, "--")
        except (GitError, WorkspaceError):
            return ()
        return tuple(escape_text(name) for name in listed.split("\0") if name)[:MOST_MODIFIED]

    def _change(self, task: Task) -> Diff:
        return read_diff(self.git_of(task.id), task.source.base_commit, task.source.commit)


def first_failing_line(folder: Path) -> str:
    """Return the first line of output that reports a failure, else the last line, at most 200 characters of it."""
    names = (path for path in folder.glob("stdout*.jsonl") if path.is_file() and not path.is_symlink())
    last, looked = "", 0
    for path in sorted(names, key=lambda path: (path.stem == "stdout", len(path.name), path.name)):
        with path.open("rb") as file:
            for row in file:
                line = _COLOURS.sub("", row[:4096].decode("utf-8", "replace")).strip()
                if _FAILING.search(line) and not _HARMLESS.search(line):
                    return escape_text(line)
                last = line or last
                looked += len(row)
                if looked > LOOKED_THROUGH:
                    return escape_text(last)
    return escape_text(last)


def last_lines(output: Path) -> str:
    """Return the end of a run's output, its last lines up to 2000 characters, each escaped."""
    try:
        with os.fdopen(open_regular(output), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2 * LONGEST_DETAILS))
            rows = file.read(2 * LONGEST_DETAILS).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    text = "\n".join(escape_text(_COLOURS.sub("", row), 500) for row in rows[-MOST_LINES:])
    return text[-LONGEST_DETAILS:].strip()


def _has_tests(check: Check, task: Task) -> bool:
    return check.kind is CheckKind.UNIT_TEST and check.name in task.evaluation.results and bool(check.command)


def _unless_optional(check: Check, verdict: Verdict) -> Verdict:
    return Verdict.WARN if verdict is Verdict.FAIL and not check.required else verdict


def _text(path: Path) -> str:
    """Return a report's text, empty if it is not a regular file of sensible size."""
    return (read_file(path) or b"").decode("utf-8", "replace")


def _meaning(check: Check, exit_code: int) -> str:
    if exit_code == 127:
        return ": command not found; install it, or give another check"
    if exit_code == 126:
        return ": the command is there but cannot be executed"
    if exit_code == 5 and _PYTEST.search(check.command):
        return ": pytest found no tests"
    number = -exit_code if exit_code < 0 else exit_code - 128
    if number in {known.value for known in signal.Signals}:
        return f": ended by {signal.Signals(number).name}"
    return ""
