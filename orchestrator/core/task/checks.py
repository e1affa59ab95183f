"""The checks of a commit, their results, and which checks are skipped because of the result of another one.

Checks run in the order of the list. After a failed build nothing else runs, a check whose probe fails is skipped, and
all others always run. A skipped check always has a reason.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

MOST_CHECKS = 50
"""The most checks that a repository, the settings and a submitter may each name."""
REPORT_FILE = "test-report.md"
"""What the daemon writes about an evaluation."""


class Verdict(StrEnum):
    """The verdict of a check; a skipped one always has a reason."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    WARN = "WARN"
    FAIL = "FAIL"
    SKIPPED = "SKIPPED"


class CheckKind(StrEnum):
    """What a check examines; a probe examines only whether the check that needs it can run here."""

    BUILD = "build"
    UNIT_TEST = "unit_test"
    COVERAGE = "coverage"
    LINT = "lint"
    FORMAT = "format"
    SECURITY = "security"
    INTEGRATION = "integration"
    PROBE = "probe"
    OTHER = "other"

    @classmethod
    def of(cls, name: str) -> "CheckKind":
        """Return the kind that a check's name says, as in `lint` or `lint_go`."""
        return next((kind for kind in cls if name == kind or name.startswith(f"{kind}_")), cls.OTHER)

    @property
    def failure(self) -> str:
        """Return the type of failure that is recorded when such a check fails."""
        return _FAILURES.get(self, f"{self}_failure")


_FAILURES = {
    CheckKind.BUILD: "build_error",
    CheckKind.UNIT_TEST: "test_failure",
    CheckKind.SECURITY: "security_fail",
    CheckKind.OTHER: "check_failure",
}


class ResultSource(StrEnum):
    """Where a result is read besides the exit code: in a report of the command or of the tests, or in the change."""

    EXIT_CODE = "exit_code"
    RUFF = "ruff"
    ESLINT = "eslint"
    BANDIT = "bandit"
    GOSEC = "gosec"
    NPM_AUDIT = "npm_audit"
    COVERAGE_PY = "coverage_py"
    LCOV = "lcov"
    GO_COVER = "go_cover"
    CHANGE = "change"

    @property
    def of_tests(self) -> bool:
        """Whether the result is read from a report of the tests, so that no command is run for it."""
        return self in (ResultSource.COVERAGE_PY, ResultSource.LCOV, ResultSource.GO_COVER)

    @property
    def by_daemon(self) -> bool:
        """Whether the daemon reads the result itself, without a command."""
        return self.of_tests or self is ResultSource.CHANGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What a commit is judged by, fixed at submit; without a `command` the daemon itself judges.

    `timeout` is in seconds of running time. `needs` names the probe without which it is skipped. `cleanup` is run after
    the command however that ended. A required one that fails is run up to `tries` times. `floor` is what it has to
    reach, in percent, where it measures. Without `network` it runs in a sandbox that has none.
    """

    name: str
    command: str
    required: bool = True
    timeout: float = 600.0
    source: str = ""
    kind: CheckKind = CheckKind.OTHER
    reads: ResultSource = ResultSource.EXIT_CODE
    needs: str = ""
    cleanup: str = ""
    tries: int = 1
    floor: float = 0.0
    network: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of one check on the judged commit; `log` is the path of its output within the task's folder.

    Of a failure, `details` are the last lines of the output, and `modified_files` what the branch changes.
    """

    verdict: Verdict
    reason: str = ""
    exit_code: int | None = None
    seconds: float | None = None
    log: str | None = None
    details: str = ""
    modified_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Integration:
    """An integration test that the machine offers: a command, a preflight for whether it can run, and a cleanup.

    If the `preflight` fails, the test is skipped, or fails if it is `required`. `timeout` is in seconds.
    """

    command: str
    preflight: str = ""
    cleanup: str = ""
    timeout: float = 1200.0
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the settings say about checks: `commands` by name; an empty command turns that check off.

    `changed_coverage` is what tests should reach of the changed lines, in percent, and 0 only tells; whether less fails
    or warns says `coverage_required`. A required check that failed is run `retry_failed` times more. Programs are
    looked for on `path`, or on PATH where that is None.
    """

    timeout: float = 600.0
    commands: Mapping[str, str] = field(default_factory=dict)
    integration: Integration | None = None
    changed_coverage: float = 0.0
    coverage_required: bool = False
    retry_failed: int = 0
    path: str | None = None


DEFAULT_RULES = Rules()


Results = Mapping[str, CheckResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The checks that the task's commits are judged by, and the results of the newest evaluation."""

    checks: tuple[Check, ...] = ()
    results: Results = field(default_factory=dict)
    report_path: str | None = None

    @property
    def next_check(self) -> Check | None:
        """Return the first check that has no result yet."""
        return next((check for check in self.checks if check.name not in self.results), None)


NOT_EVALUATED = Evaluation()


def first_try(name: str) -> str:
    """Return the name under which the result of the first try is kept when a check ran twice."""
    return f"{name} (first try)"


def with_result(checks: Sequence[Check], results: Results, name: str, result: CheckResult) -> Results:
    """Return the results with one more, and with the checks that are skipped because of it; a flaky one runs again."""
    check = next((one for one in checks if one.name == name), None)
    failed = check is not None and result.verdict is Verdict.FAIL
    if check is not None and failed and check.tries > 1 and first_try(name) not in results:
        again = replace(result, verdict=Verdict.WARN, reason=f"it failed and was run once more: {result.reason}")
        return {**results, first_try(name): again}
    known = {**results, name: result}
    spared = ((one.name, _spared(one, check, result)) for one in checks if check and one.name not in known)
    return known | {name: CheckResult(verdict=Verdict.SKIPPED, reason=reason) for name, reason in spared if reason}


def _spared(check: Check, ended: Check, result: CheckResult) -> str:
    """Return why a check is skipped after the result of another one; empty if it is not."""
    if ended.kind is CheckKind.BUILD and result.verdict is Verdict.FAIL:
        return f"the build failed ({ended.name})"
    if check.needs == ended.name and result.verdict not in (Verdict.PASS, Verdict.WARN):
        return f"{ended.name}: {result.reason}"
    return ""


def nothing_ran(checks: Iterable[Check], results: Results) -> bool:
    """Return whether no command ran that could show that the change works."""
    own = {check.name for check in checks if not check.command or check.kind is CheckKind.PROBE}
    return all(result.verdict is Verdict.SKIPPED or name in own for name, result in results.items())
