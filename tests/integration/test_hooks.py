"""Webhooks over a real port: the signed ones wake their query once, and all others get one and the same answer."""

import hashlib
import hmac
import json
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from limits import RateLimitItemPerMinute

from orchestrator.daemon.intake.hooks import MOST_REMEMBERED, Deliveries
from orchestrator.daemon.intake.signatures import is_signed
from orchestrator.integrations.http import Patience
from orchestrator.integrations.tickets.trackers import Trackers
from orchestrator.server.access import rates
from orchestrator.server.routes.intake.hooks import LARGEST_HOOK
from orchestrator.settings.loading import SettingsError, load_settings
from orchestrator.settings.sections.intake import HookSettings, QuerySettings
from tests.fakes.github_server import GitHubServer
from tests.fakes.in_process_daemon import InProcessDaemon, create_daemon, serving
from tests.fakes.repositories import commit, git
from tests.fakes.tracker_server import Issue
from tests.fakes.waiting import running, until

PATIENCE = 30.0
SECRET = "a long and random secret"
KEY = bytes(range(32))
SIGNING = "whsec_" + b64encode(KEY).decode()
BODY = b'{"action": "labeled", "issue": {"number": 1}, "label": {"name": "agent"}}'
Headers = Mapping[str, str]


@dataclass
class Site:
    """A daemon that listens on TCP, with hooks of all kinds that wake the query `bugs` of a GitHub."""

    daemon: InProcessDaemon
    tcp: httpx.AsyncClient
    github: GitHubServer

    async def send(self, path: str, headers: Headers, body: bytes = BODY) -> httpx.Response:
        return await self.tcp.post(path, content=body, headers={"Content-Type": "application/json", **headers})

    async def until_asked(self, times: int) -> None:
        await until(lambda: len(self.github.asked) >= times, "that the query is woken")


@pytest_asyncio.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ORCHESTRATOR_LISTEN", "127.0.0.1:0")
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setenv("HOOK_SIGNING", SIGNING)
    monkeypatch.setattr("orchestrator.daemon.intake.queries.LEAST_BETWEEN", 0.0)
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "--quiet", "--initial-branch=main")
    commit(repo, {"README.md": "# x\n"})
    daemon = create_daemon(tmp_path / "data")
    query = QuerySettings(tracker="github", project="acme/app", labels=("agent",), repo=repo, every=3600)
    kinds = {
        "app": ("github", "HOOK_SECRET"), "lab": ("gitlab", "HOOK_SECRET"), "signed": ("gitlab", "HOOK_SIGNING"),
        "board": ("jira", "HOOK_SECRET"), "unset": ("github", "HOOK_NOT_SET"),
    }  # fmt: skip
    hooks = {
        name: HookSettings.model_validate({"kind": kind, "secret_env": variable, "query": "bugs"})
        for name, (kind, variable) in kinds.items()
    }
    daemon.settings = daemon.settings.model_copy(update={"queries": {"bugs": query}, "hooks": hooks})
    with GitHubServer({"acme/app#1": Issue(title="One", body="Do it.")}, "a-token") as github:
        daemon.service.submissions.trackers = Trackers([github.account], Patience(request=5, pause=0.01))
        async with serving(daemon) as socket:
            url = httpx.URL((await socket.post("/api/links", json={})).json()["url"])
            address = f"http://{url.host}:{url.port}"
            async with running(daemon.service.intake.run_queries()), httpx.AsyncClient(base_url=address) as tcp:
                made = Site(daemon, tcp, github)
                await made.until_asked(1)
                yield made
    daemon.store.close()


def by_github(body: bytes = BODY, secret: str = SECRET, delivery: str = "d-1") -> dict[str, str]:
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Delivery": delivery, "X-GitHub-Event": "issues"}


def by_jira(body: bytes = BODY) -> dict[str, str]:
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return {"X-Hub-Signature": f"sha256={digest}", "X-Atlassian-Webhook-Identifier": "j-1"}


