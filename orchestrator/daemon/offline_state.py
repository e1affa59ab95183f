"""State operations on folders: on a workspace without a daemon, and on a task whose daemon is not running.

Both are decisions of the engine that runs tasks with a daemon too.

A workspace without a daemon has nothing but its state.json. Whoever changes it holds a lock on `.state.lock` beside it
from reading to writing, and replaces the file by rename. So two writers wait for each other, and a reader sees the old
state or the new one. Failures beyond the newest 200 are in failures.jsonl before they leave state.json; one that is in
both after a power cut is known by its id.

A task of a data folder belongs to its daemon: its journal is the truth, and only one process may write it. While no
daemon is running, the decision is made under the lock of the data folder; what it owes is dispatched when the daemon
starts.
"""

import fcntl
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import cast

import orjson

from orchestrator.core.decide import machine, state_moves
from orchestrator.core.decide.resume_point import resume_point
from orchestrator.core.events.events import OperationRequested
from orchestrator.core.events.operations import (
    FailureReport,
    Operation,
    OperationRefused,
    Refusal,
    StepUpdate,
    Transition,
)
from orchestrator.core.task.failures import KEPT
from orchestrator.core.task.guards import NOTHING_SEEN, Evidence
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.daemon.services.records import masked_object
from orchestrator.daemon.task_factory import TICKET_FILE
from orchestrator.errors import OrchestratorError
from orchestrator.formats.codec import Json, JsonObject, stamp
from orchestrator.formats.files import make_private, parsed, read_file, write_atomically
from orchestrator.pipelines.accepted import accepted_pipeline
from orchestrator.pipelines.families.tickets.standalone_state import (
    InitialState,
    UnreadableState,
    initial,
    manual,
    task_from,
    with_changes,
    with_check,
)
from orchestrator.redaction.display import escape_text
from orchestrator.redaction.rules import Redactor, Result, Scan
from orchestrator.storage.journal import NAME as JOURNAL
from orchestrator.storage.state_document import shown_failure, to_document
from orchestrator.storage.store import FolderStore
from orchestrator.workspaces.evaluation.artifact_facts import seen_in, seen_of
from orchestrator.workspaces.git import Git, GitError
from orchestrator.workspaces.repository import uncommitted
from orchestrator.workspaces.workspace import Workspace

STATE, LOCK, OLDER = "state.json", ".state.lock", "failures.jsonl"
OURS = ".coding-agent"
"""The original system's own folder in a repository, which nobody commits."""
MOST_UNCOMMITTED = 200
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_COMMIT = re.compile(r"[0-9a-f]{4,64}")


