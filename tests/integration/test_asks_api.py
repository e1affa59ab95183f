"""User requests and their answers over the real API."""

import asyncio
import os
from dataclasses import replace

import httpx
import pytest

from orchestrator.core.events.agent_messages import DependencyType
from orchestrator.core.schedule.live_tasks import LiveTasks
from orchestrator.core.task.agent import AgentStatus
from orchestrator.core.task.user_requests import RequestDraft, Subject
from orchestrator.processes.spec import MARKER
from tests.fakes.in_process_daemon import InProcessDaemon, serving, status_for_child
from tests.fakes.repositories import commit
from tests.folder_search import files_with

SECRET = "AKIA" + "ABCDEFGHIJKLMNOP"
VALUE = "correct horse battery staple"

QUESTION = RequestDraft(
    subject=Subject.QUESTION, text="Which database?", options=("SQLite", "Postgres"), default="SQLite"
)
OPTIONAL = RequestDraft(subject=Subject.QUESTION, text="Any wish?", required=False)
PLAN = RequestDraft(subject=Subject.PLAN, text="First this, then that")
STAGE = RequestDraft(subject=Subject.STAGE, text="DESIGN is done: review plan.md", name="DESIGN")


def dependency(name: str, kind: DependencyType = DependencyType.API_KEY) -> RequestDraft:
    return RequestDraft(subject=Subject.DEPENDENCY, text="to talk to the shop", name=name, type=kind.value)


async def asked(client: httpx.AsyncClient, daemon: InProcessDaemon, *asking: RequestDraft) -> str:
    """An active task whose agent has an open request."""
    repo = str(daemon.settings.data_dir.parent / "repo")
    made = await client.post("/api/tasks", json={"text": "Say hello", "repo": repo, "autonomy": "interactive"})
    await daemon.inbox.settled()
    task = str(made.json()["id"])
    await daemon.let_ask(task, *asking)
    return task


