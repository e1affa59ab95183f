"""How notices leave the machine: channels, rules, and the morning report."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field, model_validator

from orchestrator.core.events.notice import NOTICE_KINDS
from orchestrator.core.notices.hours import Hours
from orchestrator.core.notices.rules import ChannelRules, Escalation, Rule, Rules
from orchestrator.core.schedule.time_of_day import TimeOfDay
from orchestrator.formats.address import host_of, is_private_network
from orchestrator.formats.table import nearest
from orchestrator.settings.sections.types import Seconds, SettingsSection
from orchestrator.settings.sections.windows import clock_of, days_of, zone_of

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""How an address names a variable."""
COMMAND = "notify_command"
"""The name of the channel that [people] notify_command makes."""


def hours_of(text: str, days: tuple[str, ...] = ()) -> Hours:
    """Return the hours of `22:00-07:00` that begin on some days, on all if none is named. Raises ValueError."""
    begin, dash, end = text.partition("-")
    if not dash:
        raise ValueError(f"{text!r:.40} are no hours; write 22:00-07:00")
    return Hours(begin=clock_of(begin.strip()), end=clock_of(end.strip()), days=days_of(days or ("daily",)))


def _checked_hours(text: str) -> str:
    if text:
        hours_of(text)
    return text


def _checked_clock(text: str) -> str:
    if text:
        clock_of(text)
    return text


def _checked_days(days: tuple[str, ...]) -> tuple[str, ...]:
    days_of(days)
    return days


def _checked_zone(name: str) -> str:
    if name:
        zone_of(name)
    return name


def _checked_kinds(kinds: tuple[str, ...]) -> tuple[str, ...]:
    known = [kind.value for kind in NOTICE_KINDS]
    if unknown := [kind for kind in kinds if kind not in known]:
        raise ValueError(f"{unknown[0]!r:.60} is no kind of notice; {nearest(unknown[0], known)}")
    return kinds


HoursText = Annotated[str, AfterValidator(_checked_hours)]
ClockText = Annotated[str, AfterValidator(_checked_clock)]
Days = Annotated[tuple[str, ...], AfterValidator(_checked_days)]
Zone = Annotated[str, AfterValidator(_checked_zone)]
Kinds = Annotated[tuple[str, ...], AfterValidator(_checked_kinds)]
ChannelName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
VariableName = Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")]
ReportFormat = Literal["text", "markdown", "html"]
Interval = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_NEEDED = {"apprise": ("url",), "webhook": ("url", "secret_env"), "mail": ("host", "sender", "to")}
_USED = {
    "apprise": {"url"},
    "webhook": {"url", "secret_env"},
    "mail": {"host", "port", "security", "user", "password_env", "sender", "to"},
}
_SHARED = {"type", "quiet_hours", "digest_every"}


def _check_webhook(url: str) -> None:
    """Raise ValueError for an address that no notice is sent to; the message does not repeat it."""
    try:
        host_of(REFERENCE.sub("x", url))
    except ValueError:
        raise ValueError("url is no address of a webhook; write https://host/path") from None
    if url.startswith("http://") and not is_private_network(url):
        raise ValueError("notices must not go over plain http to other networks; write https://")


