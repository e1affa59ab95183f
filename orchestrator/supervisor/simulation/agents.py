"""A simulated agent: what it does in a turn, what it asks for, what it costs and what it leaves behind.

It prints lines, each ending at an offset, as the CLI does; the daemon reads them from where it stopped. Totals are
those of its session: one that is killed saves none, and a successor counts from zero (collected.md §1.2).
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
from orchestrator.supervisor.simulation.probabilities import MINUTE, Probabilities, span
from orchestrator.supervisor.simulation.trees import Tree
from orchestrator.supervisor.simulation.virtual_clock import VirtualClock

USD_A_TOKEN = 3e-6
LINE = 200
"""Bytes of a line of output."""


class Doing(Enum):
    """What an agent does next in a turn."""

    WORK = auto()
    ASK = auto()
    WANT = auto()
    REQUEST = auto()
    COMPLAIN = auto()
    GARBLE = auto()
    FAIL = auto()
    DIE = auto()
    HANG = auto()
    FINISH = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How many tokens the present turn has used."""

    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of output, and what it means."""

    end: int
    meaning: events.Event | Limit | Progress


@dataclass(slots=True, kw_only=True)
class Session:
    """A conversation: whether it can be resumed, and the totals that its last process saved, or printed."""

    begun: bool = False
    tokens: int = 0
    usd: float = 0.0
    told_tokens: int = 0
    told_usd: float = 0.0


@dataclass(slots=True, kw_only=True)
class Turn:
    """A turn under way."""

    command: do.SendTurn
    task: Task
    doing: deque[tuple[float, Doing]]
    tokens: int = 0
    malformed: tuple[str, ...] = ()
    limit: Limit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentWorld:
    """What an agent lives in; `leave` takes in its finished work, `bill` what it cost."""

    timeline: VirtualClock
    dice: Random
    odds: Probabilities
    account: SimulatedAccount
    leave: Callable[[Task, bool], None]
    bill: Callable[[str, int, float], None]


@dataclass(slots=True, kw_only=True)
class Launched:
    """How an agent was started."""

    attempt: int
    model: str
    session_id: str
    resume: bool
    session: Session = field(default_factory=Session)


class AgentTree(Tree):
    """An agent's process tree."""

    def __init__(self, around: AgentWorld, task: Task, folder: str, launched: Launched) -> None:
        super().__init__(around.timeline, task.id, folder)
        self.lines: list[Line] = []
        self.taken: set[str] = set()
        self.turn: Turn | None = None
        self.hung = False
        self.asked: str | None = None
        self.sign: datetime = around.timeline.now
        self._around, self._launched = around, launched
        self._queue: deque[tuple[Task, do.SendTurn]] = deque()
        self._session = launched.session
        self._requests = 0

    @property
    def attempt(self) -> int:
        """Which attempt of its task it is."""
        return self._launched.attempt

    def take(self, task: Task, command: do.SendTurn) -> None:
        """Take a turn, the same one once; it begins when the one before is done."""
        if command.uuid in self.taken or not self.alive:
            return
        self.taken.add(command.uuid)
        self._queue.append((task, command))
        if self.turn is None:
            self._begin()

    def answer(self, request_id: str) -> None:
        """Go on with an answer; one that nobody waits for is nothing."""
        if self.asked == request_id:
            self.asked = None
            self._go_on()

    def interrupt(self) -> None:
        """End the running turn; one that hangs may not hear of it."""
        if self.turn is not None and (not self.hung or self._around.dice.random() < 0.5):
            self.hung, self.asked = False, None
            self._work(1.0, lambda: self._finish(TurnOutcome.INTERRUPTED))

    def stop(self, interrupt: bool) -> None:
        """End: with a result of the running turn, without one, or by force."""
        stubborn = self.hung or self._around.dice.random() < self._around.odds.will_not_end
        self.thaw()
        if stubborn:
            self._work(30.0, lambda: self.exit(None))
        elif interrupt and self.turn is not None:
            self._work(1.0, self._end_interrupted)
        else:
            self._work(3.0, lambda: self.exit(143 if self.turn is not None else 0))

    def exit(self, code: int | None) -> None:
        """End; what the session has used is saved, unless it was killed."""
        if self.end is None and code is None:
            self._session.tokens = self._session.told_tokens = 0
            self._session.usd = self._session.told_usd = 0.0
        self.turn, self.asked, self.hung = None, None, False
        self._queue.clear()
        super().exit(code)

    def _end_interrupted(self) -> None:
        self._queue.clear()
        self._finish(TurnOutcome.INTERRUPTED)
        self.exit(0)

    def _begin(self) -> None:
        task, command = self._queue.popleft()
        self.turn = Turn(command=command, task=task, doing=self._plan(task))
        self.sign = self._around.timeline.now
        self._work(2.0, self._greet)

    def _plan(self, task: Task) -> deque[tuple[float, Doing]]:
        """What it will do in a turn of some minutes, and when."""
        dice, odds = self._around.dice, self._around.odds
        may_request = odds.requests if task.policy.autonomy is Autonomy.INTERACTIVE else 0.0
        chances = (
            (Doing.ASK, odds.asks),
            (Doing.WANT, odds.wants_dependency),
            (Doing.REQUEST, may_request),
            (Doing.COMPLAIN, odds.in_trouble),
            (Doing.GARBLE, odds.garbles),
            (Doing.FAIL, odds.fails),
            (Doing.DIE, odds.dies),
            (Doing.HANG, odds.hangs),
        )
        doing = [Doing.WORK, Doing.WORK, *(one for one, chance in chances if dice.random() < chance)]
        dice.shuffle(doing)
        minutes = span(dice, 7 * MINUTE)
        return deque([*((minutes / len(doing), one) for one in doing), (5.0, Doing.FINISH)])

    def _greet(self) -> None:
        """Tell the session, or that there is none to resume."""
        launched, session = self._launched, self._session
        gone = launched.resume and (not session.begun or self._around.dice.random() < self._around.odds.session_gone)
        if gone:
            session.begun = False
            self._finish(TurnOutcome.FAILED, ErrorClass.SESSION)
            return
        session.begun = True
        self._print(
            events.SessionStarted(
                at=self._around.timeline.now, attempt=launched.attempt, session_id=launched.session_id
            )
        )
        self._go_on()

    def _go_on(self) -> None:
        if self.turn is not None and self.alive:
            seconds, doing = self.turn.doing.popleft()
            self._work(seconds, lambda: self._do(doing, seconds))

    def _do(self, doing: Doing, seconds: float) -> None:
        turn, dice, odds = self.turn, self._around.dice, self._around.odds
        if turn is None or not self._call(turn, seconds):
            return
        match doing:
            case Doing.WORK:
                self._print(Progress(tokens=turn.tokens))
            case Doing.ASK:
                self._say(messages.question(dice))
            case Doing.WANT:
                self._say(messages.dependency(dice))
            case Doing.COMPLAIN:
                self._say(messages.trouble(dice, odds.fatal))
            case Doing.GARBLE:
                turn.malformed += messages.garbled(dice).malformed
            case Doing.REQUEST:
                self._request()
                return
            case Doing.FAIL:
                self._finish(TurnOutcome.FAILED, dice.choice((ErrorClass.CONTEXT, ErrorClass.UNKNOWN)))
                return
            case Doing.DIE:
                self.exit(None if dice.random() < odds.killed else 1)
                return
            case Doing.HANG:
                self.hung = True
                return
            case Doing.FINISH:
                self._around.leave(turn.task, dice.random() >= odds.incomplete)
                self._finish(TurnOutcome.OK)
                return
        self._go_on()

    def _call(self, turn: Turn, seconds: float) -> bool:
        """Use the account; False if that ended the turn."""
        now, account = self._around.timeline.now, self._around.account
        outage = account.outage(now)
        if outage is not None:
            self._finish(TurnOutcome.FAILED, outage)
            return False
        tokens = int(seconds * TOKENS_A_SECOND)
        news = account.call(self._launched.model, tokens, now)
        if news is not None:
            self._print(news)
        if news is not None and news.status is LimitStatus.REJECTED:
            turn.limit = news
            self._finish(TurnOutcome.FAILED, ErrorClass.USAGE_LIMIT)
            return False
        turn.tokens += tokens
        self._session.tokens += tokens
        self._session.usd = round(self._session.usd + tokens * USD_A_TOKEN, 6)
        return True

    def _say(self, words: messages.MessageWords) -> None:
        said = events.AgentSaid(
            at=self._around.timeline.now,
            attempt=self._launched.attempt,
            offset=self._next_end,
            asking=words.asking,
            trouble=words.trouble,
        )
        self._print(said)

    def _request(self) -> None:
        """Ask and wait, as the CLI does."""
        self._requests += 1
        request_id = f"request-{self._launched.attempt}-{self._requests}"
        self.asked = request_id
        asking = messages.request(self._around.dice, request_id, self._next_end - LINE)
        self._say(messages.MessageWords(asking=asking))

    def _finish(self, outcome: TurnOutcome, error: ErrorClass | None = None) -> None:
        turn, session = self.turn, self._session
        if turn is None:
            return
        self.rest()
        self.turn, self.hung = None, False
        if self.asked is not None:
            gone, self.asked = self.asked, None
            at = self._around.timeline.now
            self._print(events.RequestWithdrawn(at=at, attempt=self._launched.attempt, request_id=gone))
        self._around.bill(self.task_id, session.tokens - session.told_tokens, session.usd - session.told_usd)
        session.told_tokens, session.told_usd = session.tokens, session.usd
        self._print(self._result(turn, outcome, error))
        if self._queue and self.alive:
            self._begin()

    def _result(self, turn: Turn, outcome: TurnOutcome, error: ErrorClass | None) -> events.TurnFinished:
        now, limit = self._around.timeline.now, turn.limit
        known = limit.resets_at if limit and limit.resets_at else None
        return events.TurnFinished(
            at=now,
            attempt=self._launched.attempt,
            outcome=outcome,
            reason="" if error is None else error.value,
            error_class=error.value if error else None,
            offset=self._next_end,
            tool_uses=3,
            tokens=self._session.tokens,
            cost_usd=self._session.usd,
            resets_at=datetime.fromtimestamp(known, now.tzinfo) if known else None,
            window=limit.window if limit else None,
            malformed=turn.malformed,
        )

    @property
    def _next_end(self) -> int:
        return (len(self.lines) + 1) * LINE

    def _print(self, meaning: events.Event | Limit | Progress) -> None:
        self.sign = self._around.timeline.now
        self.lines.append(Line(end=self._next_end, meaning=meaning))
        self.ring()