async def test_open_requests_are_listed_by_kind_and_included_in_the_task(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await asked(client, daemon, QUESTION, dependency("SHOP_KEY"), PLAN)
    kinds = ("questions", "dependencies", "reviews")
    listed = [(await client.get(f"/api/{kind}")).json()["requests"] for kind in kinds]
    assert [[ask["id"] for ask in asks] for asks in listed] == [[f"{task}.1"], [f"{task}.2"], [f"{task}.3"]]
    question = listed[0][0]
    assert (question["text"], question["options"], question["default"]) == (
        "Which database?",
        ["SQLite", "Postgres"],
        "SQLite",
    )
    assert (question["status"], question["required"], question["answer"]) == ("pending", True, None)
    assert (await client.get(f"/api/questions/{task}.1")).json() == question
    shown = (await client.get(f"/api/tasks/{task}")).json()
    assert [ask["number"] for ask in shown["waiting"]] == [1, 2, 3]
    assert (shown["autonomy"], shown["agent"]["status"]) == ("interactive", "waiting_question")
    assert (await client.get("/api/questions", params={"task": "NOPE-1"})).status_code == 404


async def test_an_answer_is_normalised_to_the_spelling_of_its_option(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await asked(client, daemon, QUESTION)
    answer = await client.post(f"/api/questions/{task}.1/answer", json={"answer": " postgres "})
    assert (answer.status_code, answer.json()["answer"]) == (200, "Postgres")
    assert answer.json()["answeredBy"].endswith(f"pid:{os.getpid()}")
    assert (await client.get("/api/questions")).json()["requests"] == []
    everything = (await client.get("/api/questions", params={"status": "all", "task": task})).json()["requests"]
    assert [(ask["status"], ask["answer"]) for ask in everything] == [("answered", "Postgres")]


@pytest.mark.parametrize(
    ("answer", "says"), [("Postgrse", "did you mean 'Postgres'?"), ("Oracle", "the options are"), ("  ", "empty")]
)
async def test_an_answer_that_fits_no_option_is_refused_with_the_options(
    client: httpx.AsyncClient, daemon: InProcessDaemon, answer: str, says: str
) -> None:
    task = await asked(client, daemon, QUESTION)
    refused = await client.post(f"/api/questions/{task}.1/answer", json={"answer": answer})
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:orchestrator:problem:bad-answer")
    assert says in refused.json()["detail"]
    assert daemon.supervisor.tasks[task].pending_requests


async def test_of_two_answers_the_first_counts_and_the_second_is_refused_with_it(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await asked(client, daemon, QUESTION)
    url = f"/api/questions/{task}.1/answer"
    answers = await asyncio.gather(*(client.post(url, json={"answer": one}) for one in ("SQLite", "Postgres")))
    first, second = sorted(answers, key=lambda one: one.status_code)
    assert (first.status_code, second.status_code) == (200, 409)
    problem = second.json()
    assert problem["type"] == "urn:orchestrator:problem:answered-before"
    assert problem["request"]["answer"] == first.json()["answer"]
    assert problem["request"]["answeredBy"]


async def test_an_answer_whose_response_was_lost_may_be_repeated_under_its_key(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await asked(client, daemon, QUESTION)
    url, key = f"/api/questions/{task}.1/answer", {"Idempotency-Key": "mine"}
    first = await client.post(url, json={"answer": "SQLite"}, headers=key)
    again = await client.post(url, json={"answer": "SQLite"}, headers=key)
    other = await client.post(url, json={"answer": "Postgres"}, headers=key)
    assert again.json() == first.json()
    assert other.status_code == 409


async def test_only_an_optional_question_can_be_skipped(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task = await asked(client, daemon, QUESTION, OPTIONAL)
    refused = await client.post(f"/api/questions/{task}.1/skip")
    assert (refused.status_code, "cannot be skipped" in refused.json()["detail"]) == (422, True)
    skipped = await client.post(f"/api/questions/{task}.2/skip")
    assert (skipped.status_code, skipped.json()["status"]) == (200, "skipped")


async def test_a_review_of_the_shown_work_is_approved_or_sent_back(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await asked(client, daemon, PLAN, STAGE)
    plan = (await client.get(f"/api/reviews/{task}.1")).json()
    stale = await client.post(f"/api/reviews/{task}.1/approve", json={"digest": "0" * 64})
    assert (stale.status_code, stale.json()["type"]) == (409, "urn:orchestrator:problem:not-seen")
    approved = await client.post(f"/api/reviews/{task}.1/approve", json={"digest": plan["digest"]})
    assert approved.json()["status"] == "approved"
    empty = await client.post(f"/api/reviews/{task}.2/request-changes", json={"text": " "})
    assert (empty.status_code, empty.json()["detail"]) == (422, "say which changes you want")
    changes = await client.post(f"/api/reviews/{task}.2/request-changes", json={"text": "Shorter, please"})
    assert (changes.json()["status"], changes.json()["answer"]) == ("changes_requested", "Shorter, please")


async def test_a_review_shows_files_and_the_size_of_the_change(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await asked(client, daemon, STAGE)
    before = daemon.supervisor.tasks[task]
    repo = daemon.settings.data_dir.parent / "repo"
    made = await asyncio.to_thread(
        daemon.workspace.prepare, task, repo, before.source.base_commit, before.source.branch, "20261121_220000"
    )
    head = commit(made.worktree, {"new.txt": "one\ntwo\n"})
    daemon.workspace.facts(task, before.source.base_commit, before.source.base_commit)
    record = replace(before.stages[before.stage], artifacts=("plan.md",))
    daemon.supervisor.tasks[task] = replace(
        before,
        source=replace(before.source, worktree=str(made.worktree), head=head),
        stages={**before.stages, before.stage: record},
    )
    shown = (await client.get(f"/api/reviews/{task}.1")).json()
    assert shown["change"] == {"files": 1, "added": 2, "removed": 0}
    assert (shown["files"], shown["head"]) == ([f"{before.folder}/plan.md"], head)
    daemon.supervisor.tasks[task] = replace(
        before, source=replace(before.source, worktree=str(made.worktree), head="f" * 40)
    )
    assert (await client.get(f"/api/reviews/{task}.1")).json()["change"] is None


async def test_a_provided_value_is_stored_only_encrypted(
    client: httpx.AsyncClient,
    daemon: InProcessDaemon,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    task = await asked(client, daemon, dependency("shop.key"))
    given = await client.post(
        f"/api/dependencies/{task}.1/provide", json={"value": VALUE}, headers={"Idempotency-Key": "k"}
    )
    assert (given.status_code, given.json()["status"], given.json()["answer"]) == (200, "provided", None)
    assert daemon.provisions.environment(daemon.supervisor.tasks[task]) == {"SHOP_KEY": VALUE}
    shown = [await client.get(f"/api/tasks/{task}{part}") for part in ("", "/journal", "/state")]
    told = [given.text, caplog.text, *capfd.readouterr(), *(answer.text for answer in shown)]
    assert not [text for text in told if VALUE in text]
    assert files_with(daemon.settings.data_dir, VALUE.encode()) == []


async def test_a_value_whose_response_was_lost_may_be_repeated_until_a_restart_and_no_digest_reveals_it(
    daemon: InProcessDaemon,
) -> None:
    key = {"Idempotency-Key": "k"}
    async with serving(daemon) as client:
        task = await asked(client, daemon, dependency("SHOP_KEY"))
        url = f"/api/dependencies/{task}.1/provide"
        first, again, other = [
            await client.post(url, json={"value": value}, headers=key) for value in (VALUE, VALUE, VALUE + "x")
        ]
    assert (again.status_code, again.json()) == (200, first.json())
    async with serving(daemon) as client:
        anew = await client.post(url, json={"value": VALUE}, headers=key)
    for refused in (other, anew):
        assert (refused.status_code, refused.json()["type"]) == (409, "urn:orchestrator:problem:key-taken")
    daemon.store.close()


async def test_of_two_values_the_first_is_kept(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task = await asked(client, daemon, dependency("KEY_OF_SHOP"))
    url = f"/api/dependencies/{task}.1/provide"
    both = await asyncio.gather(*(client.post(url, json={"value": f"value {number}"}) for number in (1, 2)))
    kept = daemon.provisions.environment(daemon.supervisor.tasks[task])["KEY_OF_SHOP"]
    taken = next(number for number, answer in enumerate(both, 1) if answer.status_code == 200)
    assert sorted(answer.status_code for answer in both) == [200, 409]
    assert kept == f"value {taken}"


@pytest.mark.parametrize(
    ("asking", "body", "names"),
    [
        (dependency("LD_PRELOAD"), {"value": VALUE}, "LD_PRELOAD"),
        (dependency("HOME"), {"value": VALUE}, "HOME"),
        (dependency("SHOP_KEY"), {}, "SHOP_KEY"),
        (dependency("SHOP_KEY"), {"value": ""}, "SHOP_KEY"),
        (dependency("SHOP_KEY"), {"value": "€" * 22_000}, "64 KiB"),
        (dependency("SHOP_KEY"), {"value": "x\0y"}, "SHOP_KEY"),
        (dependency("docker", DependencyType.PERMISSION), {"value": VALUE}, "docker"),
        (dependency("curl", DependencyType.PACKAGE), {"value": VALUE}, "curl"),
    ],
)
async def test_a_value_that_cannot_be_provided_is_refused_without_being_shown(
    client: httpx.AsyncClient, daemon: InProcessDaemon, asking: RequestDraft, body: dict[str, str], names: str
) -> None:
    task = await asked(client, daemon, asking)
    refused = await client.post(f"/api/dependencies/{task}.1/provide", json=body)
    assert (refused.status_code, names in refused.json()["detail"]) == (422, True), refused.text
    assert VALUE not in refused.text
    assert daemon.supervisor.tasks[task].pending_requests
    malformed = await client.post(f"/api/dependencies/{task}.1/provide", json={"value": [VALUE], "extra": VALUE})
    assert (malformed.status_code, VALUE in malformed.text) == (400, False)


async def test_a_permission_is_given_without_a_value_and_anything_can_be_refused(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await asked(client, daemon, dependency("docker", DependencyType.PERMISSION), dependency("LD_PRELOAD"))
    given = await client.post(f"/api/dependencies/{task}.1/provide")
    refused = await client.post(f"/api/dependencies/{task}.2/reject", json={"reason": "never"})
    assert (given.json()["status"], refused.json()["status"], refused.json()["answer"]) == (
        "provided",
        "rejected",
        "never",
    )


async def test_a_secret_is_not_accepted_as_an_answer(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task = await asked(client, daemon, OPTIONAL)
    refused = await client.post(f"/api/questions/{task}.1/answer", json={"answer": f"use {SECRET}"})
    assert refused.status_code == 422
    assert "orchestrator provide" in refused.json()["detail"]
    assert SECRET not in refused.text


@pytest.mark.parametrize("name", ["1", "x.y", "{task}.99", "{task}.-1", "{task}.2", "{task}.1e0", "NOPE.1", "{task}.²"])
async def test_an_unknown_request_is_a_problem_document(
    client: httpx.AsyncClient, daemon: InProcessDaemon, name: str
) -> None:
    task = await asked(client, daemon, QUESTION, PLAN)
    missing = await client.get(f"/api/questions/{name.format(task=task)}")
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")


async def test_an_ended_or_blocked_task_accepts_no_answers_and_a_paused_one_does(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await asked(client, daemon, QUESTION, OPTIONAL)
    await client.post(f"/api/tasks/{task}/pause")
    answered = await client.post(f"/api/questions/{task}.1/answer", json={"answer": "sqlite"})
    assert answered.status_code == 200
    assert daemon.supervisor.tasks[task].agent.status is AgentStatus.PAUSED
    await client.post(f"/api/tasks/{task}/cancel")
    late = await client.post(f"/api/questions/{task}.2/answer", json={"answer": "a pony"})
    assert (late.status_code, late.json()["type"]) == (409, "urn:orchestrator:problem:not-allowed")
    again = await client.post(f"/api/questions/{task}.1/answer", json={"answer": "postgres"})
    assert (again.status_code, again.json()["request"]["answer"]) == (409, "SQLite")
    assert (await client.get("/api/questions")).json()["requests"] == []


async def test_no_agent_answers_its_own_request(client: httpx.AsyncClient, daemon: InProcessDaemon) -> None:
    task = await asked(client, daemon, QUESTION, dependency("SHOP_KEY"), PLAN)
    marked = {MARKER: str(daemon.store.files.path_of(task) / "agents/1")}
    verbs = ("questions/{}.1/answer", "questions/{}.1/skip", "dependencies/{}.2/provide", "reviews/{}.3/approve")
    for verb in verbs:
        assert await status_for_child([], daemon, "POST", f"/api/{verb.format(task)}", marked) == 403
    for verb in ("pause", "resume", "drain", f"tasks/{task}/retry", f"tasks/{task}/submit"):
        assert await status_for_child([], daemon, "POST", f"/api/{verb}", marked) == 403
    assert await status_for_child([], daemon, "PATCH", f"/api/tasks/{task}", marked) == 403
    assert await status_for_child([], daemon, "GET", "/api/limits", marked) == 403
    assert await status_for_child([], daemon, "DELETE", "/api/limits", marked) == 403
    assert len(daemon.supervisor.tasks[task].pending_requests) == 3
    assert not daemon.supervisor.control.capacity.draining


async def test_a_cap_is_removed_by_null_and_unnamed_ones_stay(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    task = await asked(client, daemon, QUESTION)
    url = f"/api/tasks/{task}"
    await client.patch(url, json={"caps": {"usd": 5, "turns": 10}})
    changed = (await client.patch(url, json={"caps": {"usd": None, "hours": 2}})).json()
    assert changed["caps"] == {"usd": None, "tokens": None, "turns": 10, "hours": 2.0}
    assert changed["spent"] == {"usd": 0.0, "tokens": 0, "turns": 0, "hours": 0.0}
    for wrong in ({"usd": 0}, {"tokens": 1.5}, {"euro": 1}, {"hours": "many"}):
        assert (await client.patch(url, json={"caps": wrong})).status_code == 400
    for nothing in ({}, {"colour": "red"}):
        assert (await client.patch(url, json=nothing)).status_code == 400
    assert (await client.patch(url, json={"title": "another"})).status_code == 409, "it is no draft any more"


async def test_a_task_that_becomes_urgent_is_the_next_to_start(
    client: httpx.AsyncClient, daemon: InProcessDaemon
) -> None:
    body = {"text": "x", "repo": str(daemon.settings.data_dir.parent / "repo")}
    _, first, urgent = [(await client.post("/api/tasks", json=body)).json()["id"] for _ in range(3)]
    assert [task.id for task in LiveTasks(daemon.supervisor.tasks.values()).queue] == [first, urgent]
    changed = await client.patch(f"/api/tasks/{urgent}", json={"priority": "critical"})
    assert (changed.status_code, changed.json()["priority"]) == (200, "critical")
    assert [task.id for task in LiveTasks(daemon.supervisor.tasks.values()).queue] == [urgent, first]
    newest = (await client.get(f"/api/tasks/{urgent}/journal")).json()["entries"][-1]
    assert (newest["trigger"], newest["event"]["priority"]) == ("PriorityChanged", "critical")
    assert (await client.patch(f"/api/tasks/{urgent}", json={"priority": "urgent"})).status_code == 400
