"""Channels against real servers on loopback: what arrives, and what is said where it does not."""

import base64
import hmac
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import clock
from orchestrator.daemon.examination.telling import check_channels
from orchestrator.integrations.notices.build import build_channels
from orchestrator.integrations.notices.channel import Channel, NotDelivered, Variables
from orchestrator.integrations.notices.entries import Delivery, Entry
from orchestrator.integrations.notices.mail import MailChannel
from orchestrator.integrations.notices.service import ServiceChannel
from orchestrator.integrations.notices.webhook import WebhookChannel
from orchestrator.settings.environment import environment_with_secrets, secret_file
from orchestrator.settings.settings import Settings
from tests.fakes.notice_receivers import MailServer, Silence, Webhook, free_port
from tests.fakes.world import START

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
VARIABLES = Variables(values={"HOOK": SECRET, "PATH_PART": "very-private", "PASSWORD": "hunter2hunter2"})
ENTRY = Entry(
    key="T-1:41:0",
    kind="question_asked",
    at=START,
    subject="[orchestrator] Question: Größe?",
    text="Welche Größe?\n",
    document={"key": "T-1:41:0", "event": "question_asked", "text": "Welche Größe?"},
    deliveries=(Delivery(channel="x"),),
)


def mail_channel(port: int, **changes: object) -> MailChannel:
    channel = MailChannel(
        host="127.0.0.1",
        port=port,
        security="none",
        user="",
        password_env="",
        sender="orchestrator@example.org",
        to=("ada@example.org", "bob@example.org"),
        variables=lambda: VARIABLES,
    )
    return replace(channel, **changes)  # type: ignore[arg-type]  # any field


def webhook(url: str) -> WebhookChannel:
    return WebhookChannel(url=url, secret_env="HOOK", variables=lambda: VARIABLES, clock=clock.now)


async def refusal(channel: Channel, entry: Entry = ENTRY) -> NotDelivered:
    with pytest.raises(NotDelivered) as caught:
        await channel.send(entry)
    return caught.value


async def test_a_mail_has_the_text_the_page_and_a_message_id_that_is_the_same_for_every_try() -> None:
    with MailServer() as server:
        for _ in range(2):
            assert not await mail_channel(server.port).send(replace(ENTRY, html="<p>Welche Größe?</p>"))
        first, second = server.mails
    assert first["Message-ID"] == second["Message-ID"]
    assert first["Subject"] == "[orchestrator] Question: Größe?"
    assert first["To"] == "ada@example.org, bob@example.org"
    plain, page = first.get_body(("plain",)), first.get_body(("html",))
    assert plain is not None
    assert page is not None
    assert (plain.get_content(), page.get_content()) == ("Welche Größe?\r\n", "<p>Welche Größe?</p>\r\n")


async def test_a_mail_that_only_some_may_get_is_sent_once_and_says_who_does_not() -> None:
    with MailServer() as server:
        server.refused_recipients.add("bob@example.org")
        said = await mail_channel(server.port).send(ENTRY)
        assert said == "refused for bob@example.org (550 no such person)"
        assert len(server.mails) == 1


async def test_a_mail_server_that_refuses_the_mail_itself_is_not_asked_again() -> None:
    with MailServer() as server:
        server.refusals = ["451 come back later", "554 this is spam"]
        later, never = [await refusal(mail_channel(server.port)) for _ in range(2)]
    assert (later.again, never.again) == (True, False)
    assert str(never).endswith("it answered 554 this is spam")


async def test_a_password_that_is_not_set_is_named_and_one_that_is_set_is_never_said() -> None:
    missing = await refusal(mail_channel(free_port(), user="ada", password_env="NO_SUCH"))
    assert str(missing).startswith("the variable NO_SUCH is not set; set it for the daemon")
    with MailServer() as server:  # it offers no login without TLS
        reason = str(await refusal(mail_channel(server.port, user="ada", password_env="PASSWORD")))
    assert "hunter2" not in reason
    assert "hunter2" not in repr(VARIABLES)


