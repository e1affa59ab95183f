"""What waits for a person too long is told elsewhere, once, and the API shows and tests the channels."""

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import httpx

from orchestrator import clock
from orchestrator.core.task.user_requests import RequestDraft, Subject
from orchestrator.daemon.notifications.escalations import Escalations
from orchestrator.settings.sections.notify import NotifySettings
from tests.fakes.in_process_daemon import InProcessDaemon

HOOK = {"type": "webhook", "url": "https://example.org/${SECRET_PATH}", "secret_env": "SECRET"}


def set_channels(daemon: InProcessDaemon) -> None:
    """Let a question that is older than half an hour go to the phone."""
    notify = NotifySettings.model_validate(
        {"channels": {"desk": HOOK, "phone": HOOK}, "escalations": [{"channels": ["phone"], "after": 1800.0}]}
    )
    daemon.settings = daemon.settings.model_copy(update={"notify": notify})


async def ask(client: httpx.AsyncClient, daemon: InProcessDaemon) -> str:
    """Return a task whose agent has asked."""
    repo = str(daemon.settings.data_dir.parent / "repo")
    made = await client.post("/api/tasks", json={"text": "Say hello", "repo": repo, "autonomy": "interactive"})
    await daemon.inbox.settled()
    task = str(made.json()["id"])
    await daemon.let_ask(task, RequestDraft(subject=Subject.QUESTION, text="Which port?"))
    return task


def in_minutes(minutes: int) -> datetime:
    return clock.now() + timedelta(minutes=minutes)


async def test_a_question_that_grows_old_is_told_once_on_another_channel(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    set_channels(daemon)
    task = await ask(client, daemon)
    announcer = daemon.service.notifications.announcer
    for minutes in (0, 29, 31, 32, 600):
        later = replace(announcer, clock=partial(in_minutes, minutes))
        await Escalations(announcer=later, attention=daemon.service.attention).look()
        told = [one for one in announcer.outbox.entries() if one.kind == "escalation"]
        assert len(told) == (minutes > 30)
    [entry] = told
    assert [one.channel for one in entry.deliveries] == ["phone"]
    assert entry.document["what_to_do"] == f"orchestrator answer {task}"
    assert "Which port?" in entry.text


async def test_the_api_shows_what_was_told_and_what_waits(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    assert (await client.post("/api/notifications/test", json={})).json()["type"].endswith(":no-channel")
    set_channels(daemon)
    unknown = await client.post("/api/notifications/test", json={"channel": "post"})
    assert (unknown.status_code, unknown.json()["detail"]) == (404, "there is no channel 'post'; there are desk, phone")
    task = await ask(client, daemon)
    for change in daemon.supervisor.tasks[task].notices:
        assert await daemon.service.notifications.announcer.tell(daemon.supervisor.tasks[task], change) == ""
    shown = (await client.get("/api/notifications?open=true")).json()
    assert [(one["name"], one["works"], one["waiting"]) for one in shown["channels"]] == [
        ("desk", True, 1),
        ("phone", True, 0),
    ]
    [notice] = shown["notices"]
    assert (notice["kind"], notice["deliveries"][0]["status"]) == ("question_asked", "waiting")
    assert (await client.get("/api/notifications?limit=0")).status_code == 400
