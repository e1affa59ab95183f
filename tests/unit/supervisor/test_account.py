"""What all tasks of one account know together: its usage windows, its refusals, what ended ones had cost."""

from dataclasses import replace
from datetime import timedelta

import pytest

from orchestrator.core.events.agent_events import ErrorClass, Limit, LimitStatus
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.budget import Spending
from orchestrator.core.task.usage_limits import AccountState
from orchestrator.supervisor.account import MOST_WINDOWS, Account
from tests.fakes.world import START
from tests.unit.playbook import Happening, a_task, alarm, finished, resume, retry

LATER = START + timedelta(hours=1)


def news(status: LimitStatus = LimitStatus.WARNING, resets_at: int | None = 1_800_000_000, used: float = 0.8) -> Limit:
    return Limit(status=status, window="five_hour", resets_at=resets_at, utilization=used, overage=False)


def test_news_of_a_window_is_kept_and_is_new_only_if_it_says_something_else() -> None:
    account = Account()
    account.hear(news(), START)
    assert account.unwritten
    account.unwritten = False
    account.hear(news(used=0.9), LATER)
    assert not account.unwritten
    assert account.windows["five_hour"].utilization == 0.9
    assert account.windows["five_hour"].seen_at == LATER
    for otherwise in (news(LimitStatus.REJECTED), news(LimitStatus.REJECTED, resets_at=1_800_000_060)):
        account.unwritten = False
        account.hear(otherwise, LATER)
        assert account.unwritten


def test_a_window_without_a_name_hides_no_other() -> None:
    account = Account()
    account.hear(news(), START)
    nameless = Limit(status=LimitStatus.ALLOWED, window=None, resets_at=None, utilization=None, overage=False)
    account.hear(nameless, START)
    assert set(account.windows) == {"five_hour", "unknown"}


@pytest.mark.parametrize(("window", "left"), [("five_hour", {"unknown"}), ("seven_day", {"five_hour", "unknown"})])
def test_a_window_is_forgotten_by_its_name_and_without_one_all_are(window: str, left: set[str]) -> None:
    account = Account()
    account.hear(news(), START)
    account.hear(replace(news(), window=None), START)
    account.forget(window, "alice")
    assert set(account.windows) == left
    account.forget(None, "alice")
    assert not account.windows


def test_what_ended_tasks_had_cost_adds_up_by_day() -> None:
    account = Account()
    account.remember({"2026-11-20": Spending(usd=1.0, turns=1), "2026-11-21": Spending(usd=2.0)})
    account.remember({"2026-11-21": Spending(usd=0.5, tokens=7)})
    assert account.spent_on("2026-11-21") == Spending(usd=2.5, tokens=7)
    assert account.spent_on("2026-11-22") == Spending()


@pytest.mark.parametrize("error", [ErrorClass.AUTHENTICATION, ErrorClass.BILLING])
def test_an_account_that_was_refused_is_in_trouble_until_a_person_has_something_tried_again(error: str) -> None:
    account = Account()

    def after(*happenings: Happening) -> str | None:
        for happening in happenings:
            account.decided(happening(a_task(), START))
        return account.trouble

    assert after(finished("slow", error_class=ErrorClass.OVERLOADED), finished("no"), finished()) is None
    refusal = "the service refused the account: no credit"
    assert after(finished("no credit", error_class=error), alarm) == refusal
    assert after(resume(PauseReason.SERVICE)) == refusal
    assert after(resume()) is None
    assert after(finished("no credit", error_class=error), retry) is None


def test_a_refusal_and_a_pause_of_everything_are_known_to_the_next_life_of_the_daemon() -> None:
    account, anew = Account(), Account()
    account.decided(finished("no credit", error_class=ErrorClass.BILLING)(a_task(), START))
    account.pause("alice")
    assert account.unwritten
    anew.recall(account.kept)
    assert (anew.trouble, anew.paused_by) == ("the service refused the account: no credit", "alice")
    anew.go_on()
    assert anew.unwritten
    assert anew.kept == AccountState()


def test_nobody_being_logged_in_comes_before_any_refusal() -> None:
    account = Account(refused="no credit", logged_out="nobody is logged in")
    assert account.trouble == "nobody is logged in"


def test_windows_that_nobody_has_do_not_add_up() -> None:
    """An agent may make up as many names as it likes; those last told of are known."""
    account = Account()
    for number in range(10 * MOST_WINDOWS):
        made_up = Limit(status=LimitStatus.ALLOWED, window=f"{number}", resets_at=None, utilization=None, overage=False)
        account.hear(made_up, START)
        account.hear(news(), START)
    assert len(account.windows) == MOST_WINDOWS
    assert "five_hour" in account.windows
