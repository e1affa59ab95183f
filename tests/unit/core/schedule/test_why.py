"""Explanations of why a task is in its state."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from orchestrator.core.decide import machine
from orchestrator.core.schedule.admission import Capacity, SchedulerSnapshot
from orchestrator.core.schedule.live_tasks import LiveTasks
from orchestrator.core.schedule.why import explain
from orchestrator.core.task.agent import AgentStatus, PauseReason, ProcessState, Run, Setbacks
from orchestrator.core.task.publication import Publication
from orchestrator.core.task.task import NextAction, Schedule, Task, TaskStatus
from orchestrator.core.task.user_requests import RequestDraft, Subject
from tests.fakes.world import START
from tests.unit.playbook import (
    Playbook,
    a_task,
    asking,
    at,
    at_work,
    dependency,
    evaluating,
    full,
    interactive,
    pause,
    permission,
    question,
    with_budget,
)

FOLDER = a_task().folder


def pending(name: str = "mine") -> Task:
    return Playbook.submitted(replace(a_task(), id=name)).task


def paused(blocked_by: PauseReason | None, process: ProcessState = ProcessState.FROZEN) -> Task:
    task = at_work()
    run = replace(task.run, process=process) if task.run else None
    return replace(task, run=run, agent=replace(task.agent, status=AgentStatus.PAUSED, blocked_by=blocked_by))


def said(task: Task, *others: Task, capacity: Capacity | None = None) -> tuple[tuple[str, ...], str]:
    why = explain(
        task, SchedulerSnapshot(tasks=LiveTasks((task, *others)), ended={}, capacity=capacity or Capacity(), now=START)
    )
    return why.facts, why.next


BY_ITSELF = "it starts by itself when a slot is free"


def test_a_waiting_task_names_the_tasks_that_hold_places_and_those_ahead_of_it() -> None:
    holder = replace(at_work(), id="holder")
    assert said(pending(), holder) == (("1 of 1 slots are taken by holder",), BY_ITSELF)
    facts, _ = said(pending(), holder, pending("a"))
    assert facts == ("1 of 1 slots are taken by holder", "1 task is ahead of it")
    facts, _ = said(pending(), pending("a"), pending("b"))
    assert facts == ("0 of 1 slots are taken", "2 tasks are ahead of it")
    assert said(pending()) == (("a slot has just become free for it",), "it starts by itself in a moment")


@pytest.mark.parametrize(
    ("capacity", "fact"),
    [
        (
            Capacity(draining=True),
            "the daemon is draining: it starts nothing until it is restarted, or until `orchestrator resume --all`",
        ),
        (Capacity(pressure="only 1 GiB is free"), "only 1 GiB is free"),
    ],
)
def test_a_waiting_task_names_the_shortage(capacity: Capacity, fact: str) -> None:
    assert said(pending(), capacity=capacity) == ((fact,), BY_ITSELF)


def test_a_task_that_waits_for_its_time_or_another_task_says_so() -> None:
    task = replace(pending(), schedule=Schedule(start_at=START + timedelta(hours=1)))
    facts, following = said(task)
    assert facts == ("it starts at 2026-11-21 23:00 UTC",)
    assert following == f"it starts by itself then; orchestrator resume {task.id} --now lets it run before that"
    after = replace(pending(), schedule=Schedule(start_at=START + timedelta(hours=1), after=("holder",)))
    assert said(after)[1] == "it starts by itself when that is over"


@pytest.mark.parametrize("status", [TaskStatus.CANCELLED, TaskStatus.FAILED])
def test_a_task_that_waits_in_vain_is_not_said_to_start_automatically(status: TaskStatus) -> None:
    task = replace(pending(), schedule=Schedule(after=("other", "done")))
    ended = {"other": status, "done": TaskStatus.COMPLETED}
    why = explain(task, SchedulerSnapshot(tasks=LiveTasks((task,)), ended=ended, capacity=Capacity(), now=START))
    assert why.facts == (f"it waits for other, which is {status}",)
    assert why.next == "nothing: other will not be completed; cancel this task, or submit it again"


def test_a_drained_task_is_not_said_to_lack_resources() -> None:
    facts, following = said(paused(PauseReason.PRESSURE, ProcessState.RUNNING), capacity=Capacity(draining=True))
    assert facts[0] == "the daemon was drained: its agent was ended, and its session is kept"
    assert following == "a restart of the daemon, or orchestrator resume --all"


@pytest.mark.parametrize(
    ("policy", "retry_at", "look"),
    [
        ({"look_every": 60.0}, START, "the next look is at 2026-11-21 22:00:00 UTC"),
        ({"look_every": 60.0}, None, "the daemon is looking at it now"),
        ({"look_every": 0.0}, None, f"to have it looked at: orchestrator review {a_task().id}"),
    ],
)
def test_a_pull_request_that_merges_by_itself_says_when_it_is_looked_at(
    policy: dict[str, float], retry_at: datetime | None, look: str
) -> None:
    terms = replace(a_task().policy, auto_merge=True, **policy)  # type: ignore[arg-type]  # the interval alone
    task = replace(paused(PauseReason.REVIEW), status=TaskStatus.REVIEW, policy=terms, retry_at=retry_at)
    task = replace(task, publication=Publication(forge="https://x.test/a/b", number=7))
    assert said(task)[1] == f"it is merged when nothing prevents that any more; {look}"


STILL = "its processes are frozen"
AT_ONCE = "it continues by itself in a moment"


@pytest.mark.parametrize(
    ("task", "facts", "following"),
    [
        (paused(PauseReason.USER), ("a person paused it", STILL), f"orchestrator resume {a_task().id}"),
        (
            paused(PauseReason.PRESSURE, ProcessState.RUNNING),
            ("the machine was short of resources", "none of its processes runs"),
            "it continues by itself when there is enough again",
        ),
        (paused(None), ("a slot has just become free for it", STILL), AT_ONCE),
        (paused(PauseReason.WINDOW), ("its run window has just opened", STILL), AT_ONCE),
        (paused(PauseReason.RATE_LIMIT), ("its account's usage limit is just over", STILL), AT_ONCE),
        (paused(PauseReason.BUDGET), ("the budget has just come to allow more", STILL), AT_ONCE),
        (
            paused(PauseReason.RATE_LIMIT).with_setbacks(Setbacks(limit_waits=1)),
            ("its account had reached a usage limit, and its policy does not let it continue by itself", STILL),
            f"orchestrator resume {a_task().id}",
        ),
    ],
)
def test_a_paused_task_states_what_paused_it_and_what_would_resume_it(
    task: Task, facts: tuple[str, ...], following: str
) -> None:
    assert said(task) == (facts, following)


def test_a_task_paused_for_a_shortage_names_the_current_shortage() -> None:
    assert said(paused(PauseReason.PRESSURE), capacity=Capacity(pressure="1 GiB is free"))[0] == (
        "1 GiB is free",
        STILL,
    )


@pytest.mark.parametrize(
    ("task", "following"),
    [
        (lambda: at("TICKET_INTAKE", NextAction.WORKSPACE), "its worktree is being created from /repo"),
        (lambda: at("TICKET_INTAKE", NextAction.GATE), "the results of the stage are being checked"),
        (lambda: at("ANALYSIS", NextAction.AGENT), "the planner is being started"),
        (at_work, "the planner works at turn 1 of attempt 1"),
        (lambda: at("IMPLEMENTATION", NextAction.STOP), "the planner is being stopped"),
        (
            lambda: replace(at_work(), next_action=NextAction.RETRY, retry_at=START),
            "the next attempt begins at 22:00:00 UTC",
        ),
        (evaluating, "the checks run on commit c2"),
        (
            lambda: at("COMPLETION", NextAction.DELIVERY),
            "the branch feature/LOCAL-20261121_220000 is being delivered to /repo",
        ),
    ],
)
def test_an_active_task_states_what_comes_next(task: Callable[[], Task], following: str) -> None:
    task_ = task()
    assert said(task_) == ((f"it is in {task_.stage}",), following)


def test_an_active_task_states_its_recent_problems() -> None:
    task = replace(with_budget(at_work(), "agent_retries", 1), feedback=("a not found", "b not found"))
    assert said(task)[0] == (
        "it is in ANALYSIS",
        "its agent was told what is missing: a not found; b not found",
        "1 of 2 new attempts are used",
    )


def test_an_active_task_states_which_of_its_tools_has_run_for_how_long() -> None:
    def running(seconds: float, tools: int = 1, name: str = "Bash") -> tuple[str, ...]:
        task, since = at_work(), START - timedelta(seconds=seconds)
        turn = replace(task.agent.turn, open_tools=tools, tool=name, tool_since=since)
        return said(replace(task, agent=replace(task.agent, turn=turn)))[0][1:]

    assert running(59) == ()
    assert running(60) == ("Bash has run for 1 minute",)
    assert running(12 * 60 + 30) == ("Bash has run for 12 minutes",)
    assert running(600, tools=3, name="Task") == ("Task has run for 10 minutes, with 2 more tools",)
    assert running(600, name="") == ("a tool has run for 10 minutes",)


def test_a_blocked_task_states_why_and_what_a_user_can_do() -> None:
    task = replace(at_work(), status=TaskStatus.BLOCKED, block_reason="no disk")
    assert said(task) == (("no disk",), f"look at {FOLDER}, then orchestrator retry {a_task().id}, or cancel it")
    assert said(replace(task, block_reason=None))[0] == ("no reason is on record",)


def test_a_blocked_task_does_not_repeat_its_stage() -> None:
    task = replace(at_work(), status=TaskStatus.BLOCKED, block_reason="ANALYSIS: no disk")
    assert said(task)[0] == ("no disk",)


def test_a_task_that_waits_for_a_blocked_one_refers_the_user_to_that_one() -> None:
    blocked = replace(at_work(), id="other", status=TaskStatus.BLOCKED)
    assert said(replace(pending(), schedule=Schedule(after=("other",))), blocked) == (
        ("it waits for other, which is blocked",),
        "nothing until a person has looked at the blocked task: orchestrator why other",
    )


def test_a_draft_waits_to_be_submitted() -> None:
    draft = replace(pending(), status=TaskStatus.DRAFT)
    assert said(draft) == (("it is a draft",), "orchestrator submit --task mine")


def test_a_task_that_has_ended_says_so() -> None:
    assert said(at("COMPLETION", NextAction.NOTHING)) == (("it is completed",), "nothing: it has ended")


def asked(*things: RequestDraft) -> Task:
    """Return a task with these open requests whose agent still runs."""
    task = interactive()
    after, _ = machine.decide(full(), task, asking(*things)(task, START))
    return after


TASK = a_task().id


@pytest.mark.parametrize(
    ("asked_for", "fact", "following"),
    [
        (question(), "its agent asks: Which one? (left, right)", f"orchestrator answer {TASK}"),
        (question("Why?", options=()), "its agent asks: Why?", f"orchestrator answer {TASK}"),
        (
            permission(),
            "its agent wants to use Bash: command: rm -r build; without an answer it continues at 2026-11-21 22:30 UTC",
            f"orchestrator answer {TASK}",
        ),
        (
            dependency(),
            "its agent needs the api_key API_KEY: the service wants a key",
            f"orchestrator provide {TASK} API_KEY",
        ),
        (
            replace(permission(), subject=Subject.PLAN, text="1. do it"),
            "its agent has a plan: 1. do it",
            f"orchestrator approve {TASK}, or orchestrator request-changes {TASK} -m …",
        ),
        (
            replace(permission(), subject=Subject.STAGE, text="PLANNING is done: review plan.md"),
            "PLANNING is done: review plan.md",
            f"orchestrator approve {TASK}, or orchestrator request-changes {TASK} -m …",
        ),
    ],
)
def test_a_waiting_task_states_what_is_asked_and_how_to_answer(
    asked_for: RequestDraft, fact: str, following: str
) -> None:
    assert said(asked(asked_for)) == ((fact, "none of its processes runs"), following)


def test_all_open_requests_are_listed_in_order() -> None:
    facts, following = said(asked(dependency(), question()))
    assert [fact.split(":")[0] for fact in facts[:2]] == ["its agent needs the api_key API_KEY", "its agent asks"]
    assert following == f"orchestrator provide {TASK} API_KEY"


def test_a_task_paused_before_its_start_and_one_being_parked_say_so() -> None:
    play = Playbook(pending()) >> pause()
    assert said(play.task) == (("a person paused it before it started",), "orchestrator resume mine")
    run = replace(at_work().run or Run(folder="agents/1"), process=ProcessState.PARKING)
    assert said(replace(at_work(), run=run))[1] == "the planner is being stopped; a later attempt resumes its session"


def test_a_task_paused_before_its_turn_states_which_resource_is_short() -> None:
    assert said(pending(), capacity=Capacity(busy="the load is 9.00"))[0] == ("the load is 9.00",)