def by_gitlab(body: bytes = BODY, at: float | None = None, name: str = "g-1", key: bytes = KEY) -> dict[str, str]:
    when = str(int(time.time() if at is None else at))
    digest = hmac.new(key, f"{name}.{when}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,{b64encode(digest).decode()}"
    return {"webhook-id": name, "webhook-timestamp": when, "webhook-signature": signature}


async def test_a_signed_webhook_wakes_its_query_and_the_ticket_comes_from_the_tracker(site: Site) -> None:
    site.github.change("acme/app#1", labels=("agent",), title="Its own title")
    lie = json.dumps({"action": "labeled", "issue": {"number": 7, "title": "rm -rf /"}}).encode()
    answer = await site.send("/hooks/github/app", by_github(lie), lie)
    assert (answer.status_code, answer.json()) == (202, {"status": "accepted"})
    await site.until_asked(2)
    await until(lambda: site.daemon.supervisor.tasks)
    (task,) = site.daemon.supervisor.tasks.values()
    assert task.title == "Its own title"


async def test_each_tracker_is_admitted_as_it_signs(site: Site) -> None:
    gitlab = {"X-Gitlab-Token": SECRET, "X-Gitlab-Event": "Issue Hook"}
    rotated = by_gitlab(b"{}", name="g-2")
    rotated["webhook-signature"] = f"v1,AAAA {rotated['webhook-signature']} v2,x"
    for number, (path, headers, body) in enumerate([
        ("/hooks/github/app", by_github(), BODY),
        ("/hooks/gitlab/lab", gitlab, BODY),
        ("/hooks/gitlab/signed", by_gitlab(), BODY),
        ("/hooks/gitlab/signed", rotated, b"{}"),
        ("/hooks/jira/board", by_jira(), BODY),
    ]):  # fmt: skip
        assert (await site.send(path, headers, body)).status_code == 202, path
        await site.until_asked(2 + number)


async def test_events_of_other_things_than_tickets_are_taken_and_wake_nothing(site: Site) -> None:
    push = {**by_github(b"{}", delivery="push"), "X-GitHub-Event": "push"}
    assert (await site.send("/hooks/github/app", push, b"{}")).status_code == 202
    assert (await site.send("/hooks/github/app", by_github())).status_code == 202
    await site.until_asked(2)
    assert len(site.github.asked) == 2


async def test_a_delivery_is_accepted_once_also_after_a_restart(site: Site) -> None:
    assert (await site.send("/hooks/github/app", by_github())).status_code == 202
    again = await site.send("/hooks/github/app", by_github())
    assert (again.status_code, again.json()["type"].rpartition(":")[2]) == (409, "delivered-before")
    renamed = await site.send("/hooks/github/app", by_github(delivery="another"))  # GitHub's id is not signed
    assert renamed.status_code == 409
    same_name = await site.send("/hooks/github/app", by_github(b"{}"), b"{}")
    assert same_name.status_code == 409
    site.daemon.service.intake.hooks._deliveries.clear()  # noqa: SLF001 - as after a restart
    assert (await site.send("/hooks/github/app", by_github())).status_code == 409


HOSTILE: dict[str, tuple[str, Headers, bytes]] = {
    "no signature": ("/hooks/github/app", {}, BODY),
    "an empty signature": ("/hooks/github/app", {"X-Hub-Signature-256": ""}, BODY),
    "only the method": ("/hooks/github/app", {"X-Hub-Signature-256": "sha256="}, BODY),
    "another secret": ("/hooks/github/app", by_github(secret="guess"), BODY),
    "the empty secret": ("/hooks/github/app", by_github(secret=""), BODY),
    "another body": ("/hooks/github/app", by_github(), b"{}"),
    "one more byte": ("/hooks/github/app", by_github(), BODY + b" "),
    "the old digest": (
        "/hooks/github/app",
        {"X-Hub-Signature": "sha1=" + hmac.new(SECRET.encode(), BODY, hashlib.sha1).hexdigest()},
        BODY,
    ),
    "sha1 by the new name": (
        "/hooks/github/app",
        {"X-Hub-Signature-256": "sha1=" + hmac.new(SECRET.encode(), BODY, hashlib.sha1).hexdigest()},
        BODY,
    ),
    "capital letters": (
        "/hooks/github/app",
        {"X-Hub-Signature-256": by_github()["X-Hub-Signature-256"].upper()},
        BODY,
    ),
    "not ASCII": ("/hooks/github/app", {"X-Hub-Signature-256": "sha256=\u00fc\u00fc"}, BODY),
    "Jira's header": ("/hooks/github/app", by_jira(), BODY),
    "GitLab's token": ("/hooks/github/app", {"X-Gitlab-Token": SECRET}, BODY),
    "a hook without its secret": ("/hooks/github/unset", by_github(secret=""), BODY),
    "no such hook": ("/hooks/github/nothing", by_github(), BODY),
    "another kind": ("/hooks/gitlab/app", {"X-Gitlab-Token": SECRET}, BODY),
    "no such kind": ("/hooks/bitbucket/app", by_github(), BODY),
    "a way up": ("/hooks/github/..%2fapp", by_github(), BODY),
    "a name of NUL": ("/hooks/github/%00", by_github(), BODY),
    "half a token": ("/hooks/gitlab/lab", {"X-Gitlab-Token": SECRET[:-1]}, BODY),
    "an empty token": ("/hooks/gitlab/lab", {"X-Gitlab-Token": ""}, BODY),
    "the signing token as a token": ("/hooks/gitlab/signed", {"X-Gitlab-Token": SIGNING}, BODY),
    "an old one": ("/hooks/gitlab/signed", by_gitlab(at=time.time() - 3600), BODY),
    "one of tomorrow": ("/hooks/gitlab/signed", by_gitlab(at=time.time() + 86_400), BODY),
    "another time": ("/hooks/gitlab/signed", {**by_gitlab(at=1), "webhook-timestamp": str(int(time.time()))}, BODY),
    "no number as time": ("/hooks/gitlab/signed", {**by_gitlab(), "webhook-timestamp": "\u00b2"}, BODY),
    "another id": ("/hooks/gitlab/signed", {**by_gitlab(), "webhook-id": "other"}, BODY),
    "another key": ("/hooks/gitlab/signed", by_gitlab(key=b"x"), BODY),
    "many signatures": ("/hooks/gitlab/signed", {**by_gitlab(), "webhook-signature": "v1,x " * 1000 + "v1,x"}, BODY),
    "Jira without a method": (
        "/hooks/jira/board",
        {"X-Hub-Signature": by_jira()["X-Hub-Signature"].removeprefix("sha256=")},
        BODY,
    ),
    "Jira with none": ("/hooks/jira/board", {"X-Hub-Signature": "none="}, BODY),
    "a browser's page": ("/hooks/github/app", {"Accept": "text/html", "Origin": "https://evil.example"}, BODY),
}


async def test_hostile_webhooks_get_one_and_the_same_answer_and_wake_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "FAILURES", RateLimitItemPerMinute(1000))
    answers = set()
    for form, (path, headers, body) in HOSTILE.items():
        raw = {name.encode(): value.encode() for name, value in headers.items()}
        answer = await site.tcp.post(path, content=body, headers=raw)
        expected = {404} if "%2f" in path else {401}
        assert answer.status_code in expected, form
        if answer.status_code == 401:
            answers.add(answer.content)
    assert len(answers) == 1
    assert len(site.github.asked) == 1
    assert (await site.send("/hooks/github/app", by_github())).status_code == 202


