"""What goes on, in one line for the service manager."""

from dataclasses import replace
from datetime import timedelta

from orchestrator.core.schedule.admission import Capacity, SchedulerSnapshot
from orchestrator.core.schedule.live_tasks import LiveTasks
from orchestrator.core.schedule.status_line import LONGEST, status_line
from orchestrator.core.schedule.trouble import Trouble, TroubleKind
from orchestrator.core.task.agent import AgentStatus, PauseReason
from orchestrator.core.task.budget import Caps, Spending
from orchestrator.core.task.task import Task, TaskStatus
from orchestrator.core.task.usage_limits import Window
from tests.fakes.world import START
from tests.unit.playbook import Playbook, a_task, asking, at_work, interactive, question


def line(*tasks: Task, **scene: object) -> str:
    snapshot = SchedulerSnapshot(tasks=LiveTasks(tasks), ended={}, capacity=Capacity(), now=START)
    return status_line(replace(snapshot, **scene))  # type: ignore[arg-type]


def paused(name: str, by: PauseReason) -> Task:
    task = replace(at_work(), id=name)
    return replace(task, agent=replace(task.agent, status=AgentStatus.PAUSED, blocked_by=by))


def test_it_counts_who_is_active_who_waits_and_who_is_paused() -> None:
    waiting = Playbook.submitted(replace(a_task(), id="b")).task
    assert line() == "0 active, 0 queued, 0 paused"
    assert line(at_work(), waiting, paused("c", PauseReason.USER)) == "1 active, 1 queued, 1 paused"


def test_it_names_the_limits_and_until_when() -> None:
    five = Window(status="rejected", resets_at=START + timedelta(hours=1), seen_at=START)
    week = Window(status="rejected", resets_at=START + timedelta(days=3), seen_at=START)
    said = line(windows={"five_hour": five, "seven_day": week}, capacity=Capacity(limit_margin=0.0))
    assert f"usage limit five_hour until {START + timedelta(hours=1):%H:%M} UTC" in said
    assert f"usage limit seven_day until {START + timedelta(days=3):%Y-%m-%d %H:%M} UTC" in said


def test_a_limit_whose_end_nobody_reported_lasts_until_the_next_try_or_a_person() -> None:
    task = paused("a", PauseReason.RATE_LIMIT)
    setbacks = replace(task.agent.setbacks, limit_waits=1, limit_window="five_hour")
    task = replace(task, agent=replace(task.agent, setbacks=setbacks))
    assert "usage limit until" in line(replace(task, retry_at=START + timedelta(minutes=5)))


def test_it_names_every_obstacle() -> None:
    capacity = Capacity(draining=True, paused_by="ann", pressure="1 GiB of disk is free", day=Caps(usd=1.0))
    trouble = Trouble(kind=TroubleKind.ACCOUNT, reason="claude is not logged in")
    said = line(capacity=capacity, trouble=trouble, ended_today=Spending(usd=2.0))
    obstacles = (
        "draining",
        "all paused by ann",
        "1 GiB of disk is free",
        "claude is not logged in",
        "the day's budget",
    )
    assert [one for one in obstacles if one not in said] == []


def test_it_names_three_of_those_who_need_a_person() -> None:
    play = Playbook(interactive()) >> asking(question()) << "freeze agents/1" << "wake in 1800 s"
    asks = replace((play << "tell question_asked").task, id="asks")
    stuck = [replace(at_work(), id=f"stuck{number}", status=TaskStatus.BLOCKED) for number in range(4)]
    said = line(asks, *stuck)
    assert said.endswith("5 need you: asks (question), stuck0 (blocked), stuck1 (blocked) and 2 more")
    snapshot = SchedulerSnapshot(tasks=LiveTasks(), ended={}, capacity=Capacity(), now=START)
    assert status_line(snapshot, [at_work()]).endswith(f"1 need you: {at_work().id} (unreadable)")


def test_it_stays_one_short_line_whatever_the_reasons_are() -> None:
    capacity = Capacity(paused_by="x" * 1000, pressure="a\nb\x1b[31m " * 100)
    said = line(capacity=capacity, trouble=Trouble(kind=TroubleKind.ACCOUNT, reason="\n" * 50 + "y" * 1000))
    said += line(capacity=replace(capacity, day=Caps(usd=1.0)), ended_today=Spending(usd=2.0))
    assert said.isprintable()
    assert len(said) <= 2 * LONGEST
    many = [replace(at_work(), id=f"{number}" * 90, status=TaskStatus.BLOCKED) for number in range(9)]
    assert len(line(*many, capacity=capacity)) == LONGEST
