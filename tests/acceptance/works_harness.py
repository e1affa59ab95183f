"""Scenarios of specified works: what each of their agents leaves, as the real ones would."""

from collections.abc import Mapping, Sequence
from typing import Any

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
from orchestrator.pipelines.families.works.documents.progress import ChangedFile
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

Json = dict[str, Any]
KEY = 'key="$(echo "${ORCHESTRATOR_TASK##*.}" | cut -d- -f1,2)"; '
"""Shell: the id of the task, also of one that was made again."""
GIT = "git -c user.name=Agent -c user.email=agent@example.org"
HANDOFF = Handoff(source="builder", what="wrote the file", why="it was missing", caution="keep it", incomplete="None")


def requirement(work: str = "WORK-01", demands: int = 1) -> str:
    """A requirement that demands so much."""
    functional = tuple(Demand(id=f"FR-{number:02}", text="a file exists") for number in range(1, demands + 1))
    return write_requirement(
        Requirement(work=work, request="Write files.", functional=functional, criteria=("the files exist",))
    )


def plan(tasks: Mapping[str, Sequence[str]], mode: Mode, work: str = "WORK-01") -> str:
    """A plan of these tasks, each with those it depends on."""
    return write_plan(
        Plan(
            work=work,
            title="Files",
            created="2026-01-02",
            requirement=f"works/{work}/Requirement.md",
            mode=mode,
            project="textkit",
            tech_stack="Python",
            goal="Files exist.",
            tasks=tuple(
                PlannedTask(id=key, title=f"Write {key}", after=tuple(after), scope="one file", files=(f"{key}.txt",))
                for key, after in tasks.items()
            ),
        )
    )


def task_file(key: str, after: Sequence[str] = (), work: str = "WORK-01") -> str:
    """The file of a task."""
    return write_task(
        TaskFile(
            id=key,
            title=f"Write {key}",
            work=work,
            after=tuple(after),
            scope="one file",
            files=(FilePlan(path=f"{key}.txt", action="CREATE"),),
            criteria=("the file exists",),
            verify=f"test -f {key}.txt",
        ),
        Language.EN,
    )


def left(files: Mapping[str, str]) -> list[Json]:
    """A turn that leaves these files in its outbox."""
    texts = [{"write": {"file": f"$ORCHESTRATOR_OUTBOX/{name}", "text": text}} for name, text in files.items()]
    return [*texts, {"no_work": True}]


def planned(tasks: Mapping[str, Sequence[str]], mode: Mode, work: str = "WORK-01") -> dict[str, str]:
    """A plan with the files of its tasks, by name."""
    files = {f"{key}.md": task_file(key, after, work) for key, after in tasks.items()}
    return {"PLAN.md": plan(tasks, mode, work), **files}


def built(work: str = "WORK-01", status: str = "COMPLETED", outcome: Outcome = Outcome.PASS) -> list[Json]:
    """A builder's turn: it writes a file named after its task, and its progress."""
    lines = f"# $key Progress\\n\\n- Status: {status}\\n- Files changed:\\n  - \\`$key.txt\\` — CREATE\\n"
    script = f'{KEY} echo done > "$key.txt"; printf "%b" "{lines}" > "works/{work}/${{key}}_progress.md"'
    result = TaskResult(work=work, task="TASK-00", agent="builder", outcome=outcome, summary="built", handoff=HANDOFF)
    return [{"run": script}, {"say": write_task_result(result)}, {"no_work": True}]


def verified(passes: bool = True) -> list[Json]:
    """A verifier's turn."""
    failure = FailureReport(check="tests", error="the file is empty", file="a.txt", fix="fill it")
    result = TaskResult(
        work="WORK-01",
        task="TASK-00",
        agent="verifier",
        outcome=Outcome.PASS if passes else Outcome.FAIL,
        summary="looked at it",
        checks=(CheckReport(name="build", outcome=Outcome.PASS), CheckReport(name="lint", outcome=Outcome.FAIL)),
        failures=() if passes else (failure,),
        handoff=Handoff(source="verifier", what="verified & found good", why="it was asked for", incomplete="None"),
    )
    return [{"say": f"Here it is.\n{write_task_result(result)}"}, {"no_work": True}]


def report_of(key: str, work: str = "WORK-01") -> str:
    """The result of a task."""
    report = TaskReport(
        task=key,
        title=f"Write {key}",
        work=work,
        completed="2026-01-02 03:04",
        summary="A file was written.",
        checklist=("the file exists",),
        verification=("Build: PASS",),
        files=(ChangedFile(path=f"{key}.txt", action="CREATE"),),
        builder=f"- what: wrote the file of {key}",
        verifier=f"- what: verified the file of {key}\n- why: it was asked for",
    )
    return write_result(report, Language.EN)


def committed(work: str = "WORK-01", subject: str = "feat($key): write a file") -> list[Json]:
    """A committer's turn."""
    text = report_of("$key", work).replace("`", "\\`")
    script = (
        f'{KEY} result="works/{work}/${{key}}_result.md"; cat > "$result" <<END\n{text}END\n'
        f'git add -A && {GIT} commit -q -m "{subject}\n\n- the file\n\nResult: $result"'
    )
    return [{"run": script}, {"no_work": True}]


def scenario(specification: Mapping[str, str], planning: Mapping[str, str] | None = None, **stages: list[Any]) -> Json:
    """A scenario in which every agent does its part; `stages` have other turns."""
    usual = {
        "SPECIFICATION": [left(specification)],
        "PLANNING": [left(planning or {})],
        "BUILD": [built()] * 9,
        "VERIFICATION": [verified()] * 9,
        "COMMIT": [committed()] * 9,
    }
    return {**usual, **stages}
