"""The lines that a change adds, and the results of linters, scanners and tests for them."""

import json

import pytest

from orchestrator.core.task.checks import ResultSource, Verdict
from orchestrator.pipelines.bundled import bundled_redactor
from orchestrator.workspaces.evaluation.coverage import Coverage, measure_coverage, read_coverage
from orchestrator.workspaces.evaluation.diff import Diff, parse_diff
from orchestrator.workspaces.evaluation.findings import CodeFinding, Severity, read_findings, verdict_on
from orchestrator.workspaces.evaluation.secret_patterns import find_secrets

DIFF = """\
diff --git a/src/a.py b/src/a.py
index 1..2 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1 +1,2 @@ def f():
-old
+new
+++ b/evil.py
@@ -9,2 +10,0 @@
-x
-@@ -1 +1 @@
diff --git a/gone.py b/gone.py
deleted file mode 100644
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/b c.py b/b c.py
new file mode 100644
--- /dev/null
+++ b/b c.py\t
@@ -0,0 +1 @@
+end
\\ No newline at end of file
diff --git a/pic.png b/pic.png
Binary files a/pic.png and b/pic.png differ
"""
CHANGE = Diff(added={"src/a.py": {1: "x", 2: "y"}, "package-lock.json": {7: "z"}})


def test_added_lines_have_their_numbers_and_none_is_taken_for_a_header() -> None:
    assert parse_diff(DIFF).added == {"src/a.py": {1: "new", 2: "++ b/evil.py"}, "b c.py": {1: "end"}}
    assert parse_diff("").added == {}


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("src/a.py", "src/a.py"),
        ("./src/a.py", "src/a.py"),
        ("/data/checkouts/T/1-lint-abc/src/a.py", "src/a.py"),
        ("example.org/mod/src/a.py", "src/a.py"),
        ("a.py", None),
        ("src/aa.py", None),
    ],
)
def test_a_report_may_name_a_file_with_leading_folders(path: str, own: str | None) -> None:
    assert CHANGE.own_path(path) == own


REPORTS = {
    ResultSource.RUFF: [{"filename": "/c/src/a.py", "location": {"row": 2}, "code": "F401", "message": "unused"}],
    ResultSource.ESLINT: [
        {"filePath": "/c/src/a.py", "messages": [{"ruleId": "no-x", "severity": 2, "line": 2, "message": "no"}]}
    ],
    ResultSource.BANDIT: {
        "results": [
            {
                "filename": "./src/a.py",
                "line_number": 2,
                "issue_severity": "HIGH",
                "test_id": "B1",
                "issue_text": "bad",
            }
        ]
    },
    ResultSource.GOSEC: {
        "Issues": [{"file": "/c/src/a.py", "line": "2-3", "severity": "HIGH", "rule_id": "G1", "details": "bad"}]
    },
    ResultSource.NPM_AUDIT: {"vulnerabilities": {"left-pad": {"severity": "critical"}}},
}


@pytest.mark.parametrize(
    ("word", "severity"),
    [("critical", Severity.HIGH), ("Moderate", Severity.MEDIUM), ("medium", Severity.MEDIUM), ("info", Severity.LOW)],
)
def test_every_tools_severity_is_mapped(word: str, severity: Severity) -> None:
    report = json.dumps({"vulnerabilities": {"left-pad": {"severity": word}}})
    assert [one.severity for one in read_findings(ResultSource.NPM_AUDIT, report)] == [severity]


def test_a_finding_without_a_location_is_invalid() -> None:
    with pytest.raises(ValueError, match=r"."):
        read_findings(
            ResultSource.RUFF, json.dumps([{"filename": 7, "location": {"row": 2}, "code": "F", "message": "x"}])
        )


def test_a_truncated_hunk_and_one_with_context_are_read_as_far_as_possible() -> None:
    cut = "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n same\n-old\n+new\n"
    assert parse_diff(cut) == Diff(added={"a.py": {1: "new"}}, removed={"a.py": ["old"]})


def test_a_change_without_lines_contains_no_secret() -> None:
    assert list(find_secrets(Diff(added={"a.py": {}}), bundled_redactor())) == []


@pytest.mark.parametrize("reading", REPORTS)
def test_every_report_is_read_and_findings_of_the_change_fail(reading: ResultSource) -> None:
    verdict, reason = verdict_on(read_findings(reading, json.dumps(REPORTS[reading])), CHANGE)
    assert verdict is Verdict.FAIL
    assert reason.startswith("1 finding in changed lines: ")
    assert verdict_on(read_findings(reading, json.dumps(REPORTS[reading])), Diff())[0] is Verdict.WARN


