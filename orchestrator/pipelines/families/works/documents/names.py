"""Names in a work: the ids of works and tasks, where their files lie, and how a work is carried out."""

import re
from enum import StrEnum

WORKS = "works"
"""The folder of all works in a repository."""
WORK_LIST = "works/WORK-LIST.md"
REQUIREMENT = "Requirement.md"
PLAN = "PLAN.md"
OVERVIEW = "PROGRESS.md"
LARGEST_NUMBER = 99_999_999
"""Works are numbered up to this."""

_WORK_ID = re.compile(r"WORK-(\d{1,9})", re.IGNORECASE)
_TASK_ID = re.compile(r"TASK-(\d{1,9})", re.IGNORECASE)
_TASK_IN_TEXT = re.compile(r"(?<![A-Za-z0-9-])(?:(WORK-\d{1,9})-)?TASK-(\d{1,9})(?![0-9A-Za-z])", re.IGNORECASE)
_TASK_FILE = re.compile(r"TASK-(\d{2,9})\.md")
_RESULT_FILE = re.compile(r"TASK-(\d{2,9})_result\.md")


class Mode(StrEnum):
    """How a work is carried out."""

    DIRECT = "direct"
    """The specifier plans its only task, which is not verified by another agent."""
    PIPELINE = "pipeline"
    """A planner plans one task."""
    FULL = "full"
    """A planner divides the work into several tasks."""


def work_id(number: int) -> str:
    """Return the id of the work of that number, with two digits at least."""
    return f"WORK-{number:02}"


def task_id(number: int) -> str:
    """Return the id of the task of that number, with two digits at least; the first one has number 0."""
    return f"TASK-{number:02}"


def work_number(text: str) -> int | None:
    """Return the number of a work's id, None if the text is none."""
    found = _WORK_ID.fullmatch(text.strip())
    return int(found[1]) if found else None


def task_number(text: str) -> int | None:
    """Return the number of a task's id, None if the text is none."""
    found = _TASK_ID.fullmatch(text.strip())
    return int(found[1]) if found else None


def task_of_file(name: str) -> str | None:
    """Return the id of the task that a file of this name specifies; None for any other file."""
    found = _TASK_FILE.fullmatch(name)
    return task_id(int(found[1])) if found else None


def task_of_result(name: str) -> str | None:
    """Return the id of the task whose result is in a file of this name; None for any other file."""
    found = _RESULT_FILE.fullmatch(name)
    return task_id(int(found[1])) if found else None


def tasks_in(text: str, work: str = "") -> tuple[str, ...]:
    """Return the ids of the tasks that a text names, each once, in its order.

    Raises ValueError if it names a task of another work than `work`; tasks depend only on those of their own work.
    """
    found: dict[str, None] = {}
    for match in _TASK_IN_TEXT.finditer(text):
        other = match[1]
        if other and work and work_number(other) != work_number(work):
            raise ValueError(f"{match[0]} is a task of another work; tasks depend only on tasks of {work}")
        found[task_id(int(match[2]))] = None
    return tuple(found)


def folder_of(work: str) -> str:
    """Return the folder of a work in its repository."""
    return f"{WORKS}/{work}"


def log_name(work: str) -> str:
    """Return the name of the activity log in the folder of a work."""
    return f"work_{work}.log"
