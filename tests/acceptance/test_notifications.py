"""Notices of a real daemon reach real receivers: over kills, on dead channels, and as the morning report."""

import random
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import orjson
import pytest

from tests.acceptance.harness import DaemonHarness, Json
from tests.chaos_notices import CHANNELS, night
from tests.fakes.notice_receivers import MailServer, Webhook, free_port

QUICK: Json = {"*": {"think_ms": 20}}


def mail(port: int, **more: object) -> Json:
    channel = {"type": "mail", "host": "127.0.0.1", "port": port, "security": "none"}
    return channel | {"sender": "daemon@example.org", "to": ["ada@example.org"]} | more


@pytest.mark.parametrize(("kills", "tasks"), [(4, 3), pytest.param(60, 40, marks=pytest.mark.long)])
def test_every_notice_arrives_however_often_daemon_and_receivers_are_killed(kills: int, tasks: int) -> None:
    with tempfile.TemporaryDirectory() as folder:  # sockets have short paths
        toll = night(Path(folder) / "n", random.Random(11), kills=kills, tasks=tasks)
    assert toll.missing == toll.strange == {name: [] for name in CHANNELS}
    assert toll.told == tasks


def test_a_dead_channel_is_told_and_shown_and_can_be_tested(tmp_path: Path) -> None:
    dead = free_port()
    with MailServer() as server:
        channels = {"mail": mail(server.port), "post": mail(dead)}
        with DaemonHarness(tmp_path, QUICK, notify={"channels": channels, "retry_pause": 0.1}) as harness:
            task = harness.submit(pipeline="review_only")
            harness.wait_for_end(task)
            harness.wait_for("the notice that a channel is dead", lambda: len(server.mails) == 2)
            told = {str(one["X-Orchestrator-Event"]): str(one["Subject"]) for one in server.mails}
            assert told["channel_failed"].startswith("[orchestrator] A channel does not work: The channel 'post'")
            assert "Connection refused" in harness.client.status().dead_channels["post"]
            assert "does not work since" in harness.cli("status").stdout
            assert "post does not work since" in harness.cli("doctor").stdout
            assert "the channel post does not work since" in harness.cli("report").stdout
            listed = harness.cli("notify", "list").stdout
            assert "Connection refused" in listed
            tested = harness.cli("notify", "test")
            assert tested.returncode == 1
            assert "mail: sent" in tested.stdout
            assert "post: given up: 127.0.0.1:" in tested.stdout
            assert harness.cli("notify", "test", "mail").returncode == 0
            unknown = harness.cli("notify", "test", "pots")
            assert (unknown.returncode, "there are mail, post" in unknown.stderr) == (4, True)
            with MailServer(dead) as post:
                assert harness.cli("notify", "test", "post").returncode == 0
                harness.wait_for("what waited, and the news of it", lambda: len(post.mails) == 2)
                harness.wait_for(
                    "the recovery", lambda: [one for one in server.mails if "works again" in str(one["Subject"])]
                )
            assert not harness.client.status().dead_channels
            logged = orjson.loads(harness.cli("notify", "log", "--json").stdout)["notices"]
            assert all(one["status"] != "waiting" for notice in logged for one in notice["deliveries"])


def is_sent(harness: DaemonHarness, key: str) -> bool:
    """Return whether the daemon has written down that a notice was sent on every channel."""
    file = harness.data / "notifications" / "outbox" / f"{key}.json"
    deliveries = orjson.loads(file.read_bytes())["deliveries"] if file.exists() else [{}]
    return all(one.get("status") == "sent" for one in deliveries)


def _whole(body: Json) -> bytes:
    """Return the report in a webhook."""
    return orjson.dumps(body["data"]["report"])


def test_the_morning_report_is_mailed_once_although_its_time_was_missed(tmp_path: Path) -> None:
    """The daemon was last told of until two hours ago, and a report became due since: it comes late, once."""
    now = datetime.now(UTC)
    due = now - timedelta(minutes=30)
    since = now - timedelta(hours=2)
    with MailServer() as server, Webhook() as desk:
        report = {"at": f"{due:%H:%M}"}
        hook = {"type": "webhook", "url": desk.url, "secret_env": "PATH"}
        notify = {"zone": "UTC", "channels": {"mail": mail(server.port), "desk": hook}, "report": report}
        with DaemonHarness(tmp_path, QUICK, notify=notify) as harness:
            harness.wait_for("the mark of the reports", (harness.data / "notifications/report.json").exists)
            assert not server.mails, "what happened before anybody asked for reports is not sent late"
            task = harness.submit(pipeline="review_only")
            harness.wait_for_end(task)
            harness.wait_for("the end's notice", lambda: is_sent(harness, f"{task}:completed"))
            harness.kill()
            mark = {"format": 1, "day": f"{due - timedelta(days=1):%Y-%m-%d}", "until": since.isoformat()}
            (harness.data / "notifications/report.json").write_bytes(orjson.dumps(mark))
            harness.start()
            key = f"report:{due:%Y-%m-%d}"
            harness.wait_for("the report", lambda: is_sent(harness, key))
            harness.kill()
            (harness.data / "notifications/report.json").write_bytes(orjson.dumps(mark))
            harness.start()
            harness.wait_for(
                "the mark after the crash",
                lambda: orjson.loads((harness.data / "notifications/report.json").read_bytes())["day"] == key[7:],
            )
            [got] = [one for one in server.mails if one["X-Orchestrator-Event"] == "morning_report"]
            [whole] = {_whole(one.body) for one in desk.received if one.body["type"] == "morning_report"}
            told = orjson.loads(whole)
            span = urlencode({"since": told["since"], "until": told["until"]})
            asked = harness.request("GET", f"/api/report?{span}")
            shown = harness.cli("report", "--since", since.isoformat()).stdout
    for part in ("finished", "problems", "spent", "counts", "shares", "limitsMet", "incidents", "incidentCounts"):
        assert told[part] == asked[part], part
    journal = [line for line in harness.journal(task) if line["event"].get("at", "") < told["until"]]
    assert told["counts"]["completed"] == 1
    assert told["spent"]["turns"] == sum(line["trigger"] == "TurnFinished" for line in journal)
    assert str(got["Subject"]).startswith(f"[orchestrator] Morning report {due:%Y-%m-%d}: 1 completed, ")
    plain, page = got.get_body(("plain",)), got.get_body(("html",))
    assert plain is not None
    assert page is not None
    text = plain.get_content().replace("\r\n", "\n")
    assert text.startswith("This report is late: it was due at ")
    finished = [line for line in shown.splitlines() if line.startswith(f"- {task}: ")]
    assert finished
    assert f"{task}: Add slugify(text)" in text
    assert page.get_content().startswith("<!doctype html>")
    assert task in page.get_content()
