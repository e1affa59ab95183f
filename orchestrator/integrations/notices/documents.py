"""Notices as documents for programs, and as subject and text for people."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import assert_never

from orchestrator.core.events.notice import MachineNoticeKind, Notice, NoticeKind
from orchestrator.core.task.task import Task
from orchestrator.formats.codec import Json, JsonObject, stamp, to_json
from orchestrator.integrations.notices.entries import Entry
from orchestrator.integrations.notices.words import STATUSES, WORDS
from orchestrator.redaction.display import escape_text, remove_disguise

LONGEST_SUBJECT, LONGEST_LINE = 180, 300
LONGEST_TEXT, LONGEST_HTML = 64 * 1024, 256 * 1024
MOST_IN_DIGEST = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """A notice as it is stored: `document` for programs, subject and text for people."""

    document: JsonObject
    subject: str
    text: str


def compose(document: JsonObject, language: str) -> Composed:
    """Return subject and text of a document that `announcement` or `machine_announcement` made."""
    words = WORDS[language]
    said = {name: str(document.get(name) or "") for name in ("event", "task_id", "title", "status", "stage", "text")}
    about = " ".join(filter(None, (said["task_id"], said["title"])))
    name = words.get(said["event"], said["event"])
    status = STATUSES[language].get(said["status"], said["status"])
    first = said["text"].strip().partition("\n")[0]
    lines = [
        f"{words['task']}: {escape_text(about, LONGEST_LINE)}" if about else "",
        f"{words['stage']}: {said['stage']} ({status})" if said["stage"] else "",
        f"{words['run']}: {document['what_to_do']}" if document.get("what_to_do") else "",
    ]
    body = "\n\n".join(filter(None, (remove_disguise(said["text"]).strip(), "\n".join(filter(None, lines)))))
    return Composed(document=document, subject=subject(f"{name}: {about or first}"), text=body[:LONGEST_TEXT] + "\n")


def subject(text: str) -> str:
    """Return a text as the subject of a mail: one line that begins with the name of this program."""
    return escape_text(f"[orchestrator] {' '.join(text.split())}", LONGEST_SUBJECT)


def compose_digest(key: str, entries: Sequence[Entry], at: datetime, language: str, zone: tzinfo) -> Composed:
    """Return one notice in place of several."""
    words = WORDS[language]
    title = f"{len(entries)} {words['digest']}" if language == "en" else f"{len(entries)}{words['digest']}"
    shown = entries[:MOST_IN_DIGEST]
    parts = [
        f"{one.at.astimezone(zone):%Y-%m-%d %H:%M} {one.subject.removeprefix('[orchestrator] ')}\n{one.text.strip()}"
        for one in shown
    ]
    if len(entries) > len(shown):
        parts.append(f"… + {len(entries) - len(shown)}")
    text = "\n\n---\n\n".join(parts)[:LONGEST_TEXT] + "\n"
    document = machine_announcement(key, MachineNoticeKind.DIGEST, title, at, "orchestrator notify list")
    document["notices"] = [to_json(one.document) for one in shown]
    return Composed(document=document, subject=subject(title), text=text)


def announcement(task: Task, notice: Notice) -> JsonObject:
    """Return a notice as JSON, with its task and the command that a person may want to run next."""
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


def machine_announcement(key: str, kind: MachineNoticeKind, text: str, at: datetime, command: str = "") -> JsonObject:
    """Return a notice that belongs to no task as JSON, in the same form."""
    document: dict[str, Json] = {"key": key, "event": kind.value, "task_id": "", "title": "", "status": "", "stage": ""}
    return document | {"text": text, "at": stamp(at), "what_to_do": command}


def what_to_do(kind: NoticeKind, task_id: str) -> str:
    """Return the command that shows what a notice is about, or answers it; none decides anything by itself."""
    match kind:
        case NoticeKind.REVIEW_ASKED | NoticeKind.COMPLETED:
            return f"orchestrator show {task_id}"
        case NoticeKind.QUESTION_ASKED:
            return f"orchestrator answer {task_id}"
        case (
            NoticeKind.DEPENDENCY_ASKED
            | NoticeKind.LIMIT_REACHED
            | NoticeKind.LOGIN_MISSING
            | NoticeKind.INSTALLATION_BROKEN
            | NoticeKind.REMINDER
        ):
            return f"orchestrator why {task_id}"
        case NoticeKind.BLOCKED | NoticeKind.FAILED:
            return f"orchestrator logs {task_id}"
        case _:
            assert_never(kind)