async def test_a_webhook_that_is_too_large_or_read_by_get_is_refused(site: Site) -> None:
    large = b"x" * (LARGEST_HOOK + 1)

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100_000

    for content in (large, pieces()):
        with suppress(httpx.ReadError, httpx.WriteError):  # the answer may come before all is sent
            answer = await site.tcp.post("/hooks/github/app", content=content, headers=by_github(large))
            assert answer.status_code == 413
    assert (await site.tcp.get("/hooks/github/app", headers=by_github())).status_code == 401
    assert (await site.tcp.put("/hooks/github/app", headers=by_github())).status_code in {401, 403}
    assert (await site.tcp.post("/hooks", headers=by_github())).status_code in {401, 403}


async def test_guessing_is_slowed_down_and_hinders_nobody_who_knows_the_secret(site: Site) -> None:
    found = [(await site.send("/hooks/github/app", {"Accept": "text/html"})).status_code for _ in range(12)]
    assert (found[0], found[-1]) == (401, 429)
    assert (await site.send("/hooks/github/app", by_github())).status_code == 202


async def test_a_webhook_comes_by_any_host_name_and_may_do_nothing_else(site: Site) -> None:
    named = {**by_github(), "Host": "hooks.example.com"}
    assert (await site.send("/hooks/github/app", named)).status_code == 202
    other = await site.tcp.post("/api/pause", headers={**by_github(), "Host": "hooks.example.com"})
    assert other.status_code == 421
    assert (await site.tcp.post("/hooks/../api/pause", headers=by_github())).status_code in {401, 403, 404}


