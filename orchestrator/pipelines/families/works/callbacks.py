"""What other programs are told about the tasks of a work: how each is doing, and how it ended."""

from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256

import orjson

from orchestrator.core.events.callback import Callback, CallbackKind
from orchestrator.core.family.family import Files
from orchestrator.core.task.progress import StageStatus
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.formats.codec import JsonObject, stamp
from orchestrator.pipelines.families.works.documents.language import is_none
from orchestrator.pipelines.families.works.documents.names import folder_of, task_number, work_number
from orchestrator.pipelines.families.works.documents.result import TaskReport, read_result
from orchestrator.pipelines.families.works.exchange.handoff import Handoff, read_handoff_text
from orchestrator.pipelines.families.works.exchange.task_result import TaskResult, read_task_results

LONGEST_TEXT, MOST_FILES = 4000, 500
SUCCESS, PARTIAL, FAILED, IN_PROGRESS = "SUCCESS", "PARTIAL", "FAILED", "IN_PROGRESS"


def compose_callbacks(task: Task, files: Files, note: str) -> tuple[Callback, ...]:
    """Return what is to be told about a task as it is now; nothing about one that is no TASK of a WORK."""
    work, name = task.fill("{parent}"), task.fill("{key}")
    if work_number(work) is None or task_number(name) is None or task.status is TaskStatus.DRAFT:
        return ()
    ids: JsonObject = {"workId": work, "taskId": name}
    if task.status.is_final:
        return (_ended(task, ids, _Told(task, files, work, name)),)
    if task.status is TaskStatus.PENDING:
        return ()
    return (_progress(task, ids, note),)


class _Told:
    """What the agents of a task have said about it: its result on the branch, and their answers in its folder."""

    def __init__(self, task: Task, files: Files, work: str, name: str) -> None:
        self.report = _report(files.committed(f"{folder_of(work)}/{name}_result.md"), name)
        answers = tuple(_answers(task, files))
        builders = [one for one in answers if one.agent == "builder"]
        self.built = builders[-1] if builders else None
        self.last = answers[-1] if answers else None

    @property
    def handoff(self) -> Handoff | None:
        if self.built is not None and self.built.handoff is not None:
            return self.built.handoff
        return read_handoff_text(self.report.builder, "builder", self.report.task) if self.report else None

    @property
    def files(self) -> list[str]:
        found = self.report.files if self.report and self.report.files else self.built.files if self.built else ()
        return [one.path for one in found[:MOST_FILES]]


def _ended(task: Task, ids: JsonObject, told: _Told) -> Callback:
    """Return how a task ended; one that was cancelled has failed, and one that left something is partly done."""
    handoff, at = told.handoff, _ended_at(task)
    incomplete = _text(handoff.incomplete) if handoff else ""
    is_done = task.timing.completed_at is not None
    status = FAILED if not is_done else PARTIAL if incomplete else SUCCESS
    done_why = handoff.why if handoff else ""
    failed_why = task.block_reason or (told.last.reason if told.last else "") or "it was not completed"
    body: JsonObject = {
        **ids,
        "status": status,
        "commitHash": task.source.head if is_done else None,
        "what": _text(handoff.what if handoff else told.report.summary if told.report else ""),
        "why": _text(done_why if is_done else failed_why),
        "caution": _text(handoff.caution) if handoff else "",
        "incomplete": incomplete,
        "filesChanged": [*told.files],
        "timestamp": stamp(at),
    }
    key = f"task-{status}-{(task.source.head or 'none')[:12]}"
    return Callback(key=key, kind=CallbackKind.TASK, body=body, at=at)


def _progress(task: Task, ids: JsonObject, note: str) -> Callback:
    """Return how far a task is: the last note of its agent, and which of its stages are done."""
    done = {name: record.status is StageStatus.COMPLETED for name, record in task.stages.items()}
    waits = f"it waits for a person: {task.block_reason}" if task.status is TaskStatus.BLOCKED else ""
    body: JsonObject = {
        **ids,
        "status": IN_PROGRESS,
        "currentReasoning": _text(waits or note) or f"{task.stage} is under way",
        "checklist": [{"item": name, "done": is_done} for name, is_done in done.items()],
    }
    digest = sha256(orjson.dumps(body)).hexdigest()[:16]
    whole: JsonObject = {**body, "timestamp": stamp(task.updated_at)}
    return Callback(key=f"progress-{digest}", kind=CallbackKind.PROGRESS, body=whole, at=task.updated_at)


def _report(text: str | None, name: str) -> TaskReport | None:
    try:
        return None if text is None else read_result(text, name)
    except ValueError:
        return None


def _answers(task: Task, files: Files) -> Iterator[TaskResult]:
    """Yield the task-results in the files that the task's stages have left, in the order of the stages."""
    names = dict.fromkeys(name for record in task.stages.values() for name in record.artifacts)
    for name in names:
        text = files.artifact(name)
        if text is not None and "<task-result" in text:
            try:
                yield from read_task_results(text)
            except ValueError:
                continue


def _ended_at(task: Task) -> datetime:
    return task.timing.completed_at or task.timing.failed_at or task.updated_at


def _text(text: str) -> str:
    """Return a text of bounded length; empty if it says that there is nothing to say."""
    return "" if is_none(text) else text.strip()[:LONGEST_TEXT]
