"""Detect stalls: an agent's turn is under way, and its processes show no sign of life for a while.

A sign of life is any of: a line of output, a tool at work (also a subagent, which is one), a retry that the CLI has
announced, a byte received over a TCP connection, processor time, bytes read or written, a process that wakes up often,
one that began or ended. So an answer that arrives piece by piece, however slowly, is life. Where the kernel does not
count the bytes of connections, it shows by the waking: what recv(2) reads is not among the bytes read.

What the CLI does while it waits for an answer is no sign of life: in a second its event loop uses up to 0.009 s of
processor time and 40 bytes of I/O, and wakes 4 times (version 2.1.329); an answer of 10 pieces in a second wakes it 20
times. So the bounds are rates between two looks. The holder's own activity does not count either.

Time is counted between looks on the monotonic clock, so a suspended machine, a clock that jumps, or a daemon that was
away makes no agent look stalled. The core decides what is done about a stall.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import structlog

from orchestrator.core.events.events import Event, StallSeen
from orchestrator.core.task.agent import ProcessState
from orchestrator.core.task.task import NextAction, Task
from orchestrator.processes.process_stats import activity_of
from orchestrator.processes.spec import Activity
from orchestrator.storage.task_files import TaskFiles

log = structlog.get_logger()

LOOK_EVERY = 30.0
"""Seconds between two looks; a quarter of `stall_after` if that is shorter."""
LOOKS = 4
IDLE_CPU, IDLE_BYTES, IDLE_WAKES = 0.03, 256.0, 8.0
"""Processor seconds, bytes and wake-ups per second that are no sign of life."""
ALWAYS_IDLE_CPU, ALWAYS_IDLE_BYTES, ALWAYS_IDLE_WAKES = 0.05, 4096.0, 20.0
"""The same for each look, however short its interval: the kernel counts in steps."""

LastSign = tuple[int, int, int, datetime | None]
"""Changes whenever an agent was heard of: attempt, turn, read offset, time of the last output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The activity of a process tree up to a time on the monotonic clock."""

    at: float
    activity: Activity


@dataclass(frozen=True, slots=True, kw_only=True)
class _Silence:
    """The last sign of an agent, and the first and the newest look since then."""

    heard: LastSign
    first: Look
    newest: Look


class StallDetector:
    """Watches running turns and posts `StallSeen` for those without a sign of life."""

    def __init__(
        self,
        tasks: Callable[[], Collection[Task]],
        post: Callable[[str, Event], None],
        clock: Callable[[], datetime],
        files: TaskFiles,
        stall_after: float,
    ) -> None:
        """`stall_after` is in seconds and may be changed at any time."""
        self.stall_after = stall_after
        self._tasks, self._post, self._clock, self._files = tasks, post, clock, files
        self._silences: dict[str, _Silence] = {}

    async def run(self) -> None:
        """Look at regular intervals, forever."""
        while True:
            await self.look()
            await asyncio.sleep(min(LOOK_EVERY, self.stall_after / LOOKS))

    async def look(self) -> None:
        """Look once at every running turn, in a thread: 56 ms for 20 agents with 3 processes each."""
        quiet = {task.id: task for task in self._tasks() if may_stall(task, self._clock())}
        self._silences = {task_id: silence for task_id, silence in self._silences.items() if task_id in quiet}
        runs = {
            task_id: self._files.run_folder(task_id, task.run.folder) for task_id, task in quiet.items() if task.run
        }
        looks = await asyncio.to_thread(lambda: {task_id: _look_at(folder) for task_id, folder in runs.items()})
        for task_id, look in looks.items():
            self._judge(quiet[task_id], look)

    def _judge(self, task: Task, look: Look) -> None:
        silence, heard = self._silences.get(task.id), _heard(task)
        if silence is None or silence.heard != heard or is_sign_of_life(silence.newest, look):
            silence = _Silence(heard=heard, first=look, newest=look)
        elif look.at - silence.first.at >= self.stall_after:
            evidence = evidence_of(silence.first, look)
            log.warning("stall_seen", task=task.id, attempt=task.agent.attempt, evidence=evidence)
            seen = StallSeen(
                at=self._clock(), attempt=task.agent.attempt, turn=task.agent.turn.number, evidence=evidence
            )
            self._post(task.id, seen)
            silence = _Silence(heard=heard, first=look, newest=look)
        self._silences[task.id] = replace(silence, newest=look)


def may_stall(task: Task, now: datetime) -> bool:
    """Return whether an agent is in a turn and waits for nothing that is known."""
    agent = task.agent
    under_way = task.next_action is NextAction.TURN and task.is_active and not task.is_paused
    runs = task.run is not None and task.run.is_of_agent and task.run.process is ProcessState.RUNNING
    waits = agent.turn.open_tools > 0 or (agent.turn.retry_until is not None and now < agent.turn.retry_until)
    return under_way and runs and not waits


def is_sign_of_life(before: Look, after: Look) -> bool:
    """Return whether a tree did more between two looks than an idle one does."""
    seconds, old, new = after.at - before.at, before.activity, after.activity
    worked = abs(new.cpu_seconds - old.cpu_seconds) > ALWAYS_IDLE_CPU + IDLE_CPU * seconds
    moved = abs(new.io_bytes - old.io_bytes) > ALWAYS_IDLE_BYTES + IDLE_BYTES * seconds
    woke = abs(new.wakes - old.wakes) > ALWAYS_IDLE_WAKES + IDLE_WAKES * seconds
    return worked or moved or woke or new.received != old.received or new.pids != old.pids


def evidence_of(first: Look, last: Look) -> str:
    """Describe the activity between two looks, with its numbers."""
    old, new = first.activity, last.activity
    cpu = abs(new.cpu_seconds - old.cpu_seconds)
    return (
        f"in {last.at - first.at:.1f} s no output, no byte received, no tool at work, and of {len(new.pids)} running "
        f"process{'' if len(new.pids) == 1 else 'es'} {cpu:.2f} s of processor time, "
        f"{abs(new.io_bytes - old.io_bytes)} bytes read or written, woken {abs(new.wakes - old.wakes)} times"
    )


def _look_at(folder: Path) -> Look:
    return Look(at=time.monotonic(), activity=activity_of(folder))


def _heard(task: Task) -> LastSign:
    agent = task.agent
    return agent.attempt, agent.turn.number, agent.read_offset, agent.last_update
