"""The real claude CLI against a scripted Messages API: it accepts what the drivers launch and send."""

import os
from pathlib import Path
from uuid import uuid4

import pytest

from orchestrator.agents.drivers import Launch
from orchestrator.agents.installation import ClaudeMissing, claude_version, find_claude, login_state, version_problem
from orchestrator.core.events.agent_events import (
    Answered,
    Delivered,
    Delivery,
    ErrorClass,
    Limit,
    LimitStatus,
    Outcome,
    Retry,
    SessionActivity,
    SessionOpened,
    SessionState,
    Text,
    TokenUsage,
    ToolDenied,
    ToolFinished,
    TurnResult,
)
from tests.fakes.messages_api import MessagesApi
from tests.fakes.scripted_model import Drip, Fail, Say, Scene, ScriptedModel, Use, in_order, usage_limit
from tests.integration.claude_session import Agent, Place, agent

pytestmark = pytest.mark.claude


@pytest.fixture(scope="session")
def claude() -> Path:
    try:
        return find_claude("", os.environ.get("PATH"))
    except ClaudeMissing as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must test with the real CLI: {missing}")
        pytest.skip(f"NOT TESTED WITH THE REAL CLI: {missing}")


@pytest.fixture
def place(claude: Path, tmp_path: Path) -> Place:
    return Place(claude, tmp_path)


def turns_of(running: Agent) -> list[TurnResult]:
    return [event for event in running.events if isinstance(event, TurnResult)]


async def one_turn(place: Place, model: ScriptedModel, order: Launch) -> tuple[Agent, list[Scene]]:
    with MessagesApi(model) as api:
        async with agent(place.driver(api), order) as running:
            running.say("Begin.")
            await running.next(TurnResult)
            await running.end()
        return running, api.scenes


async def test_a_turn_is_answered_and_the_process_ends_with_its_input(place: Place) -> None:
    order = place.order()
    with MessagesApi(lambda scene: Say(f"You said: {scene.prompt}")) as api:
        async with agent(place.driver(api), order) as running:
            running.say("Héllo ✓")
            started = await running.next(SessionOpened)
            turn = await running.next(TurnResult)
            await running.next(SessionState, where=lambda event: event.state is SessionActivity.IDLE)
            assert await running.end() == 0
    assert (started.session_id, started.permission_mode) == (order.session_id, "dontAsk")
    assert started.auth_source == "ANTHROPIC_API_KEY"
    assert (turn.outcome, turn.text, turn.session_id) == (Outcome.OK, "You said: Héllo ✓", order.session_id)
    assert Text(text="You said: Héllo ✓", subagent=False, synthetic=False, error=None) in running.events
    assert "--You are the implementer." in api.scenes[0].system


async def test_tools_run_without_asking_only_in_the_worktree_and_the_outbox(place: Place, tmp_path: Path) -> None:
    inside, outside = place.worktree / "app.py", tmp_path / "elsewhere.txt"
    inside.write_text("one\n")
    script = (
        Use("Bash", {"command": "echo ran > by-bash.txt && echo $ORCHESTRATOR_OUTBOX", "description": "run"}),
        Use("Read", {"file_path": str(inside)}),
        Use("Edit", {"file_path": str(inside), "old_string": "one", "new_string": "two"}),
        Use("Write", {"file_path": str(place.worktree / "sub" / "new.py"), "content": "new\n"}),
        Use("Write", {"file_path": str(place.outbox / "plan.md"), "content": "# Plan\n"}),
        Use("Write", {"file_path": str(outside), "content": "x"}),
        Say("Done."),
    )
    running, scenes = await one_turn(place, lambda scene: in_order(scene, *script), place.order())
    assert turns_of(running)[0].outcome is Outcome.OK
    assert (place.worktree / "by-bash.txt").read_text() == "ran\n"
    assert (place.worktree / "sub" / "new.py").read_text() == "new\n"
    assert (place.outbox / "plan.md").read_text() == "# Plan\n"
    assert inside.read_text() == "two\n"
    assert not outside.exists()
    assert scenes[1].results[0].text == str(place.outbox)
    assert [event.name for event in running.events if isinstance(event, ToolDenied)] == ["Write"]
    assert [event.ok for event in running.events if isinstance(event, ToolFinished)] == [True] * 5 + [False]


