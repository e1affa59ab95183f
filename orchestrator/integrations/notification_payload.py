"""A notice as programs read it: what happened, to which task, and the command line a person may want next."""

from typing import assert_never

from orchestrator.core.task.notice import Notice, NoticeKind
from orchestrator.core.task.task import Task
from orchestrator.formats.codec import Json, stamp


def announcement(task: Task, notice: Notice) -> dict[str, Json]:
    """A notice as programs read it, with the task that it is about and the command line that a person may want next."""
    return {
        "key": notice.key,
        "event": notice.kind.value,
        "task_id": task.id,
        "title": task.title,
        "status": task.status.value,
        "stage": task.stage,
        "text": notice.text,
        "at": stamp(notice.at),
        "what_to_do": what_to_do(notice.kind, task.id),
    }


def what_to_do(kind: NoticeKind, task_id: str) -> str:
    """The command line that shows what it is about, or answers it; none of them decides anything by itself."""
    match kind:
        case NoticeKind.REVIEW_ASKED | NoticeKind.COMPLETED:
            return f"orchestrator show {task_id}"
        case NoticeKind.QUESTION_ASKED:
            return f"orchestrator answer {task_id}"
        case NoticeKind.DEPENDENCY_ASKED | NoticeKind.LIMIT_REACHED | NoticeKind.LOGIN_MISSING | NoticeKind.REMINDER:
            return f"orchestrator why {task_id}"
        case NoticeKind.BLOCKED | NoticeKind.FAILED:
            return f"orchestrator logs {task_id}"
        case _:
            assert_never(kind)
