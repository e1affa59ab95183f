"""Events of a run: the process tree of an agent or of a check, under its holder."""

from dataclasses import dataclass

from orchestrator.core.events.publish_events import BaseEvent
from orchestrator.core.task.checks import CheckResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(BaseEvent):
    """A process runs under its holder; `holder` identifies that one."""

    folder: str
    pid: int | None = None
    holder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinished(BaseEvent):
    """A check ended; without a result it was stopped before it had one."""

    folder: str
    name: str
    result: CheckResult | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFrozen(BaseEvent):
    """The whole process tree of a run is frozen; `stopped` are its pids."""

    folder: str
    stopped: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeFailed(BaseEvent):
    """Some processes of a run could not be frozen."""

    folder: str
    survivors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunThawed(BaseEvent):
    """A frozen process tree runs again."""

    folder: str


RunEvent = RunStarted | CheckFinished | RunFrozen | FreezeFailed | RunThawed
"""What became of a process tree."""