class NoWorkspace(OrchestratorError):
    """A folder holds no state.json, or one that is not for state operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveWorkspace:
    """A workspace without a daemon, as a task can continue it; `branch` is None until one was begun.

    `task` is its state, `evidence` its files, `ticket` its ticket.json, `dirty` the repository's uncommitted files.
    """

    task: Task
    pipeline: Pipeline
    evidence: Evidence
    ticket: JsonObject
    branch: str | None
    pr_url: str | None
    dirty: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StandaloneWorkspace:
    """A folder with a state.json and no daemon; `now` and `by` go on record."""

    folder: Path
    pipelines: Mapping[str, Pipeline]
    now: Callable[[], datetime]
    by: str

    def init(self, beginning: InitialState) -> JsonObject:
        """Begin a workspace. Raises OperationRefused (STATE_EXISTS, MALFORMED), NoWorkspace and OSError."""
        if not _KEY.fullmatch(beginning.ticket_id):
            advice = f"{beginning.ticket_id!r:.80} is no ticket key; write it like ABC-123, or leave it out"
            raise OperationRefused(Refusal.MALFORMED, {"ticket_id": beginning.ticket_id, "problem": advice}, advice)
        pipeline = self._pipeline(beginning.variant)
        make_private(self.folder / "logs")
        path = self.folder / STATE
        with self._locked():
            if os.path.lexists(path):
                advice = f"{path} is there already; take another folder, or move it away"
                raise OperationRefused(Refusal.STATE_EXISTS, {"path": str(path)}, advice)
            document = initial(beginning, pipeline.start, str(self.folder), self.now())
            self._write(document)
        return {"path": str(path), "state": document}

    def scan(self, redactor: Redactor) -> JsonObject:
        """Search ticket.json for secrets, mask them there, and record the result in the state.

        Raises NoWorkspace, UnreadableState and OSError.
        """
        with self._locked():
            document, _, _ = self._read()
            path, scans = self.folder / TICKET_FILE, list[Scan]()
            ticket = parsed(read_file(path) or b"")
            if ticket is None:
                raise NoWorkspace(f"{path} is no JSON object; write the ticket there first")

            def mask(text: str) -> str:
                scans.append(redactor.scan(text))
                return scans[-1].text

            clean = masked_object(ticket, mask)
            blocked = any(scan.result is Result.BLOCKED for scan in scans)
            count = sum(len(scan.redacted) for scan in scans)
            result = Result.BLOCKED if blocked else Result.REDACTED if count else Result.CLEAN
            if result is Result.REDACTED:
                write_atomically(path, orjson.dumps(clean, option=orjson.OPT_INDENT_2) + b"\n")
            check: JsonObject = {"result": result.value, "redacted_count": count, "scanned_at": stamp(self.now())}
            self._write(with_check(document, check))
        return {"ok": not blocked, "sensitive_check": check}

    def get(self) -> JsonObject:
        """Return the current state. Raises NoWorkspace and UnreadableState."""
        document, pipeline, task = self._read()
        return state_moves.current(pipeline, task, document)

    def live(self) -> LiveWorkspace:
        """Return all that another program needs to continue it. Raises NoWorkspace, UnreadableState and GitError."""
        document, pipeline, task = self._read()
        branches = [record.get("branch") for record in cast(dict[str, JsonObject], document["states"]).values()]
        return LiveWorkspace(
            task=task,
            pipeline=self._pipeline(pipeline.name),
            evidence=seen_in(self.folder),
            ticket=parsed(read_file(self.folder / TICKET_FILE) or b"") or {},
            branch=next((branch for branch in branches if isinstance(branch, str) and branch), None),
            pr_url=task.publication.pr_url,
            dirty=_uncommitted(self.folder),
        )

    def resume_point(self) -> JsonObject:
        """Return where work continues. Raises NoWorkspace and UnreadableState."""
        _, pipeline, task = self._read()
        evidence = seen_in(self.folder)
        if pipeline.stage(task.stage).shows_branch:
            with suppress(GitError):
                evidence = replace(evidence, dirty=_uncommitted(self.folder))
        return resume_point(pipeline, task, evidence, self.now())

    def transition(self, move: Transition) -> JsonObject:
        """Move from one state to another. Raises OperationRefused, NoWorkspace, UnreadableState, GitError and OSError.

        Failed checks are not recorded here; in such a workspace their caller does that with `fail`.
        """
        with self._locked():
            document, pipeline, task = self._read()
            evidence = seen_in(self.folder)
            if pipeline.stage(task.stage).shows_branch:
                absent = _absent(self.folder, (commit for step in task.steps for commit in step.commits))
                evidence = replace(evidence, dirty=_uncommitted(self.folder), absent=absent)
            after = self._decided(pipeline, task, move, evidence)
            self._write(with_changes(document, task, replace(after, failures=task.failures)))
        return {"ok": True, "new_state": state_moves.state_of(after)}

    def step(self, update: StepUpdate) -> JsonObject:
        """Update a step. Raises OperationRefused, NoWorkspace, UnreadableState and OSError."""
        with self._locked():
            document, pipeline, task = self._read()
            self._write(with_changes(document, task, self._decided(pipeline, task, update)))
        return {"ok": True, "step_id": update.step_id, "new_status": update.status.value}

    def fail(self, report: FailureReport) -> JsonObject:
        """Record a failure. Raises OperationRefused, NoWorkspace, UnreadableState and OSError."""
        with self._locked():
            document, pipeline, task = self._read()
            after = self._decided(pipeline, task, report)
            entries = [*cast(list[Json], document.get("failure_log") or ()), shown_failure(after.failures.entries[-1])]
            self._keep_older(entries[:-KEPT])
            self._write({**with_changes(document, task, after), "failure_log": entries[-KEPT:]})
        return {"ok": True, "failure_id": after.failures.entries[-1].id}

    def _decided(self, pipeline: Pipeline, task: Task, operation: Operation, evidence: Evidence = NOTHING_SEEN) -> Task:
        """Return the task after one decision of the engine that runs tasks with a daemon too."""
        at = operation.failure.occurred_at if isinstance(operation, FailureReport) else self.now()
        event = OperationRequested(at=at, operation=operation, evidence=evidence, by=self.by)
        return machine.decide(pipeline, task, event)[0]

    def _read(self) -> tuple[JsonObject, Pipeline, Task]:
        path = self.folder / STATE
        content = read_file(path)
        if not content:
            said = "is no plain file" if content is None else "is not there"
            raise NoWorkspace(f"{path} {said}; `orchestrator state init` begins a workspace")
        document = parsed(content)
        if document is None:
            raise UnreadableState(f"{path} is no JSON object; fix it by hand")
        pipeline = manual(self._pipeline(str(document.get("pipeline_variant") or "full")))
        try:
            return document, pipeline, task_from(document, pipeline, str(self.folder))
        except UnreadableState as error:
            raise UnreadableState(f"{path}: {error}") from error

    def _pipeline(self, variant: str) -> Pipeline:
        if variant not in self.pipelines:
            known = ", ".join(sorted(self.pipelines))
            raise NoWorkspace(f"there is no pipeline {escape_text(variant)!r} for {self.folder}; there are {known}")
        return self.pipelines[variant]

    def _write(self, document: JsonObject) -> None:
        write_atomically(self.folder / STATE, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")

    def _keep_older(self, entries: list[Json]) -> None:
        if not entries:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self.folder / OLDER, flags, 0o600), "ab") as file:
            file.write(b"".join(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE) for entry in entries))
            file.flush()
            os.fsync(file.fileno())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the workspace's lock; wait for whoever holds it."""
        if not self.folder.is_dir():
            raise NoWorkspace(f"{self.folder} is no folder; `orchestrator state init` begins a workspace")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.folder / LOCK, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class OfflineTask:
    """A task's folder in a data folder; raises StoreInUse while its daemon runs."""

    folder: Path
    now: Callable[[], datetime]
    by: str

    def get(self) -> JsonObject:
        """Return the current state. Raises StoreError."""
        with self._store() as store:
            task = store.load(self.folder.name).task
            return state_moves.current(_pipeline_of(store, task), task, to_document(task))

    def resume_point(self) -> JsonObject:
        """Return where work continues. Raises StoreError."""
        with self._store() as store:
            task = store.load(self.folder.name).task
            pipeline = _pipeline_of(store, task)
            return resume_point(pipeline, task, evidence_of(task, pipeline, Workspace(store.data_dir)), self.now())

    def transition(self, move: Transition) -> JsonObject:
        """Move from one state to another. Raises OperationRefused, InvalidTransition, StoreError and OSError."""
        return {"ok": True, "new_state": state_moves.state_of(self._decided(move))}

    def step(self, update: StepUpdate) -> JsonObject:
        """Update a step. Raises OperationRefused, InvalidTransition, StoreError and OSError."""
        self._decided(update)
        return {"ok": True, "step_id": update.step_id, "new_status": update.status.value}

    def fail(self, report: FailureReport) -> JsonObject:
        """Record a failure. Raises OperationRefused, InvalidTransition, StoreError and OSError."""
        return {"ok": True, "failure_id": self._decided(report).failures.entries[-1].id}

    def _decided(self, operation: Operation) -> Task:
        """Return the task after one decision. What it owes is dispatched when the daemon starts."""
        with self._store() as store:
            before = store.load(self.folder.name, keep_open=True).task
            pipeline = _pipeline_of(store, before)
            evidence = evidence_of(before, pipeline, Workspace(store.data_dir))
            event = OperationRequested(at=self.now(), operation=operation, evidence=evidence, by=self.by)
            after, _ = machine.decide(pipeline, before, event)
            if after is not before:
                store.commit(before, after, event)
            return after

    @contextmanager
    def _store(self) -> Iterator[FolderStore]:
        store = FolderStore(self.folder.parent.parent)
        try:
            yield store
        finally:
            store.close()


