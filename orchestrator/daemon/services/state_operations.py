"""The state operations on a task of the running daemon: its state, where to resume, moves, steps and failures.

They read and answer the JSON documents of the state operations, in their own names.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from orchestrator.core.decide import state_moves, state_operations
from orchestrator.core.decide.resume_point import resume_point
from orchestrator.core.events.events import OperationRequested
from orchestrator.core.events.operations import ForcedTransition, Operation
from orchestrator.core.task import guards
from orchestrator.core.task.guards import Evidence
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import Task
from orchestrator.daemon.callers import Caller
from orchestrator.daemon.offline_state import evidence_of
from orchestrator.daemon.services.errors import OutdatedAttempt
from orchestrator.daemon.services.records import masked
from orchestrator.daemon.services.task_index import TaskIndex
from orchestrator.formats.codec import Json, JsonObject
from orchestrator.pipelines.accepted import accepted_pipeline
from orchestrator.pipelines.operation_parser import failure_of, step_of, transition_of
from orchestrator.storage.state_document import to_document
from orchestrator.storage.task_files import TaskFiles
from orchestrator.supervisor.inbox import Inbox
from orchestrator.workspaces.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class StateService:
    """The use cases of the state operations; texts of agents leave masked and are stored masked.

    Every method raises NoSuchTask and AmbiguousName; those an agent may call raise OutdatedAttempt; those that change
    the task raise OperationRefused, InvalidTransition and NotCommitted.
    """

    index: TaskIndex
    inbox: Inbox
    files: TaskFiles
    workspace: Workspace
    redact: Callable[[str], str]
    clock: Callable[[], datetime]

    async def current(self, name: str, caller: Caller) -> Json:
        """Return the current state whole, and plan and failures in short."""
        task = await self._find_for(name, caller)
        document = state_moves.current(self._pipeline_of(task), task, to_document(task))
        return masked(document, self.redact)

    async def resume_point(self, name: str) -> Json:
        """Return where the task's work continues."""
        task = await self.index.find(name)
        evidence = await self._evidence_of(task)
        return masked(resume_point(self._pipeline_of(task), task, evidence, self.clock()), self.redact)

    async def transition(self, name: str, document: Mapping[str, Json], by: str) -> Json:
        """Move the task from one state to another if the guards of that transition allow it."""
        task = await self.index.find(name)
        moved = await self._decide(task, transition_of(document), by)
        return {"ok": True, "new_state": state_moves.state_of(moved)}

    async def force(self, name: str, stage: str, reason: str, by: str) -> Json:
        """Move the task to a stage whatever its guards miss; who did it, why, and what was waived is recorded."""
        task = await self.index.find(name)
        evidence = await self._evidence_of(task)
        waived = guards.missing(self._pipeline_of(task).stage(task.stage).guards, task, evidence)
        moved = await self._decide(task, ForcedTransition(to_state=stage, reason=reason, waived=waived), by)
        shown: list[Json] = [*waived]
        return {"ok": True, "new_state": state_moves.state_of(moved), "waived": masked(shown, self.redact)}

    async def step(self, name: str, document: Mapping[str, Json], caller: Caller) -> Json:
        """Record news of a step; only its commits show that it is completed."""
        task = await self._find_for(name, caller)
        update = step_of(self._masked(document))
        await self._decide(task, update, str(caller))
        return {"ok": True, "step_id": update.step_id, "new_status": update.status.value}

    async def fail(self, name: str, document: Mapping[str, Json], caller: Caller) -> Json:
        """Record a failure."""
        task = await self._find_for(name, caller)
        report = failure_of(self._masked(document), state_moves.state_of(task), self.clock())
        after = await self._decide(task, report, str(caller))
        return {"ok": True, "failure_id": after.failures.entries[-1].id}

    async def _find_for(self, name: str, caller: Caller) -> Task:
        """Return the task if the caller is a person or the task's current agent."""
        task = await self.index.find(name)
        if caller.attempt is not None and caller.attempt != task.agent.attempt:
            raise OutdatedAttempt(caller.attempt, task.agent.attempt)
        return task

    def _pipeline_of(self, task: Task) -> Pipeline:
        return accepted_pipeline(self.files, task.id, task.pipeline_digest)

    async def _evidence_of(self, task: Task) -> Evidence:
        return await asyncio.to_thread(evidence_of, task, self._pipeline_of(task), self.workspace)

    async def _decide(self, task: Task, operation: Operation, by: str) -> Task:
        state_operations.require_begun(self._pipeline_of(task), task, operation)
        evidence = await self._evidence_of(task)
        event = OperationRequested(at=self.clock(), operation=operation, evidence=evidence, by=by)
        return await self.inbox.request(task.id, event)

    def _masked(self, document: Mapping[str, Json]) -> JsonObject:
        """Return a report without the secrets that may be in it: it is kept in files that the daemon composes."""
        return {name: masked(value, self.redact) for name, value in document.items()}
