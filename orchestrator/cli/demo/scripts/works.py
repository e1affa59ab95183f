"""A specified work in the demo: its requirement, its plan, and what builder, verifier and committer leave."""

from collections.abc import Mapping

from orchestrator.cli.demo.scripts.job import CODE, RUN_TESTS, TESTS, WORDS
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.formats.codec import JsonObject
from orchestrator.pipelines.families.works.documents.language import Language
from orchestrator.pipelines.families.works.documents.names import Mode
from orchestrator.pipelines.families.works.documents.plan import (
    FilePlan,
    Plan,
    PlannedTask,
    TaskFile,
    write_plan,
    write_task,
)
from orchestrator.pipelines.families.works.documents.progress import (
    ChangedFile,
    Progress,
    ProgressStatus,
    write_progress,
)
from orchestrator.pipelines.families.works.documents.requirement import Demand, Requirement, write_requirement
from orchestrator.pipelines.families.works.documents.result import TaskReport, write_result
from orchestrator.pipelines.families.works.exchange.handoff import Handoff
from orchestrator.pipelines.families.works.exchange.task_result import (
    CheckReport,
    Outcome,
    TaskResult,
    write_task_result,
)
from orchestrator.pipelines.role import Role

WORK, OF_WORK, KEY = "{ticket}", "{parent}", "{key}"
"""How the scripted agent is told the ids: of a work in its own turns and in those of its tasks, and of a task."""
DAY, MINUTE = "2026-11-22", "2026-11-22 08:00"
CHECKS = tuple(CheckReport(name=name, outcome=Outcome.PASS, text=RUN_TESTS) for name in ("build", "tests"))
SEVEN = ("progress", "build", "lint", "tests", "task-specific", "files", "conventions")
MODES = {"work-direct": Mode.DIRECT, "work-pipeline": Mode.PIPELINE}
"""The mode of a work where its pipeline fixes that; any other demo has two tasks."""
DEMANDS = (
    Demand(id="FR-01", text="`slugify(text)` joins the words of a text in small letters by single hyphens"),
    Demand(id="FR-02", text="a text without letters and digits gives an empty slug"),
    Demand(id="FR-03", text="README.md says what it does"),
)
FILES = {"TASK-00": {**CODE}, "TASK-01": {**WORDS}}
TITLES = {"TASK-00": "Add slugify with its test", "TASK-01": "Describe slugify in README.md"}


def work_turns(pipeline: Pipeline, roles: Mapping[str, Role]) -> dict[str, list[JsonObject]]:
    """Return what is done in the stages of a work, or of one of its tasks."""
    del roles
    mode = MODES.get(pipeline.name, Mode.FULL)
    if "BUILD" in pipeline.stages:
        return _task_turns(Mode.DIRECT if pipeline.name.endswith("direct") else mode)
    planned: JsonObject = {"PLAN.md": write_plan(_plan(mode))}
    planned |= {f"{key}.md": write_task(_task(key), Language.EN) for key in _keys(mode)}
    specified: JsonObject = {"Requirement.md": write_requirement(_requirement(mode))}
    both = {**specified, **planned} if mode is Mode.DIRECT else specified
    return {"SPECIFICATION": [{"leave": both}], "PLANNING": [{"leave": planned}]}


def _task_turns(mode: Mode) -> dict[str, list[JsonObject]]:
    turns: dict[str, list[JsonObject]] = {}
    for key, files in FILES.items():
        changed = tuple(ChangedFile(path=path.removeprefix("./")) for path in files)
        done = Progress(task=KEY, status=ProgressStatus.COMPLETED, started=MINUTE, updated=MINUTE, files=changed)
        report = TaskReport(
            task=KEY, title=TITLES[key], work=OF_WORK, completed=MINUTE, mode=mode, summary=TITLES[key],
            checklist=("the tests pass",), verification=("Tests: PASS (3)",), files=changed, builder="- what: all",
        )  # fmt: skip
        progress, result = f"works/{OF_WORK}/{KEY}_progress.md", f"works/{OF_WORK}/{KEY}_result.md"
        turns |= {
            f"BUILD of {key}": [
                {"leave": {**files, progress: write_progress(done)}},
                {"run": RUN_TESTS},
                {"answer": _answer("builder", key, changed)},
            ],
            f"VERIFICATION of {key}": [{"run": RUN_TESTS}, {"answer": _answer("verifier", key, changed)}],
            f"COMMIT of {key}": [
                {"leave": {result: write_result(report, Language.EN)}},
                {"commit": f"feat({KEY}): {TITLES[key]}"},
                {"answer": _answer("committer", key, changed)},
            ],
        }
    return turns


def _keys(mode: Mode) -> tuple[str, ...]:
    return tuple(FILES) if mode is Mode.FULL else ("TASK-00",)


def _requirement(mode: Mode) -> Requirement:
    demands = DEMANDS if mode is Mode.FULL else DEMANDS[:2]
    criteria = ("`python3 -m unittest` passes, with a test for each requirement",)
    return Requirement(
        work=WORK, request="Add slugify(text)", functional=demands, criteria=criteria, language=Language.EN
    )


def _plan(mode: Mode) -> Plan:
    keys = _keys(mode)
    tasks = tuple(
        PlannedTask(id=key, title=TITLES[key], after=keys[:at], scope=TITLES[key], files=tuple(map(_plain, FILES[key])))
        for at, key in enumerate(keys)
    )
    return Plan(
        work=WORK, title="Slugs for textkit", created=DAY, requirement=f"works/{WORK}/Requirement.md", mode=mode,
        project="textkit", tech_stack="Python", goal="textkit can turn a title into a part of a URL.", tasks=tasks,
    )  # fmt: skip


def _task(key: str) -> TaskFile:
    return TaskFile(
        id=key,
        title=TITLES[key],
        work=WORK,
        after=("TASK-00",) if key != "TASK-00" else (),
        scope=TITLES[key],
        files=tuple(FilePlan(path=_plain(path), action=_action(path), description="see Scope") for path in FILES[key]),
        criteria=("the tests pass",),
        verify=RUN_TESTS,
    )


def _plain(path: str) -> str:
    return path.removeprefix("./")


def _action(path: str) -> str:
    return "CREATE" if path == TESTS else "MODIFY"


def _answer(agent: str, key: str, files: tuple[ChangedFile, ...]) -> str:
    names = SEVEN if agent == "verifier" else ("build", "tests")
    handoff = Handoff(
        source=agent, what=TITLES[key], why="The requirement asks for it.", caution="None", incomplete="None"
    )
    return write_task_result(
        TaskResult(
            work=OF_WORK,
            task=KEY,
            agent=agent,
            outcome=Outcome.PASS,
            summary=TITLES[key],
            files=files,
            checks=tuple(CheckReport(name=name, outcome=Outcome.PASS, text=RUN_TESTS) for name in names),
            handoff=handoff if agent != "committer" else None,
            commit="{head}" if agent == "committer" else "",
        )
    )
