"""People: they hand tickets in over the days, and answer, approve, pause, cancel and raise budgets, late or never.

They see a task only as it was committed, and ask again when the daemon was not there to take what they said.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from random import Random

from orchestrator.core.decide.lifecycle import cap_reached
from orchestrator.core.events import events
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.budget import NO_CAPS
from orchestrator.core.task.checks import Check, Evaluation
from orchestrator.core.task.task import NextAction, Priority, Schedule, Source, Task, TaskStatus, Timing
from orchestrator.core.task.task_policy import Autonomy, TaskPolicy
from orchestrator.core.task.ticket import SensitiveCheck, Ticket
from orchestrator.core.task.user_requests import RequestStatus, Subject, UserRequest
from orchestrator.supervisor.simulation.probabilities import DAY, HOUR, MINUTE, Probabilities, span
from orchestrator.supervisor.simulation.virtual_clock import VirtualClock

AWAY = 10 * MINUTE
"""How long people wait when the daemon does not answer."""
CHECKS = (Check(name="unit_test", command="pytest -q"), Check(name="lint", command="ruff check"))
_PRIORITIES = (Priority.LOW, Priority.NORMAL, Priority.NORMAL, Priority.NORMAL, Priority.HIGH, Priority.CRITICAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAction:
    """Something that a person asks of a task; made anew each time it is asked."""

    task_id: str
    event: Callable[[datetime], events.Event]


class People:
    """Everybody who has to do with the tasks; `wishes` are what they want of the daemon now."""

    def __init__(
        self,
        timeline: VirtualClock,
        dice: Random,
        odds: Probabilities,
        terms: Callable[[Autonomy, float | None], TaskPolicy],
    ):
        self.wishes: deque[UserAction] = deque()
        self._timeline, self._dice, self._odds, self._terms = timeline, dice, odds, terms
        self._seen: set[str] = set()
        self._retries: dict[str, int] = {}

    def hand_in(self, count: int, days: float, pipelines: Mapping[str, float]) -> None:
        """Hand tickets in over the first part of some days; `pipelines` says which are used how often."""
        ids: list[str] = []
        for number, seconds in enumerate(sorted(self._dice.uniform(0, 0.8 * days * DAY) for _ in range(count)), 1):
            at = self._timeline.now + timedelta(seconds=seconds)
            task = self._ticket(f"SIM-{number}", at, tuple(ids[-20:]), pipelines)
            ids.append(task.id)
            self._timeline.at(at, self._submission(task))
            if self._dice.random() < self._odds.pauses:
                self._timeline.at(at + timedelta(seconds=self._dice.uniform(0, DAY)), self._pause(task.id))
            if self._dice.random() < self._odds.cancels:
                self._timeline.at(at + timedelta(seconds=self._dice.uniform(0, DAY)), self._cancel(task.id))

    def look(self, task: Task) -> None:
        """See how a task stands, and make up one's mind about it, once."""
        for ask in task.pending_requests:
            self._once(f"{task.id} asks {ask.number}", partial(self._answer, task.id, ask))
        if task.status is TaskStatus.DRAFT:
            self._once(f"{task.id} is a draft", lambda: self._soon(task.id, HOUR, _sent_off))
        if task.status is TaskStatus.BLOCKED:
            self._once(f"{task.id} is blocked at {task.seq}", lambda: self._attend(task))
        if task.is_paused and task.agent.blocked_by is PauseReason.BUDGET and cap_reached(task):
            self._once(f"{task.id} spent {task.policy.caps}", lambda: self._raise_caps(task))
        if task.is_paused and task.agent.blocked_by is PauseReason.RATE_LIMIT and task.retry_at is None:
            key = f"{task.id} waits in turn {task.agent.attempt}/{task.agent.turn.number}"
            if task.agent.setbacks.limit_waits:
                self._once(key, lambda: self._soon(task.id, 3 * HOUR, _resumed))

    def away(self, wish: UserAction) -> None:
        """The daemon did not answer: ask again later."""
        self._timeline.after(AWAY, lambda: self.wishes.append(wish))

    def _ticket(self, name: str, at: datetime, earlier: tuple[str, ...], pipelines: Mapping[str, float]) -> Task:
        dice, odds = self._dice, self._odds
        autonomy = Autonomy.INTERACTIVE if dice.random() < odds.interactive else Autonomy.AUTO
        usd = round(span(dice, 5.0), 2) if dice.random() < odds.capped else None
        return Task(
            id=name,
            title=f"Ticket {name}",
            folder=f"/simulated/{name}",
            ticket=Ticket(key=name, sensitive_check=SensitiveCheck(result="CLEAN")),
            pipeline=dice.choices(list(pipelines), list(pipelines.values()))[0],
            source=Source(repo="/simulated/repo", base_branch="main", base_commit="b" * 40, branch=f"feature/{name}"),
            timing=Timing(created_at=at),
            updated_at=at,
            evaluation=Evaluation(checks=CHECKS[: dice.randint(0, 2)]),
            schedule=Schedule(
                priority=dice.choice(_PRIORITIES),
                after=(dice.choice(earlier),) if earlier and dice.random() < odds.follows else (),
                start_at=at + timedelta(seconds=span(dice, 6 * HOUR)) if dice.random() < odds.later else None,
            ),
            policy=self._terms(autonomy, usd),
            status=TaskStatus.DRAFT if dice.random() < odds.draft else TaskStatus.PENDING,
            next_action=NextAction.ADMISSION,
        )

    def _once(self, key: str, act: Callable[[], None]) -> None:
        if key not in self._seen:
            self._seen.add(key)
            act()

    def _soon(self, task_id: str, median: float, event: Callable[[datetime], events.Event]) -> None:
        wish = UserAction(task_id=task_id, event=event)
        self._timeline.after(span(self._dice, median, 1.2), lambda: self.wishes.append(wish))

    def _answer(self, task_id: str, ask: UserRequest) -> None:
        """Minutes later, hours later, or never; some answer wrongly first, and some answer twice."""
        dice, odds = self._dice, self._odds
        if dice.random() < odds.never_answers:
            return
        median = dice.choice((5 * MINUTE, HOUR, 8 * HOUR))
        if ask.draft.options and dice.random() < odds.wrong_answer:
            self._soon(task_id, median, _answered(ask, RequestStatus.ANSWERED, "neither"))
        rejects = dice.random() < odds.rejects
        self._soon(task_id, median, self._word(ask, rejects))
        if dice.random() < odds.wrong_answer:
            self._soon(task_id, median, self._word(ask, not rejects))

    def _word(self, ask: UserRequest, rejects: bool) -> Callable[[datetime], events.Event]:
        match ask.draft.subject:
            case Subject.DEPENDENCY if rejects:
                return _answered(ask, RequestStatus.REJECTED, "there is none")
            case Subject.DEPENDENCY:
                return _answered(ask, RequestStatus.PROVIDED, "")
            case Subject.STAGE | Subject.PLAN if rejects:
                return _answered(ask, RequestStatus.CHANGES_REQUESTED, "make it shorter")
            case Subject.STAGE | Subject.PLAN:
                return _answered(ask, RequestStatus.APPROVED, "")
            case _ if rejects and not ask.draft.required:
                return _answered(ask, RequestStatus.SKIPPED, "")
            case _:
                options = ask.draft.options
                return _answered(ask, RequestStatus.ANSWERED, self._dice.choice(options) if options else "as you think")

    def _attend(self, task: Task) -> None:
        """Look at what is blocked: it is tried again, three times at most, or given up."""
        tried = self._retries[task.id] = self._retries.get(task.id, 0) + 1
        again = tried <= 3 and self._dice.random() < 0.8
        self._soon(task.id, 2 * HOUR, _retried if again else _cancelled)

    def _raise_caps(self, task: Task) -> None:
        """Allow more, allow everything, or give it up."""
        luck, spent = self._dice.random(), task.spending.total.usd
        caps = replace(NO_CAPS, usd=round(spent + 3.0, 2)) if luck < 0.5 else NO_CAPS
        give_up = luck > 0.9
        event = _cancelled if give_up else lambda at: events.CapsChanged(at=at, caps=caps, by="a person")
        self._soon(task.id, 2 * HOUR, event)

    def _pause(self, task_id: str) -> Callable[[], None]:
        def act() -> None:
            park = self._dice.random() < 0.2
            self.wishes.append(
                UserAction(task_id=task_id, event=lambda at: events.PauseRequested(at=at, by="a person", park=park))
            )
            self._soon(task_id, HOUR, _resumed)

        return act

    def _cancel(self, task_id: str) -> Callable[[], None]:
        return lambda: self.wishes.append(UserAction(task_id=task_id, event=_cancelled))

    def _submission(self, task: Task) -> Callable[[], None]:
        wish = UserAction(task_id=task.id, event=lambda at: events.TaskSubmitted(at=at, task=task, by="a person"))
        return lambda: self.wishes.append(wish)


def _answered(ask: UserRequest, status: RequestStatus, text: str) -> Callable[[datetime], events.Event]:
    number, digest = ask.number, ask.digest
    return lambda at: events.AskAnswered(at=at, number=number, status=status, answer=text, digest=digest, by="a person")


def _resumed(at: datetime) -> events.Event:
    return events.ResumeRequested(at=at, by="a person")


def _cancelled(at: datetime) -> events.Event:
    return events.CancelRequested(at=at, by="a person")


def _retried(at: datetime) -> events.Event:
    return events.RetryRequested(at=at, by="a person")


def _sent_off(at: datetime) -> events.Event:
    return events.DraftSubmitted(at=at, by="a person")
