"""A solution: the plan for one issue, as tasks that depend on each other; its check and its score.

What is required is an id of the form `SOL-<issue>-<number>`, a description and at least one task. The schemas of the
original tool differ in the actions of a task and in the end of the id; both forms are read.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from orchestrator.formats.codec import JsonObject
from orchestrator.pipelines.families.issues.document import NAME, TEXT, Fields, sized

PASSING_SCORE = 0.8
MOST_TASKS = 50
MOST_SHOWN = 20
"""Problems that are named at once."""

ACTIONS = ("Create", "Modify", "Fix", "Refactor", "Add", "Remove", "Implement", "Configure", "Test")
_ACTIONS: Mapping[str, str] = MappingProxyType(
    {**{action.lower(): action for action in ACTIONS}, "update": "Modify", "delete": "Remove"}
)
_LEVELS: Mapping[str, str] = MappingProxyType({level: level for level in ("low", "medium", "high")})
_END_OF_ID = re.compile(r"-(?:[0-9]{1,4}|[a-z0-9]{4})", re.ASCII)
_TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SolutionTask:
    """One task of a solution; `files` are the ones that it changes, `criteria` say how one sees that it is done."""

    id: str
    title: str
    action: str
    scope: str = ""
    description: str = ""
    files: tuple[str, ...] = ()
    implementation: tuple[str, ...] = ()
    test_commands: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()
    verification: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    estimated_minutes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """A plan for one issue; `document` is the whole of it, as it was written."""

    id: str
    issue: str
    description: str
    tasks: tuple[SolutionTask, ...]
    risk: str = ""
    impact: str = ""
    complexity: str = ""
    document: JsonObject


def read_solution(text: str | bytes, issue: str | None = None) -> Solution:
    """Return the solution of a JSON document; with `issue` it has to be one for that issue.

    Raises InvalidField, also if its tasks depend on unknown ones or in a circle.
    """
    return solution_of(Fields.parse(sized(text)), issue)


def solution_of(fields: Fields, issue: str | None = None) -> Solution:
    """Return the solution in a part of a document. Raises InvalidField."""
    about = fields.text("issue_id")
    if issue is not None and about != issue:
        raise fields.refuse("issue_id", f"{about!r:.60} is another issue than {issue}")
    named = fields.text("id")
    if not named.startswith(f"SOL-{about}") or not _END_OF_ID.fullmatch(named.removeprefix(f"SOL-{about}")):
        raise fields.refuse("id", f"{named!r:.80} must be SOL-{about:.60}- and a number, such as SOL-{about:.60}-1")
    analysis = fields.inner("analysis")
    levels = {name: analysis.choice(name, _LEVELS, "") for name in ("risk", "impact", "complexity")}
    tasks = tuple(_task(one) for one in fields.objects("tasks", MOST_TASKS))
    if not tasks:
        raise fields.refuse("tasks", "at least one task is needed")
    problems = dependency_problems(tasks)
    if problems:
        raise fields.refuse("tasks", "; ".join(problems[:MOST_SHOWN]))
    fields.number("score", 0, 1)
    fields.flag("is_bound")
    description = fields.text("description", TEXT)
    return Solution(id=named, issue=about, description=description, tasks=tasks, document=fields.content, **levels)


def _task(fields: Fields) -> SolutionTask:
    named = fields.text("id")
    if not _TASK_ID.fullmatch(named):
        raise fields.refuse("id", f"{named!r:.60} must be letters, digits, dots and dashes, such as T1")
    criteria, verification = _acceptance(fields)
    return SolutionTask(
        id=named,
        title=fields.text("title"),
        action=fields.choice("action", _ACTIONS),
        scope=fields.text("scope", TEXT, default=""),
        description=fields.text("description", TEXT, default=""),
        files=_files(fields),
        implementation=fields.texts("implementation"),
        test_commands=fields.inner("test").texts("commands"),
        criteria=criteria,
        verification=verification,
        depends_on=fields.texts("depends_on", limit=NAME),
        estimated_minutes=fields.number("estimated_minutes", 0, 10_000),
    )


def _acceptance(fields: Fields) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the criteria and how they are verified; a bare list is one of criteria. Raises InvalidField."""
    if isinstance(fields.get("acceptance"), list | str):
        inner = Fields({"criteria": fields.get("acceptance")}, fields.place("acceptance"))
    else:
        inner = fields.inner("acceptance")
    criteria = inner.texts("criteria")
    if not any(one.strip() for one in criteria):
        raise fields.refuse("acceptance.criteria", "at least one criterion is needed")
    return criteria, inner.texts("verification")