async def test_a_tool_timeout_is_distinguished_from_a_failure(place: Place) -> None:
    script = (
        Use("Bash", {"command": "echo begun; sleep 60; echo done", "timeout": 1000}),
        Use("Bash", {"command": "echo Command timed out after 1s; exit 3", "timeout": 60_000}),
        Say("Done."),
    )
    running, _ = await one_turn(place, lambda scene: in_order(scene, *script), place.order())
    finished = [event for event in running.events if isinstance(event, ToolFinished)]
    assert [(tool.ok, tool.timed_out) for tool in finished] == [(False, True), (False, False)]
    spent = {event.message_id: event.tokens for event in running.events if isinstance(event, TokenUsage)}
    assert list(spent.values()) == [101, 101, 101]


async def test_a_role_without_edit_writes_only_its_outbox(place: Place) -> None:
    script = (
        Use("Write", {"file_path": str(place.worktree / "sneaky.py"), "content": "x"}),
        Use("Write", {"file_path": str(place.outbox / "verdict.md"), "content": "PASS\n"}),
        Say("Done."),
    )
    await one_turn(place, lambda scene: in_order(scene, *script), place.order(tools=("Bash", "Read", "Write")))
    assert not (place.worktree / "sneaky.py").exists()
    assert (place.outbox / "verdict.md").read_text() == "PASS\n"


async def test_the_rules_hold_in_folders_with_unusual_names(claude: Path, tmp_path: Path) -> None:
    place = Place(claude, tmp_path / "a, b (c) [d] * {e}")
    plan = place.outbox / "plan.md"
    script = (Use("Write", {"file_path": str(plan), "content": "# Plan\n"}), Say("Done."))
    await one_turn(place, lambda scene: in_order(scene, *script), place.order())
    assert plan.read_text() == "# Plan\n"


async def test_one_process_accepts_many_turns_of_one_conversation(place: Place) -> None:
    with MessagesApi(lambda scene: Say(scene.prompt.upper())) as api:
        async with agent(place.driver(api), place.order()) as running:
            running.say("one")
            first = await running.next(TurnResult)
            running.say("two")
            second = await running.next(TurnResult)
            assert await running.end() == 0
    assert [first.text, second.text] == ["ONE", "TWO"]
    assert first.usage.cumulative
    assert second.usage.output_tokens == 2 * first.usage.output_tokens
    assert second.cost_usd > first.cost_usd


async def test_the_same_uuid_runs_once_however_often_it_is_sent_and_across_a_resume(place: Place) -> None:
    uuid, order = str(uuid4()), place.order()
    with MessagesApi(lambda _: Say("Done.")) as api:
        driver = place.driver(api)
        async with agent(driver, order) as running:
            running.say("one", uuid=uuid)
            running.say("one", uuid=uuid)
            await running.next(Delivered, where=lambda event: event.state is Delivery.COMPLETED)
            running.say("two")
            await running.next(TurnResult)
            await running.end()
        async with agent(driver, place.order(session_id=order.session_id, resume=True)) as resumed:
            resumed.say("one", uuid=uuid)
            resumed.say("three")
            await resumed.next(TurnResult)
            await resumed.end()
    assert [scene.prompt for scene in api.scenes] == ["one", "two", "three"]


async def test_an_interrupt_ends_the_turn_and_the_process_accepts_the_next(place: Place) -> None:
    def model(scene: Scene) -> Say | Drip:
        return Say("Here.") if scene.prompt == "Are you there?" else Drip(("tick ",) * 600, every=0.1)

    with MessagesApi(model) as api:
        driver = place.driver(api)
        async with agent(driver, place.order()) as running:
            running.say("Count.")
            await running.next(SessionOpened)
            running.send(driver.interrupt("i-1"))
            answer = await running.next(Answered)
            interrupted = await running.next(TurnResult)
            running.say("Are you there?")
            turn = await running.next(TurnResult)
            await running.end()
    assert answer == Answered(request_id="i-1", ok=True, error=None)
    assert (interrupted.outcome, interrupted.error) == (Outcome.INTERRUPTED, None)
    assert (turn.outcome, turn.text) == (Outcome.OK, "Here.")


