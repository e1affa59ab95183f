"""Which checks a base commit gets, and what their exit codes mean."""

import sys
from pathlib import Path

import pytest

from orchestrator.core.task.checks import MOST_CHECKS, Check, CheckKind, Integration, ResultSource, Rules, Verdict
from orchestrator.formats.table import DefinitionError
from orchestrator.workspaces.evaluation.check_file import CheckError, changed_on_branch
from orchestrator.workspaces.evaluation.judge import environment, judge
from orchestrator.workspaces.evaluation.languages import parse_known
from orchestrator.workspaces.evaluation.resolve import resolve
from orchestrator.workspaces.git import Git
from tests.fakes.repositories import commit, git, repository

BESIDE_PYTHON = str(Path(sys.executable).parent)
PROGRAMS = ("python3", "npm", "npx", "go", "gofmt", "cargo", "mvn", "gradle", "java", "make", "ruff")
RUFF = (
    'ruff check --output-format=json --output-file="$ORCHESTRATOR_REPORT" . || { code=$?; ruff check .; exit $code; }'
)
GO_TEST = 'go test -coverprofile="$ORCHESTRATOR_REPORT" ./...'
GOFMT = 'found=$(gofmt -l .) && echo "$found" && test -z "$found"'
LOOK = {"security": ""}


@pytest.fixture
def tools(tmp_path: Path) -> str:
    """A folder with only these programs."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in PROGRAMS:
        (folder / name).write_text("#!/bin/sh\nexit 1\n")
        (folder / name).chmod(0o755)
    return str(folder)


def found(tmp_path: Path, files: dict[str, str], path: str) -> dict[str, str]:
    base = repository(tmp_path / "repo", files)
    checks = resolve(Git.foreign(tmp_path / "repo"), base, {}, Rules(path=path))
    return {check.name: check.command for check in checks}


def checks_of(tmp_path: Path, files: dict[str, str], given: dict[str, str] | None = None) -> dict[str, str]:
    base = repository(tmp_path / "repo", files)
    return {check.name: check.command for check in resolve(Git.foreign(tmp_path / "repo"), base, given or {})}


PYTEST = "python3 -m pytest -q"
NPM = "npm ci --no-audit --no-fund && npm "


@pytest.mark.parametrize(
    ("files", "commands"),
    [
        ({"a.txt": ""}, {}),
        ({"tests/unit/test_a.py": ""}, {"unit_test": PYTEST}),
        ({"test_a.py": ""}, {"unit_test": PYTEST}),
        ({"pytest.ini": ""}, {"unit_test": PYTEST}),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, {"unit_test": PYTEST}),
        ({"pyproject.toml": "[tool.ruff]\n", "src/contest.py": ""}, {"lint": RUFF}),
        ({"ruff.toml": "[format]\n"}, {"lint": RUFF, "format": "ruff format --check ."}),
        ({"package.json": '{"scripts": {"test": "jest"}}'}, {"unit_test": "npm test"}),
        (
            {"package.json": '{"scripts": {"test": "jest", "build": "tsc"}}', "package-lock.json": "{}"},
            {"build": f"{NPM}run build", "unit_test": f"{NPM}test"},
        ),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, {}),
        ({"package.json": "[" * 100_000}, {}),
        ({"package.json": '{"scripts": [1]}'}, {}),
        (
            {"Cargo.toml": "", "go.mod": ""},
            {
                "build": "go build ./...",
                "build_rust": "cargo build --all-targets",
                "unit_test": GO_TEST,
                "unit_test_rust": "cargo test",
                "coverage": "",
                "lint": "go vet ./...",
                "format": GOFMT,
            },
        ),
        ({"pom.xml": ""}, {"build": "mvn -q -B -DskipTests package", "unit_test": "mvn -q -B test"}),
        (
            {"build.gradle.kts": "", "gradlew": ""},
            {"build": "sh ./gradlew --console=plain assemble", "unit_test": "sh ./gradlew --console=plain test"},
        ),
        ({"Makefile": "all: test\ntest: all\n\ttrue\n"}, {"unit_test": "make test"}),
        ({"Makefile": "test := 1\n"}, {}),
        ({"Makefile": "test:\n\ttrue\n", "package.json": '{"scripts": {"test": "jest"}}'}, {"unit_test": "npm test"}),
    ],
)
def test_the_usual_tools_are_detected_by_their_files(
    tmp_path: Path, tools: str, files: dict[str, str], commands: dict[str, str]
) -> None:
    assert found(tmp_path, files, tools) == commands | LOOK


def test_without_its_tools_only_tests_are_listed_and_will_name_what_is_missing(tmp_path: Path) -> None:
    files = {"go.mod": "", "pom.xml": "", "ruff.toml": "", "package.json": '{"scripts": {"test": "jest"}}'}
    commands = {"unit_test": "npm test", "unit_test_go": GO_TEST, "unit_test_java": "mvn -q -B test"}
    assert found(tmp_path, files, str(tmp_path / "none")) == commands | LOOK


def test_coverage_is_measured_where_the_repository_configures_it_and_it_is_installed(tmp_path: Path) -> None:
    files = {"test_a.py": "", ".coveragerc": "[run]\nbranch = true\n"}
    base = repository(tmp_path / "repo", files)
    checks = resolve(Git.foreign(tmp_path / "repo"), base, {}, Rules(path=BESIDE_PYTHON, changed_coverage=80))
    assert [check.name for check in checks] == ["unit_test", "coverage", "security"]
    assert checks[0].command.startswith("python3 -m coverage run -m pytest -q\n")
    assert (checks[1].reads, checks[1].floor, checks[1].required) == (ResultSource.COVERAGE_PY, 80, False)


def test_built_in_language_definitions_are_validated_like_any_other() -> None:
    text = '[[checks]]\nlanguage = "x"\nname = "tests"\nreads = "rof"\nsigns = [{ path = "(" }]\n'
    with pytest.raises(DefinitionError) as caught:
        parse_known(text, "checks.toml")
    told = str(caught.value)
    assert "checks.toml:3: unknown check 'tests'; known: build" in told
    assert "checks.toml:4: unknown reads 'rof'" in told
    assert "checks.toml:5: path is not a regular expression" in told


def test_settings_define_and_disable_checks_and_the_submitter_overrides_them(tmp_path: Path) -> None:
    base = repository(tmp_path / "repo", {".orchestrator.toml": DECLARED})
    rules = Rules(commands={"security": "", "lint": "make lint", "unit_test": "make all"}, retry_failed=1)
    checks = resolve(Git.foreign(tmp_path / "repo"), base, {"unit_test": "make fast"}, rules)
    assert [(check.name, check.command, check.source) for check in checks] == [
        ("lint", "make lint", "settings"),
        ("unit_test", "make fast", "submitter"),
    ]
    assert {check.tries for check in checks} == {2}


def test_an_integration_test_of_the_machine_has_a_probe_before_it_and_builds_come_first(tmp_path: Path) -> None:
    files = {".orchestrator.toml": '[checks.a]\ncommand = "a"\n[checks.build]\ncommand = "b"\n'}
    base = repository(tmp_path / "repo", files)
    offered = Integration(command="run", preflight="health", cleanup="down")
    build, first, probe, test = resolve(Git.foreign(tmp_path / "repo"), base, {}, Rules(integration=offered))
    assert (build.kind, first.name) == (CheckKind.BUILD, "a")
    assert (probe.name, probe.command, probe.required, probe.kind) == (
        "integration_probe",
        "health",
        False,
        CheckKind.PROBE,
    )
    assert (test.needs, test.cleanup, test.timeout, test.required) == ("integration_probe", "down", 1200, True)
    off = Rules(integration=offered, commands={"integration": ""})
    assert [check.name for check in resolve(Git.foreign(tmp_path / "repo"), base, {}, off)] == ["build", "a"]


DECLARED = """\
[checks.unit_test]
command = "make check"
timeout = 90

