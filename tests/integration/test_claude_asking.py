"""The real claude CLI with user requests: what asks, in which format, and the effect of an answer."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from orchestrator.agents.drivers import ClaudeDriver, Launch
from orchestrator.agents.user_request_parser import asking_of_request
from orchestrator.core.events.agent_events import (
    Answered,
    Asked,
    AskWithdrawn,
    ErrorClass,
    Outcome,
    SessionOpened,
    ToolDenied,
    ToolFinished,
    TurnResult,
)
from orchestrator.core.task.user_requests import RequestStatus, Subject, UserRequest
from orchestrator.formats.codec import JsonObject
from tests.fakes.messages_api import MessagesApi
from tests.fakes.scripted_model import Drip, Reply, Say, Scene, Use, in_order
from tests.integration.claude_session import Agent, Place, agent
from tests.integration.test_claude_cli import claude, place

__all__ = ["claude", "place"]
pytestmark = pytest.mark.claude

AT = datetime(2026, 1, 1, tzinfo=UTC)
QUESTION: JsonObject = {
    "question": "Which alphabet?",
    "header": "Alphabet",
    "options": [{"label": "Latin", "description": "a to z"}, {"label": "All", "description": "of Unicode"}],
    "multiSelect": False,
}
WISH = Use(
    "AskUserQuestion", {"questions": [QUESTION, {**QUESTION, "question": "Which scripts?", "multiSelect": True}]}
)


@asynccontextmanager
async def conversation(
    place: Place, order: Launch, *replies: Reply
) -> AsyncIterator[tuple[Agent, ClaudeDriver, MessagesApi]]:
    """A claude that may ask, whose model answers with these scenes, and its first turn started."""
    with MessagesApi(lambda scene: in_order(scene, *replies)) as api:
        driver = place.driver(api)
        async with agent(driver, replace(order, asks=True)) as running:
            running.say("Begin.")
            yield running, driver, api


def answered(asked: Asked, *answers: tuple[RequestStatus, str]) -> list[UserRequest]:
    """Return the record of a request with these answers."""
    asking = asking_of_request(asked, 0)
    assert len(asking) == len(answers)
    return [
        UserRequest(
            number=number,
            draft=one,
            digest=one.digest,
            stage="ANALYSIS",
            visit=1,
            attempt=1,
            turn=1,
            asked_at=AT,
            status=status,
            answer=text,
        )
        for number, (one, (status, text)) in enumerate(zip(asking, answers, strict=True), 1)
    ]


def line_of(asked: Asked) -> bytes:
    """Return the request as the CLI wrote it, as far as an answer needs it."""
    return orjson.dumps({"request_id": asked.request_id, "request": {"input": asked.input}})


def tools_of(api: MessagesApi) -> set[str]:
    """Return the names of the tools that the model is offered."""
    tools = api.scenes[0].request["tools"]
    assert isinstance(tools, list)
    return {str(tool["name"]) for tool in tools if isinstance(tool, dict)}


def results(scenes: Sequence[Scene]) -> list[str]:
    """Return the tool results in the last call to the model."""
    return [result.text for result in scenes[-1].results]


ALLOW, DENY = (RequestStatus.ANSWERED, "allow"), (RequestStatus.ANSWERED, "deny")


async def test_tools_allowed_by_the_rules_are_not_asked_for_and_others_are(place: Place, tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside.txt", place.worktree / "inside.txt"
    script = (
        Use("Write", {"file_path": str(inside), "content": "x"}),
        Use("Write", {"file_path": str(place.outbox / "plan.md"), "content": "x"}),
        Use("Bash", {"command": "touch by-bash"}),
        Use("Write", {"file_path": str(outside), "content": "x"}),
        Say("Done."),
    )
    async with conversation(place, place.order(), *script) as (running, driver, api):
        asked = await running.next(Asked)
        assert (asked.subtype, asked.tool) == ("can_use_tool", "Write")
        assert asked.input == {"file_path": str(outside), "content": "x"}
        assert inside.exists()
        assert (place.outbox / "plan.md").exists()
        assert (place.worktree / "by-bash").exists()
        running.send(driver.answer(line_of(asked), answered(asked, DENY)))
        assert (await running.next(TurnResult)).outcome is Outcome.OK
        assert await running.end() == 0
    assert [event.ok for event in running.events if isinstance(event, ToolFinished)] == [True, True, True, False]
    assert not [event for event in running.events if isinstance(event, ToolDenied)]
    assert "not allowed here" in results(api.scenes)[-1]
    assert not outside.exists()


async def test_a_command_beyond_its_rule_is_asked_for_and_runs_when_allowed(place: Place) -> None:
    order = place.order(tools=("Bash(git *)", "Read"))
    async with conversation(place, order, Use("Bash", {"command": "touch made"}), Say("Done.")) as (running, driver, _):
        asked = await running.next(Asked)
        (asking,) = asking_of_request(asked, 0)
        assert (asking.subject, asking.name) == (Subject.PERMISSION, "Bash")
        running.send(driver.answer(line_of(asked), answered(asked, ALLOW)))
        await running.next(TurnResult)
        await running.end()
    assert (place.worktree / "made").exists()


async def test_questions_reach_the_user_and_their_answers_the_model(place: Place) -> None:
    async with conversation(place, place.order(), WISH, Say("Done.")) as (running, driver, api):
        asked = await running.next(Asked)
        first, second = asking_of_request(asked, 0)
        assert (first.text, first.options, second.options) == ("Which alphabet?", ("Latin", "All"), ())
        said = (RequestStatus.ANSWERED, "All"), (RequestStatus.ANSWERED, "Cyrillic,\nand Greek")
        running.send(driver.answer(line_of(asked), answered(asked, *said)))
        await running.next(TurnResult)
        await running.end()
    assert "AskUserQuestion" in tools_of(api)
    assert '"Which alphabet?"="All", "Which scripts?"="Cyrillic,\nand Greek"' in results(api.scenes)[0]


async def test_a_plan_is_shown_as_in_its_file_and_the_decision_is_passed_on(place: Place) -> None:
    def planner(scene: Scene) -> Reply:
        found = re.search(r"/[^\s\"\\]*/plans/[^\s\"\\]*\.md", json.dumps(scene.request["messages"]))
        assert found
        leave = Use("ExitPlanMode", {})
        return in_order(
            scene, Use("Write", {"file_path": found.group(), "content": "# Plan\n"}), leave, leave, Say("Done.")
        )

    order = replace(place.order(tools=("Read", "Edit")), asks=True, permission_mode="plan")
    with MessagesApi(planner) as api:
        driver = place.driver(api)
        async with agent(driver, order) as running:
            running.say("Plan.")
            asked = await running.next(Asked)
            (asking,) = asking_of_request(asked, 0)
            assert (asking.subject, asking.text) == (Subject.PLAN, "# Plan\n")
            running.send(
                driver.answer(line_of(asked), answered(asked, (RequestStatus.CHANGES_REQUESTED, "Test first.")))
            )
            again = await running.next(Asked)
            running.send(driver.answer(line_of(again), answered(again, (RequestStatus.APPROVED, ""))))
            assert (await running.next(TurnResult)).outcome is Outcome.OK
            await running.end()
    told = results(api.scenes)
    assert "Test first." in told[1]
    assert "User has approved your plan" in told[2]


async def test_nothing_is_asked_in_an_unattended_task_or_if_the_role_says_so(place: Place, tmp_path: Path) -> None:
    wish = Use("Write", {"file_path": str(tmp_path / "x"), "content": "x"})
    for order in (place.order(), replace(place.order(), asks=True, permission_mode="dontAsk")):
        with MessagesApi(lambda scene: in_order(scene, WISH, wish, Say("Done."))) as api:
            async with agent(place.driver(api), order) as running:
                running.say("Begin.")
                assert (await running.next(TurnResult)).outcome is Outcome.OK
                await running.end()
        assert not [event for event in running.events if isinstance(event, Asked)]
        assert [event.ok for event in running.events if isinstance(event, ToolFinished)] == [False, False]


async def test_answers_and_interrupts_may_be_sent_twice_and_too_late(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    wish = Use("Write", {"file_path": str(outside), "content": "x"})
    async with conversation(place, place.order(), wish, Say("Done.")) as (running, driver, _):
        asked = await running.next(Asked)
        running.send(driver.interrupt("i-1") * 2)
        assert (await running.next(AskWithdrawn)).request_id == asked.request_id
        assert (await running.next(TurnResult)).outcome is Outcome.INTERRUPTED
        running.send(driver.answer(line_of(asked), answered(asked, ALLOW)) + driver.interrupt("i-2"))
        running.say("Again.")
        asked = await running.next(Asked)
        assert not outside.exists()
        running.send(driver.answer(line_of(asked), answered(asked, ALLOW)) * 2)
        running.send(driver.answer(line_of(asked), answered(asked, DENY)))
        assert (await running.next(TurnResult)).outcome is Outcome.OK
        assert await running.end() == 0
    assert outside.exists()
    assert [event.ok for event in running.events if isinstance(event, Answered)] == [True] * 3


async def test_a_turn_sent_right_after_an_interrupt_is_accepted_after_it(place: Place) -> None:
    def model(scene: Scene) -> Reply:
        return Say("Here.") if scene.prompt == "Next." else Drip(("tick ",) * 600, every=0.1)

    with MessagesApi(model) as api:
        driver = place.driver(api)
        async with agent(driver, place.order()) as running:
            running.say("Begin.")
            await running.next(SessionOpened)
            running.send(driver.interrupt("i-1"))
            running.say("Next.")
            first, second = await running.next(TurnResult), await running.next(TurnResult)
            await running.end()
    assert [first.outcome, second.outcome, second.text] == [Outcome.INTERRUPTED, Outcome.OK, "Here."]


async def test_the_end_of_input_withdraws_a_question_and_sigterm_does_not(place: Place) -> None:
    async with conversation(place, place.order(), WISH, Say("Done.")) as (running, *_):
        await running.next(Asked)
        await running.end()
    assert [event for event in running.events if isinstance(event, AskWithdrawn)]
    order = place.order()
    async with conversation(place, order, WISH, Say("Done.")) as (running, _, _):
        await running.next(Asked)
        await running.terminate()
        assert await running.end() == 143
    assert not [event for event in running.events if isinstance(event, AskWithdrawn)]
    with MessagesApi(lambda _: Say("Thanks.")) as api:
        async with agent(place.driver(api), replace(order, asks=True, resume=True)) as resumed:
            resumed.say("The answer is: All.")
            assert (await resumed.next(TurnResult)).text == "Thanks."
            await resumed.end()
    assert not [event for event in resumed.events if isinstance(event, Asked)], "nothing is asked again automatically"


async def test_money_is_counted_by_process_and_a_process_without_money_refuses_every_turn(place: Place) -> None:
    order = replace(place.order(), max_usd=0.003)
    with MessagesApi(lambda _: Say("Done.")) as api:
        driver = place.driver(api)
        async with agent(driver, order) as running:
            turns = []
            for _ in range(4):
                running.say("Go on.")
                turns.append(await running.next(TurnResult))
            assert await running.end() == 1
        assert [turn.error for turn in turns] == [None, None, ErrorClass.BUDGET, ErrorClass.BUDGET]
        spent = turns[-1].cost_usd
        calls = len(api.scenes)
        assert calls == 3, "the last turn reached no model"
        async with agent(driver, replace(order, resume=True)) as resumed:
            resumed.say("Go on.")
            turn = await resumed.next(TurnResult)
            await resumed.end()
        assert turn.outcome is Outcome.OK, "earlier spending does not count against another process"
        assert turn.cost_usd > spent, "but it is reported with the session's total"


async def test_agents_use_utc_in_any_time_zone_of_the_daemon(place: Place) -> None:
    order = place.order()
    order = replace(order, base_env={**order.base_env, "TZ": "Asia/Tokyo"})
    async with conversation(place, order, Use("Bash", {"command": "date +%Z"}), Say("Done.")) as (running, _, api):
        await running.next(TurnResult)
        await running.end()
    assert results(api.scenes) == ["UTC"]
