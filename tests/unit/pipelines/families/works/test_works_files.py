"""The files of a work are read in three languages and written in one, and no text can hurt their reader."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.pipelines.families.works.documents.language import Language, language_named, language_of
from orchestrator.pipelines.families.works.documents.names import Mode, tasks_in
from orchestrator.pipelines.families.works.documents.overview import (
    Overview,
    TaskRow,
    TaskState,
    read_overview,
    write_overview,
)
from orchestrator.pipelines.families.works.documents.plan import (
    FilePlan,
    Plan,
    PlannedTask,
    TaskFile,
    joined,
    problems_of_plan,
    problems_of_task,
    read_plan,
    read_task,
    write_plan,
    write_task,
)
from orchestrator.pipelines.families.works.documents.progress import (
    NO_FILES,
    NOT_COMPLETED,
    NOT_FOUND,
    ChangedFile,
    Progress,
    ProgressStatus,
    gate,
    read_progress,
    write_progress,
)
from orchestrator.pipelines.families.works.documents.requirement import (
    Demand,
    Requirement,
    problems_of_requirement,
    read_requirement,
    write_requirement,
)
from orchestrator.pipelines.families.works.documents.result import (
    TaskReport,
    problems_of_result,
    read_result,
    write_result,
)
from orchestrator.pipelines.families.works.documents.work_list import (
    WorkRow,
    WorkStatus,
    done,
    next_number,
    read_work_list,
    with_work,
)

WORDS = {Language.EN: "the parser of dates", Language.KO: "날짜를 읽는 부분", Language.JA: "日付を読むところ"}

KOREAN_REQUIREMENT = """# Requirement — WORK-07

## Original Request
> 로그인 화면을 만들어 주세요.
> 자동으로 진행

## Functional Requirements (기능 요구사항)
- FR-01: 이메일로 로그인한다
- **FR-02**: 실패하면 메시지를 보인다

## 비기능 요구사항
- NFR-01: 없음

## Acceptance Criteria
- [ ] 로그인에 성공하면 홈으로 간다
- [x] 실패하면 메시지가 보인다
"""


@pytest.mark.parametrize("language", Language)
def test_a_requirement_is_read_as_it_was_written(language: Language) -> None:
    words = WORDS[language]
    requirement = Requirement(
        work="WORK-07",
        request=f"{words}\n\n# a line like a heading",
        functional=(Demand(id="FR-01", text=words), Demand(id="FR-02", text=words)),
        non_functional=(Demand(id="NFR-01", text=words),),
        criteria=(words,),
        language=language,
    )
    text = write_requirement(requirement)
    assert read_requirement(text) == requirement
    assert problems_of_requirement(text, "WORK-07") == ()


def test_a_requirement_with_korean_headings_counts_what_it_demands() -> None:
    found = read_requirement(KOREAN_REQUIREMENT)
    assert [one.id for one in found.functional] == ["FR-01", "FR-02"]
    assert found.non_functional == (), "a line that says there is none is no requirement"
    assert found.criteria == ("로그인에 성공하면 홈으로 간다", "실패하면 메시지가 보인다")
    assert found.request.startswith("로그인 화면을")
    assert found.language is Language.KO


@pytest.mark.parametrize(
    "line",
    ["- FR-01: text", "* **FR-1** — text", "| FR-01 | text |", "### FR-01: text", "1. FR-01: text", "### FR-01\ntext"],
)
def test_requirements_are_found_in_lists_tables_and_headings(line: str) -> None:
    found = read_requirement(f"# Requirement — WORK-01\n## Functional Requirements\n{line}\n")
    assert found.functional == (Demand(id="FR-01", text="text"),)


def test_an_example_in_code_demands_nothing() -> None:
    found = read_requirement("# Requirement — WORK-01\n## Functional Requirements\n```\n- FR-01: a\n```\n- FR-02: b\n")
    assert [one.id for one in found.functional] == ["FR-02"]


def test_what_a_requirement_lacks_is_said_in_words_for_its_author() -> None:
    assert len(problems_of_requirement("# Something", "WORK-07")) == 4
    assert problems_of_requirement(KOREAN_REQUIREMENT, "WORK-08") == (
        "its first heading must be '# Requirement — WORK-08'",
    )
    twice = KOREAN_REQUIREMENT.replace("FR-02", "FR-01")
    assert problems_of_requirement(twice, "WORK-07") == ("FR-01 is used twice",)


KOREAN_PLAN = """# WORK-07: 로그인

> Created: 2026-03-01
> 요구사항: works/WORK-07/Requirement.md
> Execution-Mode: full
> Project: shop
> Tech Stack: Python
> Language: ko
> Status: PLANNED

## 목표
로그인 화면

## Task Dependency Graph
```
TASK-00 -> TASK-01
```

## Tasks

