"""Stalls, seen by evidence: an agent's turn is under way, and there is no sign of life whatever for a whole while.

A sign of life is any of: a line of output, a tool at work (also a subagent, which is one), a retry that the CLI has
announced, processor time, bytes read or written, a process that wakes up often, one that began or ended. Waking is how
an answer that comes in piece by piece shows: the kernel does not count the bytes of sockets that are read by recv(2).

What the CLI does while it waits for an answer that never comes is none: its event loop takes up to 0.009 s of processor
time and 40 bytes in a second and wakes 4 times; an answer of 10 pieces in a second wakes it 20 times (measured with
2.1.329). So the bounds are rates, between one look and the next. What the holder does is no sign of life either.

Time is counted by looks, on the monotonic clock: a suspended machine, a clock that jumps, and a daemon that was away
make nobody look stalled. What is done about a stall, and how often it was seen, is the core's (core/turns.py).
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
"""Seconds; of a shorter patience, a quarter."""
LOOKS = 4
IDLE_CPU, IDLE_BYTES, IDLE_WAKES = 0.03, 256.0, 8.0
"""Seconds of processor time, bytes, and times of waking up, each in a second, that are no sign of life."""
ALWAYS_IDLE_CPU, ALWAYS_IDLE_BYTES, ALWAYS_IDLE_WAKES = 0.05, 4096.0, 20.0
"""The same for any look, however soon it follows on another: the kernel counts in steps."""

LastSign = tuple[int, int, int, datetime | None]
"""What tells that something was heard of an agent: attempt, turn, how far it was read, and when last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a tree had done up to a time on the monotonic clock."""

    at: float
    activity: Activity


@dataclass(frozen=True, slots=True, kw_only=True)
class _Silence:
    """What was last heard of an agent, and the first and the newest look since without a sign of life."""

    heard: LastSign
    first: Look
    newest: Look


class StallDetector:
    """Watches the turns that are under way, and tells of those that are not getting on."""

    def __init__(
        self,
        tasks: Callable[[], Collection[Task]],
        post: Callable[[str, Event], None],
        clock: Callable[[], datetime],
        files: TaskFiles,
        stall_after: float,
    ) -> None:
        """`stall_after` are the seconds without a sign of life that make a stall; it may be changed at any time."""
        self.stall_after = stall_after
        self._tasks, self._post, self._clock, self._files = tasks, post, clock, files
        self._silences: dict[str, _Silence] = {}

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(min(LOOK_EVERY, self.stall_after / LOOKS))

    async def look(self) -> None:
        """Look once at every turn under way; 20 agents of 3 processes each take a thread 56 ms (measured)."""
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
    """Whether an agent should be getting on with its turn, with nothing known that it could be waiting for."""
    agent = task.agent
    under_way = task.next_action is NextAction.TURN and task.is_active and not task.is_paused
    runs = task.run is not None and task.run.is_of_agent and task.run.process is ProcessState.RUNNING
    waits = agent.turn.open_tools > 0 or (agent.turn.retry_until is not None and now < agent.turn.retry_until)
    return under_way and runs and not waits


def is_sign_of_life(before: Look, after: Look) -> bool:
    """Whether a tree did more between two looks than what waits does."""
    seconds, old, new = after.at - before.at, before.activity, after.activity
    worked = abs(new.cpu_seconds - old.cpu_seconds) > ALWAYS_IDLE_CPU + IDLE_CPU * seconds
    moved = abs(new.io_bytes - old.io_bytes) > ALWAYS_IDLE_BYTES + IDLE_BYTES * seconds
    woke = abs(new.wakes - old.wakes) > ALWAYS_IDLE_WAKES + IDLE_WAKES * seconds
    return worked or moved or woke or new.pids != old.pids


def evidence_of(first: Look, last: Look) -> str:
    """What was looked at, with its numbers, in words."""
    old, new = first.activity, last.activity
    cpu = abs(new.cpu_seconds - old.cpu_seconds)
    return (
        f"in {last.at - first.at:.1f} s no output, no tool at work, and of {len(new.pids)} running "
        f"process{'' if len(new.pids) == 1 else 'es'} {cpu:.2f} s of processor time, "
        f"{abs(new.io_bytes - old.io_bytes)} bytes read or written, woken {abs(new.wakes - old.wakes)} times"
    )


def _look_at(folder: Path) -> Look:
    return Look(at=time.monotonic(), activity=activity_of(folder))


def _heard(task: Task) -> LastSign:
    agent = task.agent
    return agent.attempt, agent.turn.number, agent.read_offset, agent.last_update