@pytest.mark.parametrize("reading", REPORTS)
@pytest.mark.parametrize("report", ["", "{}", "[1]", "[{}]", "null", '"x"', "[" * 100_000, '{"results": 1}'])
def test_an_invalid_report_is_refused_or_yields_nothing(reading: ResultSource, report: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_findings(reading, report)


@pytest.mark.parametrize(
    ("severity", "line", "verdict"),
    [
        (Severity.HIGH, 2, Verdict.FAIL),
        (Severity.HIGH, 3, Verdict.WARN),
        (Severity.MEDIUM, 2, Verdict.WARN),
        (Severity.LOW, 2, Verdict.PASS),
    ],
)
def test_only_serious_new_findings_fail(severity: Severity, line: int, verdict: Verdict) -> None:
    assert verdict_on([CodeFinding(path="src/a.py", line=line, severity=severity, text="x")], CHANGE)[0] is verdict


def test_a_reason_names_three_findings_and_can_be_displayed_safely() -> None:
    found = [CodeFinding(path="src/a.py", line=2, severity=Severity.HIGH, text="\x1b[2J" + "x" * 500)] * 5
    reason = verdict_on(found, CHANGE)[1]
    assert reason.startswith("5 findings in changed lines: src/a.py:2: \\x1b[2Jxxx")
    assert (reason.count("src/a.py"), reason.endswith("; …")) == (3, True)
    assert len(reason) < 600


COVERAGE_PY = json.dumps({"files": {"src/a.py": {"executed_lines": [1, 5], "missing_lines": [2]}}})
LCOV = "TN:\nSF:/checkout/src/a.py\nDA:1,3\nDA:2,0\nDA:5,1\nend_of_record\n"
GO = "mode: set\nexample.org/m/src/a.py:1.2,1.9 1 1\nexample.org/m/src/a.py:2.1,4.2 1 0\n"


@pytest.mark.parametrize(
    ("reading", "report"),
    [(ResultSource.COVERAGE_PY, COVERAGE_PY), (ResultSource.LCOV, LCOV), (ResultSource.GO_COVER, GO)],
)
def test_the_coverage_of_the_changed_lines_is_counted(reading: ResultSource, report: str) -> None:
    seen = measure_coverage(read_coverage(reading, report), CHANGE)
    assert (seen, seen.percent) == (Coverage(lines=2, reached=1), 50.0)


def test_a_change_without_code_has_no_lines_to_cover() -> None:
    assert measure_coverage(read_coverage(ResultSource.LCOV, LCOV), Diff(added={"README.md": {1: "x"}})).lines == 0


@pytest.mark.parametrize("reading", [ResultSource.COVERAGE_PY, ResultSource.LCOV, ResultSource.GO_COVER])
@pytest.mark.parametrize(
    "report",
    [
        "",
        "{}",
        "x",
        "null",
        "SF:a\nDA:x,y\n",
        "mode: set\na.go:1.1,999999999.1 1 1\n",
        '{"files": [1]}',
        '{"files": {"a": {"missing_lines": [Infinity]}}}',
    ],
)
def test_an_invalid_coverage_report_is_refused(reading: ResultSource, report: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_coverage(reading, report)


LITERAL = "aB3dE6gH9jK2mN5pQ8"


@pytest.mark.parametrize(
    ("path", "text", "severity"),
    [
        ("src/a.py", f'API_KEY = "{LITERAL}"', Severity.HIGH),
        ("src/a.js", f"const dbPassword = '{LITERAL}';", Severity.HIGH),
        ("tests/test_a.py", f'client_secret = "{LITERAL}"', Severity.MEDIUM),
        ("tests/test_a.py", "-----BEGIN RSA " + "PRIVATE KEY-----", Severity.HIGH),
        ("src/a.py", 'API_KEY = "short"', None),
        ("src/a.py", "token = next_token(stream, position)", None),
        ("src/a.py", 'API_KEY = os.environ["THE_NAME_OF_THE_KEY"]', None),
        ("src/a.py", "host = '10.0.0.17'", None),
    ],
)
def test_secrets_that_a_change_adds_are_found_and_not_repeated(path: str, text: str, severity: Severity | None) -> None:
    found = list(find_secrets(Diff(added={path: {41: "x = 1", 42: text}}), bundled_redactor()))
    assert [(one.line, one.severity) for one in found] == ([(42, severity)] if severity else [])
    assert not any(LITERAL in str(one) for one in found)


def test_a_large_change_is_scanned_in_pieces() -> None:
    lines = dict.fromkeys(range(1, 3000), "y" * 500) | {3000: f'API_KEY = "{LITERAL}"'}
    assert [one.line for one in find_secrets(Diff(added={"a.py": lines}), bundled_redactor())] == [3000]


def test_a_file_whose_name_git_quotes_is_read_too() -> None:
    """Otherwise whoever puts a quotation mark into a name hides what is in the file."""
    quoted = r'"b/a \"b\"\t\\\001é.py"'
    diff = f"diff --git {quoted} {quoted}\n--- /dev/null\n+++ {quoted}\n@@ -0,0 +1 @@\n+key\n"
    assert parse_diff(diff).added == {'a "b"\t\\\x01é.py': {1: "key"}}
