"""Making a task from a submission: its ticket redacted, its check commands fixed, its base commit known.

Everything that can be refused is refused here, before the task exists. A refusal leaves nothing behind, except that a
tracker's text that must not be passed on is kept in quarantine. What the task starts from, its ticket and its pipeline
as declared today, is copied into its folder, so that later changes of definitions do not affect it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import orjson

from orchestrator.clock import not_before
from orchestrator.core.decide.work.following import task_of
from orchestrator.core.family.family import Begun, Submitted
from orchestrator.core.task.checks import Check, Evaluation
from orchestrator.core.task.children import Child, ChildDraft
from orchestrator.core.task.pipeline import Pipeline, Stage
from orchestrator.core.task.publication import Publish
from orchestrator.core.task.task import Priority, Schedule, Source, Task, TaskStatus, Timing
from orchestrator.core.task.task_policy import Autonomy, OnBlocked, TaskPolicy
from orchestrator.core.task.ticket import Preflight, Ticket, TicketList, TicketType
from orchestrator.errors import OrchestratorError
from orchestrator.formats.files import parsed, read_file
from orchestrator.formats.table import nearest
from orchestrator.integrations.tickets.text.redaction import (
    RedactedTicket,
    RedactionBlocked,
    redact_ticket,
    ticket_document,
)
from orchestrator.integrations.tickets.text.template import document, parse_template, variant_of
from orchestrator.integrations.tickets.text.ticket import Requirement
from orchestrator.integrations.tickets.text.title import title_of
from orchestrator.pipelines.accepted import CHANGED_PIPELINE_FILE, PIPELINE_FILE, accepted_pipeline, digest_of
from orchestrator.pipelines.given_files import read_given, write_given
from orchestrator.redaction.rules import Redactor
from orchestrator.settings.settings import Settings
from orchestrator.storage.quarantine import quarantine
from orchestrator.storage.task_files import TaskFiles
from orchestrator.workspaces.documents import TreeFiles
from orchestrator.workspaces.evaluation.resolve import resolve
from orchestrator.workspaces.new_repository import repository_in
from orchestrator.workspaces.plain_folder import snapshot
from orchestrator.workspaces.repository import inspect_repository, require_writable

TICKET_FILE, PARSED_FILE = "ticket.json", "ticket-parsed.json"

_KEY = re.compile(r"[A-Z][A-Z0-9_]{0,30}-[0-9]{1,12}")
_NOT_REF_SAFE = re.compile(r"[^A-Za-z0-9._-]+")


class SubmissionRefused(OrchestratorError):
    """A submission was refused; the message says what is wrong with it and how to fix that."""


class AlreadyActive(SubmissionRefused):
    """The ticket already has a live task in the same repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What a person submits; `repo` is an absolute path, `at` the earliest start, `checks` maps names to commands.

    `text` is a ticket, or the name of one on a tracker. A field that is None is taken from the ticket, or else from the
    settings. `usd` is a cost limit; a draft waits until it is submitted; `again` allows a second task of the ticket.
    With `no_git` the `repo` is a folder without a repository, to which the result is brought back. `retry_of` is the
    failed task that the new one repeats. `files` come with it, by the names that the pipeline's family knows, `tickets`
    are to be listed; `keys` are those of the tickets of its repository.
    """

    text: str
    repo: Path
    title: str = ""
    pipeline: str | None = None
    type: TicketType | None = None
    ticket: str | None = None
    base: str | None = None
    priority: Priority | None = None
    after: tuple[str, ...] = ()
    at: datetime | None = None
    checks: Mapping[str, str] = field(default_factory=dict)
    autonomy: Autonomy | None = None
    on_blocked: OnBlocked | None = None
    auto_merge: bool | None = None
    usd: float | None = None
    draft: bool = False
    again: bool = False
    no_git: bool = False
    retry_of: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    tickets: TicketList | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFactory:
    """Makes tasks from submissions; no agent can read `quarantine_dir`.

    `objection` returns why the roles and checks of a task could not run, empty if they can.
    """

    files: TaskFiles
    quarantine_dir: Path
    settings: Settings
    pipelines: Callable[[], Mapping[str, Pipeline]]
    redactor: Redactor
    preflight: Callable[[Pipeline], Preflight]
    objection: Callable[[Pipeline, Sequence[Check]], str]

    def create(self, submission: Submission, requirement: Requirement, now: datetime) -> Task:
        """Return a new task for a requirement, with its folder written. Blocks.

        Raises SubmissionRefused, RepositoryError, and what resolving checks and the preflight raise.
        """
        made = self._make(submission, requirement, now)
        task_id, key = self._new_id(made.task.ticket.key or None, now)
        task = self._named(made, task_id, key)
        try:
            self._write_files(task, made.taken, made.pipeline)
            write_given(self.files, task.id, made.brought, made.composed, self.redactor)
        except BaseException:
            self.files.delete(task_id)
            raise
        return task

    def change(self, draft: Task, submission: Submission, requirement: Requirement, now: datetime) -> Task:
        """Return a draft made again under its id, with its ticket written. Blocks. Raises what `create` raises.

        Until `settle` is called, its pipeline stands beside the accepted one: either may be the right one.
        """
        made = self._make(submission, requirement, now)
        if (key := made.task.ticket.key) and key != draft.ticket.key:
            raise SubmissionRefused(
                f"it would be {key} now, and {draft.id} is {draft.ticket.key}; submit it as a task of its own instead"
            )
        self.settle(draft)
        task = self._named(made, draft.id, draft.ticket.key)
        task = replace(task, timing=draft.timing, policy=replace(task.policy, caps=draft.policy.caps))
        self.files.write(task.id, CHANGED_PIPELINE_FILE, made.pipeline.text.encode())
        for name, content in _ticket_files(task, made.taken).items():
            self.files.write(task.id, name, content)
        write_given(self.files, task.id, made.brought, made.composed, self.redactor)
        return task

    def given_files(self, task: Task, pipeline: str | None) -> dict[str, str]:
        """Return the files that a task's submission brought, as far as this pipeline takes them. Blocks."""
        known = self.pipelines().get(pipeline or "")
        names = known.family.given if known else ()
        return read_given(self.files, task.id, names)

    def settle(self, draft: Task) -> None:
        """Write the accepted pipeline of a draft to its place. Blocks."""
        accepted = accepted_pipeline(self.files, draft.id, draft.pipeline_digest).text.encode()
        if self.files.read(draft.id, PIPELINE_FILE) != accepted:
            self.files.write(draft.id, PIPELINE_FILE, accepted)

    def _make(self, submission: Submission, requirement: Requirement, now: datetime) -> "_Made":
        """Return a task that has no id yet; nothing is written but a new repository, where the pipeline wants one."""
        pipeline, taken = self._read(submission, requirement, keep=True)
        if submission.no_git:
            repo = snapshot(submission.repo, self.settings.data_dir / "folders")
            made = self._assemble(replace(submission, repo=repo), taken, requirement, pipeline, now)
            source = replace(made.task.source, plain_folder=str(submission.repo))
            return made._replace(task=replace(made.task, source=source))
        with repository_in(submission.repo) if pipeline.new_repository else nullcontext():
            return self._assemble(submission, taken, requirement, pipeline, now)

    def preview(self, submission: Submission, requirement: Requirement, now: datetime) -> Task:
        """Return the task that `create` would make, without an id; nothing is written. Blocks.

        Raises what `create` raises, and RepositoryError too for a folder that would only become a repository then.
        """
        pipeline, taken = self._read(submission, requirement, keep=False)
        return self._assemble(submission, taken, requirement, pipeline, now).task

    def _read(self, submission: Submission, requirement: Requirement, *, keep: bool) -> tuple[Pipeline, RedactedTicket]:
        """Return the pipeline that is wanted, and the ticket as it may be passed on."""
        given = submission.type or requirement.type
        pipeline = self._pipeline(submission.pipeline, given or TicketType.FEATURE)
        titled = replace(requirement, title=title_of(submission.title, requirement), type=given)
        return pipeline, self._redacted(titled, keep=keep)

    def _assemble(
        self,
        submission: Submission,
        taken: RedactedTicket,
        requirement: Requirement,
        pipeline: Pipeline,
        now: datetime,
    ) -> "_Made":
        kind, ticket = taken.requirement.type or TicketType.FEATURE, _ticket_key(submission, requirement)
        repository = inspect_repository(submission.repo, submission.base)
        git = repository.git
        named = replace(submission, ticket=ticket)
        begun = self._begun(pipeline, named, taken.requirement, TreeFiles(git, repository.base_commit))
        pipeline, ticket = self._pipeline(begun.pipeline or pipeline.name, kind), _valid_key(ticket or begun.key)
        found = self.preflight(pipeline)
        if any(stage.work.publishes and stage.publish is not Publish.REPORT for stage in pipeline.stages.values()):
            require_writable(git, _branch(pipeline, ticket or "LOCAL", "TASK", kind))
        checks = resolve(git, repository.base_commit, submission.checks, self.settings.checks.rules())
        if objection := self.objection(pipeline, checks):
            raise SubmissionRefused(f"{objection}; see `orchestrator help security`, or allow the network")
        task = Task(
            id="",
            title=taken.requirement.title,
            folder="",
            ticket=Ticket(
                key=ticket,
                type=kind,
                source=requirement.source,
                sensitive_check=taken.check(now),
                preflight=found,
            ),
            pipeline=pipeline.name,
            pipeline_digest=digest_of(pipeline.text),
            source=Source(
                repo=str(repository.path),
                base_branch=repository.base,
                base_commit=repository.base_commit,
                branch="",
            ),
            timing=Timing(created_at=now),
            updated_at=now,
            evaluation=Evaluation(checks=checks),
            schedule=Schedule(
                priority=submission.priority or requirement.priority or Priority.NORMAL,
                after=submission.after,
                start_at=not_before(submission.at) if submission.at else None,
            ),
            policy=self._policy(replace(submission, autonomy=submission.autonomy or begun.autonomy), requirement),
            status=TaskStatus.DRAFT if submission.draft else TaskStatus.PENDING,
            retry_of=submission.retry_of,
        )
        return _Made(task, taken, pipeline, submission.files, begun.files)

    def _named(self, made: "_Made", task_id: str, key: str) -> Task:
        """Return the task under its id, with the names that follow from it."""
        branch = _branch(made.pipeline, key, task_id, made.task.ticket.type)
        return replace(
            made.task,
            id=task_id,
            folder=str(self.files.path_of(task_id)),
            ticket=replace(made.task.ticket, key=key),
            source=replace(made.task.source, branch=branch),
        )

    def create_child(self, parent: Task, stage: Stage, child: Child, draft: ChildDraft, now: datetime) -> Task:
        """Return the task of a child as its draft says, with its folder written and with its parent's checks. Blocks.

        Raises SubmissionRefused, and what the preflight raises.
        """
        made, kind = task_of(parent, stage, child, now), parent.ticket.type
        pipeline = self._pipeline(made.pipeline, kind)
        taken = self._redacted(Requirement(title=child.plan.title, text=draft.text, type=kind), keep=True)
        if objection := self.objection(pipeline, made.evaluation.checks):
            raise SubmissionRefused(f"{objection}; install bubblewrap, or allow the network")
        key = made.ticket.key
        task = replace(
            made,
            title=taken.requirement.title,
            folder=str(self.files.path_of(made.id)),
            pipeline_digest=digest_of(pipeline.text),
            ticket=Ticket(key=key, type=kind, sensitive_check=taken.check(now), preflight=self.preflight(pipeline)),
            source=replace(made.source, branch=_branch(pipeline, key, made.id, kind)),
        )
        with suppress(FileExistsError):  # a crash left it, before the task was one
            self.files.create(task.id)
        self._write_files(task, taken, pipeline)
        write_given(self.files, task.id, draft.files, {}, self.redactor)
        return task

    def _begun(self, pipeline: Pipeline, submission: Submission, requirement: Requirement, files: TreeFiles) -> Begun:
        """Return how the pipeline's family begins the task. Raises SubmissionRefused."""
        if unknown := sorted(submission.files.keys() - set(pipeline.family.given)):
            raise SubmissionRefused(f"the pipeline {pipeline.name!r} takes no file {unknown[0]!r:.80}")
        submitted = Submitted(
            text=requirement.text, title=requirement.title, pipeline=pipeline.name, ticket=submission.ticket or "",
            keys=submission.keys, files=submission.files,
        )  # fmt: skip
        try:
            return pipeline.family.begin(submitted, files)
        except ValueError as error:
            raise SubmissionRefused(str(error)) from error

    def adopt(self, task: Task, folder: Path, names: Iterable[str]) -> None:
        """Copy what earlier stages left in another folder into the task's, secrets masked. Blocks. Raises OSError."""
        for name in names:
            content = read_file(folder / name) or b""
            masked = self.redactor.masked(content.decode("utf-8", "replace"))
            self.files.write(task.id, name, masked.encode())

    def original(self, task: Task) -> Requirement:
        """Return what a task was made from, as its ticket.json has it: redacted, and with the address of a tracker's
        ticket. Blocks. Raises SubmissionRefused if that file is gone or damaged.
        """
        found = parsed(self.files.read(task.id, TICKET_FILE)) or {}
        text, url, labels = found.get("description"), found.get("url", ""), found.get("labels", [])
        if not isinstance(text, str) or not isinstance(url, str) or not isinstance(labels, list):
            path = self.files.path_of(task.id, TICKET_FILE)
            raise SubmissionRefused(f"{path} is gone or damaged, so the ticket is not known; submit it again")
        return Requirement(title=task.title, text=text, url=url, labels=tuple(map(str, labels)))

    def _policy(self, submission: Submission, requirement: Requirement) -> TaskPolicy:
        """Return the policy of the settings, except for what the submission sets itself."""
        policy = self.settings.policy(submission.autonomy or _autonomy(requirement), submission.usd)
        merge = policy.auto_merge if submission.auto_merge is None else submission.auto_merge
        return replace(policy, on_blocked=submission.on_blocked or policy.on_blocked, auto_merge=merge)

    def _pipeline(self, name: str | None, kind: TicketType) -> Pipeline:
        known = self.pipelines()
        if name is None and (variant := variant_of(kind).value) not in known:
            raise SubmissionRefused(
                f"a ticket of type {kind.value} needs the pipeline {variant!r}, which is not declared; "
                f"add {variant}.toml to a folder of pipelines, or give --pipeline NAME or --type feature"
            )
        name = name or variant_of(kind).value
        if name not in known:
            raise SubmissionRefused(f"there is no pipeline {name!r}; {nearest(name, known)}")
        return known[name]

    def _redacted(self, requirement: Requirement, *, keep: bool) -> RedactedTicket:
        """Return the requirement as it may be passed on; if it may not, `keep` a tracker's text for the submitter."""
        taken = redact_ticket(requirement, self.redactor)
        if not isinstance(taken, RedactionBlocked):
            return taken
        what = f"holds what must not be passed on ({taken.reasons})"
        if requirement.tracker is None or not keep:
            raise SubmissionRefused(f"the ticket {what}; take it out and submit again")
        kept = quarantine(self.quarantine_dir, taken.text, taken.scan)
        raise SubmissionRefused(
            f"{requirement.url} {what}; take it out there and submit again. "
            f"The fetched text is kept in {kept}, readable by you alone: delete it after looking at it"
        )

    def _new_id(self, ticket: str | None, now: datetime) -> tuple[str, str]:
        """Make the task's folder; return its id, `KEY_<time>` or LOCAL-<time>, and the ticket's key."""
        base = f"{ticket}_{now:%Y%m%d_%H%M%S}" if ticket else f"LOCAL-{now:%Y%m%d_%H%M%S}"
        for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
            task_id = base + suffix
            try:
                self.files.create(task_id)
            except FileExistsError:
                continue
            return task_id, ticket or task_id
        raise SubmissionRefused("a thousand tickets were submitted in this second; submit this one again")

    def _write_files(self, task: Task, taken: RedactedTicket, pipeline: Pipeline) -> None:
        """Write what the task starts from: its ticket, whole and in parts, and its pipeline."""
        self.files.write_first(task.id, {**_ticket_files(task, taken), PIPELINE_FILE: pipeline.text.encode()})


