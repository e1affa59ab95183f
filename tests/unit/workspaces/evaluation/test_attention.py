"""What a branch changes of that which judges it."""

import pytest

from orchestrator.workspaces.evaluation.attention import notes
from orchestrator.workspaces.evaluation.diff import Diff, parse_diff

COMMANDS = ("make test", "./scripts/check.sh --all && python -m pytest tests")


@pytest.mark.parametrize(
    ("path", "kind", "says"),
    [
        (".orchestrator.toml", "M", "it declares the checks"),
        ("Makefile", "M", "how the project is built, tested or checked"),
        ("sub/pyproject.toml", "A", "was added: it says how"),
        (".github/workflows/ci.yml", "D", "was deleted: it says how"),
        ("package.json", "M", "was changed: it says how"),
        ("tests/conftest.py", "A", "the tests load it"),
        ("scripts/check.sh", "M", "a check runs it"),
        ("pytest.py", "A", "in place of the module pytest"),
        ("tests/json/__init__.py", "A", "in place of the module json"),
        ("src/unittest.py", "A", "in place of the module unittest"),
        ("node_modules/jest/index.js", "A", "not written"),
        ("tests/test_a.py", "D", "was deleted: it had tests"),
        ("src/a.spec.ts", "D", "was deleted: it had tests"),
    ],
)
def test_a_change_of_what_judges_the_branch_is_noted(path: str, kind: str, says: str) -> None:
    (note,) = notes({path: kind}, Diff(), COMMANDS)
    assert note.startswith(path)
    assert says in note


@pytest.mark.parametrize("path", ["src/slug.py", "README.md", "src/app/json.py", "docs/tests.md", "contest.py"])
def test_an_ordinary_change_is_not(path: str) -> None:
    assert list(notes({path: "A"}, Diff(added={path: {1: "import pytest", 2: "x = skip()"}}), COMMANDS)) == []


def test_a_module_that_was_there_before_takes_no_place() -> None:
    assert list(notes({"json.py": "M"}, Diff(), ())) == []


SKIPS = """\
diff --git a/tests/test_a.py b/tests/test_a.py
--- a/tests/test_a.py
+++ b/tests/test_a.py
@@ -3,2 +3 @@
-def test_one() -> None:
-    assert one() == 1
+@pytest.mark.skip
@@ -9 +8 @@
-async def test_two() -> None:
+def test_three() -> None:
@@ -20 +19,0 @@
-    def test_in_a_class(self) -> None:
"""


def test_tests_that_are_removed_or_skipped_are_counted() -> None:
    assert list(notes({"tests/test_a.py": "M"}, parse_diff(SKIPS), ())) == [
        "tests/test_a.py has 2 tests fewer than before",
        "tests/test_a.py skips tests, in line 3",
    ]


@pytest.mark.parametrize(
    "line",
    [
        *("pytest.skip('later')", "@unittest.skip('x')", "self.skipTest('x')", "it.skip('x', () => {})", "xit('x')"),
        *("describe.only('x')", "t.Skip()", "@Disabled", "#[ignore]", "pytestmark = pytest.mark.skipif(True)"),
    ],
)
def test_a_skip_is_known_in_many_languages(line: str) -> None:
    path = "tests/test_a.py"
    assert list(notes({path: "M"}, Diff(added={path: {7: line}}), ())) == [f"{path} skips tests, in line 7"]
