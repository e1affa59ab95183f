"""A night report as text for people: plain text, Markdown, and HTML made of the Markdown.

Times are in the given zone. Words of agents and tickets are kept from being read as markup or by a terminal.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from itertools import groupby
from typing import assert_never

from markdown_it import MarkdownIt

from orchestrator.core.task.task import TaskStatus
from orchestrator.formats.units import size
from orchestrator.redaction.display import as_code, escape_text, inert
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
SHARES = {"task": "task", "pipeline": "pipeline", "role": "role", "model": "model", "repo": "repository"}
CAME_TO_BE = {
    TaskStatus.COMPLETED: "completed",
    TaskStatus.FAILED: "failed",
    TaskStatus.BLOCKED: "blocked",
    TaskStatus.CANCELLED: "cancelled",
    TaskStatus.REVIEW: "came under review",
    TaskStatus.PENDING: "submitted",
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


class ReportFormat(StrEnum):
    """How a report is written."""

    JSON = "json"
    MARKDOWN = "markdown"
    TEXT = "text"
    HTML = "html"


def as_text(report: ReportView, wanted: ReportFormat, zone: tzinfo = UTC) -> str:
    """Return a report in one of the formats; as JSON it is indented."""
    match wanted:
        case ReportFormat.JSON:
            return report.model_dump_json(by_alias=True, indent=2) + "\n"
        case ReportFormat.MARKDOWN:
            return _Writer(zone=zone).whole(report)
        case ReportFormat.HTML:
            return _html(_Writer(zone=zone).whole(report))
        case ReportFormat.TEXT:
            return _Writer(zone=zone, heading="", words=_plain, code=_plain, strong="").whole(report)
        case _:
            assert_never(wanted)


def headline(report: ReportView) -> str:
    """Return a report in some words, for the subject of a mail."""
    counts = [f"{report.counts[status]} {word}" for status, word in CAME_TO_BE.items() if status in report.counts]
    waiting = f"{len(report.waiting)} wait for you" if report.waiting else "nothing waits for you"
    return ", ".join((*counts, waiting))


def _html(markdown: str) -> str:
    body = MarkdownIt("zero").enable(list(MARKUP)).render(markdown)
    title = markdown.partition("\n")[0].removeprefix("# ")
    return f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{title}</title>\n{body}</html>\n'


def _inert(text: str) -> str:
    return inert(text, LONGEST)


def _plain(text: str) -> str:
    return escape_text(" ".join(text.split()), LONGEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    """Writes a report with these marks; `words` and `code` make a foreign text fit for them."""

    zone: tzinfo
    heading: str = "#"
    words: Callable[[str], str] = _inert
    code: Callable[[str], str] = as_code
    strong: str = "**"

    def whole(self, report: ReportView) -> str:
        """Return the whole report."""
        parts = [
            self._title(1, f"Report of {self._time(report.since)} to {self._time(report.until)}"),
            self._summary(report),
            *self._section("Waits for you", map(self._waiting, report.waiting)),
            *self._section("Finished", map(self._finished, report.finished)),
            *self._section("Failed, blocked or cancelled", map(self._problem, report.problems)),
            *self._section("Time and money", self._shares(report)),
            *self._section("Limits met", map(self._incident, report.limits_met)),
            *self._section("Stood still", self._stops(report)),
            *self._section("Unusual", self._unusual(report)),
            *self._section("The machine now", self._machine(report)),
            *self._section("Notes", map(self.words, report.notes)),
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
        words = [f"{report.counts[status]} {word}" for status, word in CAME_TO_BE.items() if status in report.counts]
        tasks = f"Tasks: {', '.join(words)}." if words else "No task changed its status."
        waiting = f"{len(report.waiting)} wait for you." if report.waiting else "Nothing waits for you."
        return f"{tasks} {waiting} Spent: {_spent(report.spent)}."

    def _waiting(self, one: WaitingView) -> str:
        what = f": {self.words(one.text)}" if one.text else ""
        head = f"{one.kind}, {one.task} ({self.words(one.title)}), since {self._time(one.since)}{what}"
        return f"{head}\n  - {self.code(one.command)}"

    def _finished(self, one: ReportedTaskView) -> str:
        checks = ", ".join(f"{self.words(check.name)} {check.verdict}" for check in one.checks)
        merged = " (merged)" if one.is_merged else ""
        unseen = f"{self.strong}no check ran: nothing shows that this change works{self.strong}"
        lines = [
            f"{one.id}: {self.words(one.title)} ({self._time(one.at)}; {_spent(one.spent)})",
            f"pull request {self.words(one.pull_request)}{merged}" if one.pull_request else "",
            f"tag {self.words(one.tag)}" if one.tag else "",
            f"report {self.code(one.report)}" if one.report else "",
            f"branch {self.code(one.branch)} in {self.code(one.repo)}" if one.branch else "",
            f"checks: {checks}" if checks else "",
            unseen if one.is_unchecked and one.branch else "",
        ]
        return "\n  - ".join(filter(None, lines))

    def _problem(self, one: ReportedTaskView) -> str:
        where = f"{one.id}, {one.status} in {one.stage}"
        lines = [
            f"{where}: {self.words(one.title)} ({self._time(one.at)}; {_spent(one.spent)})",
            f"reason: {self.words(one.reason)}" if one.reason else "",
            f"failures: {one.failures}" if one.failures else "",
            *(f"recurring: {self.words(two.pattern)} ({two.occurrences} times)" for two in one.patterns),
            f"next: {self.words(one.next)}" if one.next else "",
        ]
        return "\n  - ".join(filter(None, lines))

    def _shares(self, report: ReportView) -> Iterator[str]:
        for kind, title in SHARES.items():
            shares = report.shares.get(kind, ())
            rows = [f"{self.words(one.name)}: {_spent(one.spent)}" for one in shares[:MOST_SHARES]]
            if rows:
                yield "\n  - ".join((f"by {title}", *rows, *_rest(shares[MOST_SHARES:])))

    def _stops(self, report: ReportView) -> Iterator[str]:
        for task, several in groupby(report.stops, key=lambda one: one.task):
            stops = list(several)
            reasons = "; ".join(map(_stop, stops))
            yield f"{task} ({self.words(stops[0].title)}) waited for {reasons}"

    def _unusual(self, report: ReportView) -> Iterator[str]:
        counts = [f"{count} {_kind(kind)}" for kind, count in report.incident_counts.items()]
        if counts:
            yield f"in all: {', '.join(counts)}"
        yield from map(self._incident, report.incidents)

    def _incident(self, one: IncidentView) -> str:
        until = f", until {self._time(one.until)}" if one.until else ""
        window = f" ({self.words(one.window)}{until})" if one.window else ""
        return f"{self._time(one.at)} {one.task}, {one.stage}, {_kind(one.kind)}{window}: {self.words(one.text)}"

    def _machine(self, report: ReportView) -> Iterator[str]:
        machine = report.machine
        free, total, floor = map(size, (machine.free_bytes, machine.total_bytes, machine.free_space_floor))
        yield f"{free} of {total} free; agents are frozen below {floor}"
        if machine.freed_items:
            yield f"housekeeping freed {size(machine.freed_bytes)} in {machine.freed_items:,} removals"
        yield f"{machine.running} tasks at work, {machine.queued} wait to begin"
        for one in machine.limits:
            until = f" until {self._time(one.until)}" if one.until else ""
            yield f"the usage window {self.words(one.window)} is used up{until}"
        for name, why in machine.dead_channels.items():
            yield f"the channel {self.words(name)} does not work {self.words(why)}"
        if report.since <= machine.daemon_started_at < report.until:
            yield f"the daemon was started at {self._time(machine.daemon_started_at)}"

    def _time(self, at: datetime) -> str:
        there = at.astimezone(self.zone)
        return f"{there:%Y-%m-%d %H:%M} {there.tzname()}"


def _rest(shares: Sequence[ShareView]) -> list[str]:
    usd = sum(one.spent.usd for one in shares)
    return [f"{len(shares)} more: ${usd:,.2f}"] if shares else []


def _stop(one: StopView) -> str:
    often = f", {one.times} times" if one.times > 1 else ""
    return f"{WAITED_FOR.get(one.reason, one.reason)}: {one.seconds / 3600:.2f} h{often}{', still' * (not one.is_over)}"


def _kind(kind: str) -> str:
    return kind.replace("_", " ")


def _spent(spent: SpentView) -> str:
    return f"${spent.usd:,.2f}, {spent.tokens:,} tokens, {spent.turns} turns, {spent.hours:.2f} h"
