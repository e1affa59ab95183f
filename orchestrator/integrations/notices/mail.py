"""Mail over SMTP, sent in a thread.

The Message-ID follows from the notice's key, so that a mail that is sent twice can be seen as one.
"""

import asyncio
import smtplib
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import format_datetime
from hashlib import sha256

from orchestrator.integrations.notices.channel import NotDelivered, Variables, masked
from orchestrator.integrations.notices.entries import Entry
from orchestrator.redaction.display import escape_text

PORTS = {"none": 25, "starttls": 587, "tls": 465}
STEP, WHOLE = 10.0, 45.0
"""Seconds that one step of the conversation may take, and all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailChannel:
    """Sends mail through `host` as `user`, whose password is in the variable `password_env`, if they are not empty."""

    host: str
    port: int
    security: str
    user: str
    password_env: str
    sender: str
    to: tuple[str, ...]
    variables: Callable[[], Variables]

    async def send(self, entry: Entry) -> str:
        """Send the notice as one mail to all, and return who does not get it. Raises NotDelivered."""
        password = await self._password()
        try:
            mail = _mail(entry, self.sender, self.to)
        except (ValueError, MessageError) as error:
            raise NotDelivered(f"it cannot be written as a mail: {escape_text(str(error))}", again=False) from None
        talk = _Conversation(self, mail, password)
        try:
            async with asyncio.timeout(WHOLE):
                return await asyncio.to_thread(talk.hold)
        except TimeoutError:
            raise NotDelivered(f"{self.host} did not take the mail within {WHOLE:g} s") from None
        except (smtplib.SMTPException, OSError, ValueError) as error:
            said = masked(_said(error), (password,))
            raise NotDelivered(f"{self.host}:{self.port}: {said}", again=not _is_final(error)) from None
        finally:
            talk.end()

    async def _password(self) -> str:
        if not (self.user and self.password_env):
            return ""
        variables = await asyncio.to_thread(self.variables)
        return variables.get(self.password_env)


@dataclass(slots=True)
class _Conversation:
    """One conversation with a mail server; `end`, from another thread, breaks it off."""

    channel: MailChannel
    mail: EmailMessage
    password: str
    _server: smtplib.SMTP | None = field(default=None, init=False)

    def hold(self) -> str:
        """Send the mail, and return which of several recipients the server refused."""
        channel, tls = self.channel, ssl.create_default_context()
        if channel.security == "tls":
            self._server = smtplib.SMTP_SSL(channel.host, channel.port, timeout=STEP, context=tls)
        else:
            self._server = smtplib.SMTP(channel.host, channel.port, timeout=STEP)
        try:
            return self._talk(self._server, tls)
        finally:
            self._server.close()

    def _talk(self, server: smtplib.SMTP, tls: ssl.SSLContext) -> str:
        channel = self.channel
        if channel.security == "starttls":
            server.starttls(context=tls)
        if channel.user:
            server.login(channel.user, self.password)
        refused = server.send_message(self.mail, channel.sender, list(channel.to))
        with suppress(smtplib.SMTPException, OSError):  # the mail is taken, whatever becomes of the goodbye
            server.quit()
        said = [f"{name} ({code} {_text(words)})" for name, (code, words) in refused.items()]
        return f"refused for {', '.join(said)}" if said else ""

    def end(self) -> None:
        """Break the conversation off."""
        if self._server is not None and self._server.sock is not None:
            with suppress(OSError):
                self._server.sock.shutdown(socket.SHUT_RDWR)


def message_id(key: str, sender: str) -> str:
    """Return the Message-ID of a notice: the same for every try."""
    domain = sender.rpartition("@")[2].strip("> ") or "localhost"
    return f"<{sha256(key.encode()).hexdigest()[:32]}.notice@{domain}>"


def _mail(entry: Entry, sender: str, to: tuple[str, ...]) -> EmailMessage:
    mail = EmailMessage()
    mail["Subject"] = entry.subject
    mail["From"] = sender
    mail["To"] = ", ".join(to)
    mail["Date"] = format_datetime(entry.at)
    mail["Message-ID"] = message_id(entry.key, sender)
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Orchestrator-Key"] = entry.key
    mail["X-Orchestrator-Event"] = entry.kind
    mail.set_content(entry.text)
    if entry.html:
        mail.add_alternative(entry.html, subtype="html")
    return mail


def _said(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return f"it answered {error.smtp_code} {_text(error.smtp_error)}"
    return f"{type(error).__name__}: {escape_text(str(error))}"


def _text(words: bytes | str) -> str:
    return escape_text(words.decode("utf-8", "replace") if isinstance(words, bytes) else words)


def _is_final(error: Exception) -> bool:
    """Return whether the server refuses this mail itself, and not the login or everything for a while."""
    return isinstance(error, smtplib.SMTPDataError) and error.smtp_code >= 500