class ChannelSettings(SettingsSection):
    """One way to tell people; which keys it has depends on its type. Secrets are named, not written here."""

    type: Literal["apprise", "webhook", "mail"]
    url: str = Field(default="", max_length=2000)
    secret_env: VariableName = ""
    host: str = Field(default="", max_length=253)
    port: int = Field(default=0, ge=0, le=65535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str = Field(default="", max_length=320)
    password_env: VariableName = ""
    sender: str = Field(default="", max_length=320, pattern=r"^[^\r\n]*$")
    to: tuple[Annotated[str, Field(max_length=320, pattern=r"^[^\s@,]+@[^\s@,]+$")], ...] = ()
    quiet_hours: HoursText | None = None
    digest_every: Interval = 0.0

    def variables(self) -> tuple[str, ...]:
        """Return the names of the variables that the channel takes secrets from."""
        named = (self.secret_env, self.password_env if self.user else "", *REFERENCE.findall(self.url))
        return tuple(filter(None, named))

    @model_validator(mode="after")
    def _has_its_keys(self) -> Self:
        missing = [key for key in _NEEDED[self.type] if not getattr(self, key)]
        if missing:
            raise ValueError(f"a channel of type {self.type!r} needs {missing[0]}")
        if unused := sorted(self.model_fields_set - _USED[self.type] - _SHARED):
            raise ValueError(f"a channel of type {self.type!r} does not use {unused[0]}")
        if self.type == "webhook":
            _check_webhook(self.url)
        if self.type == "apprise" and "://" not in self.url:
            raise ValueError("url is no address of Apprise; write for example ntfys://ntfy.sh/my-topic")
        if self.security == "none" and self.user and self.host not in {"localhost", "127.0.0.1", "::1"}:
            raise ValueError('a password must not go over an open connection; set security to "starttls" or "tls"')
        return self


class RuleSettings(SettingsSection):
    """Which kinds of notices go to some channels, and at which hours."""

    channels: tuple[ChannelName, ...] = Field(min_length=1)
    kinds: Kinds = ()
    hours: HoursText = ""
    days: Days = ()

    def rule(self) -> Rule:
        """Return the rule."""
        hours = hours_of(self.hours or "00:00-00:00", self.days) if self.hours or self.days else None
        return Rule(channels=frozenset(self.channels), kinds=frozenset(self.kinds), hours=hours)


class EscalationSettings(SettingsSection):
    """Where something is told that has waited for a person for longer than `after` seconds."""

    channels: tuple[ChannelName, ...] = Field(min_length=1)
    after: Seconds
    kinds: Annotated[Kinds, Field(max_length=20)] = ("question_asked", "review_asked", "dependency_asked")

    def escalation(self) -> Escalation:
        """Return the rule."""
        return Escalation(channels=frozenset(self.channels), after=self.after, kinds=frozenset(self.kinds))


class MorningReportSettings(SettingsSection):
    """The morning report: at this time on these days, all if none is named; empty `at`: none."""

    at: ClockText = ""
    days: Days = ()
    channels: tuple[ChannelName, ...] = ()
    format: ReportFormat = "html"


class NotifySettings(SettingsSection):
    """How notices leave the machine."""

    zone: Zone = ""
    language: Literal["en", "ko"] = "en"
    quiet_hours: HoursText = ""
    urgent: Kinds = ()
    expire_after: Seconds = 3 * 86_400.0
    retry_pause: Seconds = 5.0
    channels: Mapping[ChannelName, ChannelSettings] = Field(default={}, max_length=50)
    rules: tuple[RuleSettings, ...] = Field(default=(), max_length=100)
    escalations: tuple[EscalationSettings, ...] = Field(default=(), max_length=100)
    report: MorningReportSettings = MorningReportSettings()

    @model_validator(mode="after")
    def _names_known_channels(self) -> Self:
        known = {*self.channels, COMMAND}
        ruled, escalated = (one.channels for one in self.rules), (one.channels for one in self.escalations)
        for named in (*ruled, *escalated, self.report.channels):
            if unknown := [name for name in named if name not in known]:
                raise ValueError(f"there is no channel {unknown[0]!r}; {nearest(unknown[0], sorted(known))}")
        if COMMAND in self.channels:
            raise ValueError(f"{COMMAND!r} is the channel that notify_command in [people] makes; choose another name")
        return self

    def time_zone(self) -> ZoneInfo:
        """Return the zone in which hours are read: that of this machine unless another is set."""
        return zone_of(self.zone)

    def core_rules(self, *, has_command: bool) -> Rules:
        """Return the rules by which notices are sent; `has_command` says that notify_command is set."""
        channels = {COMMAND: self._channel_rules(None)} if has_command else {}
        return Rules(
            channels=channels | {name: self._channel_rules(one) for name, one in self.channels.items()},
            zone=self.time_zone(),
            rules=tuple(one.rule() for one in self.rules),
            escalations=tuple(one.escalation() for one in self.escalations),
            expire_after=self.expire_after,
        )

    def report_times(self) -> TimeOfDay | None:
        """Return when the morning report is due, None if it is not wanted."""
        if not self.report.at:
            return None
        return TimeOfDay(
            at=clock_of(self.report.at), days=days_of(self.report.days or ("daily",)), zone=self.time_zone()
        )

    def _channel_rules(self, channel: ChannelSettings | None) -> ChannelRules:
        own = channel.quiet_hours if channel else None
        quiet = self.quiet_hours if own is None else own
        return ChannelRules(
            quiet=hours_of(quiet) if quiet else None,
            digest_every=channel.digest_every if channel else 0.0,
            urgent=frozenset(self.urgent),
        )