def _files(fields: Fields) -> tuple[str, ...]:
    points = fields.entries("modification_points")
    if all(isinstance(point, str) for point in points):
        return fields.texts("modification_points")
    return tuple(point.text("file", TEXT) for point in fields.objects("modification_points"))


def dependency_problems(tasks: Sequence[SolutionTask]) -> tuple[str, ...]:
    """Return why the tasks cannot be put in an order: ids used twice, unknown ones, and circles."""
    known = {task.id for task in tasks}
    if len(known) < len(tasks):
        twice = sorted({one.id for number, one in enumerate(tasks) if one.id in {task.id for task in tasks[:number]}})
        return tuple(f"{name} is the id of more than one task" for name in twice)
    unknown = tuple(
        f"{task.id} depends on {name!r:.60}, which is no task of the solution"
        for task in tasks
        for name in task.depends_on
        if name not in known
    )
    ordered = {task.id for task in in_order(tasks)}
    circle = [task.id for task in tasks if task.id not in ordered]
    if unknown or not circle:
        return unknown
    return (f"these depend on each other in a circle: {', '.join(circle)}",)


def in_order(tasks: Sequence[SolutionTask]) -> tuple[SolutionTask, ...]:
    """Return the tasks so that each follows those that it depends on, else as they are written; without circles."""
    done: dict[str, SolutionTask] = {}
    left = list(tasks)
    while ready := [task for task in left if all(name in done for name in task.depends_on)]:
        done[ready[0].id] = ready[0]
        left.remove(ready[0])
    return tuple(done.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How good a solution is, from 0 to 1 in each respect; `lacking` says what would raise the total."""

    completeness: float
    dependencies: float
    testability: float
    complexity: float
    lacking: tuple[str, ...]

    @property
    def total(self) -> float:
        """The weighted sum: 30, 20, 30 and 20 percent."""
        parts = (0.3 * self.completeness, 0.2 * self.dependencies, 0.3 * self.testability, 0.2 * self.complexity)
        return round(sum(parts), 4)

    @property
    def is_passing(self) -> bool:
        """Whether the solution is good enough to be carried out."""
        return self.total >= PASSING_SCORE


def score_of(solution: Solution) -> Score:
    """Return the score of a solution."""
    tasks, lacking = solution.tasks, list[str]()
    filled = 0
    for task in tasks:
        parts = {
            "scope or description": task.scope.strip() or task.description.strip(),
            "modification_points": task.files,
            "implementation": any(one.strip() for one in task.implementation),
        }
        filled += sum(map(bool, parts.values()))
        lacking += [f"{task.id} has no {name}" for name, value in parts.items() if not value]
    untested = [task.id for task in tasks if not any(map(str.strip, (*task.verification, *task.test_commands)))]
    lacking += [f"{name} has neither acceptance.verification nor test.commands" for name in untested]
    unestimated = [task.id for task in tasks if task.estimated_minutes is None]
    lacking += [f"{name} has no estimated_minutes" for name in unestimated]
    if not solution.complexity:
        lacking.append("analysis.complexity is missing")
    problems = dependency_problems(tasks)
    return Score(
        completeness=filled / (3 * len(tasks)),
        dependencies=0.0 if problems else 1.0,
        testability=1 - len(untested) / len(tasks),
        complexity=0.5 * bool(solution.complexity) + 0.5 * (1 - len(unestimated) / len(tasks)),
        lacking=(*problems, *lacking),
    )


def score_problems(solution: Solution) -> tuple[str, ...]:
    """Return what a solution lacks to be carried out, in words for its author; nothing if its score passes."""
    score = score_of(solution)
    if score.is_passing:
        return ()
    shown = score.lacking[:MOST_SHOWN]
    return (f"its quality is {score.total:.2f}, and {PASSING_SCORE} is needed: {'; '.join(shown)}",)