[checks.security]
command = "./scan"
required = false
"""


def test_declared_checks_of_the_repository_replace_the_detected_ones(tmp_path: Path) -> None:
    base = repository(tmp_path / "repo", {".orchestrator.toml": DECLARED, "test_a.py": ""})
    first, second = resolve(Git.foreign(tmp_path / "repo"), base, {}, Rules(timeout=30))
    here = ".orchestrator.toml"
    assert first == Check(name="unit_test", command="make check", timeout=90, source=here, kind=CheckKind.UNIT_TEST)
    assert second == Check(
        name="security", command="./scan", required=False, timeout=30, source=here, kind=CheckKind.SECURITY
    )


def test_a_file_without_checks_leaves_detection_on_and_an_empty_table_means_none(tmp_path: Path) -> None:
    assert checks_of(tmp_path / "a", {".orchestrator.toml": "", "test_a.py": ""}) == {"unit_test": PYTEST} | LOOK
    assert checks_of(tmp_path / "b", {".orchestrator.toml": "[checks]\n", "go.mod": ""}) == {}


def test_the_submitter_overrides_the_checks(tmp_path: Path) -> None:
    given = {"unit_test": "pytest tests/fast", "smoke": "./smoke"}
    assert checks_of(tmp_path, {".orchestrator.toml": DECLARED}, given) == {
        "unit_test": "pytest tests/fast",
        "security": "./scan",
        "smoke": "./smoke",
    }


@pytest.mark.parametrize(
    ("name", "command"), [("a b", "x"), ("", "x"), ("../x", "x"), ("a\n", "x"), ("a", " "), ("a", "\0")]
)
def test_an_invalid_check_is_refused(tmp_path: Path, name: str, command: str) -> None:
    with pytest.raises(CheckError, match="NAME=COMMAND"):
        checks_of(tmp_path, {"a.txt": ""}, {name: command})


def test_all_misspellings_are_reported_by_line_with_the_nearest_name(tmp_path: Path) -> None:
    text = (
        '[checks.unit_test]\ncomand = "x"\ntimeout = "soon"\nrequired = 1\n\n[chekcs]\n[checks."a b"]\ncommand = "x"\n'
    )
    with pytest.raises(DefinitionError) as caught:
        checks_of(tmp_path, {".orchestrator.toml": text})
    told = str(caught.value)
    assert ".orchestrator.toml:2: unknown key 'comand'; did you mean 'command'?" in told
    assert ".orchestrator.toml:3: timeout" in told
    assert ".orchestrator.toml:4: required" in told
    assert ".orchestrator.toml:6: unknown key 'chekcs'; did you mean 'checks'?" in told
    assert ".orchestrator.toml:8: 'a b'" in told


def test_too_many_checks_are_refused(tmp_path: Path) -> None:
    text = "".join(f"[checks.a{number}]\ncommand = 'true'\n" for number in range(MOST_CHECKS + 1))
    with pytest.raises(DefinitionError, match=r"\.orchestrator\.toml:1: 51 checks are too many"):
        checks_of(tmp_path, {".orchestrator.toml": text})


@pytest.mark.parametrize(
    "text", ["checks = 3\n", "[checks]\nunit_test = 'x'\n", "[checks.a]\n", "no toml", "checks = []\n"]
)
def test_a_file_of_another_structure_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(DefinitionError):
        checks_of(tmp_path, {".orchestrator.toml": text})


def test_a_file_that_is_a_link_or_too_large_or_binary_is_refused(tmp_path: Path) -> None:
    repository(tmp_path / "repo")
    place = tmp_path / "repo/.orchestrator.toml"
    place.symlink_to("/etc/passwd")
    bases = [commit(tmp_path / "repo", {})]
    place.unlink()
    bases.append(commit(tmp_path / "repo", {".orchestrator.toml": "#" * 300_000}))
    place.write_bytes(b'[checks.a]\ncommand = "\xff"\n')
    bases.append(commit(tmp_path / "repo", {}))
    for base in bases:
        with pytest.raises(CheckError):
            resolve(Git.foreign(tmp_path / "repo"), base, {})


def test_checks_come_from_the_base_commit_and_never_from_the_branch(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    base = repository(repo, {".orchestrator.toml": DECLARED})
    git(repo, "checkout", "--quiet", "-b", "work")
    other = commit(repo, {"a.txt": "x"})
    head = commit(repo, {".orchestrator.toml": '[checks.unit_test]\ncommand = "true"\n'})
    reader = Git.foreign(repo)
    assert resolve(reader, base, {})[0].command == "make check"
    assert (changed_on_branch(reader, base, other), changed_on_branch(reader, base, head)) == (False, True)


def test_a_check_gets_no_secret_of_the_daemons_environment() -> None:
    base = {
        "PATH": "/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "ANTHROPIC_API_KEY": "s",
        "GITHUB_TOKEN": "s",
        "AWS_PROFILE": "p",
    }
    base |= {"ORCHESTRATOR_RUN": "T-1/c", "ORCHESTRATOR_DATA_DIR": "/d", "GIT_DIR": "/g", "LD_PRELOAD": "/x.so"}
    assert environment(base) == {
        "PATH": "/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "ORCHESTRATOR_RUN": "T-1/c",
        "CI": "true",
        "GIT_TERMINAL_PROMPT": "0",
    }


UNIT = Check(name="unit_test", command="python3 -m pytest -q", timeout=90)
LINT = Check(name="lint", command="ruff check .", required=False)


@pytest.mark.parametrize(
    ("check", "exit_code", "verdict", "reason"),
    [
        (UNIT, 0, Verdict.PASS, "exit code 0"),
        (UNIT, 1, Verdict.FAIL, "exit code 1"),
        (LINT, 1, Verdict.WARN, "exit code 1"),
        (UNIT, 5, Verdict.FAIL, "exit code 5: pytest found no tests"),
        (LINT, 5, Verdict.WARN, "exit code 5"),
        (UNIT, 126, Verdict.FAIL, "exit code 126: the command is there but cannot be executed"),
        (LINT, 127, Verdict.WARN, "exit code 127: command not found; install it, or give another check"),
        (UNIT, -9, Verdict.FAIL, "exit code -9: ended by SIGKILL"),
        (UNIT, 137, Verdict.FAIL, "exit code 137: ended by SIGKILL"),
        (UNIT, None, Verdict.FAIL, "it ended without an exit code"),
    ],
)
def test_an_exit_code_has_one_meaning(check: Check, exit_code: int | None, verdict: Verdict, reason: str) -> None:
    assert judge(check, exit_code) == (verdict, reason)


def test_a_check_that_was_stopped_or_never_started_is_no_success() -> None:
    assert judge(UNIT, 0, timed_out=True) == (Verdict.FAIL, "it was stopped after 90 s")
    assert judge(UNIT, None, spawn_error="no\nsh") == (Verdict.FAIL, "it could not be started: no\\nsh")
