"""What is at work now, with the last words of its agents, and what happens next by itself."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx

from orchestrator import clock
from orchestrator.core.task.agent import PauseReason
from orchestrator.core.task.user_requests import RequestDraft, Subject
from orchestrator.daemon.inspection.present import AlarmKind
from tests.acceptance.harness import DaemonHarness
from tests.fakes.in_process_daemon import InProcessDaemon


async def submitted(client: httpx.AsyncClient, daemon: InProcessDaemon, text: str, **more: object) -> str:
    body = {"text": text, "repo": str(daemon.settings.data_dir.parent / "repo"), **more}
    answer = await client.post("/api/tasks", json=body)
    assert answer.status_code == 201, answer.text
    await daemon.inbox.settled()
    return str(answer.json()["id"])


async def test_at_work_is_neither_a_draft_nor_what_needs_a_person(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    asking = await submitted(client, daemon, "with a question", autonomy="interactive")
    await daemon.let_ask(asking, RequestDraft(subject=Subject.QUESTION, text="Which?", required=True))
    await submitted(client, daemon, "an unfinished one", draft=True)
    working = [await submitted(client, daemon, text) for text in ("first", "second", "third")]
    found = await daemon.service.present.at_work(2)
    assert [one.task.id for one in found.tasks] == working[:2]
    assert found.more == 1
    page = (await client.get("/now/work")).text
    assert [title in page for title in ("first", "third", "unfinished", "question")] == [True, True, False, False]


async def test_what_happens_next_by_itself_is_listed_soonest_first(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    running = await submitted(client, daemon, "<i>limited</i>")
    await submitted(client, daemon, "later", at="2999-01-01T10:00:00Z")
    task, soon = daemon.supervisor.tasks[running], clock.now() + timedelta(hours=1)
    daemon.supervisor.tasks[running] = replace(
        task, retry_at=soon, agent=replace(task.agent, blocked_by=PauseReason.RATE_LIMIT)
    )
    alarms = daemon.service.present.alarms()
    assert [(one.kind, one.task and one.task.title) for one in alarms] == [
        (AlarmKind.RETRY, "<i>limited</i>"),
        (AlarmKind.START, "later"),
    ]
    assert [one.kind for one in daemon.service.present.alarms(1)] == [AlarmKind.RETRY]
    page = (await client.get("/now/alarms")).text
    assert page.index('data-alarm="retry"') < page.index('data-alarm="start"')
    assert "&lt;i&gt;limited" in page
    daemon.supervisor.tasks[running] = task


async def test_tasks_that_wait_are_counted_on_the_first_page_by_what_they_wait_for(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    running, later = (
        await submitted(client, daemon, "now"),
        await submitted(client, daemon, "later", at="2999-01-01T10:00:00Z"),
    )
    await submitted(client, daemon, "after that", after=[later])
    assert daemon.supervisor.tasks[running].holds_slot
    page = " ".join((await client.get("/now/work")).text.split())
    assert '<span data-wait="start">1 for the start time, <time datetime="2999-01-01T10:00:00' in page
    assert '<span data-wait="task">1 for other tasks</span>' in page
    korean = (await client.get("/now/work", headers={"accept-language": "ko"})).text
    assert "1 시작 시각" in " ".join(korean.split())


async def test_everything_is_paused_and_resumed_from_the_first_page(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await submitted(client, daemon, "one")
    for verb, paused in (("pause", True), ("resume", False)):
        assert f'action="/everything/{verb}"' in (await client.get("/")).text
        answer = await client.post(f"/everything/{verb}", data={"next": "/board"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/board")
        assert daemon.supervisor.tasks[task].is_paused is paused
        assert ('data-health="paused"' in (await client.get("/now/work")).text) is paused


async def test_all_agents_are_ended_from_the_first_page(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    assert (await client.post("/everything/drain")).status_code == 303
    assert 'data-health="draining"' in (await client.get("/now/work")).text


def test_the_first_page_shows_the_last_words_of_an_agent_without_its_secrets(tmp_path: Path) -> None:
    secret = "AKIA" + "ABCDEFGHIJKLMNOP"
    said = [{"say": f"I looked around.\nThe key is {secret} <b>here</b>"}, {"think_ms": 600_000}]
    with DaemonHarness(tmp_path, scenario={"ANALYSIS": [said]}) as harness:
        harness.submit()
        transport = httpx.HTTPTransport(uds=str(harness.data / "orchestrator.sock"))
        with httpx.Client(transport=transport, base_url="http://daemon") as http:
            page = harness.wait_for("its words", lambda: _with_words(http.get("/now/work").text), every=0.1)
    assert secret not in page
    words = page.split("data-said>")[1].split("</p>")[0]
    assert words.startswith("The key is [REDACTED:")
    assert words.endswith("&lt;b&gt;here&lt;/b&gt;")


def test_the_first_page_leaves_out_what_an_agent_said_to_the_daemon(tmp_path: Path) -> None:
    question = (
        '[USER_QUESTION_JSON]\n{"category": "choice", "question": "Which?", "default": "A"}\n[/USER_QUESTION_JSON]'
    )
    said = [{"say": f"The key is found.\n\n{question}\n"}, {"think_ms": 600_000}]
    with DaemonHarness(tmp_path, scenario={"ANALYSIS": [said]}) as harness:
        harness.submit()
        transport = httpx.HTTPTransport(uds=str(harness.data / "orchestrator.sock"))
        with httpx.Client(transport=transport, base_url="http://daemon") as http:
            page = harness.wait_for("its words", lambda: _with_words(http.get("/now/work").text), every=0.1)
    assert page.split("data-said>")[1].split("</p>")[0] == "The key is found."


def _with_words(page: str) -> str:
    return page if "The key is" in page else ""