def is_task(folder: Path) -> bool:
    """Return whether a folder is a task's in a data folder, so that it belongs to a daemon."""
    return folder.parent.name == "tasks" and (folder / JOURNAL).is_file()


def evidence_of(task: Task, pipeline: Pipeline, workspace: Workspace) -> Evidence:
    """Return the evidence for a task's stage as it is now, without importing anything. Raises WorkspaceError."""
    evidence = seen_of(task)
    if task.source.worktree is None or not pipeline.stage(task.stage).shows_branch:
        return evidence
    facts = workspace.facts(task.id, task.source.base_commit, task.source.commit)
    commits = tuple(commit.sha for commit in reversed(facts.commits))
    return replace(evidence, head=facts.head, commits=commits, dirty=facts.dirty)


def _absent(folder: Path, commits: Iterable[str]) -> tuple[str, ...]:
    """Return the commits that the repository around a workspace does not have. Raises GitError where there is none."""
    named = tuple(dict.fromkeys(commits))
    known = [commit for commit in named if _COMMIT.fullmatch(commit)]
    asked = "".join(f"{commit}^{{commit}}\n" for commit in known).encode()
    answers = Git.foreign(folder).run("cat-file", "--batch-check=%(objecttype)", stdin=asked).splitlines()
    there = {commit for commit, answer in zip(known, answers, strict=True) if answer == "commit"}
    return tuple(commit for commit in named if commit not in there)


def _uncommitted(folder: Path) -> tuple[str, ...]:
    """Return the uncommitted files of the repository around a workspace; the workspace itself does not count.

    Raises GitError where there is no repository.
    """
    top = Path(Git.foreign(folder).run("rev-parse", "--show-toplevel").removesuffix("\n"))
    own = f"{folder.resolve().relative_to(top.resolve())}/"
    others = (name for name in uncommitted(Git.foreign(top)) if not name.startswith((own, f"{OURS}/")))
    return tuple(escape_text(name) for name in others)[:MOST_UNCOMMITTED]


def _pipeline_of(store: FolderStore, task: Task) -> Pipeline:
    return accepted_pipeline(store.files, task.id, task.pipeline_digest)
