"""A simulated agent: what it does in a turn, what it requests, what it costs and what it leaves behind.

Like the CLI, it prints lines that end at an offset, and the daemon reads on from the offset where it stopped. Its
totals are those of its session: a killed process saves none, and its successor counts from zero.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto
from random import Random

from orchestrator.core.events import commands as do
from orchestrator.core.events import events
from orchestrator.core.events.agent_events import ErrorClass, Limit, LimitStatus
from orchestrator.core.events.events import TurnOutcome
from orchestrator.core.task.task import Task
from orchestrator.core.task.task_policy import Autonomy
from orchestrator.supervisor.simulation import messages
from orchestrator.supervisor.simulation.account import TOKENS_A_SECOND, SimulatedAccount
from orchestrator.supervisor.simulation.clockwork.virtual_clock import VirtualClock
from orchestrator.supervisor.simulation.probabilities import MINUTE, Probabilities, random_duration
from orchestrator.supervisor.simulation.trees import SimulatedTree

USD_A_TOKEN = 3e-6
LINE = 200
"""The length of a line of output in bytes."""


class SimulatedStep(Enum):
    """One thing that an agent does in a turn."""

    WORK = auto()
    ASK_QUESTION = auto()
    REPORT_DEPENDENCY = auto()
    REQUEST_PERMISSION = auto()
    REPORT_ERROR = auto()
    PRINT_MALFORMED = auto()
    FAIL = auto()
    EXIT = auto()
    HANG = auto()
    FINISH = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedProgress:
    """What the current turn has used."""

    tokens: int
    usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLine:
    """A line of output: the offset at which it ends, and its content."""

    end: int
    content: events.Event | Limit | SimulatedProgress


@dataclass(slots=True, kw_only=True)
class SimulatedSession:
    """A conversation: whether it can be resumed, the totals that its last process saved, and those it reported."""

    started: bool = False
    tokens: int = 0
    usd: float = 0.0
    reported_tokens: int = 0
    reported_usd: float = 0.0


@dataclass(slots=True, kw_only=True)
class Turn:
    """A running turn; `steps` are the seconds before each step, and the step."""

    command: do.SendTurn
    task: Task
    steps: deque[tuple[float, SimulatedStep]]
    tokens: int = 0
    malformed: tuple[str, ...] = ()
    limit: Limit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnvironment:
    """What an agent works in; `save_work` receives the work that a turn produced, `charge` what it cost."""

    clock: VirtualClock
    rng: Random
    probabilities: Probabilities
    account: SimulatedAccount
    save_work: Callable[[Task, bool], None]
    charge: Callable[[str, int, float], None]


@dataclass(slots=True, kw_only=True)
class SimulatedLaunch:
    """How an agent was started."""

    attempt: int
    model: str
    session_id: str
    resume: bool
    session: SimulatedSession = field(default_factory=SimulatedSession)


class AgentTree(SimulatedTree):
    """An agent's process tree."""

    def __init__(self, environment: AgentEnvironment, task: Task, folder: str, launch: SimulatedLaunch) -> None:
        super().__init__(environment.clock, task.id, folder)
        self.lines: list[SimulatedLine] = []
        self.accepted: set[str] = set()
        self.turn: Turn | None = None
        self.hung = False
        self.open_request: str | None = None
        self.last_activity: datetime = environment.clock.now
        self._environment, self._launch = environment, launch
        self._queue: deque[tuple[Task, do.SendTurn]] = deque()
        self._session = launch.session
        self._requests = 0

    @property
    def attempt(self) -> int:
        """The number of the attempt of its task."""
        return self._launch.attempt

    def accept(self, task: Task, command: do.SendTurn) -> None:
        """Queue a turn, unless it was queued before; it starts when the turns before it have finished."""
        if command.uuid in self.accepted or not self.alive:
            return
        self.accepted.add(command.uuid)
        self._queue.append((task, command))
        if self.turn is None:
            self._start_turn()

    def answer(self, request_id: str) -> None:
        """Continue with the answer to the open request; ignore an answer to any other request."""
        if self.open_request == request_id:
            self.open_request = None
            self._continue()

    def interrupt(self) -> None:
        """Interrupt the running turn; an agent that hangs may ignore it."""
        if self.turn is not None and (not self.hung or self._environment.rng.random() < 0.5):
            self.hung, self.open_request = False, None
            self._schedule(1.0, lambda: self._finish(TurnOutcome.INTERRUPTED))

    def stop(self, interrupt: bool) -> None:
        """Exit: with the result of the running turn, without one, or killed because it does not react."""
        unresponsive = self.hung or self._environment.rng.random() < self._environment.probabilities.stop_ignored
        self.thaw()
        if unresponsive:
            self._schedule(30.0, lambda: self.exit(None))
        elif interrupt and self.turn is not None:
            self._schedule(1.0, self._interrupt_and_exit)
        else:
            self._schedule(3.0, lambda: self.exit(143 if self.turn is not None else 0))

    def exit(self, code: int | None) -> None:
        """Exit; the totals of the session are saved unless the process was killed."""
        if self.alive and code is None:
            self._session.tokens = self._session.reported_tokens = 0
            self._session.usd = self._session.reported_usd = 0.0
        self.turn, self.open_request, self.hung = None, None, False
        self._queue.clear()
        super().exit(code)

    def _interrupt_and_exit(self) -> None:
        self._queue.clear()
        self._finish(TurnOutcome.INTERRUPTED)
        self.exit(0)

    def _start_turn(self) -> None:
        task, command = self._queue.popleft()
        self.turn = Turn(command=command, task=task, steps=self._plan(task))
        self.last_activity = self._environment.clock.now
        self._schedule(2.0, self._start_session)

    def _plan(self, task: Task) -> deque[tuple[float, SimulatedStep]]:
        """Return the random steps of a turn of some minutes, with the seconds before each."""
        rng, probabilities = self._environment.rng, self._environment.probabilities
        permission = probabilities.permission if task.policy.autonomy is Autonomy.INTERACTIVE else 0.0
        chances = (
            (SimulatedStep.ASK_QUESTION, probabilities.question),
            (SimulatedStep.REPORT_DEPENDENCY, probabilities.dependency),
            (SimulatedStep.REQUEST_PERMISSION, permission),
            (SimulatedStep.REPORT_ERROR, probabilities.agent_error),
            (SimulatedStep.PRINT_MALFORMED, probabilities.malformed_block),
            (SimulatedStep.FAIL, probabilities.turn_fails),
            (SimulatedStep.EXIT, probabilities.agent_exits),
            (SimulatedStep.HANG, probabilities.agent_hangs),
        )
        steps = [SimulatedStep.WORK, SimulatedStep.WORK, *(one for one, chance in chances if rng.random() < chance)]
        rng.shuffle(steps)
        seconds = random_duration(rng, 7 * MINUTE)
        return deque([*((seconds / len(steps), one) for one in steps), (5.0, SimulatedStep.FINISH)])

    def _start_session(self) -> None:
        """Report the session, or fail because the session to resume does not exist."""
        launch, session = self._launch, self._session
        lost = launch.resume and (
            not session.started or self._environment.rng.random() < self._environment.probabilities.session_lost
        )
        if lost:
            session.started = False
            self._finish(TurnOutcome.FAILED, ErrorClass.SESSION)
            return
        session.started = True
        self._print(
            events.SessionStarted(at=self._environment.clock.now, attempt=launch.attempt, session_id=launch.session_id)
        )
        self._continue()

    def _continue(self) -> None:
        if self.turn is not None and self.alive:
            seconds, step = self.turn.steps.popleft()
            self._schedule(seconds, lambda: self._run_step(step, seconds))

    def _run_step(self, step: SimulatedStep, seconds: float) -> None:
        turn, rng, probabilities = self.turn, self._environment.rng, self._environment.probabilities
        if turn is None or not self._call(turn, seconds):
            return
        match step:
            case SimulatedStep.WORK:
                self._print(SimulatedProgress(tokens=turn.tokens, usd=round(turn.tokens * USD_A_TOKEN, 6)))
            case SimulatedStep.ASK_QUESTION:
                self._print_message(messages.question_block(rng))
            case SimulatedStep.REPORT_DEPENDENCY:
                self._print_message(messages.dependency_block(rng))
            case SimulatedStep.REPORT_ERROR:
                self._print_message(messages.error_block(rng, probabilities.fatal))
            case SimulatedStep.PRINT_MALFORMED:
                turn.malformed += messages.malformed_block(rng).malformed
            case SimulatedStep.REQUEST_PERMISSION:
                self._request_permission()
                return
            case SimulatedStep.FAIL:
                self._finish(TurnOutcome.FAILED, rng.choice((ErrorClass.CONTEXT, ErrorClass.UNKNOWN)))
                return
            case SimulatedStep.EXIT:
                self.exit(None if rng.random() < probabilities.killed else 1)
                return
            case SimulatedStep.HANG:
                self.hung = True
                return
            case SimulatedStep.FINISH:
                self._environment.save_work(turn.task, rng.random() >= probabilities.incomplete)
                self._finish(TurnOutcome.OK)
                return
        self._continue()

    def _call(self, turn: Turn, seconds: float) -> bool:
        """Use tokens of the account; return False if that ended the turn."""
        now, account = self._environment.clock.now, self._environment.account
        outage = account.outage(now)
        if outage is not None:
            self._finish(TurnOutcome.FAILED, outage)
            return False
        tokens = int(seconds * TOKENS_A_SECOND)
        limit = account.call(self._launch.model, tokens, now)
        if limit is not None:
            self._print(limit)
        if limit is not None and limit.status is LimitStatus.REJECTED:
            turn.limit = limit
            self._finish(TurnOutcome.FAILED, ErrorClass.USAGE_LIMIT)
            return False
        turn.tokens += tokens
        self._session.tokens += tokens
        self._session.usd = round(self._session.usd + tokens * USD_A_TOKEN, 6)
        return True

    def _print_message(self, message: messages.ParsedMessage) -> None:
        event = events.AgentSaid(
            at=self._environment.clock.now,
            attempt=self._launch.attempt,
            offset=self._next_end,
            asking=message.requests,
            trouble=message.error,
        )
        self._print(event)

    def _request_permission(self) -> None:
        """Send a request and wait for the answer, as the CLI does."""
        self._requests += 1
        request_id = f"request-{self._launch.attempt}-{self._requests}"
        self.open_request = request_id
        requests = messages.permission_request(self._environment.rng, request_id, self._next_end - LINE)
        self._print_message(messages.ParsedMessage(requests=requests))

    def _finish(self, outcome: TurnOutcome, error: ErrorClass | None = None) -> None:
        turn, session = self.turn, self._session
        if turn is None:
            return
        self.cancel_work()
        self.turn, self.hung = None, False
        if self.open_request is not None:
            withdrawn, self.open_request = self.open_request, None
            at = self._environment.clock.now
            self._print(events.RequestWithdrawn(at=at, attempt=self._launch.attempt, request_id=withdrawn))
        self._environment.charge(
            self.task_id, session.tokens - session.reported_tokens, session.usd - session.reported_usd
        )
        session.reported_tokens, session.reported_usd = session.tokens, session.usd
        self._print(self._result(turn, outcome, error))
        if self._queue and self.alive:
            self._start_turn()

    def _result(self, turn: Turn, outcome: TurnOutcome, error: ErrorClass | None) -> events.TurnFinished:
        now, limit = self._environment.clock.now, turn.limit
        resets_at = limit.resets_at if limit and limit.resets_at else None
        return events.TurnFinished(
            at=now,
            attempt=self._launch.attempt,
            outcome=outcome,
            reason="" if error is None else error.value,
            error_class=error.value if error else None,
            offset=self._next_end,
            tool_uses=3,
            tokens=self._session.tokens,
            cost_usd=self._session.usd,
            resets_at=datetime.fromtimestamp(resets_at, now.tzinfo) if resets_at else None,
            window=limit.window if limit else None,
            malformed=turn.malformed,
        )

    @property
    def _next_end(self) -> int:
        return (len(self.lines) + 1) * LINE

    def _print(self, content: events.Event | Limit | SimulatedProgress) -> None:
        self.last_activity = self._environment.clock.now
        self.lines.append(SimulatedLine(end=self._next_end, content=content))
        self.on_change()