### TASK-00: 모델
- **Depends on**: 없음
- **Scope**: 사용자 모델
- **Files**: `a.py`, `b.py`

### TASK-01: 화면
- **Depends on**: TASK-00
- **Scope**: 화면
- **Files**: c.py
"""


def test_a_plan_with_korean_fields_is_read_and_passes() -> None:
    plan = read_plan(KOREAN_PLAN)
    assert (plan.work, plan.title, plan.mode, plan.language) == ("WORK-07", "로그인", Mode.FULL, Language.KO)
    assert plan.requirement == "works/WORK-07/Requirement.md"
    assert [(task.id, task.after, task.files) for task in plan.tasks] == [
        ("TASK-00", (), ("a.py", "b.py")),
        ("TASK-01", ("TASK-00",), ("c.py",)),
    ]
    assert problems_of_plan(KOREAN_PLAN, "WORK-07") == ()


@pytest.mark.parametrize("language", Language)
def test_a_plan_is_read_as_it_was_written(language: Language) -> None:
    words = WORDS[language]
    tasks = (
        PlannedTask(id="TASK-00", title=words, scope=words, files=("a.py",)),
        PlannedTask(id="TASK-01", title=words, after=("TASK-00",), scope=words),
    )
    plan = Plan(
        work="WORK-100",
        title=words,
        created="2026-01-02",
        requirement="works/WORK-100/Requirement.md",
        mode=Mode.FULL,
        project="shop",
        tech_stack="Python",
        language=language,
        goal=words,
        graph="TASK-00\nTASK-00 -> TASK-01",
        tasks=tasks,
    )
    assert read_plan(write_plan(plan)) == plan
    assert problems_of_plan(write_plan(plan), "WORK-100", mode=Mode.FULL) == ()


def test_what_a_plan_lacks_is_said_in_words_for_its_author() -> None:
    forbidden = KOREAN_PLAN.replace("# WORK-07: ", "# PLAN WORK-07 ")
    assert problems_of_plan(forbidden, "WORK-07") == ("its first heading must be '# WORK-07: title'",)
    without = KOREAN_PLAN.replace("> Tech Stack: Python\n", "").replace("> Project: shop\n", "")
    assert "Project, Tech Stack" in problems_of_plan(without, "WORK-07")[0]
    assert problems_of_plan(KOREAN_PLAN, "WORK-07", mode=Mode.DIRECT) == ("Execution-Mode must be direct, not full",)
    assert problems_of_plan("no title", "WORK-07") == ("PLAN.md: its first heading must be '# WORK-NN: title'",)
    other = KOREAN_PLAN.replace("**Depends on**: TASK-00", "**Depends on**: WORK-03-TASK-00")
    assert "a task of another work" in problems_of_plan(other, "WORK-07")[0]


@pytest.mark.parametrize("language", Language)
def test_a_task_is_read_as_it_was_written(language: Language) -> None:
    words = WORDS[language]
    task = TaskFile(
        id="TASK-01",
        title=words,
        work="WORK-07",
        after=("TASK-00",),
        scope=words,
        files=(FilePlan(path="a|b.py", action="CREATE", description=words),),
        criteria=(words,),
        verify="python -m pytest -q\n# not a heading",
    )
    text = write_task(task, language)
    assert read_task(text, "TASK-01") == task
    assert problems_of_task(text, "TASK-01", "WORK-07") == ()


def test_what_a_task_lacks_is_said_in_words_for_its_author() -> None:
    assert problems_of_task("# TASK-01 title\n## WORK\nWORK-07\n", "TASK-01", "WORK-07") == (
        "'## Scope' is missing or empty",
        "'## Files' is missing or empty",
        "'## Acceptance Criteria' is missing or empty",
        "'## Verify' is missing or empty",
    )


def test_a_task_depends_on_what_its_file_or_the_plan_says() -> None:
    plan = read_plan(KOREAN_PLAN)
    files = {"TASK-02": TaskFile(id="TASK-02", title="c", after=("TASK-01",))}
    assert [(task.id, task.after) for task in joined(plan, files)] == [
        ("TASK-00", ()),
        ("TASK-01", ("TASK-00",)),
        ("TASK-02", ("TASK-01",)),
    ]


def test_ids_are_found_in_text_and_only_whole_ones() -> None:
    assert tasks_in("TASK-0, task-01 (required), TASK-01; MYTASK-3 TASK-4x TASK-100") == (
        "TASK-00",
        "TASK-01",
        "TASK-100",
    )
    assert tasks_in("WORK-07-TASK-02", "WORK-07") == ("TASK-02",)


BULLETS = "# TASK-00\n- Status: COMPLETED\n- Files changed:\n  - `a.py` — CREATE\n  - src/b.py - MODIFY\n- Notes: x\n"
SECTION = "# TASK-00\n- **Status:** COMPLETED\n\n## Files Changed\n- a.py — CREATE\n- src/b.py (MODIFY)\n"
KOREAN = "# TASK-00\n- 상태: COMPLETED\n\n## 변경 파일\n- CREATE: a.py\n- `src/b.py`\n"


@pytest.mark.parametrize("text", [BULLETS, SECTION, KOREAN])
def test_a_progress_file_passes_its_gate_with_a_list_or_a_section(text: str) -> None:
    assert gate(text) == ""
    files = read_progress(text).files
    assert files == (ChangedFile(path="a.py", action="CREATE"), ChangedFile(path="src/b.py"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, NOT_FOUND),
        ("", NOT_COMPLETED),
        (BULLETS.replace("COMPLETED", "IN_PROGRESS"), NOT_COMPLETED),
        (BULLETS.replace("COMPLETED", "NOT COMPLETED"), NOT_COMPLETED),
        ("- Status: COMPLETED\n- Files changed:\n", NO_FILES),
        ("- Status: COMPLETED\n- Files changed: none\n- Other:\n  - a.py\n", NO_FILES),
        ("- Status: COMPLETED\n## Files Changed\nNone\n", NO_FILES),
    ],
)
def test_the_progress_gate_names_its_reason(text: str | None, reason: str) -> None:
    assert gate(text) == reason


def test_a_progress_file_is_read_as_it_was_written() -> None:
    progress = Progress(
        task="TASK-00",
        status=ProgressStatus.IN_PROGRESS,
        started="2026-01-02T03:04:05Z",
        updated="2026-01-02T03:05:05Z",
        files=(ChangedFile(path="a b.py", action="DELETE"),),
    )
    assert read_progress(write_progress(progress)).files == progress.files
    assert read_progress(write_progress(progress)).status is ProgressStatus.IN_PROGRESS
    assert gate(write_progress(Progress(task="TASK-00"))) == NOT_COMPLETED


@pytest.mark.parametrize("mode", [Mode.DIRECT, Mode.FULL])
@pytest.mark.parametrize("language", Language)
def test_a_result_is_read_as_it_was_written_and_has_no_hash(language: Language, mode: Mode) -> None:
    words = WORDS[language]
    is_direct = mode is Mode.DIRECT
    report = TaskReport(
        task="TASK-01",
        title=words,
        work="WORK-07",
        completed="2026-01-02 03:04",
        mode=mode,
        summary=words,
        checklist=() if is_direct else (words,),
        verification=("Build: PASS", "Tests: PASS (12)"),
        files=(
            ChangedFile(path="a.py", action="CREATE"),
            ChangedFile(path="b.py"),
            ChangedFile(path="c", action="DELETE"),
        ),
        issues=() if is_direct else (words,),
        notes=() if is_direct else (words,),
        builder="" if is_direct else f"- what: {words}",
        verifier="" if is_direct else f"- what: {words}\n- why: {words}",
    )
    text = write_result(report, language)
    assert read_result(text, "TASK-01") == report
    assert problems_of_result(text, "TASK-01", "WORK-07") == ()
    assert "Commit:" not in text
    assert ("Execution-Mode: direct" in text) is is_direct


def test_what_a_result_lacks_is_said_in_words_for_its_author() -> None:
    found = problems_of_result("# TASK-01 Result: x\n> WORK: WORK-07\n> Status: **FAILED**\n", "TASK-01", "WORK-07")
    assert "'> Status: **DONE**' is missing below its first heading" in found
    assert len(found) == 5


def test_an_overview_is_read_as_it_was_written() -> None:
    rows = tuple(TaskRow(task=f"TASK-{n:02}", title="a | b", state=state) for n, state in enumerate(TaskState))
    overview = Overview(work="WORK-07", updated="2026-01-02 03:04", is_auto=True, tasks=rows, log=("[03:04] begun",))
    for language in Language:
        assert read_overview(write_overview(overview, language)) == overview


def test_the_first_work_makes_a_list_and_the_next_one_a_line() -> None:
    text = with_work("", WorkRow(work="WORK-01", title="a", status=WorkStatus.IN_PROGRESS, created="2026-01-02"))
    text = with_work(text, WorkRow(work="WORK-02", title="b | c", status=WorkStatus.IN_PROGRESS, created="2026-01-03"))
    works = read_work_list(text)
    assert works.last == 2
    assert [(row.work, row.title, row.completed) for row in works.works] == [
        ("WORK-01", "a", ""),
        ("WORK-02", "b | c", ""),
    ]
    assert next_number(works, ["WORK-05", "_COMPLETED", "notes"]) == 6


def test_a_finished_work_gets_its_status_and_its_date_and_other_lines_stay() -> None:
    text = (
        "# 작업 목록\n\nLAST_WORK_ID: WORK-03\n\n| WORK | 제목 | 상태 | 생성일 | 완료일 |\n|---|---|---|---|---|\n"
        "| WORK-02 |  odd   spacing | DONE | 2026-01-01 | 2026-01-02 | extra |\n"
        "| WORK-03 | 로그인 | IN_PROGRESS | 2026-01-02 | |\n\nnotes of a person\n"
    )
    works = read_work_list(text)
    after = with_work(text, done(works, "WORK-03", "로그인", "2026-02-03"))
    changed = [(old, new) for old, new in zip(text.splitlines(), after.splitlines(), strict=True) if old != new]
    assert changed == [
        ("| WORK-03 | 로그인 | IN_PROGRESS | 2026-01-02 | |", "| WORK-03 | 로그인 | DONE | 2026-01-02 | 2026-02-03 |")
    ]
    assert with_work(after, done(read_work_list(after), "WORK-03", "", "2026-09-09")) == after


def test_a_list_without_header_or_table_gets_them() -> None:
    text = with_work("# Works\nsome text\n", WorkRow(work="WORK-04", title="a", status=None, created="2026-01-02"))
    assert read_work_list(text).last == 4
    assert text.startswith("# Works\n\nLAST_WORK_ID: WORK-04\nsome text\n")
    assert "| WORK-04 | a | IN_PROGRESS | 2026-01-02 | - |" in text


@pytest.mark.parametrize("header", ["LAST_WORK_ID: WORK-09", "> **LAST_WORK_ID**: WORK-09", "last_work_id:WORK-009"])
def test_the_last_id_of_a_list_is_found_and_only_ever_raised(header: str) -> None:
    assert read_work_list(header).last == 9
    older = with_work(header, WorkRow(work="WORK-02", title="a", status=None))
    assert read_work_list(older).last == 9
    newer = with_work(header, WorkRow(work="WORK-10", title="a", status=None))
    assert read_work_list(newer).last == 10


@pytest.mark.parametrize(
    ("name", "language"),
    [("ko-KR", "ko"), ("Korean (한국어)", "ko"), ("日本語", "ja"), ("EN", "en"), ("eo", None), ("", None)],
)
def test_languages_are_known_by_code_and_by_name(name: str, language: str | None) -> None:
    assert language_named(name) == language


def test_the_language_of_a_text_is_seen_from_its_letters() -> None:
    for language, words in WORDS.items():
        assert language_of(words) is language


READERS: dict[str, Callable[[str], object]] = {
    "requirement": lambda text: problems_of_requirement(text, "WORK-01"),
    "plan": lambda text: problems_of_plan(text, "WORK-01"),
    "task": lambda text: problems_of_task(text, "TASK-00", "WORK-01"),
    "progress": gate,
    "result": lambda text: problems_of_result(text, "TASK-00", "WORK-01"),
    "overview": lambda text: _refused(read_overview, text),
    "list": lambda text: _refused(read_work_list, text),
}
SIZE = 200_000
HOSTILE = {
    "blanks": " " * SIZE + "x",
    "hashes": "#" * SIZE,
    "quotes": ">" * SIZE,
    "colons": "a:" * (SIZE // 2),
    "bars": "|" * SIZE,
    "dashes": "|-" * (SIZE // 2) + "x",
    "ticks": "`" * SIZE,
    "fences": "```\n" * (SIZE // 16),
    "brackets": "- [" * (SIZE // 3),
    "items": "- Files changed:\n" * 12_000,
    "files": "## Files Changed\n" * 12_000,
    "tasks": "## Tasks\n### TASK-01: a\n" * 6000,
    "separators": "## Files Changed\n- " + " —" * (SIZE // 2),
    "ids": "## Dependencies\n" + "TASK-" * (SIZE // 5),
    "demands": "## Functional Requirements\n" + "FR-1" * (SIZE // 4),
    "escapes": "| WORK-01 " + "\\|" * (SIZE // 2),
    "header": "LAST_WORK_ID" + " " * SIZE,
    "controls": "\0\x1b\u202e\ud800" * 1000,
    "numbers": "# WORK-" + "9" * SIZE,
    "digits": "# WORK-٣٣: a\n## Functional Requirements\n- FR-٣: a",
    "large": "x" * 5_000_000,
}


def _refused(read: Callable[[str], object], text: str) -> object:
    try:
        return read(text)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_makes_a_reader_slow_or_fail(reader: str, text: str) -> None:
    begun = time.process_time()
    READERS[reader](HOSTILE[text])
    assert time.process_time() - begun < 2


@given(st.text(st.sampled_from("#>-*|`[]:：x \n\\WORKTASKFN01-없음.—"), max_size=300))
def test_no_mixture_of_marks_makes_a_reader_fail(text: str) -> None:
    for read in READERS.values():
        read(f"# WORK-01: a\n## Tasks\n## Files Changed\n{text}")
