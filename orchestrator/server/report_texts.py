"""A night report as text for people: plain text, Markdown, and HTML made of the Markdown.

Times are in the given zone. Words of agents and tickets are kept from being read as markup or by a terminal.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from functools import partial
from itertools import groupby
from typing import Protocol, assert_never

from markdown_it import MarkdownIt

from orchestrator.core.task.task import TaskStatus
from orchestrator.formats.units import size
from orchestrator.redaction.display import as_code, escape_text, inert
from orchestrator.server.report_words import ENGLISH, say
from orchestrator.server.schemas.oversight.reports import (
    IncidentView,
    ReportedTaskView,
    ReportView,
    ShareView,
    StopView,
    WaitingView,
)
from orchestrator.server.schemas.tasks import SpentView

LONGEST = 300
"""Characters of a text in a line."""
MOST_SHARES = 10
SHARES = {
    "task": "by task",
    "pipeline": "by pipeline",
    "role": "by role",
    "model": "by model",
    "repo": "by repository",
}
CAME_TO_BE = {
    TaskStatus.COMPLETED: "%(count)s completed",
    TaskStatus.FAILED: "%(count)s failed",
    TaskStatus.BLOCKED: "%(count)s blocked",
    TaskStatus.CANCELLED: "%(count)s cancelled",
    TaskStatus.REVIEW: "%(count)s came under review",
    TaskStatus.PENDING: "%(count)s submitted",
}
MARKUP = ("heading", "list", "emphasis", "backticks", "entity", "escape")
"""What of Markdown the report itself uses: no links, images or HTML."""

WAITED_FOR = {
    "user": "a person who paused it",
    "question": "an answer",
    "dependency": "a dependency",
    "review": "a review",
    "rate_limit": "a usage limit",
    "service": "the model's service",
    "budget": "a budget",
    "window": "its run window",
    "pressure": "free resources",
    "children": "its children",
    "slot": "a free slot",
    "blocked": "a person who looks at it",
}
"""What a task that stands still waits for, by the reason on record."""


class Say(Protocol):
    """Returns a text in a language, with its values."""

    def __call__(self, text: str, /, **values: object) -> str: ...


class ReportFormat(StrEnum):
    """How a report is written."""

    JSON = "json"
    MARKDOWN = "markdown"
    TEXT = "text"
    HTML = "html"


def as_text(report: ReportView, wanted: ReportFormat, zone: tzinfo = UTC, language: str = ENGLISH) -> str:
    """Return a report in one of the formats and in a language; as JSON it is indented and has no language."""
    match wanted:
        case ReportFormat.JSON:
            return report.model_dump_json(by_alias=True, indent=2) + "\n"
        case ReportFormat.MARKDOWN:
            return _Writer(say=partial(say, language), zone=zone).whole(report)
        case ReportFormat.HTML:
            return _html(_Writer(say=partial(say, language), zone=zone).whole(report), language)
        case ReportFormat.TEXT:
            plain = _Writer(say=partial(say, language), zone=zone, heading="", words=_plain, code=_plain, strong="")
            return plain.whole(report)
        case _:
            assert_never(wanted)


def headline(report: ReportView, language: str = ENGLISH) -> str:
    """Return a report in some words, for the subject of a mail."""
    count = len(report.waiting)
    waiting = say(language, "%(count)s wait for you", count=count) if count else say(language, "nothing waits for you")
    return ", ".join((*_counts(report, partial(say, language)), waiting))


def _counts(report: ReportView, said: Say) -> list[str]:
    """Return how many tasks came into which status."""
    return [said(text, count=report.counts[status]) for status, text in CAME_TO_BE.items() if status in report.counts]


def _html(markdown: str, language: str) -> str:
    body = MarkdownIt("zero").enable(list(MARKUP)).render(markdown)
    title = markdown.partition("\n")[0].removeprefix("# ")
    return f'<!doctype html>\n<html lang="{language}">\n<meta charset="utf-8">\n<title>{title}</title>\n{body}</html>\n'


def _inert(text: str) -> str:
    return inert(text, LONGEST)


def _plain(text: str) -> str:
    return escape_text(" ".join(text.split()), LONGEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    """Writes a report with these marks in the language of `say`; `words` and `code` make foreign texts fit for them."""

    say: Say
    zone: tzinfo
    heading: str = "#"
    words: Callable[[str], str] = _inert
    code: Callable[[str], str] = as_code
    strong: str = "**"

    def whole(self, report: ReportView) -> str:
        """Return the whole report."""
        since, until = self._time(report.since), self._time(report.until)
        parts = [
            self._title(1, self.say("Report of %(since)s to %(until)s", since=since, until=until)),
            self._summary(report),
            *self._section(self.say("Waits for you"), map(self._waiting, report.waiting)),
            *self._section(self.say("Finished"), map(self._finished, report.finished)),
            *self._section(self.say("Failed, blocked or cancelled"), map(self._problem, report.problems)),
            *self._section(self.say("Time and money"), self._shares(report)),
            *self._section(self.say("Limits met"), map(self._incident, report.limits_met)),
            *self._section(self.say("Stood still"), self._stops(report)),
            *self._section(self.say("Unusual"), self._unusual(report)),
            *self._section(self.say("The machine now"), self._machine(report)),
            *self._section(self.say("Notes"), map(self.words, report.notes)),
        ]
        return "\n\n".join(parts) + "\n"

    def _title(self, level: int, title: str) -> str:
        return f"{self.heading * level} {title}" if self.heading else title.upper() if level > 1 else title

    def _section(self, title: str, lines: Iterator[str]) -> Iterator[str]:
        """Yield a heading and its lines, or nothing if there are none."""
        if text := "\n".join(f"- {line}" for line in lines):
            yield self._title(2, title)
            yield text

    def _summary(self, report: ReportView) -> str:
        counts, waiting = ", ".join(_counts(report, self.say)), len(report.waiting)
        sentences = (
            self.say("Tasks: %(counts)s.", counts=counts) if counts else self.say("No task changed its status."),
            self.say("%(count)s wait for you.", count=waiting) if waiting else self.say("Nothing waits for you."),
            self.say("Spent: %(spent)s.", spent=self._spent(report.spent)),
        )
        return " ".join(sentences)

    def _waiting(self, one: WaitingView) -> str:
        what = f": {self.words(one.text)}" if one.text else ""
        told = {"kind": self._kind(one.kind), "task": one.task, "title": self.words(one.title)}
        head = self.say("%(kind)s, %(task)s (%(title)s), since %(since)s", **told, since=self._time(one.since))
        return f"{head}{what}\n  - {self.code(one.command)}"

    def _finished(self, one: ReportedTaskView) -> str:
        checks = ", ".join(f"{self.words(check.name)} {self._kind(check.verdict)}" for check in one.checks)
        merged = f" ({self.say('merged')})" if one.is_merged else ""
        unseen = f"{self.strong}{self.say('no check ran: nothing shows that this change works')}{self.strong}"
        branch, repo = self.code(one.branch), self.code(one.repo)
        lines = [
            self._ended(one, one.id),
            self.say("pull request %(url)s", url=self.words(one.pull_request)) + merged if one.pull_request else "",
            self.say("tag %(name)s", name=self.words(one.tag)) if one.tag else "",
            self.say("report %(path)s", path=self.code(one.report)) if one.report else "",
            self.say("branch %(branch)s in %(repo)s", branch=branch, repo=repo) if one.branch else "",
            self.say("checks: %(checks)s", checks=checks) if checks else "",
            unseen if one.is_unchecked and one.branch else "",
        ]
        return "\n  - ".join(filter(None, lines))

    def _problem(self, one: ReportedTaskView) -> str:
        status = self._kind(one.status)
        lines = [
            self._ended(
                one, self.say("%(task)s, %(status)s in %(stage)s", task=one.id, status=status, stage=one.stage)
            ),
            self.say("reason: %(reason)s", reason=self.words(one.reason)) if one.reason else "",
            self.say("failures: %(count)s", count=one.failures) if one.failures else "",
            *(
                self.say("recurring: %(what)s (%(count)s times)", what=self.words(two.pattern), count=two.occurrences)
                for two in one.patterns
            ),
            self.say("next: %(what)s", what=self.words(one.next)) if one.next else "",
        ]
        return "\n  - ".join(filter(None, lines))

    def _ended(self, one: ReportedTaskView, where: str) -> str:
        return f"{where}: {self.words(one.title)} ({self._time(one.at)}; {self._spent(one.spent)})"

    def _shares(self, report: ReportView) -> Iterator[str]:
        for kind, title in SHARES.items():
            shares = report.shares.get(kind, ())
            rows = [f"{self.words(one.name)}: {self._spent(one.spent)}" for one in shares[:MOST_SHARES]]
            if rows:
                yield "\n  - ".join((self.say(title), *rows, *self._rest(shares[MOST_SHARES:])))

    def _rest(self, shares: Sequence[ShareView]) -> list[str]:
        usd = f"${sum(one.spent.usd for one in shares):,.2f}"
        return [self.say("%(count)s more: %(usd)s", count=len(shares), usd=usd)] if shares else []

    def _stops(self, report: ReportView) -> Iterator[str]:
        for task, several in groupby(report.stops, key=lambda one: one.task):
            stops = list(several)
            told = {"title": self.words(stops[0].title), "reasons": "; ".join(map(self._stop, stops))}
            yield self.say("%(task)s (%(title)s) waited for %(reasons)s", task=task, **told)

    def _stop(self, one: StopView) -> str:
        what = self.say(WAITED_FOR[one.reason]) if one.reason in WAITED_FOR else self.words(one.reason)
        lines = [
            self.say("%(what)s: %(hours)s h", what=what, hours=f"{one.seconds / 3600:.2f}"),
            self.say("%(count)s times", count=one.times) if one.times > 1 else "",
            "" if one.is_over else self.say("still"),
        ]
        return ", ".join(filter(None, lines))

    def _unusual(self, report: ReportView) -> Iterator[str]:
        counts = [
            self.say("%(count)s %(kind)s", count=count, kind=self._kind(kind))
            for kind, count in report.incident_counts.items()
        ]
        if counts:
            yield self.say("in all: %(counts)s", counts=", ".join(counts))
        yield from map(self._incident, report.incidents)

    def _incident(self, one: IncidentView) -> str:
        window = f" ({self._until(self.words(one.window), one.until)})" if one.window else ""
        where = f"{self._time(one.at)} {one.task}, {one.stage}, {self._kind(one.kind)}{window}"
        return f"{where}: {self.words(one.text)}"

    def _until(self, text: str, at: datetime | None) -> str:
        return self.say("%(text)s, until %(at)s", text=text, at=self._time(at)) if at else text

    def _machine(self, report: ReportView) -> Iterator[str]:
        machine = report.machine
        free, total, floor = map(size, (machine.free_bytes, machine.total_bytes, machine.free_space_floor))
        yield self.say(
            "%(free)s of %(total)s free; agents are frozen below %(floor)s", free=free, total=total, floor=floor
        )
        if machine.freed_items:
            freed, count = size(machine.freed_bytes), f"{machine.freed_items:,}"
            yield self.say("housekeeping freed %(freed)s in %(count)s removals", freed=freed, count=count)
        yield self.say(
            "%(running)s tasks at work, %(queued)s wait to begin", running=machine.running, queued=machine.queued
        )
        for one in machine.limits:
            name, at = self.words(one.window), self._time(one.until) if one.until else ""
            if at:
                yield self.say("the usage window %(name)s is used up until %(at)s", name=name, at=at)
            else:
                yield self.say("the usage window %(name)s is used up", name=name)
        for name, why in machine.dead_channels.items():
            yield self.say("the channel %(name)s does not work %(why)s", name=self.words(name), why=self.words(why))
        if report.since <= machine.daemon_started_at < report.until:
            yield self.say("the daemon was started at %(at)s", at=self._time(machine.daemon_started_at))

    def _time(self, at: datetime) -> str:
        there = at.astimezone(self.zone)
        return f"{there:%Y-%m-%d %H:%M} {there.tzname()}"

    def _kind(self, kind: str) -> str:
        return self.say(kind.replace("_", " "))

    def _spent(self, spent: SpentView) -> str:
        usd, tokens, hours = f"${spent.usd:,.2f}", f"{spent.tokens:,}", f"{spent.hours:.2f}"
        return self.say(
            "%(usd)s, %(tokens)s tokens, %(turns)s turns, %(hours)s h",
            usd=usd,
            tokens=tokens,
            turns=spent.turns,
            hours=hours,
        )
