"""PLAN.md and TASK-NN.md: the tasks of a work, what each depends on, and what each is to change."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchestrator.pipelines.families.works.documents.language import (
    Heading,
    Label,
    Language,
    is_none,
    language_named,
    language_of,
    nothing_in,
    title_of,
)
from orchestrator.pipelines.families.works.documents.markdown import (
    Document,
    Line,
    bare,
    cell,
    code,
    field,
    fields,
    items,
    one_line,
    prose,
    read_document,
    rows,
)
from orchestrator.pipelines.families.works.documents.names import (
    PLAN,
    Mode,
    task_id,
    tasks_in,
    work_id,
    work_number,
)

_PLAN_TITLE = re.compile(r"(?P<work>WORK-\d{1,9})[ \t]*+[:：—–-]?[ \t]*+(?P<title>.*)", re.IGNORECASE)
_STRICT_PLAN_TITLE = re.compile(r"WORK-\d{2,9}: \S.*")
_TASK_TITLE = re.compile(
    r"(?:WORK-\d{1,9}-)?TASK-(?P<number>\d{1,9})[ \t]*+[:：—–.-]?[ \t]*+(?P<title>.*)", re.IGNORECASE
)
ACTIONS = ("CREATE", "MODIFY", "DELETE")
_FIRST_WORD = re.compile(r"[A-Za-z]+")
_ACTION_NAMES = {
    "CREATE": "CREATE", "CREATED": "CREATE", "ADD": "CREATE", "NEW": "CREATE",
    "MODIFY": "MODIFY", "MODIFIED": "MODIFY", "UPDATE": "MODIFY", "EDIT": "MODIFY", "CHANGE": "MODIFY",
    "DELETE": "DELETE", "DELETED": "DELETE", "REMOVE": "DELETE",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan:
    """A file that a task is to create, modify or delete."""

    path: str
    action: str = "MODIFY"
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTask:
    """A task as PLAN.md lists it; `after` has the ids of those it depends on."""

    id: str
    title: str
    after: tuple[str, ...] = ()
    scope: str = ""
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A PLAN.md."""

    work: str
    title: str
    created: str = ""
    requirement: str = ""
    mode: Mode | None = None
    project: str = ""
    tech_stack: str = ""
    language: Language = Language.EN
    status: str = "PLANNED"
    goal: str = ""
    graph: str = ""
    tasks: tuple[PlannedTask, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile:
    """A TASK-NN.md; `verify` has the commands that prove the task."""

    id: str
    title: str
    work: str = ""
    after: tuple[str, ...] = ()
    scope: str = ""
    files: tuple[FilePlan, ...] = ()
    criteria: tuple[str, ...] = ()
    verify: str = ""


def read_plan(text: str) -> Plan:
    """Return what a PLAN.md says. Raises ValueError, with words for its author, if it names no work."""
    document = read_document(text, PLAN)
    title = _PLAN_TITLE.search(document.title[:1000])
    if title is None:
        raise ValueError(f"{PLAN}: its first heading must be '# WORK-NN: title'")
    number = work_number(title["work"])
    work = work_id(number if number is not None else 0)

    def said(label: Label) -> str:
        return field(document.head, label) or ""

    mode = bare(said(Label.MODE)).casefold()
    return Plan(
        work=work,
        title=title["title"].strip(),
        created=said(Label.CREATED),
        requirement=said(Label.REQUIREMENT),
        mode=Mode(mode) if mode in tuple(Mode) else None,
        project=said(Label.PROJECT),
        tech_stack=said(Label.TECH_STACK),
        language=language_named(said(Label.LANGUAGE)) or language_of(text),
        status=said(Label.STATUS),
        goal=prose(document.body(Heading.GOAL)),
        graph=code(document.body(Heading.GRAPH)) or prose(document.body(Heading.GRAPH)),
        tasks=tuple(_planned_tasks(document, work)),
    )


def problems_of_plan(text: str, work: str, *, mode: Mode | None = None) -> tuple[str, ...]:
    """Return what a PLAN.md lacks, in words for its author; `mode` is the one that it must name."""
    try:
        plan = read_plan(text)
        document = read_document(text, PLAN)
    except ValueError as error:
        return (str(error),)
    problems = []
    if not _STRICT_PLAN_TITLE.fullmatch(document.title) or plan.work != work:
        problems.append(f"its first heading must be '# {work}: title'")
    wanted = (
        Label.CREATED,
        Label.REQUIREMENT,
        Label.MODE,
        Label.PROJECT,
        Label.TECH_STACK,
        Label.LANGUAGE,
        Label.STATUS,
    )
    absent = [label.value for label in wanted if not field(document.head, label)]
    if absent:
        problems.append(
            f"these fields are missing below its first heading, each as '> Name: value': {', '.join(absent)}"
        )
    elif plan.mode is None:
        problems.append(f"Execution-Mode must be one of {', '.join(Mode)}")
    elif mode is not None and plan.mode is not mode:
        problems.append(f"Execution-Mode must be {mode}, not {plan.mode}")
    if not plan.tasks:
        problems.append("'## Tasks' must have a '### TASK-00: title' for each task")
    return tuple(problems)


def write_plan(plan: Plan) -> str:
    """Return a plan as a PLAN.md in its language."""
    language, nothing = plan.language, nothing_in(plan.language)
    requirement = "요구사항" if language is Language.KO else Label.REQUIREMENT.value
    head = (
        (Label.CREATED.value, plan.created),
        (requirement, plan.requirement),
        (Label.MODE.value, plan.mode or Mode.FULL),
        (Label.PROJECT.value, plan.project),
        (Label.TECH_STACK.value, plan.tech_stack),
        (Label.LANGUAGE.value, language.value),
        (Label.STATUS.value, "PLANNED"),
    )
    quoted = "\n".join(f"> {name}: {one_line(value)}" for name, value in head)
    tasks = "\n\n".join(
        f"### {task.id}: {one_line(task.title)}\n"
        f"- **Depends on**: {', '.join(task.after) or nothing}\n"
        f"- **Scope**: {one_line(task.scope)}\n"
        f"- **Files**: {', '.join(f'`{path}`' for path in task.files) or nothing}"
        for task in plan.tasks
    )
    return (
        f"# {plan.work}: {one_line(plan.title)}\n\n{quoted}\n\n"
        f"## {title_of(Heading.GOAL, language)}\n{plan.goal}\n\n"
        f"## {title_of(Heading.GRAPH, language)}\n```\n{plan.graph or graph_of(plan.tasks)}\n```\n\n"
        f"## {title_of(Heading.TASKS, language)}\n\n{tasks}\n"
    )


def graph_of(tasks: Iterable[PlannedTask]) -> str:
    """Return the dependencies of tasks as lines of text."""
    return "\n".join(f"{' + '.join(task.after)} -> {task.id}" if task.after else task.id for task in tasks)


def read_task(text: str, key: str) -> TaskFile:
    """Return what the file of the task `key` says. Raises ValueError, with words for its author, if it is too large or
    depends on a task of another work.
    """
    document = read_document(text, f"{key}.md")
    title = _TASK_TITLE.search(document.title[:1000])
    named = prose(document.body(Heading.WORK)) or field(document.head, Label.WORK) or ""
    number = next(
        (work_number(word.strip("#:：*`,")) for word in named.split() if work_number(word.strip("#:：*`,"))), None
    )
    work = work_id(number) if number is not None else ""
    dependencies = prose(document.body(Heading.DEPENDENCIES))
    checks = document.body(Heading.VERIFY) or document.body(Heading.VERIFICATION)
    return TaskFile(
        id=key,
        title=(title["title"] if title else document.title).strip(),
        work=work,
        after=tuple(other for other in tasks_in(dependencies, work) if other != key),
        scope=prose(document.body(Heading.SCOPE)),
        files=tuple(_file_plans(document.body(Heading.FILES))),
        criteria=tuple(item.text for item in items(document.body(Heading.CRITERIA)) if not is_none(item.text)),
        verify=code(checks) or ("" if is_none(prose(checks)) else prose(checks)),
    )


def problems_of_task(text: str, key: str, work: str) -> tuple[str, ...]:
    """Return what the file of a task lacks, in words for its author."""
    try:
        task = read_task(text, key)
        title = read_document(text, f"{key}.md").title
    except ValueError as error:
        return (str(error),)
    problems = []
    if not title.startswith(key) or not task.title:
        problems.append(f"its first heading must be '# {key}: title'")
    if task.work != work:
        problems.append(f"'## WORK' must name {work}")
    wanted = {"Scope": task.scope, "Files": task.files, "Acceptance Criteria": task.criteria, "Verify": task.verify}
    problems += [f"'## {name}' is missing or empty" for name, found in wanted.items() if not found]
    return tuple(problems)


def write_task(task: TaskFile, language: Language) -> str:
    """Return a task as a TASK-NN.md."""
    nothing = nothing_in(language)
    files = "\n".join(f"| `{cell(one.path)}` | {one.action} | {cell(one.description)} |" for one in task.files)
    parts = (
        (Heading.WORK, task.work),
        (Heading.DEPENDENCIES, "\n".join(f"- {key} (required)" for key in task.after) or f"- {nothing}"),
        (Heading.SCOPE, task.scope),
        (Heading.FILES, f"| Path | Action | Description |\n|------|--------|-------------|\n{files}"),
        (Heading.CRITERIA, "\n".join(f"- [ ] {one_line(text)}" for text in task.criteria)),
        (Heading.VERIFY, f"```bash\n{task.verify}\n```"),
    )
    body = "\n\n".join(f"## {title_of(heading, language)}\n{text}" for heading, text in parts)
    return f"# {task.id}: {one_line(task.title)}\n\n{body}\n"


def joined(plan: Plan, files: Mapping[str, TaskFile]) -> tuple[PlannedTask, ...]:
    """Return the tasks of a work in the order of their numbers, from its plan and the files of its tasks.

    A task depends on what either of the two says.
    """
    listed = {task.id: task for task in plan.tasks}
    found = []
    for key in sorted({*listed, *files}, key=lambda key: int(key.removeprefix("TASK-"))):
        task, details = listed.get(key), files.get(key)
        after = dict.fromkeys((*(task.after if task else ()), *(details.after if details else ())))
        title = (details.title if details else "") or (task.title if task else "") or key
        scope = (details.scope if details else "") or (task.scope if task else "")
        found.append(
            PlannedTask(id=key, title=title, after=tuple(after), scope=scope, files=task.files if task else ())
        )
    return tuple(found)


def action_of(text: str) -> str | None:
    """Return what is done with a file: CREATE, MODIFY or DELETE; None for another word."""
    word = _FIRST_WORD.search(text[:100])
    return _ACTION_NAMES.get(word[0].upper()) if word else None


def _planned_tasks(document: Document, work: str) -> Iterable[PlannedTask]:
    for section in document.under(Heading.TASKS):
        found = _TASK_TITLE.match(section.title[:1000])
        if found is None:
            continue
        key = task_id(int(found["number"]))
        after = (tasks_in(value, work) for _, value in fields(section.lines, Label.DEPENDS_ON))
        files = field(section.lines, Label.FILES) or ""
        yield PlannedTask(
            id=key,
            title=found["title"].strip(),
            after=tuple(dict.fromkeys(other for others in after for other in others)),
            scope=field(section.lines, Label.SCOPE) or "",
            files=tuple(bare(path) for path in files.split(",") if not is_none(path)),
        )


def _file_plans(lines: Iterable[Line]) -> Iterable[FilePlan]:
    """Yield the files of a table with the columns path, action and description, or of a list of paths."""
    lines = tuple(lines)
    listed = [row for row in rows(lines) if row and row[0]]
    for row in listed[1:]:
        action, rest = (*row[1:3], "", "")[:2]
        yield FilePlan(path=bare(row[0]), action=action_of(action) or "MODIFY", description=rest)
    if not listed:
        for item in items(lines):
            path, _, rest = item.text.partition("—") if "—" in item.text else item.text.partition(" - ")
            if not is_none(path):
                yield FilePlan(path=bare(path), action=action_of(rest) or "MODIFY")