class _Made(NamedTuple):
    """A task without an id, its ticket as it may be passed on, its pipeline, and the files it begins with."""

    task: Task
    taken: RedactedTicket
    pipeline: Pipeline
    brought: Mapping[str, str]
    composed: Mapping[str, str]


def _ticket_files(task: Task, taken: RedactedTicket) -> Mapping[str, bytes]:
    """Return the files of a ticket: whole and in parts."""
    requirement = taken.requirement
    parts = document(parse_template(requirement.text, task.title, requirement.type), task.title)
    files = {TICKET_FILE: ticket_document(task, taken), PARSED_FILE: parts}
    return {name: orjson.dumps(content, option=orjson.OPT_INDENT_2) for name, content in files.items()}


def _ticket_key(submission: Submission, requirement: Requirement) -> str | None:
    """Return the key given by the submission, or by the ticket."""
    given, own = submission.ticket, requirement.key
    if requirement.tracker is not None and given not in {None, own}:
        raise SubmissionRefused(f"{requirement.url} is the ticket {own}, not {given!r:.60}; leave --ticket out")
    return given or own


def _valid_key(key: str | None) -> str:
    if key and not _KEY.fullmatch(key):
        raise SubmissionRefused(f"{key!r:.60} is not a ticket key; write it like ABC-123, or leave it out")
    return key or ""


def _autonomy(requirement: Requirement) -> Autonomy:
    """Return the default: authors of a tracker's ticket can be asked there, of a submitted text nobody is asked."""
    return Autonomy.AUTO if requirement.tracker is None else Autonomy.INTERACTIVE


def _branch(pipeline: Pipeline, key: str, task_id: str, kind: TicketType) -> str:
    return pipeline.branch.format(ticket=_ref_safe(key), task=_ref_safe(task_id), type=kind.value)


def _ref_safe(name: str) -> str:
    return _NOT_REF_SAFE.sub("-", name).strip("-.")
