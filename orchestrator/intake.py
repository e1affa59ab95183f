"""From what a person hands in to a task as it begins: the ticket filtered, the commands fixed, the base commit known.

Everything that can be refused is refused here, before anything is accepted; a refusal leaves nothing behind. What the
task starts from is copied into its folder (the ticket, and the pipeline as it is declared today), so that later changes
of definitions do not reach a task that is under way.
"""

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path

import orjson

from orchestrator.checks import resolve
from orchestrator.clock import not_before
from orchestrator.core.codec import stamp
from orchestrator.core.errors import OrchestratorError
from orchestrator.core.model import Priority, SensitiveCheck, Task, TaskStatus, Ticket, TicketType
from orchestrator.core.pipeline import Pipeline
from orchestrator.core.pipeline_file import parse_pipeline
from orchestrator.core.redact import Redactor, Result, Scan
from orchestrator.core.table import nearest
from orchestrator.core.terms import Autonomy
from orchestrator.core.ticket import readable
from orchestrator.declared import read_declared
from orchestrator.files import make_private, write_atomically
from orchestrator.repository import Repository, inspect_repository, open_repository
from orchestrator.settings import Settings

LONGEST_TITLE = 200
TICKET_FILE, PIPELINE_FILE = "ticket.json", "pipeline.toml"
KEPT_PIPELINES = 1024
"""More tasks at once than that read theirs again."""

_KEY = re.compile(r"[A-Z][A-Z0-9_]{0,30}-[0-9]{1,12}")
_UNFIT_FOR_REF = re.compile(r"[^A-Za-z0-9._-]+")


class Refused(OrchestratorError):
    """A ticket cannot be taken in; the message says what is wrong with it and how to mend that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What a person hands in; `repo` is an absolute path, `at` the earliest time to start, `checks` name → command.

    `usd` is what it may cost; a draft is kept until it is sent off.
    """

    text: str
    repo: Path
    title: str = ""
    pipeline: str = "full"
    type: TicketType = TicketType.FEATURE
    ticket: str | None = None
    base: str | None = None
    priority: Priority = Priority.NORMAL
    after: tuple[str, ...] = ()
    at: datetime | None = None
    checks: Mapping[str, str] = field(default_factory=dict)
    autonomy: Autonomy = Autonomy.AUTO
    usd: float | None = None
    draft: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """Takes submissions in; `tasks_dir` is where every task has its folder."""

    tasks_dir: Path
    settings: Settings
    pipelines: Callable[[], Mapping[str, Pipeline]]
    redactor: Redactor

    def take(self, submission: Submission, now: datetime) -> Task:
        """The task as it begins, its folder made. Blocks.

        Raises Refused, NoTicket, RepositoryError and what checks.py raises.
        """
        pipeline = self._pipeline(submission.pipeline)
        text, title = self._scanned(readable(submission.text)), self._scanned(_title(submission))
        repository = inspect_repository(submission.repo, submission.base)
        git, _ = open_repository(repository.path)
        checks = resolve(git, repository.base_commit, submission.checks, self.settings.checks.timeout)
        folder, key = self._new_folder(submission.ticket, now)
        found = SensitiveCheck(
            result=text.result.value, redacted_count=len(text.redacted) + len(title.redacted), scanned_at=now
        )
        task = Task(
            id=folder.name,
            title=title.text,
            folder=str(folder),
            ticket=Ticket(key=key, type=submission.type, sensitive_check=found),
            pipeline=pipeline.name,
            repo=str(repository.path),
            base_branch=repository.base,
            base_commit=repository.base_commit,
            created_at=now,
            updated_at=now,
            branch=_branch(pipeline, key, folder.name, submission.type),
            checks=checks,
            priority=submission.priority,
            after=submission.after,
            start_at=not_before(submission.at) if submission.at else None,
            terms=self.settings.terms(submission.autonomy, submission.usd),
            status=TaskStatus.DRAFT if submission.draft else TaskStatus.PENDING,
        )
        try:
            write_atomically(folder / TICKET_FILE, _ticket(task, text, repository))
            write_atomically(folder / PIPELINE_FILE, pipeline.text.encode())
        except BaseException:
            shutil.rmtree(folder)
            raise
        return task

    def _pipeline(self, name: str) -> Pipeline:
        known = self.pipelines()
        if name not in known:
            raise Refused(f"there is no pipeline {name!r}; {nearest(name, known)}")
        return known[name]

    def _scanned(self, text: str) -> Scan:
        scan = self.redactor.scan(text)
        if scan.result is Result.BLOCKED:
            raise Refused(
                f"the ticket holds what must not be passed on ({', '.join(scan.blocked)}); take it out and submit again"
            )
        return scan

    def _new_folder(self, ticket: str | None, now: datetime) -> tuple[Path, str]:
        """A folder of its own for the task, and the ticket's key; ids are `KEY_<time>`, or LOCAL-<time> without one."""
        if ticket is not None and not _KEY.fullmatch(ticket):
            raise Refused(f"{ticket!r:.60} is no ticket key; write it like ABC-123, or leave it out")
        base = f"{ticket}_{now:%Y%m%d_%H%M%S}" if ticket else f"LOCAL-{now:%Y%m%d_%H%M%S}"
        for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
            folder = self.tasks_dir / (base + suffix)
            try:
                make_private(self.tasks_dir)
                folder.mkdir(mode=0o700)
            except FileExistsError:
                continue
            return folder, ticket or folder.name
        raise Refused("a thousand tickets came in this second; submit this one again")


@lru_cache(maxsize=KEPT_PIPELINES)
def accepted_pipeline(folder: str) -> Pipeline:
    """The pipeline of a task's folder, as it was declared when the task was submitted.

    Raises DefinitionError if that copy is gone or damaged.
    """
    path = Path(folder) / PIPELINE_FILE
    return parse_pipeline(read_declared(path), str(path))


def _title(submission: Submission) -> str:
    lines = (line.lstrip("# ").strip() for line in (submission.title or submission.text).splitlines())
    words = " ".join(next((line for line in lines if line), "untitled").split())
    return words if len(words) <= LONGEST_TITLE else words[: LONGEST_TITLE - 1] + "…"


def _branch(pipeline: Pipeline, key: str, task_id: str, kind: TicketType) -> str:
    return pipeline.branch.format(ticket=_fit(key), task=_fit(task_id), type=kind.value)


def _fit(name: str) -> str:
    return _UNFIT_FOR_REF.sub("-", name).strip("-.")


def _ticket(task: Task, text: Scan, repository: Repository) -> bytes:
    """ticket.json in the form of sources.md §1.2, local variant."""
    check = task.ticket.sensitive_check
    return orjson.dumps(
        {
            "ticket_id": task.ticket.key,
            "type": task.ticket.type.value,
            "summary": task.title,
            "description": text.text,
            "requirement_source": task.ticket.source,
            "created": stamp(task.created_at),
            "repository": {"path": str(repository.path), "base": repository.base, "commit": repository.base_commit},
            "_filter_metadata": {
                "scan_result": check.result if check else None,
                "redacted_count": check.redacted_count if check else 0,
                "redacted_patterns": sorted(set(text.redacted)),
                "blocked_patterns": list(text.blocked),
                "warnings": list(text.warnings),
                "scanned_at": stamp(task.created_at),
            },
        },
        option=orjson.OPT_INDENT_2,
    )
