"""Usage limits: pause at once, wait for the reported reset, continue in the same session."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from orchestrator.core.decide import machine
from orchestrator.core.decide.obligations import obligations
from orchestrator.core.decide.prompt import turn_text
from orchestrator.core.events.agent_events import Limit, LimitStatus
from orchestrator.core.events.events import LoginMissed
from orchestrator.core.schedule.admission import (
    Capacity,
    SchedulerSnapshot,
    account_refusal,
    block_reason,
    places,
    task_to_notify,
    tasks_at_limit,
    tasks_to_pause,
    tasks_to_resume,
)
from orchestrator.core.schedule.admission import tasks_to_admit as let_in
from orchestrator.core.schedule.live_tasks import LiveTasks
from orchestrator.core.schedule.trouble import Trouble, TroubleKind
from orchestrator.core.schedule.why import explain
from orchestrator.core.task.agent import PauseReason, ProcessState
from orchestrator.core.task.task import NextAction, Task, TaskStatus
from orchestrator.core.task.task_policy import TaskPolicy
from orchestrator.core.task.usage_limits import (
    LAST_SECOND,
    NAMELESS,
    Window,
    active_limits,
    nearly_used_up,
    probe_at,
    resume_at,
    window_of,
)
from orchestrator.formats.codec import stamp, time_of
from tests.fakes.tasks import submitted
from tests.fakes.world import START
from tests.unit.playbook import (
    Happening,
    Playbook,
    admitted,
    alarm,
    at,
    at_work,
    daemon_started,
    exited,
    finished,
    frozen,
    full,
    later,
    limit_hit,
    pause,
    resume,
    started,
    thawed,
)

HOUR = 3600.0


def after(task: Task, *happenings: Happening | timedelta) -> Task:
    """Return the task after all these events, whatever commands it desired."""
    now = task.updated_at
    for happening in happenings:
        if isinstance(happening, timedelta):
            now += happening
        else:
            task, _ = machine.decide(full(), task, happening(task, now))
    return task


def limited(resets_in: float | None = HOUR) -> Task:
    """Return a task that reached a limit and is paused."""
    return after(at_work(), limit_hit(resets_in), frozen)


def snapshot(*tasks: Task, seconds: float = 0.0) -> SchedulerSnapshot:
    return SchedulerSnapshot(
        tasks=LiveTasks(tasks),
        ended={},
        capacity=Capacity(places=9),
        now=tasks[0].updated_at + timedelta(seconds=seconds),
    )


def test_a_task_that_waits_for_its_retry_is_no_limit_of_its_own_and_resumes_with_the_account() -> None:
    lost = after(at_work(), exited)
    assert lost.next_action is NextAction.RETRY
    held = after(lost, pause(PauseReason.RATE_LIMIT))
    other = replace(held, id="LOCAL-2")
    assert block_reason(other, snapshot(held, other)) is None
    assert list(tasks_to_resume(snapshot(held))) == [(held.id, PauseReason.RATE_LIMIT)]


@pytest.mark.parametrize("seconds", [1, HOUR, 7 * 24 * HOUR])
def test_a_task_waits_for_the_reported_reset_plus_a_margin(seconds: float) -> None:
    resets = START + timedelta(seconds=seconds)
    for name in ("LOCAL-1", "LOCAL-2", "LOCAL-3"):
        until = resume_at(resets, START, 30.0, name)
        assert until is not None
        assert timedelta(seconds=30) <= until - resets < timedelta(seconds=60)


@pytest.mark.parametrize("seconds", [-HOUR, 0, 9 * 24 * HOUR])
def test_a_reset_that_is_past_or_implausible_is_ignored(seconds: float) -> None:
    assert resume_at(START + timedelta(seconds=seconds), START, 30.0, "LOCAL-1") is None


def test_tasks_that_wait_for_the_same_reset_do_not_all_wake_at_once() -> None:
    resets = START + timedelta(hours=1)
    times = {resume_at(resets, START, 30.0, f"LOCAL-{number}") for number in range(20)}
    assert len(times) > 15
    assert all(time and time_of(stamp(time)) == time for time in times)


def test_without_a_reset_the_delays_between_probes_double_up_to_an_hour() -> None:
    minutes = [(probe_at(START, hits) - START) / timedelta(minutes=1) for hits in (1, 2, 3, 4, 5, 50)]
    assert minutes == [5, 10, 20, 40, 60, 60]


def test_a_limit_freezes_the_agent_and_the_alarm_resumes_the_same_session() -> None:
    task = at_work()
    resumed = (
        Playbook(task)
        >> limit_hit(1200)
        << "freeze agents/1"
        << "wake in 1252 s"
        << "tell limit_reached"
        >> frozen
        >> later(1200)
        >> alarm
        >> later(60)
        >> alarm
        << "wake in 540 s"
        >> admitted
        << "thaw agents/1"
        >> thawed
        << "turn 2 of 1"
        << "wake in 3600 s"
    ).task
    assert (resumed.agent.attempt, resumed.agent.session.id) == (task.agent.attempt, task.agent.session.id)
    assert resumed.agent.turn.number == task.agent.turn.number + 1
    assert resumed.next_action is NextAction.TURN
    assert resumed.failures.total == 0
    assert "A usage limit or the service ended your last turn" in turn_text(full(), resumed)


def test_a_cleared_limit_is_retried_at_once_even_by_a_session_whose_process_was_ended() -> None:
    lifted = resume(PauseReason.RATE_LIMIT)
    assert after(limited(HOUR), lifted, admitted).next_action is NextAction.TURN
    parked = after(limited(HOUR), exited, later(60))
    assert (
        Playbook(parked) >> lifted >> admitted << "wake in 0 s" >> alarm << "resume planner 2"
    ).task.agent.session.is_resumed


def test_the_limit_that_a_task_reached_itself_is_identified_by_its_window() -> None:
    weekly, nameless = after(at_work(), limit_hit(HOUR, "seven_day"), frozen), replace(limited(), id="LOCAL-2")
    behind = replace(after(at_work(), pause(PauseReason.RATE_LIMIT)), id="LOCAL-3")
    seen = snapshot(weekly, nameless, behind)
    assert tasks_at_limit(seen, None) == [weekly.id, nameless.id]
    assert tasks_at_limit(seen, "seven_day") == [weekly.id]
    assert tasks_at_limit(seen, NAMELESS) == [nameless.id]


def test_an_early_alarm_changes_nothing() -> None:
    task = limited(1200)
    assert after(task, later(1200), alarm) is task


def test_a_successful_turn_resets_the_limit_delays() -> None:
    task = limited(None)
    assert task.agent.setbacks.limit_waits == 1
    going = after(task, later(300), alarm, admitted, thawed)
    again = after(going, limit_hit(None))
    assert again.agent.setbacks.limit_waits == 2
    assert again.retry_at == again.updated_at + timedelta(minutes=10)
    assert after(going, finished()).agent.setbacks.limit_waits == 0


def test_an_agent_that_dies_at_a_limit_is_restarted_only_after_the_limit() -> None:
    task = after(limited(), exited)
    assert task.waits_for_service
    assert task.next_action is NextAction.RETRY
    going = after(task, later(HOUR + 60), alarm, admitted, alarm, started)
    assert going.agent.session.is_resumed
    assert going.failures.total == 0


def test_a_restart_in_between_sets_the_alarm_again() -> None:
    task = after(limited(), daemon_started)
    assert [type(command).__name__ for command in obligations(full(), task)] == ["FollowRun", "WakeAt", "TellPerson"]


def test_no_other_task_starts_or_continues_before_the_accounts_limit_ends() -> None:
    waiting = limited()
    others = (submitted("LOCAL-1"), replace(at_work(), id="LOCAL-2", agent=replace(waiting.agent, blocked_by=None)))
    assert let_in(snapshot(waiting, *others)) == []
    assert let_in(snapshot(waiting, *others, seconds=HOUR + 61)) == ["LOCAL-2", "LOCAL-1"]


def test_tasks_at_the_limit_and_tasks_behind_it_state_its_end() -> None:
    waiting, other = limited(), submitted("LOCAL-1")
    assert waiting.retry_at is not None
    why = explain(waiting, snapshot(waiting, other))
    assert why.facts == ("its account has reached a usage limit", "its processes are frozen")
    assert f"{waiting.retry_at:%Y-%m-%d %H:%M:%S}" in why.next
    assert f"{waiting.retry_at:%H:%M:%S}" in explain(other, snapshot(waiting, other)).facts[0]


def test_a_users_pause_outlasts_the_limit() -> None:
    task = after(limited(1200), pause(), later(1500), alarm)
    assert task.agent.blocked_by is PauseReason.USER
    assert task.run is not None
    assert task.run.process is ProcessState.FROZEN
    assert task.status is TaskStatus.IN_PROGRESS


# Automatic and manual resume


def never_by_itself(policy: TaskPolicy) -> Playbook:
    play = Playbook(replace(at_work(), policy=policy)) >> limit_hit(HOUR) << "freeze agents/1" << "tell limit_reached"
    return play >> frozen << "wake in 1800 s"


@pytest.mark.parametrize("policy", [TaskPolicy(auto_resume=False), TaskPolicy(latest_resume=600.0)])
def test_a_task_without_automatic_resume_waits_for_a_user_even_after_its_process_was_parked(
    policy: TaskPolicy,
) -> None:
    play = never_by_itself(policy)
    assert play.task.notices[-1].text.endswith("it waits for `resume`")
    play = play >> later(1800) >> alarm << "stop agents/1" >> exited >> later(9 * HOUR) >> alarm
    assert (play.task.agent.blocked_by, play.task.next_action, play.task.retry_at) == (
        PauseReason.RATE_LIMIT, NextAction.RETRY, None
    )  # fmt: skip
    assert not list(tasks_to_resume(snapshot(play.task)))
    assert explain(play.task, snapshot(play.task)).next == f"orchestrator resume {play.task.id}"
    assert play >> resume() >> admitted << "wake in 0 s" >> alarm << "resume planner 2"


@pytest.mark.parametrize("resets_in", [None, HOUR])
def test_no_other_account_problem_is_resumed_automatically_either(resets_in: float | None) -> None:
    told = {"five_hour": window("rejected", resets_in)}
    waiting = after(at_work(auto_resume=False), limit_hit(resets_in, "five_hour"), frozen)
    behind = replace(after(at_work(), pause(PauseReason.RATE_LIMIT)), id="LOCAL-2")
    later_on = replace(snapshot(waiting, behind, submitted("LOCAL-3"), seconds=9 * HOUR), windows=told)
    assert (let_in(later_on), list(tasks_to_resume(later_on))) == ([], [])
    for task in later_on.tasks[1:]:
        why = explain(task, later_on)
        assert why.facts[0] == f"the account's usage limit (hit by {waiting.id}) lasts until a person resumes the task"
        assert why.next == "orchestrator resume --all"
    said_so = replace(later_on, tasks=LiveTasks((after(waiting, resume()), *later_on.tasks[1:])))
    assert let_in(said_so) == [waiting.id, "LOCAL-3"]
    assert list(tasks_to_resume(said_so)) == [("LOCAL-2", PauseReason.RATE_LIMIT)]


def test_a_task_waits_for_a_reset_that_is_near_enough() -> None:
    task = after(at_work(latest_resume=600.0), limit_hit(60))
    assert task.retry_at is not None


def test_a_task_paused_for_others_limit_resumes_after_it_even_if_it_once_reached_one_itself() -> None:
    play = Playbook(at_work()) >> limit_hit(60) << "freeze agents/1" << "wake in 112 s" << "tell limit_reached"
    play = play >> exited >> later(113) >> alarm >> admitted << "wake in -1 s" >> alarm << "resume planner 2"
    assert play.task.agent.setbacks.limit_waits == 1
    play = play >> pause(PauseReason.RATE_LIMIT) >> started << "follow agents/2" << "freeze agents/2"
    assert list(tasks_to_resume(snapshot(play.task))) == [(play.task.id, PauseReason.RATE_LIMIT)]
    assert (play >> resume(PauseReason.RATE_LIMIT)).task.wants_slot


# The service behind the model


def test_an_unreachable_service_is_retried_after_doubling_delays_without_using_a_retry() -> None:
    play = Playbook(at_work())
    for waits, pause_ in enumerate((10, 20, 40, 80, 160, 320, 640, 900, 900), 1):
        play = play >> finished("529", error_class="overloaded") << "freeze agents/1" << f"wake in {pause_} s"
        assert (play.task.agent.blocked_by, play.task.agent.setbacks.limit_waits) == (PauseReason.SERVICE, waits)
        assert explain(play.task, snapshot(play.task)).next.startswith("it tries again by itself at ")
        play = play >> later(pause_) >> alarm >> admitted << f"turn {waits + 1} of 1" << "wake in 3600 s"
    assert (play.task.failures.total, play.task.budgets["agent_retries"].used) == (0, 0)
    assert (play >> finished() << "look at ANALYSIS").task.agent.setbacks.limit_waits == 0


def test_a_service_failure_during_a_users_pause_leaves_the_pause_to_the_user() -> None:
    play = Playbook(at_work()) >> pause() << "freeze agents/1" >> finished("529", error_class="overloaded")
    play = play >> later(9999) >> alarm
    assert play.task.agent.blocked_by is PauseReason.USER
    assert play >> resume() >> admitted << "turn 2 of 1" << "wake in 3600 s"


# What is reported about the account's windows


def window(status: str, resets_in: float | None = HOUR, utilization: float | None = None) -> Window:
    resets_at = None if resets_in is None else START + timedelta(seconds=resets_in)
    return Window(status=status, resets_at=resets_at, utilization=utilization, seen_at=START)


OPUS, SONNET, NEW = "claude-opus-4-1", "claude-sonnet-4-5", "model-x"


@pytest.mark.parametrize(
    ("name", "model", "binds"),
    [
        ("five_hour", OPUS, True),
        ("seven_day", SONNET, True),
        ("seven_day_opus", OPUS, True),
        ("seven_day_opus", SONNET, False),
        ("seven_day_opus", NEW, True),
        ("something_new", SONNET, True),
    ],
)
def test_a_window_applies_to_the_models_of_its_family_and_an_unknown_one_to_all(
    name: str, model: str, binds: bool
) -> None:
    assert bool(active_limits({name: window("rejected")}, START, 30.0, model)) is binds


def test_a_limit_lasts_until_a_margin_after_its_reset_and_is_ignored_without_a_plausible_one() -> None:
    told = {"five_hour": window("rejected"), "seven_day": window("rejected", 2 * HOUR), "x": window("allowed")}
    assert [wall.window for wall in active_limits(told, START, 30.0)] == ["seven_day", "five_hour"]
    assert [wall.window for wall in active_limits(told, START + timedelta(seconds=HOUR + 30), 30.0)] == ["seven_day"]
    assert active_limits({"x": window("rejected", None), "y": window("rejected", 9 * 24 * HOUR)}, START, 30.0) == ()


def walled(*tasks: Task, status: str = "rejected", name: str = "seven_day_opus", places: int = 9) -> SchedulerSnapshot:
    return SchedulerSnapshot(
        tasks=LiveTasks(tasks),
        ended={},
        capacity=Capacity(places=places),
        now=START,
        windows={name: window(status)},
        model_of=lambda task: OPUS if task.title == "opus" else SONNET,
    )


def test_a_limit_pauses_the_tasks_of_its_models_and_lets_the_others_work() -> None:
    opus, sonnet = (replace(submitted(f"LOCAL-{name}"), title=name) for name in ("opus", "sonnet"))
    assert let_in(walled(opus, sonnet)) == ["LOCAL-sonnet"]
    between = replace(after(at_work(), finished()), title="opus")
    (held,) = tasks_to_pause(walled(between))
    assert held[:2] == (between.id, PauseReason.RATE_LIMIT)
    assert "the account's usage limit (seven_day_opus) lasts until 2026-11-21 23:00:30 UTC" in held[2]
    standing = after(between, pause(PauseReason.RATE_LIMIT))
    assert not list(tasks_to_resume(walled(standing)))
    ways = explain(standing, walled(standing)).next
    assert ways.startswith("it continues by itself when that is over")
    assert ways.endswith("orchestrator limits --forget")
    assert list(tasks_to_resume(walled(standing, name="seven_day_sonnet"))) == [(between.id, PauseReason.RATE_LIMIT)]


@pytest.mark.parametrize("resets_in", [None, -60.0, 9 * 24 * HOUR])
def test_a_window_with_unknown_end_pauses_others_until_one_task_has_probed_it(resets_in: float | None) -> None:
    opus, sonnet = (replace(submitted(f"LOCAL-{name}"), title=name) for name in ("opus", "sonnet"))
    trying = after(at_work(), limit_hit(resets_in, "seven_day_opus"), frozen)
    told = {"seven_day_opus": window("rejected", resets_in)}
    unclear = replace(walled(replace(trying, title="opus"), opus, sonnet), windows=told)
    assert let_in(unclear) == ["LOCAL-sonnet"]
    assert "hit by" in explain(opus, unclear).facts[0]
    assert "LOCAL-opus" in let_in(replace(unclear, now=START + timedelta(minutes=5)))
    open_again = replace(unclear, windows={"seven_day_opus": window("allowed")})
    assert "LOCAL-opus" in let_in(open_again)


def test_running_turns_and_work_without_agents_are_not_paused_for_a_limit() -> None:
    assert not list(tasks_to_pause(walled(replace(at_work(), title="opus"))))
    assert not list(tasks_to_pause(walled(replace(at("COMPLETION", NextAction.DELIVERY), title="opus"))))


def test_a_task_that_needs_no_turn_any_more_goes_on_in_spite_of_a_limit() -> None:
    standing = after(replace(after(at_work(), finished()), title="opus"), pause(PauseReason.RATE_LIMIT))
    assert not list(tasks_to_resume(walled(standing)))
    judged = replace(standing, next_action=NextAction.DELIVERY)
    assert list(tasks_to_resume(walled(judged))) == [(judged.id, PauseReason.RATE_LIMIT)]
    assert explain(judged, walled(judged)).next == "it continues by itself in a moment"


def test_a_turn_that_begins_after_a_thaw_waits_for_a_limit_that_was_met_meanwhile() -> None:
    thawing = replace(after(at_work(), pause(), frozen, resume(), admitted), title="opus")
    assert (thawing.is_paused, thawing.next_action) == (False, NextAction.TURN)
    assert [found[:2] for found in tasks_to_pause(walled(thawing))] == [(thawing.id, PauseReason.RATE_LIMIT)]


LOGGED_OUT = Trouble(kind=TroubleKind.ACCOUNT, reason="nobody is logged in")


def troubled(*tasks: Task, trouble: Trouble | None = LOGGED_OUT) -> SchedulerSnapshot:
    return replace(snapshot(*tasks), trouble=trouble)


def test_no_turn_starts_while_the_account_has_a_problem_and_all_resume_when_it_is_fixed() -> None:
    between = after(at_work(), finished())
    assert account_refusal(between, troubled(between)) == (PauseReason.SERVICE, "nobody is logged in")
    assert list(tasks_to_pause(troubled(between))) == [(between.id, PauseReason.SERVICE, "nobody is logged in")]
    assert not list(tasks_to_resume(troubled(at_work(), trouble=None)))
    assert not list(tasks_to_pause(troubled(at_work()))), "a running turn comes to its end"
    assert let_in(troubled(submitted("LOCAL-1"))) == []
    assert let_in(troubled(replace(after(at("COMPLETION", NextAction.DELIVERY), pause(), resume())))) != []
    standing = after(between, pause(PauseReason.SERVICE))
    assert not list(tasks_to_resume(troubled(standing)))
    assert explain(standing, troubled(standing)).facts[0] == "nobody is logged in"
    mended = troubled(standing, trouble=None)
    assert block_reason(between, mended) is None
    assert list(tasks_to_resume(mended)) == [(standing.id, PauseReason.SERVICE)]
    assert after(standing, resume(PauseReason.SERVICE)).wants_slot


def test_users_are_notified_of_an_account_problem_through_a_task_that_it_keeps_waiting() -> None:
    held, waiting = after(at_work(), finished(), pause(PauseReason.SERVICE)), submitted("LOCAL-1")
    assert task_to_notify(troubled(waiting, held)) == held.id
    early = replace(waiting, schedule=replace(waiting.schedule, start_at=START + timedelta(days=1)))
    down = after(at_work(), finished("529", error_class="overloaded"))
    assert task_to_notify(troubled(early, down)) is None
    assert task_to_notify(troubled(early, down, waiting)) == waiting.id
    told, _ = machine.decide(full(), waiting, LoginMissed(at=START, reason="nobody is logged in"))
    assert [(notice.kind, notice.text) for notice in told.notices] == [("login_missing", "nobody is logged in")]


def test_a_task_that_had_waited_for_the_service_resumes_when_the_account_problem_is_fixed() -> None:
    down = finished("529", error_class="overloaded")
    waited = after(at_work(), down, frozen, timedelta(seconds=3600), alarm, admitted, exited, timedelta(hours=1), alarm)
    assert (waited.next_action, waited.agent.setbacks.limit_waits) == (NextAction.AGENT, 1)
    standing = after(waited, pause(PauseReason.SERVICE))
    assert list(tasks_to_resume(troubled(standing, trouble=None))) == [(standing.id, PauseReason.SERVICE)]


@pytest.mark.parametrize(("configured", "left"), [(1, 1), (2, 1), (5, 2), (9, 4)])
def test_a_nearly_used_up_window_halves_the_places(configured: int, left: int) -> None:
    assert places(walled(submitted("LOCAL-1"), status="allowed_warning", places=configured)) == left


def test_a_warning_ends_with_its_window() -> None:
    warned = {"a": window("allowed_warning"), "b": window("allowed_warning", None), "c": window("allowed")}
    assert nearly_used_up(warned, START) == ("a", "b")
    assert nearly_used_up(warned, START + timedelta(seconds=HOUR)) == ("b",)


def rejected(resets_at: int | None) -> Limit:
    return Limit(status=LimitStatus.REJECTED, window="five_hour", resets_at=resets_at, utilization=1.0, overage=False)


@pytest.mark.parametrize("resets_at", [None, 0, -5, LAST_SECOND])
def test_an_implausible_reset_is_not_kept(resets_at: int | None) -> None:
    assert window_of(rejected(resets_at), START).resets_at is None


def test_a_window_is_kept_as_it_was_reported() -> None:
    kept = window_of(rejected(1_800_000_000), START)
    assert (kept.status, kept.resets_at, kept.utilization) == ("rejected", datetime(2027, 1, 15, 8, tzinfo=UTC), 1.0)