async def test_a_killed_agent_is_resumed_with_its_session_and_its_conversation(place: Place) -> None:
    order = place.order()
    with MessagesApi(lambda _: Say("Noted.")) as api:
        driver = place.driver(api)
        async with agent(driver, order) as running:
            running.say("The word is heron.")
            await running.next(SessionState, where=lambda event: event.state is SessionActivity.IDLE)
        async with agent(driver, place.order(session_id=order.session_id, resume=True)) as resumed:
            resumed.say("Which word?")
            turn = await resumed.next(TurnResult)
            assert await resumed.end() == 0
    assert (turn.outcome, turn.session_id) == (Outcome.OK, order.session_id)
    assert "The word is heron." in str(api.scenes[-1].request["messages"])


async def test_resuming_an_unknown_session_fails_with_its_own_error_class(place: Place) -> None:
    with MessagesApi(lambda _: Say("Hm.")) as api:
        async with agent(place.driver(api), place.order(resume=True)) as running:
            running.say("Go on.")
            turn = await running.next(TurnResult)
            assert await running.end() == 1
    assert (turn.outcome, turn.error) == (Outcome.FAILED, ErrorClass.SESSION)


async def test_a_refused_key_is_a_failure_that_needs_a_user(place: Place) -> None:
    refused = Fail(401, "authentication_error", "invalid x-api-key")
    with MessagesApi(lambda _: refused) as api:
        async with agent(place.driver(api, CLAUDE_CODE_MAX_RETRIES="1"), place.order()) as running:
            running.say("Begin.")
            retry = await running.next(Retry)
            turn = await running.next(TurnResult)
            assert await running.end() == 1
    assert (retry.attempt, retry.max_retries, retry.status) == (1, 1, 401)
    assert (turn.outcome, turn.error, turn.http_status) == (Outcome.FAILED, ErrorClass.AUTHENTICATION, 401)


async def test_a_usage_limit_has_its_reset_and_the_session_continues_after_it(place: Place) -> None:
    resets_at = 1_900_000_000

    def model(scene: Scene) -> Say | Fail:
        return Say("Back.") if scene.prompt == "Now?" else usage_limit(resets_at=resets_at)

    with MessagesApi(model) as api:
        async with agent(place.driver(api, subscription=True), place.order()) as running:
            running.say("Begin.")
            limit = await running.next(Limit, where=lambda event: event.status is LimitStatus.REJECTED)
            walled = await running.next(TurnResult)
            running.say("Now?")
            turn = await running.next(TurnResult)
            await running.end()
    assert limit == Limit(
        status=LimitStatus.REJECTED, window="five_hour", resets_at=resets_at, utilization=None, overage=False
    )
    assert (walled.outcome, walled.error) == (Outcome.FAILED, ErrorClass.USAGE_LIMIT)
    assert (turn.outcome, turn.text) == (Outcome.OK, "Back.")
    started = next(event for event in running.events if isinstance(event, SessionOpened))
    assert started.auth_source == "none"


async def test_a_ticket_that_looks_like_a_command_reaches_the_model(place: Place) -> None:
    with MessagesApi(lambda _: Say("Read.")) as api:
        async with agent(place.driver(api), place.order()) as running:
            running.say("/help is broken")
            turn = await running.next(TurnResult)
            await running.end()
    assert turn.text == "Read."
    assert [scene.prompt.strip() for scene in api.scenes] == ["/help is broken"]


def test_the_installed_cli_has_a_supported_version(claude: Path, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "DISABLE_AUTOUPDATER": "1"}
    assert version_problem(claude_version(claude, env)) is None


def test_a_fresh_home_is_not_logged_in_and_a_token_is(claude: Path, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "DISABLE_AUTOUPDATER": "1"}
    nobody = login_state(claude, env)
    somebody = login_state(claude, env | {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-scripted"})
    assert nobody
    assert not nobody.logged_in
    assert somebody
    assert somebody.logged_in