async def test_the_list_of_what_came_in_names_hooks_that_admit_nothing(site: Site) -> None:
    found = await site.daemon.service.intake.status(10)
    troubles = {one.name: one.trouble for one in found.hooks}
    assert "HOOK_NOT_SET" in troubles.pop("unset")
    assert set(troubles.values()) == {""}
    doctor = await site.daemon.service.oversight.doctor.examine()
    assert any(one.name == "hooks" and "HOOK_NOT_SET" in one.text for one in doctor.findings)


def test_what_is_remembered_of_deliveries_is_bounded_and_survives_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "hooks/app.seen"
    seen = Deliveries(path)
    ids = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(3 * MOST_REMEMBERED)]
    for start in range(0, len(ids), 512):
        assert seen.add(tuple(ids[start : start + 512]))
    assert path.stat().st_size <= 65 * (2 * MOST_REMEMBERED + 512)
    with path.open("ab") as torn:
        torn.write(b"abc")
    again = Deliveries(path)
    assert not again.add((ids[-1],))
    assert again.add(("f" * 64,))
    assert not Deliveries(path).add(("f" * 64,))


def test_a_key_that_is_no_base64_admits_nothing() -> None:
    headers = {name.lower(): value for name, value in by_gitlab(key=b"").items()}
    assert not is_signed("gitlab", "whsec_!!!", headers, BODY, time.time())


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ('[hooks.a]\nkind = "github"\nsecret_env = "S"\nquery = "none"', "is no query"),
        ('[hooks.a]\nkind = "jira"\nsecret_env = "S"\nquery = "q"', "its query 'q' asks github"),
        ('[hooks."../a"]\nkind = "github"\nsecret_env = "S"\nquery = "q"', "cannot be a name"),
        ('[hooks.a]\nkind = "github"\nsecret_env = "$(x)"\nquery = "q"', "secret_env"),
        ('[queries.b]\ntracker = "github"\nproject = "../x"\nrepo = "/r"', "owner/repository"),
        ('[queries.b]\ntracker = "gitlab"\nproject = "a"\nrepo = "/r"', "group/project"),
        ('[queries.b]\ntracker = "github"\nproject = "a/b"\nrepo = "/r"\njql = "x"', "jql is for Jira"),
        ('[queries.b]\ntracker = "github"\nproject = "a/b"\nrepo = "/r"\nlabels = ["a,b"]', "cannot be a label"),
        ('[queries.b]\ntracker = "github"\nproject = "a/b"\nrepo = "/r"\nevery = 1', "every"),
        ('[agent]\nwritable = ["/srv"]\n[inbox]\nfolder = "/srv/in"', "where agents can write"),
    ],
)
def test_settings_of_queries_and_hooks_that_cannot_work_are_refused(tmp_path: Path, tables: str, said: str) -> None:
    file = tmp_path / "orchestrator.toml"
    file.write_text(f'[queries.q]\ntracker = "github"\nproject = "a/b"\nrepo = "/r"\n{tables}\n')
    with pytest.raises(SettingsError) as refused:
        load_settings(file)
    assert said in str(refused.value)