async def test_a_secret_that_is_written_into_its_file_is_used_for_the_next_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("LATE", raising=False)
    with Webhook() as server:
        settings = Settings.model_validate(
            {"notify": {"channels": {"desk": {"type": "webhook", "url": server.url, "secret_env": "LATE"}}}}
        )
        channel = build_channels(settings, {}, lambda: Variables(values=environment_with_secrets()), clock.now)["desk"]
        file = secret_file("LATE")
        assert f"write its value to {file}, readable by you alone" in str(await refusal(channel))
        [found] = check_channels(settings, environment_with_secrets())
        assert f"write its value to {file}, readable by you alone" in found.mend
        file.parent.mkdir(parents=True, mode=0o700)
        file.touch(mode=0o600)
        file.write_text(SECRET)
        assert not await channel.send(ENTRY)
        assert len(server.received) == 1
    assert not list(check_channels(settings, environment_with_secrets()))


async def test_a_subject_with_line_ends_cannot_add_headers() -> None:
    with MailServer() as server:
        reason = await refusal(mail_channel(server.port), replace(ENTRY, subject="x\r\nBcc: eve@example.org"))
        assert not server.mails
    assert not reason.again


async def test_a_webhook_is_signed_as_the_standard_says_and_has_the_key_of_the_notice() -> None:
    with Webhook() as server:
        assert not await webhook(f"{server.url}/in?key=${{PATH_PART}}").send(ENTRY)
        [got] = server.received
    headers = {name.lower(): value for name, value in got.headers.items()}
    body = json.dumps(got.body, ensure_ascii=False, separators=(",", ":")).encode()
    signed = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    expected = base64.b64encode(hmac.digest(b"s" * 32, signed, "sha256")).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert headers["webhook-id"] == headers["idempotency-key"] == ENTRY.key
    assert got.path == "/in?key=very-private"
    assert got.body == {"type": "question_asked", "timestamp": "2026-11-21T22:00:00.000Z", "data": ENTRY.document}


@pytest.mark.parametrize(
    ("status", "again"), [(500, True), (429, True), (403, True), (302, True), (307, True), (400, False), (410, False)]
)
async def test_a_webhook_that_answers_otherwise_is_asked_again_or_not(status: int, *, again: bool) -> None:
    with Webhook() as elsewhere, Webhook() as server:
        server.statuses.append(status)
        server.headers = {"Location": elsewhere.url, "Retry-After": "77"}
        reason = await refusal(webhook(server.url))
        assert not elsewhere.received, "no redirect is followed"
    assert reason.again is again
    assert str(reason).startswith(f"127.0.0.1:{server.port} answered {status}")
    assert reason.wait == (77.0 if status in {500, 429, 403} else 0.0)


async def test_a_webhook_that_is_away_is_named_without_its_secrets() -> None:
    reason = await refusal(webhook(f"http://127.0.0.1:{free_port()}/${{PATH_PART}}"))
    assert reason.again
    assert "very-private" not in str(reason)
    assert "127.0.0.1" in str(reason)


async def test_apprise_tells_a_service_in_a_program_of_its_own() -> None:
    with Webhook() as server:
        url = f"json://127.0.0.1:{server.port}/${{PATH_PART}}"
        assert not await ServiceChannel(url=url, variables=lambda: VARIABLES).send(ENTRY)
        [got] = server.received
    assert got.path == "/very-private"
    assert (got.body["title"], got.body["message"]) == (ENTRY.subject, ENTRY.text.strip())
    assert "apprise" not in sys.modules


async def test_a_service_that_fails_is_named_without_its_secrets() -> None:
    url = f"json://127.0.0.1:{free_port()}/${{PATH_PART}}"
    reason = str(await refusal(ServiceChannel(url=url, variables=lambda: VARIABLES)))
    assert reason.startswith("json:// was not told")
    assert "very-private" not in reason


async def test_a_mail_server_that_says_nothing_is_left_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.integrations.notices.mail.WHOLE", 0.2)
    with Silence() as server:
        reason = await refusal(mail_channel(server.port))
    assert str(reason) == "127.0.0.1 did not take the mail within 0.2 s"
