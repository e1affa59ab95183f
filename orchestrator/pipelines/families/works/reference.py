"""The formats of a work's files as agents read them: examples that the writers of these formats made."""

from orchestrator.pipelines.families.works.documents.language import Language
from orchestrator.pipelines.families.works.documents.names import Mode, task_id
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
    FailureReport,
    Outcome,
    TaskResult,
    write_task_result,
)

FORMATS = "work-formats.md"
_NAMES = {Language.EN: "English", Language.KO: "Korean", Language.JA: "Japanese"}
_HANDOFF = Handoff(
    source="builder", what="2 to 5 lines: what was done", why="2 to 4 lines: why this way",
    caution="1 to 3 lines: what others must take care of", incomplete="1 or 2 lines, or None",
)  # fmt: skip


def formats_in(language: Language, work: str, key: str = task_id(0)) -> str:
    """Return an example of every file of a work, with the headings that the language has, and of a task-result."""
    files = (
        ("Requirement.md", _requirement(language, work)),
        ("PLAN.md", _plan(language, work)),
        (f"{key}.md", _task(language, work, key)),
        (f"{key}_progress.md", _progress(key)),
        (f"{key}_result.md", write_result(_report(work, key, Mode.FULL), language)),
        (f"{key}_result.md of a direct work", write_result(_report(work, key, Mode.DIRECT), language)),
    )
    parts = "\n".join(f"## {name}\n\n````markdown\n{text}````\n" for name, text in files)
    return (
        f"# Formats of the files of {work}\n\n"
        f"Write prose in {_NAMES[language]}, with the headings shown here. Ids, file names, field names, statuses, "
        "modes and the types of commits are the same in every language.\n\n"
        f"{parts}\n## A task-result\n\n"
        "Escape `&`, `<` and `>` in texts, or put the text into CDATA. A check's status is PASS, WARN, FAIL or N/A.\n\n"
        f"```xml\n{write_task_result(_result(work, key))}```\n"
    )


def _requirement(language: Language, work: str) -> str:
    return write_requirement(
        Requirement(
            work=work,
            request="The request, word for word.",
            functional=(Demand(id="FR-01", text="what it must do, so that one can see whether it does"),),
            non_functional=(Demand(id="NFR-01", text="how fast, how safe, how compatible; none if not asked"),),
            criteria=("a command or an observation that decides whether it is done",),
            language=language,
        )
    )


def _plan(language: Language, work: str) -> str:
    scope = "what it covers, in one line"
    return write_plan(
        Plan(
            work=work,
            title="what the work achieves",
            created="YYYY-MM-DD",
            requirement=f"works/{work}/Requirement.md",
            mode=Mode.FULL,
            project="the project's name",
            tech_stack="languages and frameworks",
            language=language,
            goal="What will be true when every task is done.",
            graph="TASK-00\nTASK-00 -> TASK-01",
            tasks=(
                PlannedTask(id="TASK-00", title="what it does", scope=scope, files=("src/a.py",)),
                PlannedTask(id="TASK-01", title="what it does", after=("TASK-00",), scope=scope, files=("src/b.py",)),
            ),
        )
    )


def _task(language: Language, work: str, key: str) -> str:
    return write_task(
        TaskFile(
            id=key,
            title="what it does",
            work=work,
            scope="What it covers, and what it leaves to other tasks.",
            files=(FilePlan(path="src/a.py", action="CREATE", description="why"),),
            criteria=("what one can observe when it is done",),
            verify="the commands that prove it, exactly as they are to be run",
        ),
        language,
    )


def _progress(key: str) -> str:
    return write_progress(
        Progress(
            task=key,
            status=ProgressStatus.COMPLETED,
            started="YYYY-MM-DDTHH:MM:SSZ",
            updated="YYYY-MM-DDTHH:MM:SSZ",
            files=(ChangedFile(path="src/a.py", action="CREATE"),),
        )
    )


def _report(work: str, key: str, mode: Mode) -> TaskReport:
    return TaskReport(
        task=key,
        title="what it does",
        work=work,
        completed="YYYY-MM-DD HH:MM",
        mode=mode,
        summary="What changed, in one or two lines.",
        checklist=("each acceptance criterion of the task",),
        verification=("Build: PASS", "Lint: PASS", "Tests: PASS (12)"),
        files=(ChangedFile(path="src/a.py", action="CREATE"), ChangedFile(path="src/b.py")),
        builder=f"- what: {_HANDOFF.what}",
        verifier=_HANDOFF.text,
    )


def _result(work: str, key: str) -> TaskResult:
    return TaskResult(
        work=work,
        task=key,
        agent="verifier",
        outcome=Outcome.FAIL,
        summary="one or two lines",
        reason="only with FAIL: why, in one line",
        files=(ChangedFile(path="src/a.py", action="CREATE"),),
        checks=(CheckReport(name="build", outcome=Outcome.PASS, text="the command that was run"),),
        failures=(FailureReport(check="tests", error="what failed", file="src/a.py", fix="what would mend it"),),
        handoff=_HANDOFF,
    )
