"""The history of a task, made by the state machine itself and written to a real store as a daemon writes it.

    history = History(store, task, night)
    history.until("IMPLEMENTATION", NextAction.TURN) >> asking(question()) >> frozen

Every event is decided and committed; one that changes nothing leaves no line. Time passes between any two events.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random
from typing import Self

import orjson

from orchestrator.core.decide import machine
from orchestrator.core.events import events
from orchestrator.core.task.checks import Verdict
from orchestrator.core.task.guards import Evidence, FileFacts
from orchestrator.core.task.pipeline import Pipeline
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.formats.codec import JsonObject, stamp
from orchestrator.pipelines.accepted import PIPELINE_FILE, digest_of
from orchestrator.storage.store import FolderStore
from tests.fakes.tasks import bundled_pipeline
from tests.unit import playbook

MODELS = ("claude-opus-5-5", "claude-sonnet-5-1", "claude-haiku-5")
STEPS = ("# Plan", "## Step 1: Read the tables", "## Step 2: Teach the parser", "## Step 3: Test with real input")
MOST_EVENTS = 400
"""How many events a task without trouble needs at most to come to an end."""

LONGEST_PAUSE = 80_000
"""Milliseconds between two events."""

Happening = Callable[[Task, datetime], events.Event]


class History:
    """A task as it is now, its store, and the time; `text` is what its ticket says."""

    def __init__(self, store: FolderStore, task: Task, text: str = "") -> None:
        self.store, self.pipeline = store, bundled_pipeline(task.pipeline)
        self._random = Random(task.id)
        self.now = task.timing.created_at
        event = events.TaskSubmitted(at=self.now, task=task, by="ada")
        self.task, _ = machine.begin(self.pipeline, event)
        store.commit(None, self.task, event)
        write_inputs(store, self.task, self.pipeline, text)

    def __rshift__(self, happening: Happening | timedelta) -> Self:
        if isinstance(happening, timedelta):
            self.now += happening
            return self
        self.now += timedelta(milliseconds=self._random.randint(200, LONGEST_PAUSE))
        event = happening(self.task, self.now)
        self.now = max(self.now, event.at)
        before = self.task
        self.task, _ = machine.decide(self.pipeline, before, event)
        if self.task is not before:
            self.store.commit(before, self.task, event)
        return self

    def until(self, stage: str, owed: NextAction) -> Self:
        """Let everything go well until the task is in a stage and owes this."""
        for _ in range(MOST_EVENTS):
            if self.task.stage == stage and self.task.next_action is owed and self._is_settled(owed):
                return self
            self >> self._success
        raise AssertionError(f"{self.task.id} never owes {owed} in {stage}: it is in {self.task.stage}")

    def until_ended(self, verdicts: Iterable[Verdict] = (), reason: str = "") -> Self:
        """Let everything go well, except for the first checks, to the end of the task or to where a person must look.

        The checks end with the given verdicts, as long as there are some, and fail for the reason.
        """
        judged = iter(verdicts)
        while not (self.task.run is None and (self.task.status.is_final or self.task.status is TaskStatus.BLOCKED)):
            verdict = (
                next(judged, Verdict.PASS) if self.task.next_action is NextAction.CHECKS and self.task.run else None
            )
            if verdict is Verdict.FAIL:
                self >> playbook.judged(Verdict.FAIL, f"exit code 1: {reason}")
            else:
                self >> self._success
            assert self.task.seq < MOST_EVENTS, f"{self.task.id} does not end: {self.task.stage}"
        return self

    def until_reviewed(self) -> Self:
        """Let everything go well until a person must approve what the task did."""
        while self.task.status is not TaskStatus.REVIEW or self.task.run is not None:
            self >> self._success
            assert self.task.seq < MOST_EVENTS, f"{self.task.id} asks for no review: {self.task.stage}"
        return self

    def release(self) -> str:
        """Close the task in the store, after people got its notices; its id."""
        while self.task.notices:
            self >> playbook.told
        self.store.release(self.task.id)
        return self.task.id

    def _is_settled(self, owed: NextAction) -> bool:
        """Whether the agent has reported its session, where its turn is owed."""
        return owed is not NextAction.TURN or self.task.agent.session.is_known

    def _success(self, task: Task, at: datetime) -> events.Event:
        """What happens next to a task without trouble; its turns cost money."""
        event = playbook.answer(task, at)
        cost = self._random.randint(2, 240) / 100
        match event:
            case events.SessionStarted():
                session = f"{self._random.getrandbits(128):032x}"
                return replace(event, session_id=session, model=self._random.choice(MODELS), version="2.1.329")
            case events.TurnFinished():
                usage = task.agent.usage
                tokens = usage.tokens - usage.tokens_before_session + int(40_000 * cost)
                usd = usage.cost_usd - usage.cost_before_session + cost
                return replace(event, tokens=tokens, cost_usd=round(usd, 2))
            case events.GateLooked(stage="PLANNING") if task.pipeline == "full":
                digests = tuple(f"{number:032x}" for number in range(len(STEPS)))
                plan = FileFacts(chars=2400, headings=STEPS, digests=digests)
                return replace(event, evidence=Evidence(files={"plan.md": plan}, fresh=("plan.md",)))
            case events.GateLooked(stage="IMPLEMENTATION"):
                commit = f"{self._random.getrandbits(160):040x}"
                return replace(event, evidence=Evidence(head=commit, commits=(commit,)))
            case _:
                return event


def write_inputs(store: FolderStore, task: Task, pipeline: Pipeline, text: str = "") -> None:
    """Write what every task's folder begins with: its ticket and its pipeline."""
    folder = store.files.path_of(task.id)
    (folder / PIPELINE_FILE).write_text(pipeline.text, encoding="utf-8")
    ticket: JsonObject = {
        "ticket_id": task.ticket.key,
        "type": task.ticket.type.value,
        "summary": task.title,
        "description": text or f"{task.title}.\n",
        "requirement_source": task.ticket.source,
        "priority": task.schedule.priority.value,
        "labels": [],
        "created": stamp(task.timing.created_at),
    }
    (folder / "ticket.json").write_bytes(orjson.dumps(ticket, option=orjson.OPT_INDENT_2))


def accepted(task: Task) -> Task:
    """The task with the digest of its pipeline, as the daemon accepts it."""
    return replace(task, pipeline_digest=digest_of(bundled_pipeline(task.pipeline).text))
