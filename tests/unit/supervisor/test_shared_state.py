"""The state that all tasks of an account share: usage windows, refusals, and the cost of ended tasks."""

from datetime import timedelta

import msgspec
import pytest

from orchestrator.core.events.agent_events import ErrorClass, Limit, LimitStatus
from orchestrator.core.schedule.trouble import AccountState, Trouble, TroubleKind
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.budget import Spending
from orchestrator.supervisor.shared_state import MOST_WINDOWS, SharedState
from tests.fakes.world import START
from tests.unit.playbook import Happening, a_task, alarm, finished, resume, retry

LATER = START + timedelta(hours=1)


def news(status: LimitStatus = LimitStatus.WARNING, resets_at: int | None = 1_800_000_000, used: float = 0.8) -> Limit:
    return Limit(status=status, window="five_hour", resets_at=resets_at, utilization=used, overage=False)


def test_a_report_of_a_window_is_kept_and_is_new_only_if_it_differs() -> None:
    account = SharedState()
    account.record_limit(news(), START)
    assert account.unwritten
    account.unwritten = False
    account.record_limit(news(used=0.9), LATER)
    assert not account.unwritten
    assert account.windows["five_hour"].utilization == 0.9
    assert account.windows["five_hour"].seen_at == LATER
    for otherwise in (news(LimitStatus.REJECTED), news(LimitStatus.REJECTED, resets_at=1_800_000_060)):
        account.unwritten = False
        account.record_limit(otherwise, LATER)
        assert account.unwritten


def test_a_window_without_a_name_hides_no_other() -> None:
    account = SharedState()
    account.record_limit(news(), START)
    nameless = Limit(status=LimitStatus.ALLOWED, window=None, resets_at=None, utilization=None, overage=False)
    account.record_limit(nameless, START)
    assert set(account.windows) == {"five_hour", "unknown"}


@pytest.mark.parametrize(("window", "left"), [("five_hour", {"unknown"}), ("seven_day", {"five_hour", "unknown"})])
def test_a_window_is_cleared_by_its_name_and_without_one_all_are(window: str, left: set[str]) -> None:
    account = SharedState()
    account.record_limit(news(), START)
    account.record_limit(msgspec.structs.replace(news(), window=None), START)
    account.forget(window, "alice")
    assert set(account.windows) == left
    account.forget(None, "alice")
    assert not account.windows


def test_the_cost_of_ended_tasks_is_summed_by_day() -> None:
    account = SharedState()
    account.remember({"2026-11-20": Spending(usd=1.0, turns=1), "2026-11-21": Spending(usd=2.0)})
    account.remember({"2026-11-21": Spending(usd=0.5, tokens=7)})
    assert account.spent_on("2026-11-21") == Spending(usd=2.5, tokens=7)
    assert account.spent_on("2026-11-22") == Spending()


def reason(account: SharedState) -> str | None:
    trouble = account.trouble(START)
    return trouble.reason if trouble else None


REFUSAL = "the service refused the account: no credit; it is tried again at 2026-11-21 22:05:00 UTC"


@pytest.mark.parametrize("error", [ErrorClass.AUTHENTICATION, ErrorClass.BILLING])
def test_a_refused_account_has_a_problem_until_a_turn_succeeds_or_a_user_retries_something(error: str) -> None:
    account = SharedState()

    def after(*happenings: Happening) -> str | None:
        for happening in happenings:
            account.on_decision(a_task(), happening(a_task(), START))
        return reason(account)

    assert after(finished("slow", error_class=ErrorClass.OVERLOADED), finished("no"), finished()) is None
    assert after(finished("no credit", error_class=error), alarm) == REFUSAL
    assert after(resume(PauseReason.SERVICE)) == REFUSAL
    assert after(resume()) is None
    assert after(finished("no credit", error_class=error), retry) is None
    assert after(finished("no credit", error_class=error), finished()) is None


def test_a_refused_account_is_tried_again_after_pauses_that_grow_to_an_hour() -> None:
    account, now, pauses = SharedState(), START, []
    for _ in range(6):
        account.on_decision(a_task(), finished("no credit", error_class=ErrorClass.BILLING)(a_task(), now))
        probe_at = account.breaker.probe_at
        assert probe_at is not None
        pauses.append((probe_at - now).total_seconds() / 60)
        before, now = account.trouble(probe_at - timedelta(seconds=1)), probe_at
        after = account.trouble(now)
        assert (before and before.is_probed, after and after.is_probed) == (False, True)
    assert pauses == [5, 10, 20, 40, 60, 60]


def test_a_refusal_and_a_pause_of_everything_survive_a_restart_of_the_daemon() -> None:
    account, anew = SharedState(), SharedState()
    account.on_decision(a_task(), finished("no credit", error_class=ErrorClass.BILLING)(a_task(), START))
    account.pause("alice")
    assert account.unwritten
    anew.recall(account.kept)
    assert (reason(anew), anew.paused_by) == (REFUSAL, "alice")
    anew.resume()
    assert anew.unwritten
    assert anew.kept == AccountState()


def test_a_missing_login_takes_precedence_over_any_refusal() -> None:
    account = SharedState(unusable=Trouble(kind=TroubleKind.ACCOUNT, reason="nobody is logged in"))
    account.on_decision(a_task(), finished("no credit", error_class=ErrorClass.BILLING)(a_task(), START))
    assert reason(account) == "nobody is logged in"


def test_the_number_of_unknown_windows_is_bounded() -> None:
    """An agent may invent any number of names; the latest ones are kept."""
    account = SharedState()
    for number in range(10 * MOST_WINDOWS):
        made_up = Limit(status=LimitStatus.ALLOWED, window=f"{number}", resets_at=None, utilization=None, overage=False)
        account.record_limit(made_up, START)
        account.record_limit(news(), START)
    assert len(account.windows) == MOST_WINDOWS
    assert "five_hour" in account.windows
