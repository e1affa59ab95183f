"""Troubles that no task can help: the service refuses the account, or the agents' program does not work.

A turn that meets one costs its task nothing. No other turn begins then; from time to time one task tries again, after
pauses that grow, and what it meets decides whether all go on.

A refusal of the account holds for every task. That an agent fails before it has done anything may be a fault of its
task: of its role, its model, its options. So the program is blamed only when agents of two tasks fail like that and
none succeeds in between. A task whose agent still fails after the program was found to work is to blame itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from orchestrator.core.decide.obligations import agent_run_folder
from orchestrator.core.decide.turns import ACCOUNT_ERRORS
from orchestrator.core.events.agent_events import ErrorClass
from orchestrator.core.events.events import AgentExited, Event, SessionStarted, TurnFinished, TurnOutcome
from orchestrator.core.task.agent import ProcessState
from orchestrator.core.task.task import NextAction, Task
from orchestrator.core.task.usage_limits import Windows, probe_at

SETUP_ERRORS = frozenset({ErrorClass.MODEL, ErrorClass.STARTUP})
UNEXPLAINED = frozenset({ErrorClass.UNKNOWN, None})
MOST_SUSPECTS = 200
_ON_ITS_OWN = (ProcessState.STARTING, ProcessState.RUNNING)


class TroubleKind(StrEnum):
    """What a person has to mend."""

    ACCOUNT = "account"
    INSTALLATION = "installation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why no turn can succeed.

    While it `is_probed`, one task at a time may try. `met_by` are tasks that met it and may have a fault of their own,
    the last one at the end.
    """

    kind: TroubleKind
    reason: str
    is_probed: bool = False
    met_by: tuple[str, ...] = ()


class Fault(StrEnum):
    """What may be wrong with more than the task that meets it."""

    ACCOUNT = "account"
    """The service refused the account."""
    START = "start"
    """The agent's process ended before it began a session."""
    SETUP = "setup"
    """The agent began a session but no turn: there is no such model, for one."""


def fault_of(task: Task, event: Event) -> Fault | None:
    """Return what an event of the task's agent says that may concern other tasks too."""
    match event:
        case TurnFinished(outcome=TurnOutcome.FAILED) if event.attempt == task.agent.attempt:
            if event.error_class in ACCOUNT_ERRORS:
                return Fault.ACCOUNT
            if event.error_class in SETUP_ERRORS:
                return Fault.SETUP
            is_unexplained = event.error_class in UNEXPLAINED and not task.agent.session.is_known
            return Fault.START if is_unexplained else None
        case AgentExited():
            return Fault.START if _has_failed_to_start(task, event) else None
        case _:
            return None


def _has_failed_to_start(task: Task, event: AgentExited) -> bool:
    """Return whether the agent ended by itself before it began a session."""
    run = task.run
    if run is None or run.folder != agent_run_folder(event.attempt) or run.process not in _ON_ITS_OWN:
        return False
    at_work = task.is_active and not task.is_paused and task.next_action in (NextAction.AGENT, NextAction.TURN)
    return at_work and not event.is_lost and not task.agent.session.is_known


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """What tasks met that makes every turn useless: it is open while `fault` is set.

    `failures` counts the tries in a row, `probe_at` is when the next one may begin. `suspects` are the tasks that met a
    fault since the last success, `cleared` those that were suspects when the program was found to work.
    """

    fault: Fault | None = None
    reason: str = ""
    failures: int = 0
    probe_at: datetime | None = None
    suspects: Mapping[str, Fault] = field(default_factory=dict)
    cleared: tuple[str, ...] = ()

    def trouble(self, now: datetime) -> Trouble | None:
        """Return the trouble that the tasks met, if it lasts."""
        if self.fault is None:
            return None
        kind = TroubleKind.ACCOUNT if self.fault is Fault.ACCOUNT else TroubleKind.INSTALLATION
        begin = "the service refused the account" if kind is TroubleKind.ACCOUNT else "agents cannot work"
        is_probed = self.probe_at is None or now >= self.probe_at
        when = "one task tries it again now" if is_probed else f"it is tried again at {self.probe_at:%F %T} UTC"
        reason = f"{begin}: {self.reason}; {when}"
        met_by = tuple(self.suspects) if kind is TroubleKind.INSTALLATION else ()
        return Trouble(kind=kind, reason=reason, is_probed=is_probed, met_by=met_by)

    def blames_installation(self, task: Task, event: Event) -> bool:
        """Return whether what the task meets in this event is a fault of the installation."""
        if fault_of(task, event) not in (Fault.START, Fault.SETUP):
            return False
        return self.fault is not None or (task.id not in self.cleared and bool(self.suspects.keys() - {task.id}))

    def after(self, task: Task, event: Event) -> "Breaker":
        """Return the breaker after an event of a task, which is given as it was before."""
        fault = fault_of(task, event)
        if fault is not None and isinstance(event, AgentExited | TurnFinished):
            return self._failed(task.id, fault, event)
        match event:
            case TurnFinished(outcome=TurnOutcome.OK):
                return self._succeeded(task.id, frozenset(Fault))
            case SessionStarted():
                return self._succeeded(task.id, frozenset({Fault.START}))
            case _:
                return self

    def probed_now(self) -> "Breaker":
        """Return the breaker whose next try may begin at once, because something was changed."""
        return self if self.fault is None else replace(self, probe_at=None, failures=0)

    def _failed(self, task_id: str, fault: Fault, event: AgentExited | TurnFinished) -> "Breaker":
        if task_id in self.cleared and self.fault is None and fault is not Fault.ACCOUNT:
            return self
        others = [one for one in self.suspects.items() if one[0] != task_id]
        suspects = dict([*others, (task_id, fault)][-MOST_SUSPECTS:])
        if fault is not Fault.ACCOUNT and not event.blames_installation:
            return replace(self, suspects=suspects)
        failures = self.failures + 1
        return Breaker(
            fault=fault,
            reason=event.reason,
            failures=failures,
            probe_at=probe_at(event.at, failures),
            suspects=suspects,
            cleared=self.cleared,
        )

    def _succeeded(self, task_id: str, refuted: frozenset[Fault]) -> "Breaker":
        """Return the breaker after a task did what it could not do if one of these faults lasted."""
        if self.fault is not None and self.fault not in refuted:
            return self
        suspects = {name: fault for name, fault in self.suspects.items() if fault not in refuted}
        cleared = (*self.cleared, *(self.suspects if self.fault not in (None, Fault.ACCOUNT) else ()))
        mine = {task_id} if Fault.SETUP in refuted else set()
        cleared = tuple(one for one in dict.fromkeys(cleared) if one not in mine)[-MOST_SUSPECTS:]
        if self.fault is None and (suspects, cleared) == (self.suspects, self.cleared):
            return self
        return Breaker(suspects=suspects, cleared=cleared)


CLOSED = Breaker()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountState:
    """What is kept besides the tasks: the account's usage windows, what keeps all turns, and who paused all tasks."""

    windows: Windows = field(default_factory=dict)
    breaker: Breaker = CLOSED
    paused_by: str | None = None
