"""Simulated users: they submit tickets, and answer, approve, pause, cancel and raise budgets, late or never.

They see a task only as it was committed, and repeat a request that the daemon could not take because it was down.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
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
from orchestrator.supervisor.simulation.clockwork.virtual_clock import VirtualClock
from orchestrator.supervisor.simulation.probabilities import DAY, HOUR, MINUTE, Probabilities, random_duration

RETRY_DELAY = 10 * MINUTE
"""How long users wait before they repeat a request to a daemon that is down."""
REPOS = ("/simulated/repo",)
CHECKS = (Check(name="unit_test", command="pytest -q"), Check(name="lint", command="ruff check"))
_PRIORITIES = (Priority.LOW, Priority.NORMAL, Priority.NORMAL, Priority.NORMAL, Priority.HIGH, Priority.CRITICAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserAction:
    """Something that a user does to a task; `event` makes the event for the time at which it is done."""

    task_id: str
    event: Callable[[datetime], events.Event]


class People:
    """All users of the daemon; `actions` are what they want to do now."""

    def __init__(
        self,
        clock: VirtualClock,
        rng: Random,
        probabilities: Probabilities,
        policy: Callable[[Autonomy, float | None], TaskPolicy],
        repos: Sequence[str] = REPOS,
    ):
        self.actions: deque[UserAction] = deque()
        self._clock, self._rng, self._probabilities, self._policy = clock, rng, probabilities, policy
        self._repos = repos
        self._seen: set[str] = set()
        self._retries: dict[str, int] = {}

    def submit_tickets(self, count: int, days: float, pipelines: Mapping[str, float]) -> None:
        """Schedule tickets over the first four fifths of the days; `pipelines` maps names to relative frequencies."""
        ids: list[str] = []
        for number, seconds in enumerate(sorted(self._rng.uniform(0, 0.8 * days * DAY) for _ in range(count)), 1):
            at = self._clock.now + timedelta(seconds=seconds)
            task = self._ticket(f"SIM-{number}", at, tuple(ids[-20:]), pipelines)
            ids.append(task.id)
            self._clock.schedule_at(at, self._submit(task))
            if self._rng.random() < self._probabilities.paused:
                self._clock.schedule_at(at + timedelta(seconds=self._rng.uniform(0, DAY)), self._pause(task.id))
            if self._rng.random() < self._probabilities.cancelled:
                self._clock.schedule_at(at + timedelta(seconds=self._rng.uniform(0, DAY)), self._cancel(task.id))

    def submit_recurring(self, name: str, at: datetime, pipelines: Mapping[str, float]) -> str:
        """Submit the task of a schedule for a time, and return its id."""
        task = self._ticket(f"{name}-{at:%Y%m%dT%H%MZ}", self._clock.now, (), pipelines)
        task = replace(task, status=TaskStatus.PENDING, schedule=replace(task.schedule, start_at=None, made_by=name))
        self._submit(task)()
        return task.id

    def observe(self, task: Task) -> None:
        """React to the state of a task, once for each state that needs a user."""
        for ask in task.pending_requests:
            self._once(f"{task.id} asks {ask.number}", partial(self._answer, task.id, ask))
        if task.status is TaskStatus.DRAFT:
            self._once(f"{task.id} is a draft", lambda: self._act_later(task.id, HOUR, _submit_draft))
        if task.status is TaskStatus.BLOCKED:
            self._once(f"{task.id} is blocked at {task.seq}", lambda: self._handle_blocked(task))
        if task.is_paused and task.agent.blocked_by is PauseReason.BUDGET and cap_reached(task):
            self._once(f"{task.id} spent {task.policy.caps}", lambda: self._raise_caps(task))
        elif task.parent is not None and task.is_paused and task.agent.blocked_by is PauseReason.BUDGET:
            self._once(f"{task.id} waits for {task.parent}", partial(self._raise_caps_of, task.parent))
        if task.is_paused and task.agent.blocked_by is PauseReason.WINDOW:
            self._once(f"{task.id} waits for its hours at {task.seq}", partial(self._let_run, task))
        if task.is_paused and task.agent.blocked_by is PauseReason.RATE_LIMIT and task.retry_at is None:
            key = f"{task.id} waits in turn {task.agent.attempt}/{task.agent.turn.number}"
            if task.agent.setbacks.limit_waits:
                self._once(key, lambda: self._act_later(task.id, 3 * HOUR, _resume))

    def retry_later(self, action: UserAction) -> None:
        """Repeat an action later, because the daemon was down."""
        self._clock.schedule_after(RETRY_DELAY, lambda: self.actions.append(action))

    def _ticket(self, name: str, at: datetime, earlier: tuple[str, ...], pipelines: Mapping[str, float]) -> Task:
        rng, probabilities = self._rng, self._probabilities
        autonomy = Autonomy.INTERACTIVE if rng.random() < probabilities.interactive else Autonomy.AUTO
        usd = round(random_duration(rng, 5.0), 2) if rng.random() < probabilities.capped else None
        repo = rng.choice(self._repos) if len(self._repos) > 1 else self._repos[0]
        return Task(
            id=name,
            title=f"Ticket {name}",
            folder=f"/simulated/{name}",
            ticket=Ticket(key=name, sensitive_check=SensitiveCheck(result="CLEAN")),
            pipeline=rng.choices(list(pipelines), list(pipelines.values()))[0],
            source=Source(repo=repo, base_branch="main", base_commit="b" * 40, branch=f"feature/{name}"),
            timing=Timing(created_at=at),
            updated_at=at,
            evaluation=Evaluation(checks=CHECKS[: rng.randint(0, 2)]),
            schedule=Schedule(
                priority=rng.choice(_PRIORITIES),
                after=(rng.choice(earlier),) if earlier and rng.random() < probabilities.depends_on_earlier else (),
                start_at=at + timedelta(seconds=random_duration(rng, 6 * HOUR))
                if rng.random() < probabilities.starts_later
                else None,
            ),
            policy=self._policy(autonomy, usd),
            status=TaskStatus.DRAFT if rng.random() < probabilities.draft else TaskStatus.PENDING,
            next_action=NextAction.ADMISSION,
        )

    def _once(self, key: str, action: Callable[[], None]) -> None:
        if key not in self._seen:
            self._seen.add(key)
            action()

    def _act_later(self, task_id: str, median: float, event: Callable[[datetime], events.Event]) -> None:
        action = UserAction(task_id=task_id, event=event)
        self._clock.schedule_after(random_duration(self._rng, median, 1.2), lambda: self.actions.append(action))

    def _answer(self, task_id: str, ask: UserRequest) -> None:
        """Answer minutes or hours later, or never; sometimes answer wrongly first, and sometimes answer twice."""
        rng, probabilities = self._rng, self._probabilities
        if rng.random() < probabilities.never_answered:
            return
        median = rng.choice((5 * MINUTE, HOUR, 8 * HOUR))
        if ask.draft.options and rng.random() < probabilities.wrong_answer:
            self._act_later(task_id, median, _answer_request(ask, RequestStatus.ANSWERED, "neither"))
        rejected = rng.random() < probabilities.rejected
        self._act_later(task_id, median, self._response(ask, rejected))
        if rng.random() < probabilities.wrong_answer:
            self._act_later(task_id, median, self._response(ask, not rejected))

    def _response(self, ask: UserRequest, rejected: bool) -> Callable[[datetime], events.Event]:
        match ask.draft.subject:
            case Subject.DEPENDENCY if rejected:
                return _answer_request(ask, RequestStatus.REJECTED, "there is none")
            case Subject.DEPENDENCY:
                return _answer_request(ask, RequestStatus.PROVIDED, "")
            case Subject.STAGE | Subject.PLAN if rejected:
                return _answer_request(ask, RequestStatus.CHANGES_REQUESTED, "make it shorter")
            case Subject.STAGE | Subject.PLAN:
                return _answer_request(ask, RequestStatus.APPROVED, "")
            case _ if rejected and not ask.draft.required:
                return _answer_request(ask, RequestStatus.SKIPPED, "")
            case _:
                options = ask.draft.options
                return _answer_request(
                    ask, RequestStatus.ANSWERED, self._rng.choice(options) if options else "as you think"
                )

    def _handle_blocked(self, task: Task) -> None:
        """Retry a blocked task, at most three times, or cancel it."""
        tries = self._retries[task.id] = self._retries.get(task.id, 0) + 1
        retry = tries <= 3 and self._rng.random() < 0.8
        self._act_later(task.id, 2 * HOUR, _retry if retry else _cancel)

    def _raise_caps(self, task: Task) -> None:
        """Raise the budget, remove it, or cancel the task."""
        draw, spent = self._rng.random(), task.spending.total.usd
        caps = replace(NO_CAPS, usd=round(spent + 3.0, 2)) if draw < 0.5 else NO_CAPS
        give_up = draw > 0.9
        event = _cancel if give_up else lambda at: events.CapsChanged(at=at, caps=caps, by="a user")
        self._act_later(task.id, 2 * HOUR, event)

    def _raise_caps_of(self, parent: str) -> None:
        """Remove the caps of a parent whose children wait for its budget."""
        self._act_later(parent, 2 * HOUR, lambda at: events.CapsChanged(at=at, caps=NO_CAPS, by="a user"))

    def _let_run(self, task: Task) -> None:
        """Now and then, do not wait until the run windows of a task open, nor those of its parent."""
        if self._rng.random() < self._probabilities.let_run:
            delay = random_duration(self._rng, HOUR, 1.2)
            for name in filter(None, (task.parent, task.id)):
                self._clock.schedule_after(delay, partial(self._let_run_now, name))

    def _let_run_now(self, task_id: str) -> None:
        self.actions.append(UserAction(task_id=task_id, event=_resume_now))

    def _pause(self, task_id: str) -> Callable[[], None]:
        def act() -> None:
            park = self._rng.random() < 0.2
            self.actions.append(
                UserAction(task_id=task_id, event=lambda at: events.PauseRequested(at=at, by="a user", park=park))
            )
            self._act_later(task_id, HOUR, _resume)

        return act

    def _cancel(self, task_id: str) -> Callable[[], None]:
        return lambda: self.actions.append(UserAction(task_id=task_id, event=_cancel))

    def _submit(self, task: Task) -> Callable[[], None]:
        action = UserAction(task_id=task.id, event=lambda at: events.TaskSubmitted(at=at, task=task, by="a user"))
        return lambda: self.actions.append(action)


def _answer_request(ask: UserRequest, status: RequestStatus, text: str) -> Callable[[datetime], events.Event]:
    number, digest = ask.number, ask.digest
    return lambda at: events.AskAnswered(at=at, number=number, status=status, answer=text, digest=digest, by="a user")


def _resume(at: datetime) -> events.Event:
    return events.ResumeRequested(at=at, by="a user")


def _resume_now(at: datetime) -> events.Event:
    return events.ResumeRequested(at=at, by="a user", at_once=True)


def _cancel(at: datetime) -> events.Event:
    return events.CancelRequested(at=at, by="a user")


def _retry(at: datetime) -> events.Event:
    return events.RetryRequested(at=at, by="a user")


def _submit_draft(at: datetime) -> events.Event:
    return events.DraftSubmitted(at=at, by="a user")
