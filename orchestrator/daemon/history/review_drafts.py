"""Comments on lines of a diff, kept until their author sends them as the feedback of a review.

Each person has a draft of their own for each task, in a file of the task's folder. Sending it answers the pending
review with all comments in one text, one `path:line: comment` each, as compilers write; then the draft is empty.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

import msgspec

from orchestrator.core.task.task import Task
from orchestrator.core.task.user_requests import LONGEST_ANSWER, BadAnswer, RequestKind, UserRequest
from orchestrator.daemon.history.diffs import DiffService
from orchestrator.daemon.services.errors import NoSuchFile, NoSuchRequest
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.daemon.services.user_requests import TaskRequest, UserRequestService
from orchestrator.formats.codec import from_json, to_json
from orchestrator.storage.task_files import TaskFiles

FOLDER = "review-drafts"
MOST_COMMENTS, LONGEST_COMMENT = 200, 4_000


class Side(StrEnum):
    """The side of a diff that a line is on."""

    OLD = "old"
    NEW = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineComment:
    """A comment on one line; `number` is its name in the draft, `head` the commit that its author saw."""

    number: int
    file: str
    path: str
    side: Side
    line: int
    text: str
    head: str

    def feedback(self) -> str:
        """Return the comment with its place in front."""
        before = " (before the change)" if self.side is Side.OLD else ""
        return f"{self.path}:{self.line}{before}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentDraft:
    """What a person writes: a place in a diff, and what is to be said there."""

    file: str
    side: Side
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class _Comments:
    comments: tuple[LineComment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewDraftService:
    """The use cases of comments on lines; each raises NoSuchTask and AmbiguousName."""

    index: TaskIndex
    files: TaskFiles
    diffs: DiffService
    requests: UserRequestService
    redact: Callable[[str], str] = field(repr=False)
    _changing: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    async def comments(self, name: str, by: str) -> tuple[LineComment, ...]:
        """Return a person's comments, by file and line."""
        task_id = await self.index.find_id(name)
        return await asyncio.to_thread(self._read, task_id, by)

    async def add(self, name: str, draft: CommentDraft, by: str) -> LineComment:
        """Keep a comment. Raises NoSuchFile and BadAnswer."""
        text = draft.text.replace("\r\n", "\n").strip()
        if not text or len(text) > LONGEST_COMMENT:
            raise BadAnswer(f"a comment has 1 to {LONGEST_COMMENT} characters, not {len(text)}")
        found = await self.diffs.file(name, draft.file)
        task_id, change = found.diff.task.id, found.change
        masked = await asyncio.to_thread(self.redact, text)
        async with self._changing:
            kept = await asyncio.to_thread(self._read, task_id, by)
            comment = LineComment(
                number=max((one.number for one in kept), default=0) + 1,
                file=change.id,
                path=change.path,
                side=draft.side,
                line=draft.line,
                text=masked,
                head=found.diff.head,
            )
            every = sorted((*kept, comment), key=lambda one: (one.path, one.line, one.number))
            if len(every) > MOST_COMMENTS or len(feedback_of(every)) > LONGEST_ANSWER:
                raise BadAnswer(
                    f"the comments are too many or too long; {LONGEST_ANSWER} characters can be sent at once"
                )
            await asyncio.to_thread(self._write, task_id, by, every)
        return comment

    async def remove(self, name: str, number: int, by: str) -> None:
        """Drop a comment. Raises NoSuchFile if there is none of that number."""
        task_id = await self.index.find_id(name)
        async with self._changing:
            kept = await asyncio.to_thread(self._read, task_id, by)
            left = [one for one in kept if one.number != number]
            if len(left) == len(kept):
                raise NoSuchFile(f"there is no comment {number}; it may have been sent or removed already")
            await asyncio.to_thread(self._write, task_id, by, left)

    async def send(self, name: str, words: str, digest: str | None, by: str) -> TaskRequest:
        """Answer the pending review with all comments, after some words. Raises NoSuchRequest and BadAnswer too."""
        task = await self.index.find(name)
        review = pending_review(task)
        if review is None:
            raise NoSuchRequest(f"no review of {task.id} is pending; comments are kept until there is one")
        async with self._changing:
            kept = await asyncio.to_thread(self._read, task.id, by)
            text = "\n\n".join(part for part in (words.strip(), feedback_of(kept)) if part)
            if not text:
                raise BadAnswer("there is nothing to send; write what has to be different, or comment on a line")
            if len(text) > LONGEST_ANSWER:
                raise BadAnswer(f"the comments have {len(text)} characters; {LONGEST_ANSWER} can be sent at once")
            done = await self.requests.request_changes(f"{task.id}.{review.number}", text, digest, by)
            await asyncio.to_thread(self._write, task.id, by, ())
        return done

    def _read(self, task_id: str, by: str) -> tuple[LineComment, ...]:
        content = self.files.read(task_id, _file_of(by))
        if not content:
            return ()
        try:
            return from_json(_Comments, msgspec.json.decode(content)).comments
        except (ValueError, KeyError, TypeError):
            return ()  # written by another version, or damaged: comments are notes, not records

    def _write(self, task_id: str, by: str, comments: Sequence[LineComment]) -> None:
        if comments:
            content = msgspec.json.encode(to_json(_Comments(comments=tuple(comments))))
            self.files.write(task_id, _file_of(by), content)
        else:
            self.files.remove(task_id, _file_of(by))


def pending_review(task: Task) -> UserRequest | None:
    """Return the review that a task waits for."""
    return next((one for one in task.requests if one.is_pending and one.kind is RequestKind.REVIEW), None)


def feedback_of(comments: Sequence[LineComment]) -> str:
    """Return all comments as one text."""
    return "\n".join(one.feedback() for one in comments)


def _file_of(by: str) -> str:
    return f"{FOLDER}/{sha256(by.encode()).hexdigest()[:24]}.json"
