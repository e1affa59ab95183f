"""How a work begins: with the next free number, or with the files of a work that was begun before."""

import json
from collections.abc import Mapping

from orchestrator.core.family.family import Begun, Files, Submitted
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.pipelines.families.works.documents.names import (
    LARGEST_NUMBER,
    PLAN,
    REQUIREMENT,
    WORK_LIST,
    WORKS,
    folder_of,
    task_of_file,
    task_of_result,
    work_id,
    work_number,
)
from orchestrator.pipelines.families.works.documents.plan import joined, read_plan, read_task
from orchestrator.pipelines.families.works.documents.result import read_result
from orchestrator.pipelines.families.works.documents.work_list import next_number, read_work_list
from orchestrator.pipelines.families.works.request import read_request

RESUMED = "resumed.json"
"""Names the tasks of a work that was begun before, and those of them that are done."""
MOST_LOOKED_AT = 200
"""Numbers after the highest known one that are looked for in the repository, whose listing may be cut short."""
_ARCHIVE = "_COMPLETED"
ANY_MODE = "work"
"""The pipeline whose mode follows from the work; a work that was begun before continues in it."""


def begin(submitted: Submitted, files: Files) -> Begun:
    """Return the id of the work, and whether people are asked before each part of it; with the files of an earlier work
    if the text resumes one. Raises ValueError, with words for the submitter.
    """
    asked = read_request(submitted.text)
    autonomy = Autonomy.AUTO if asked.is_auto else Autonomy.INTERACTIVE
    if asked.resumes:
        if submitted.ticket and submitted.ticket != asked.resumes:
            raise ValueError(
                f"the text resumes {asked.resumes}, but the ticket is {submitted.ticket}; leave --ticket out"
            )
        given = earlier_files(asked.resumes, files)
        return Begun(key=asked.resumes, pipeline=ANY_MODE, autonomy=autonomy, files=given)
    return Begun(key=_new_id(submitted, files), autonomy=autonomy)


def earlier_files(work: str, files: Files) -> Mapping[str, str]:
    """Return the files that a work continues from, by name. Raises ValueError, with words for the submitter."""
    folder = folder_of(work)
    present = [path.removeprefix(f"{folder}/") for path in files.names(folder)]
    found = {
        name: text
        for name in present
        if name in (REQUIREMENT, PLAN) or task_of_file(name)
        if (text := files.committed(f"{folder}/{name}")) is not None
    }
    if REQUIREMENT not in found and PLAN not in found:
        raise ValueError(
            f"{folder} has neither {REQUIREMENT} nor {PLAN} in the commit that the task would start from; "
            f"if it is in your worktree, commit it first: git add {folder} && git commit -m 'docs({work}): plan'"
        )
    if PLAN not in found:
        return found
    done = sorted(key for name in present if (key := _done_by(name, f"{folder}/{name}", files)))
    tasks = {task: read_task(text, task) for name, text in found.items() if (task := task_of_file(name))}
    planned = joined(read_plan(found[PLAN]), tasks)
    if not planned:
        raise ValueError(f"{folder}/{PLAN} names no task, and there is no TASK-NN.md beside it")
    if all(task.id in done for task in planned):
        raise ValueError(f"every task of {work} is done: {', '.join(done)}; submit a new work instead")
    return {**found, RESUMED: json.dumps({"tasks": [task.id for task in planned], "done": done})}


def _done_by(name: str, path: str, files: Files) -> str:
    """Return the id of the task that a committed result says is done, empty for any other file."""
    key = task_of_result(name)
    if key is None:
        return ""
    report = read_result(files.committed(path) or "", key)
    return key if report.is_done or not report.status else ""


def _new_id(submitted: Submitted, files: Files) -> str:
    works = read_work_list(files.committed(WORK_LIST) or "")
    if submitted.ticket:
        number = work_number(submitted.ticket)
        if number is None or number > LARGEST_NUMBER:
            raise ValueError(
                f"works are numbered WORK-NN, with at most eight digits, so the ticket {submitted.ticket} cannot "
                "name one: submit its text without the key, or use another pipeline"
            )
        if _is_taken(work_id(number), files) or works.row(work_id(number)):
            raise ValueError(
                f"{submitted.ticket} was begun before; submit 'Resume {submitted.ticket}', or leave --ticket out"
            )
        return submitted.ticket
    present = (path.split("/") for path in files.names(WORKS))
    folders = (parts[2] if parts[1] == _ARCHIVE else parts[1] for parts in present if len(parts) > 2)
    first = next_number(works, (*submitted.keys, *dict.fromkeys(folders)))
    free = next((number for number in range(first, first + MOST_LOOKED_AT) if not _is_taken(work_id(number), files)), 0)
    if not free:
        raise ValueError(
            f"{work_id(first)} to {work_id(first + MOST_LOOKED_AT - 1)} have folders already; write the last work's id "
            f"behind 'LAST_WORK_ID:' in {WORK_LIST} and commit it"
        )
    return work_id(free)


def _is_taken(work: str, files: Files) -> bool:
    return bool(files.names(folder_of(work)) or files.names(f"{WORKS}/{_ARCHIVE}/{work}"))
